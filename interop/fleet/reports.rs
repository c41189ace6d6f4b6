//! Reports of applied changes, which servers send directly to each other.

use super::{Fleet, passing};
use crate::curl::curl;
use crate::server::until;
use enfilade_fleet::ASK_EVERY;
use std::time::Instant;

/// How often the server of this member wrote its report of applied changes to etcd.
fn reports_in_etcd(fleet: &Fleet, member: &str) -> u64 {
    let of_member = format!("/enfilade/applied/{member}.");
    let shown = fleet.etcd.control(&["get", "--prefix", &of_member, "--write-out=fields"]);
    let version = shown.lines().find_map(|line| line.strip_prefix("\"Version\" : "));
    version.unwrap_or_else(|| panic!("{shown}")).parse().unwrap()
}

#[test]
fn servers_tell_each_other_directly_what_they_have_applied() {
    const CHANGES: u64 = 40;
    let (fleet, _) = passing::fleet(&[]);
    let first = &fleet.members[0];
    let login = first.add_token("admin@local!api");
    let change = |name: &str, nth: u64| {
        let user = format!("userid={name}{nth}@local");
        let made = curl(first, &login, "/api2/json/access/users", &["--data", &user]);
        assert_eq!(made.status, 200, "{made:?}");
    };
    let mut round = 0;
    until("the servers are connected", first, || {
        let before = reports_in_etcd(&fleet, "b");
        (0..10).for_each(|nth| change("early", round * 10 + nth));
        round += 1;
        reports_in_etcd(&fleet, "b") - before < 10
    });
    let (before, began) = (reports_in_etcd(&fleet, "b"), Instant::now());
    (0..CHANGES).for_each(|nth| change("user", nth));
    let questions = began.elapsed().as_millis().div_ceil(ASK_EVERY.as_millis()) as u64;
    let reports = reports_in_etcd(&fleet, "b") - before;
    assert!(reports <= questions + 2, "{reports} reports in etcd, {questions} questions, {CHANGES} changes");
}
