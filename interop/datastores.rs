//! Datastores with the real binary: quotas, mounts and warnings. A new datastore does not inherit anything from a removed datastore with the same
//! name.

use crate::curl::{command, curl};
use crate::operations::house;
use crate::server::{BINARY, Scratch, Server};
use enfilade_datastore::Ledger;
use enfilade_facts::tables::Datastore;
use enfilade_facts::vocabulary::{DatastoreName, OperationKind};
use enfilade_facts::{AuditRecord, Change, Clocks, MirrorHealth, Source};
use enfilade_sources::lmdb::Lmdb;
use enfilade_testkit::second_reader;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

/// Creates a second datastore that the administrator's token may use.
fn store(server: &Server, name: &str, rest: &[&str]) -> String {
    let place = server.scratch.path().join(name);
    let mut arguments = vec!["datastore", "create", name, "--path", place.to_str().unwrap()];
    arguments.extend(rest);
    server.cli(&arguments);
    place.to_str().unwrap().to_owned()
}

pub(crate) fn metrics(server: &Server) -> String {
    let output =
        Command::new("curl").arg("--silent").arg(format!("http://{}/metrics", server.operations)).output();
    String::from_utf8(output.unwrap().stdout).unwrap()
}

#[test]
fn a_quota_holds_and_gives_back() {
    let server = Server::start();
    let token = server.add_token("admin@local!quota");
    let place = store(&server, "small", &["--quota", "100K"]);
    // Existing files are counted, too.
    std::fs::create_dir(format!("{place}/sub")).unwrap();
    std::fs::write(format!("{place}/sub/before"), vec![0; 10_000]).unwrap();
    let body = server.scratch.path().join("body");
    std::fs::write(&body, vec![7; 60_000]).unwrap();
    let body = body.to_str().unwrap();
    let put = |name: &str, rest: &[&str]| {
        let arguments = [&["-T", body], rest].concat();
        curl(&server, &token, &format!("/dav/small/{name}"), &arguments)
    };
    assert_eq!(put("one", &[]).status, 201);
    let refused = put("two", &[]);
    assert_eq!(refused.status, 507, "{}", refused.text());
    // Without a length, the quota is checked during the upload. No partial file remains.
    assert_eq!(put("two", &["-H", "Transfer-Encoding: chunked"]).status, 507);
    assert!(!Path::new(&format!("{place}/two")).exists());
    let shown = &server.cli(&["datastore", "show", "small"])[0];
    assert_eq!((shown["quota"].as_u64(), shown["used"].as_u64()), (Some(102_400), Some(70_000)), "{shown}");
    let status = curl(&server, "", "/api2/json/admin/datastore/small/status", &["-H", &pbs(&token)]);
    let status: serde_json::Value = serde_json::from_slice(&status.body).unwrap();
    assert_eq!(status["data"]["total"], 102_400);
    assert_eq!((&status["data"]["used"], &status["data"]["avail"]), (&70_000.into(), &32_400.into()));
    // An overwrite frees the old bytes only after the new bytes are stored. A DELETE frees the bytes immediately.
    assert_eq!(put("one", &[]).status, 507);
    assert_eq!(curl(&server, &token, "/dav/small/one", &["--request", "DELETE"]).status, 204);
    assert_eq!(put("two", &["-H", "Transfer-Encoding: chunked"]).status, 201);
    server.cli(&["datastore", "set", "small", "--quota", "none"]);
    assert_eq!(put("one", &[]).status, 201);
    let text = metrics(&server);
    assert!(
        text.contains("enfilade_datastore_refusals_total{datastore=\"small\",code=\"CT16\"} 3"),
        "{text}"
    );
    assert!(
        text.contains("enfilade_datastore_info{datastore=\"small\",maintenance=\"none\",mount=\"fixed\"} 1"),
        "{text}"
    );
    let lookups = "enfilade_datastore_lookups_total{datastore=\"small\",kind=\"write\"} ";
    assert!(text.contains(lookups) && !text.contains(&format!("{lookups}0\n")), "{text}");
    // A request for an unknown datastore creates no metric.
    assert_eq!(curl(&server, &token, "/dav/made-up/x", &[]).status, 404);
    assert!(!metrics(&server).contains("made-up"));
}

fn pbs(token: &str) -> String {
    format!("Authorization: PBSAPIToken={token}")
}

