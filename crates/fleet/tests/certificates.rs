//! Shared certificates and their orders in a real etcd.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use enfilade_facts::{Revision, StoreId};
use enfilade_fleet::{
    CertificateSet, Log, LogError, SHARED_CERTIFICATE_BYTES_MAX, SHARED_CERTIFICATES_MAX, SetId,
};
use etcd::Server;

mod etcd;

const STORE: StoreId = StoreId(7);

async fn member(server: &Server) -> Log {
    let log = server.log("/house", STORE).of_member("a");
    log.begin(Revision(1), 1).await.unwrap();
    log.admit_first("a", 1).await.unwrap();
    log
}

async fn share(
    log: &Log,
    before: &CertificateSet,
    name: &str,
    bytes: Option<&[u8]>,
) -> Result<bool, LogError> {
    let id = SetId::after(before.id).unwrap();
    log.change_certificate((before, id), (name, bytes.map(<[u8]>::to_vec)), None).await
}

#[tokio::test]
async fn a_set_is_changed_by_one_member_at_a_time() {
    let server = Server::start();
    let log = member(&server).await;
    let none = log.certificate_set().await.unwrap();
    assert_eq!((none.id, log.certificate_news().await.unwrap().0), (None, None));
    assert_eq!(share(&log, &none, "a.pem", Some(b"1")).await, Ok(true));
    assert_eq!(share(&log, &none, "b.pem", Some(b"2")).await, Ok(false), "the set is another one now");
    let one = log.certificate_set().await.unwrap();
    assert_eq!(share(&log, &one, "b.pem", Some(b"2")).await, Ok(true));
    let two = log.certificate_set().await.unwrap();
    assert!(one.is_before(two.id.unwrap()) && log.certificate_news().await.unwrap().0 == two.id);
    assert_eq!(two.certificates.keys().collect::<Vec<_>>(), ["a.pem", "b.pem"]);
    assert_eq!(two.certificates["a.pem"], one.id.unwrap());
    assert_eq!(log.shared_certificate("b.pem").await.unwrap().unwrap(), b"2");
    assert_eq!(share(&log, &two, "a.pem", None).await, Ok(true));
    assert_eq!(log.shared_certificate("a.pem").await, Ok(None));
    let last = log.certificate_set().await.unwrap();
    // The call is refused for a certificate that is too large, for too many certificates, and for a machine that is not a member.
    let large = vec![0; SHARED_CERTIFICATE_BYTES_MAX + 65];
    assert!(matches!(share(&log, &last, "c.pem", Some(&large)).await, Err(LogError::TooLarge { .. })));
    let mut full = last.clone();
    full.certificates.extend((0..SHARED_CERTIFICATES_MAX).map(|n| (n.to_string(), last.id.unwrap())));
    assert_eq!(share(&log, &full, "c.pem", Some(b"3")).await, Err(LogError::TooManyCertificates));
    let other = server.log("/house", STORE).of_member("b");
    assert!(matches!(share(&other, &last, "c.pem", Some(b"3")).await, Err(LogError::NotMember { .. })));
    assert_eq!(log.certificate_set().await, Ok(last));
}

#[tokio::test]
async fn only_the_member_with_the_order_answers_and_stores() {
    let server = Server::start();
    let log = member(&server).await;
    let order = log.take_order("acme.pem").await.unwrap().unwrap();
    assert!(log.take_order("acme.pem").await.unwrap().is_none());
    assert!(log.take_order("other.pem").await.unwrap().is_some(), "another certificate");
    assert_eq!(log.renew_order(&order).await, Ok(true));
    assert_eq!(log.put_answer(&order, "http-01/token", b"answer").await, Ok(true));
    let given = log.certificate_news().await.unwrap().1;
    assert_eq!((given.len(), given[0].id.as_str()), (1, "acme.pem/http-01/token"));
    // No process is registered. So the returned list contains no member that the order has to wait for.
    assert_eq!(log.without_answers(&order, &["http-01/token".to_owned()]).await, Ok(Vec::new()));
    log.order_failed(&order, 3, 1_000).await.unwrap();
    let last = log.last_order("acme.pem").await.unwrap();
    assert_eq!((last.failures, last.next, last.about), (3, 1_000, None));
    // At the end of an order, its answers to challenges are removed.
    log.end_order(&order).await.unwrap();
    assert_eq!(log.certificate_news().await.unwrap().1, []);
    let next = log.take_order("acme.pem").await.unwrap().unwrap();
    let set = log.certificate_set().await.unwrap();
    let store = |order| {
        let id = SetId::after(set.id).unwrap();
        let change = ("acme.pem", Some(b"1".to_vec()));
        let (log, set) = (&log, &set);
        async move { log.change_certificate((set, id), change, Some((order, "about"))).await }
    };
    assert_eq!(log.put_answer(&order, "http-01/late", b"answer").await, Ok(false));
    assert_eq!(store(&order).await, Ok(false), "an order that ended");
    log.order_failed(&order, 9, 9).await.unwrap();
    assert_eq!(log.last_order("acme.pem").await.unwrap().failures, 3);
    assert_eq!(store(&next).await, Ok(true));
    let last = log.last_order("acme.pem").await.unwrap();
    assert_eq!((last.failures, last.about.as_deref()), (0, Some("about")));
    assert_eq!(log.shared_certificate("acme.pem").await.unwrap().unwrap(), b"1");
}
