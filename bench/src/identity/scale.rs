//! Operations on a whole large cloud: list all users and all assignments, and remove a domain with a tenth of the users.

use super::{MANY, Peer, Size, spoken};
use crate::Failure;
use crate::arrivals::latencies;
use crate::fernet::cloud::{self, Cloud, committed};
use crate::goals::Goal;
use crate::machine::anonymous_bytes;
use crate::report::Report;
use crate::samples::{Estimate, Samples};
use crate::stopwatch::now;
use crate::stores::{audit, id, plain_project, plain_user};
use enfilade_facts::tables::{Domain, Grant, GrantKey, GrantScope, Grantee, Leaving, Name, NameKey};
use enfilade_facts::vocabulary::{DomainId, ProjectId, Sid, UserId};
use enfilade_facts::{Change, Read};
use enfilade_sources::lmdb::Lmdb;
use std::net::Ipv4Addr;
use std::process::Command;
use std::time::Duration;

/// The number of users for each project.
const USERS_A_PROJECT: u64 = 10;
const ASSIGNMENTS_EACH: u64 = 10;
/// The time between two requests whose latency is measured.
const EVERY: Duration = Duration::from_millis(1);
/// The number of requests whose latency is measured: before the domain is removed, and again and again until its records are deleted.
const ASKED: u64 = 2_000;

pub(super) fn goals() -> Vec<Goal> {
    let Size { users, leaving } = MANY;
    vec![
        Goal::new(
            "list-memory",
            16.0,
            "MiB",
            "growth of the anonymous memory of the server while it lists everything",
            format!(
                "The real server: curl lists {users} users, then {} assignments, each in one response",
                users * ASSIGNMENTS_EACH
            ),
        ),
        Goal::new(
            "removed",
            100.0,
            "ms",
            "time until the answer to a request that deletes a domain with many users",
            format!(
                "The real server with {users} users: a disabled domain of {leaving} users is deleted, once"
            ),
        ),
    ]
}

fn leaving_domain() -> DomainId {
    DomainId::from_bytes(id(20, 0))
}

pub(crate) fn project(n: u64) -> ProjectId {
    ProjectId::from_bytes(id(18, n))
}

/// Adds `projects` projects.
pub(crate) fn add_projects(lmdb: &Lmdb, projects: u64) -> Result<(), Failure> {
    let mut change = Change::new(audit("projects"));
    for n in 0..projects {
        let row = plain_project(format!("project{n}"));
        change.put(
            &NameKey::project(&DomainId::DEFAULT, &row.name),
            &Name::new(project(n).stored(), row.name.as_str()),
        );
        change.put(&project(n), &row);
        change = committed(lmdb, change, n, projects, "projects")?;
    }
    Ok(())
}

/// Adds projects, assignments, and the domain that is removed.
pub(super) fn furnish(cloud: &Cloud, size: Size) -> Result<(), Failure> {
    let lmdb = cloud.lmdb();
    let projects = size.users / USERS_A_PROJECT;
    add_projects(lmdb, projects)?;
    let mut change = Change::new(audit("assignments"));
    let assignments = size.users * ASSIGNMENTS_EACH;
    for n in 0..assignments {
        let who = Grantee::User(cloud::user(n / ASSIGNMENTS_EACH));
        // The assignments of a user are on different projects, and all projects have the same number of users.
        let on = (n / ASSIGNMENTS_EACH + n % ASSIGNMENTS_EACH * 7_919) % projects;
        let key = GrantKey { who, scope: GrantScope::Project(project(on)), role: cloud::role(3) };
        change.put(&key, &Grant);
        change = committed(lmdb, change, n, assignments, "assignments")?;
    }
    change
        .put(&leaving_domain(), &Domain::new("leaving".parse()?))
        .put(&NameKey::domain(&"leaving".parse()?), &Name::new(leaving_domain().stored(), "leaving"));
    for n in 0..size.leaving {
        let user = UserId::from_bytes(id(21, n));
        let sid = Sid::of_store([1, 2, 3], u32::MAX / 4 + u32::try_from(n)?);
        let row = plain_user(leaving_domain(), format!("leaving{n}"), sid);
        let key = GrantKey {
            who: Grantee::User(user),
            scope: GrantScope::Project(project(n % projects)),
            role: cloud::role(3),
        };
        change
            .put(&NameKey::user(&leaving_domain(), &row.name), &Name::new(user.stored(), row.name.as_str()));
        change.put(&user, &row).put(&key, &Grant);
        change = committed(lmdb, change, n, size.leaving, "users that leave")?;
    }
    Ok(())
}

pub(super) fn run(report: &mut Report, peer: &Peer) -> Result<(), Failure> {
    list(report, peer)?;
    remove(report, peer)
}