#[test]
fn a_store_on_a_share_is_there_while_that_is_mounted() {
    let server = Server::start();
    let token = server.add_token("admin@local!share");
    let place = store(&server, "share", &[]);
    let status = || curl(&server, &token, "/dav/share/", &["--request", "PROPFIND", "-H", "Depth: 0"]).status;
    assert_eq!(status(), 207);
    let above = Path::new(&place).parent().unwrap().to_str().unwrap();
    server.cli(&["datastore", "set", "share", "--mounted-at", above]);
    assert_eq!(status(), 503);
    assert!(metrics(&server).contains("datastore=\"share\",code=\"DS04\"} 1"));
    let shown = &server.cli(&["datastore", "show", "share"])[0];
    assert!(shown["warnings"][0].as_str().unwrap().contains("nothing is mounted at"), "{shown}");
    assert!(metrics(&server).contains("datastore=\"share\",maintenance=\"none\",mount=\"notmounted\""));
    // The root directory of the machine is always a mount point.
    server.cli(&["datastore", "set", "share", "--mounted-at", "/"]);
    assert_eq!(status(), 207);
    let refused = server.cli_output(&["datastore", "set", "share", "--mounted-at", "/elsewhere"], "");
    assert!(
        !refused.status.success()
            && String::from_utf8_lossy(&refused.stderr).contains("does not contain the datastore's path")
    );
    server.cli(&["datastore", "set", "share", "--mounted-at", "none"]);
    assert_eq!(status(), 207);
}

#[test]
fn a_name_that_comes_back_has_nothing_of_the_one_before() {
    let server = Server::start();
    store(&server, "tank", &["--quota", "1"]);
    let made = server.cli_output(&["bootstrap", "--password-stdin"], "a password");
    assert!(made.status.success());
    server.cli(&["datastore", "set", "tank", "--project", "admin"]);
    let before = &server.cli(&["datastore", "show", "tank"])[0];
    assert_eq!((before["quota"].as_u64(), before["project"].as_str()), (Some(1), Some("admin@Default")));
    server.cli(&["datastore", "remove", "tank"]);
    store(&server, "tank", &[]);
    let after = &server.cli(&["datastore", "show", "tank"])[0];
    assert!(after["quota"].is_null() && after["project"].is_null(), "{after}");
}

#[test]
fn lines_of_nobody_in_acl_cfg_are_told() {
    let server = Server::start();
    let acl = "acl:1:/datastore/main:nobody@pbs,admin@local,@none:DatastoreReader\n";
    std::fs::write(server.data().join("acl.cfg"), acl).unwrap();
    let doctor = || String::from_utf8(server.cli_output(&["doctor"], "").stdout).unwrap();
    let found = (0..100).map(|_| (std::thread::sleep(Duration::from_millis(100)), doctor()).1);
    let found =
        found.into_iter().find(|found| found.contains("which does not exist")).expect("no such finding");
    assert!(found.contains("acl.cfg has 1 entry of `nobody@pbs`, which does not exist"), "{found}");
    assert!(found.contains("`@none") && !found.contains("entry of `admin@local`"), "{found}");
}

#[test]
fn what_is_amiss_is_told_and_what_is_written_another_reader_takes() {
    let server = Server::start();
    let place = store(&server, "tank", &["--comment", "two words", "--property", "gc-schedule=daily"]);
    server.cli(&["datastore", "set", "tank", "--property", "keep-last=3", "--property", "gc-schedule="]);
    let inside = format!("{place}/below");
    let refused = server.cli_output(&["datastore", "create", "inner", "--path", &inside], "");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("overlaps with datastore `tank`"));
    // A path through a link to the same directory is refused, too.
    let link = server.scratch.path().join("link");
    std::os::unix::fs::symlink(&place, &link).unwrap();
    let refused = server.cli_output(&["datastore", "create", "inner", "--path", link.to_str().unwrap()], "");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("overlaps with datastore `tank`"));
    let file = server.data().join("datastore.cfg");
    let text = std::fs::read_to_string(&file).unwrap();
    let read = second_reader::read(&text).unwrap();
    let tank = &read["tank"];
    assert_eq!(
        (tank["comment"].as_str(), tank["keep-last"].as_str(), tank.get("gc-schedule")),
        ("two words", "3", None)
    );
    // An edit of the file causes warnings, but no refusal.
    std::fs::write(
        &file,
        format!("{text}datastore: inner\n\tpath {inside}\n\ndatastore: gone\n\tpath /nowhere/at/all\n\n"),
    )
    .unwrap();
    let until = |what: &str| {
        for _ in 0..1500 {
            let output = server.cli_output(&["doctor"], "");
            let said = String::from_utf8(output.stdout).unwrap();
            if said.contains(what) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("the doctor does not say `{what}`");
    };
    until("is in the directory of datastore tank");
    until("`/nowhere/at/all`: No such file or directory");
}

