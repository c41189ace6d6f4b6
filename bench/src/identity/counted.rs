//! Runs the requests of the benchmark in this process, on a store that counts its reads.

use crate::Failure;
use crate::fernet::cloud::{self, Cloud};
use crate::stores;
use enfilade_admin::{FileSet, PasswordRules};
use enfilade_faces::{AnonymousSlot, Connection, Faces, Router};
use enfilade_facts::{At, Change, CommitError, Each, Found, Snapshot, Source, SourceError, Table, View};
use http_body_util::{BodyExt as _, Full};
use hyper::Request;
use hyper::body::Bytes;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::{Notify, Semaphore};

/// A store with a counter of its reads.
struct Counted {
    source: Arc<dyn Source>,
    probes: AtomicU64,
}

struct CountedView<'v> {
    view: &'v View<'v>,
    probes: &'v AtomicU64,
}

impl Source for Counted {
    fn at(&self) -> At {
        self.source.at()
    }

    fn with_view(&self, look: &mut dyn FnMut(&View<'_>)) -> Result<(), SourceError> {
        self.source.with_view(&mut |view| look(&View::new(&CountedView { view, probes: &self.probes })))
    }

    fn commit(&self, change: &Change) -> Result<At, CommitError> {
        self.source.commit(change)
    }
}

impl Snapshot for CountedView<'_> {
    fn at(&self) -> At {
        self.view.at()
    }

    fn get<'s>(&'s self, table: Table, key: &[u8]) -> Result<Option<&'s [u8]>, SourceError> {
        self.probes.fetch_add(1, Ordering::Relaxed);
        Snapshot::get(self.view, table, key)
    }

    fn scan(&self, table: Table, prefix: &[u8], each: Each<'_>) -> Result<(), SourceError> {
        self.probes.fetch_add(1, Ordering::Relaxed);
        Snapshot::scan(self.view, table, prefix, &mut |key, stored| {
            self.probes.fetch_add(1, Ordering::Relaxed);
            each(key, stored)
        })
    }

    fn at_or_after(&self, table: Table, key: &[u8]) -> Result<Found<'_>, SourceError> {
        self.probes.fetch_add(1, Ordering::Relaxed);
        Snapshot::at_or_after(self.view, table, key)
    }
}

/// The number of reads of the store for each of these requests (method, target, body).
pub(super) fn probes(
    cloud: &Cloud,
    place: &Path,
    requests: &[(&str, String, String)],
) -> Result<Vec<u64>, Failure> {
    let counted = Arc::new(Counted { source: cloud.source(), probes: AtomicU64::new(0) });
    let house = cloud.house_on(Arc::clone(&counted) as Arc<dyn Source>, 1 << 20, 1)?;
    let faces = Faces::new(house, FileSet::new(place), PasswordRules::NONE.clone(), Vec::new());
    let router = Router::new(faces, &[&enfilade_keystone::ROUTES]);
    let token = cloud::token(0, stores::id(17, 0))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ask = |(method, target, body): &(&str, String, String)| -> Result<u64, Failure> {
        let request = Request::builder().method(*method).uri(target).header("Host", "localhost");
        let request = request.header("X-Auth-Token", &token).body(Full::new(Bytes::from(body.clone())))?;
        let before = counted.probes.load(Ordering::Relaxed);
        let (status, text) = runtime.block_on(async {
            let place = Arc::new(Semaphore::new(1)).acquire_owned().await?;
            let connection = Connection {
                peer: SocketAddr::from((Ipv4Addr::LOCALHOST, 1)),
                cut: Arc::new(Notify::new()),
                proxies: None,
                is_https: false,
                anonymous: Arc::new(AnonymousSlot::new(place)),
                last: Arc::default(),
                certificate: None,
                terms: None,
                splices: None,
                handshake: None,
            };
            let answer = router.answer(connection, request).await;
            let status = answer.status();
            Ok::<_, Failure>((status, answer.into_body().collect().await?.to_bytes()))
        })?;
        match status.is_success() {
            true => Ok(counted.probes.load(Ordering::Relaxed) - before),
            false => Err(format!("{method} {target}: {status} {}", String::from_utf8_lossy(&text)).into()),
        }
    };
    // Warm-up: this request builds the indexes. The reads for the indexes do not count.
    if let Some((_, target, _)) = requests.iter().find(|(method, ..)| *method == "GET") {
        ask(&("GET", target.clone(), String::new()))?;
    }
    requests.iter().map(ask).collect()
}