/// Lists all users in one response, and all assignments in another.
fn list(report: &mut Report, peer: &Peer) -> Result<(), Failure> {
    let process = peer.server.child.0.id().to_string();
    let mut most = 0.0_f64;
    for (what, target, count) in [
        ("all users in one response", "/v3/users", peer.size.users),
        ("every assignment in one answer", "/v3/role_assignments", peer.size.users * ASSIGNMENTS_EACH),
    ] {
        eprintln!("listing {what}");
        let before = anonymous_bytes(&process).unwrap_or(0);
        let (began, cpu) = (now(), peer.server.cpu_nanos()?);
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--fail", "--output", "/dev/null", "--write-out", "%{size_download}"]);
        curl.args(["--header", &format!("X-Auth-Token: {}", peer.token)]);
        let mut running = crate::stopwatch::Child::start(
            curl.arg(format!("http://{}{target}", peer.server.plain)).stdout(std::process::Stdio::piped()),
        )?;
        let mut grown = 0;
        while running.0.try_wait()?.is_none() {
            grown = grown.max(anonymous_bytes(&process).unwrap_or(0).saturating_sub(before));
            std::thread::park_timeout(Duration::from_millis(5));
        }
        let mut told = String::new();
        if let Some(mut out) = running.0.stdout.take() {
            std::io::Read::read_to_string(&mut out, &mut told)?;
        }
        let bytes: f64 = told.trim().parse().map_err(|_| format!("curl printed no size, but `{told}`"))?;
        if bytes < count as f64 * 50.0 {
            return Err(format!("{what}: {bytes} bytes are too few for {count} records").into());
        }
        let grown = grown as f64 / f64::from(1 << 20);
        report.once(what, count, began.elapsed().as_secs_f64(), "s");
        report.once(
            "the same, server CPU for each",
            count,
            (peer.server.cpu_nanos()? - cpu) / count as f64 / 1e3,
            "µs",
        );
        report.once("the same, bytes", count, bytes / f64::from(1 << 20), "MiB");
        report.once("the same, memory of its own", count, grown, "MiB");
        most = most.max(grown);
    }
    report.goal("list-memory", Estimate::once(most));
    Ok(())
}

/// Removes a domain with a tenth of the users. After the response, the users of the domain do not exist any more. Their records are deleted while
/// other requests run.
fn remove(report: &mut Report, peer: &Peer) -> Result<(), Failure> {
    let Size { leaving, .. } = peer.size;
    let path = format!("/v3/domains/{}", leaving_domain());
    let one_of_them =
        ("GET", format!("/v3/users/{}", UserId::from_bytes(id(21, leaving / 2))), String::new());
    let other = ("GET", format!("/v3/users/{}", cloud::user(7)), String::new());
    let token = peer.token.clone();
    let mut client = peer.server.connect(Ipv4Addr::LOCALHOST)?;
    let mut ask = |asked: &(&str, String, String)| client.get(&spoken(asked, &token));
    let mut expect = |asked: &(&str, String, String), expected: u16| match ask(asked)? {
        status if status == expected => Ok(()),
        status => {
            Err(Failure::from(format!("answered with {status}, not {expected}: {} {}", asked.0, asked.1)))
        }
    };
    expect(&one_of_them, 200)?;
    let disabled = r#"{"domain":{"enabled":false}}"#.to_owned();
    expect(&("PATCH", path.clone(), disabled), 200)?;
    // Other clients send requests at planned times.
    let others = || -> Result<Samples, Failure> {
        let clients =
            (0..4).map(|_| peer.server.connect(Ipv4Addr::LOCALHOST)).collect::<Result<Vec<_>, _>>()?;
        let request = spoken(&other, &token);
        Ok(latencies(EVERY, ASKED, clients, |client, _| match client.get(&request) {
            Ok(200) => Ok(()),
            Ok(status) => Err(format!("answered with {status}, not 200")),
            Err(why) => Err(why.to_string()),
        })?)
    };
    let quiet = others()?;
    let began = now();
    expect(&("DELETE", path, String::new()), 204)?;
    let answered = began.elapsed().as_secs_f64() * 1e3;
    // Right after the response, the users of the domain do not exist any more.
    expect(&one_of_them, 404)?;
    let lmdb = Lmdb::open(&peer.facts)?;
    let is_left = || Ok::<_, Failure>(!lmdb.read(|view| view.list::<Leaving>(&[]))??.is_empty());
    let mut busy = Samples::default();
    while is_left()? {
        busy.extend(&others()?);
        if began.elapsed() > Duration::from_secs(600) {
            return Err("records of the removed domain are still there after ten minutes".into());
        }
    }
    report.once("a domain is removed: until the answer", leaving, answered, "ms");
    report.once("the same, until nothing of it is left", leaving, began.elapsed().as_secs_f64(), "s");
    report.tail("a response to another request before", leaving, &quiet, "ms");
    report.tail("a response to another request meanwhile", leaving, &busy, "ms");
    report.goal("removed", Estimate::once(answered));
    Ok(())
}