#[test]
fn the_api_says_who_is_inside_and_waits_for_them() {
    let server = Server::start();
    let token = server.add_token("admin@local!waits");
    let big = std::fs::File::create(server.data().join("datastores/main/big.bin")).unwrap();
    // The download takes twenty seconds, because the requests below take long on a busy machine.
    big.set_len(80 << 20).unwrap();
    let mut slow = command(&server, &token)
        .args(["--limit-rate", "4M", "--output", "/dev/null"])
        .arg(server.url("/dav/main/big.bin"))
        .spawn()
        .unwrap();
    while server.cli(&["datastore", "operations", "main"]).is_empty() {
        std::thread::sleep(Duration::from_millis(10));
    }
    let header = pbs(&token);
    let mode = ["-H", &header, "-X", "PUT", "-d", "maintenance-mode=offline"];
    assert_eq!(curl(&server, "", "/api2/json/config/datastore/main", &mode).status, 200);
    let ask = |query: &str| -> serde_json::Value {
        let path = format!("/api2/json/admin/datastore/main/active-operations{query}");
        let answer = curl(&server, "", &path, &["-H", &header]);
        serde_json::from_slice::<serde_json::Value>(&answer.body).unwrap()["data"].clone()
    };
    let now = ask("?verbose=1");
    assert_eq!(
        (now["read"].as_u64(), now["processes"][0]["pid"].as_u64()),
        (Some(1), Some(server.pid().into())),
        "{now}"
    );
    let after = ask("?wait=60");
    assert_eq!((after["read"].as_u64(), after["write"].as_u64()), (Some(0), Some(0)));
    assert!(slow.wait().unwrap().success(), "the download that had begun before was served to its end");
}

const LOOKUPS: &str = "ENFILADE_LOOKUPS";

/// Runs only as a child process of the next test. The environment contains the number of lookups of a datastore.
#[test]
fn a_process_that_looks_up() {
    let Some(times) = std::env::var(LOOKUPS).ok().and_then(|text| text.parse::<u32>().ok()) else { return };
    let scratch = Scratch::new();
    let lmdb = Arc::new(Lmdb::open(&scratch.path().join("facts")).unwrap());
    let name: DatastoreName = "tank".parse().unwrap();
    let audit = AuditRecord { who: "a test".into(), what: "a store".into(), unix_seconds: 0, request: None };
    let mut change = Change::new(audit);
    change.put(&name, &Datastore { path: "/tank".into(), ..Datastore::default() });
    lmdb.commit(&change).unwrap();
    let now = Clocks { unix_seconds: 1, tick_millis: 1, mirror: MirrorHealth::Current };
    let house = house(lmdb, Ledger::private(4, now));
    for _ in 0..times {
        assert!(house.look_up(&name, OperationKind::Write).is_ok());
    }
}

#[test]
fn a_warm_lookup_and_its_drop_make_no_system_call() {
    // The smallest number of several runs, because the number of system calls at the start and end of a process varies.
    let calls = |times: u32| -> u64 {
        let run = |_| {
            let output = Command::new("strace")
                .args(["-f", "-c", "-U", "calls"])
                .arg(std::env::current_exe().unwrap())
                .args(["--exact", "datastores::a_process_that_looks_up"])
                .env(LOOKUPS, times.to_string())
                .output()
                .expect("strace is needed");
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{text}");
            let number = |line: &str| line.split_whitespace().next()?.parse::<u64>().ok();
            text.lines().rev().find_map(number).unwrap_or_else(|| panic!("strace counted nothing: {text}"))
        };
        (0..4).map(run).min().unwrap()
    };
    let (few, many) = (calls(10), calls(100_010));
    // If each thousandth lookup made a system call, there would be a hundred more calls.
    assert!(many < few + 50, "{few} calls with 10 lookups, {many} with 100,000 more");
}

#[test]
fn another_maintenance_mode_keeps_the_message() {
    let server = Server::start();
    let shown = || server.cli(&["datastore", "show", "main"]).remove(0);
    server.cli(&["datastore", "maintenance", "main", "offline", "--message", "new disks, 50 %"]);
    server.cli(&["datastore", "maintenance", "main", "read-only"]);
    assert_eq!(
        (&shown()["maintenance"], &shown()["message"]),
        (&"read-only".into(), &"new disks, 50 %".into())
    );
    let put = ["--request", "PUT", "--data", "x"];
    let answer = curl(&server, &format!("admin@local:{}", server.password), "/dav/main/x", &put);
    let expected = "datastore `main` is in maintenance mode `read-only`, which refuses every write; message: new disks, 50 %\n";
    assert_eq!((answer.status, answer.text().as_str()), (503, expected));
    let mut show = Command::new(BINARY);
    let shown_text =
        show.arg("--data").arg(server.data()).args(["datastore", "show", "main"]).output().unwrap();
    let text = String::from_utf8(shown_text.stdout).unwrap();
    assert!(text.contains("read-only, message: new disks, 50 %"), "{text}");
    server.cli(&["datastore", "maintenance", "main", "offline", "--message", ""]);
    assert_eq!(shown()["message"], serde_json::Value::Null);
    server.cli(&["datastore", "maintenance", "main", "none"]);
    assert_eq!(shown()["maintenance"], serde_json::Value::Null);
}
