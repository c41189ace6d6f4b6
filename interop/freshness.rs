//! A change takes effect without a restart: with the next request, or within a second if a file was edited by hand.

use crate::curl::{PROPFIND_1, command, curl};
use crate::server::{Server, until};
use std::process::Stdio;
use std::time::{Duration, Instant};

/// On a slow machine, a promised time may be exceeded by this factor.
const SLACK: u32 = 20;

#[test]
fn read_only_by_hand_refuses_the_next_write_within_a_second() {
    let server = Server::start();
    let token = server.add_token("admin@local!edit");
    let put = || curl(&server, &token, "/dav/main/a.txt", &["--upload-file", "/etc/hostname"]).status;
    assert!([201, 204].contains(&put()));
    let file = server.data().join("datastore.cfg");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(
        &file,
        format!(
            "{}\tmaintenance-mode type=read-only,message=new%20disks\n",
            text.trim_end_matches('\n').to_owned() + "\n"
        ),
    )
    .unwrap();
    let edited = Instant::now();
    while put() != 503 {
        assert!(edited.elapsed() < Duration::from_secs(1) * SLACK, "{}", server.log());
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(curl(&server, &token, "/dav/main/a.txt", &[]).status, 200);
    let said = curl(&server, &token, "/dav/main/a.txt", &["--upload-file", "/etc/hostname"]).text();
    assert!(said.contains("read-only") && said.contains("new disks"), "{said}");
    // An unknown mode closes the datastore. In Proxmox Backup Server, the datastore would stay open.
    std::fs::write(&file, text.trim_end().to_owned() + "\n\tmaintenance-mode type=raed-only\n").unwrap();
    let edited = Instant::now();
    while curl(&server, &token, "/dav/main/a.txt", &[]).status != 503 {
        assert!(edited.elapsed() < Duration::from_secs(1) * SLACK, "{}", server.log());
        std::thread::sleep(Duration::from_millis(50));
    }
    server.cli(&["datastore", "maintenance", "main", "none"]);
    assert_eq!(put(), 204);
    // A section with an error keeps its last valid facts, and the log names the file, the line and the
    // reason.
    std::fs::write(&file, text.trim_end().to_owned() + "\n\tfoo bar\n").unwrap();
    let edited = Instant::now();
    while !server.log().contains("unknown property 'foo'") {
        assert!(edited.elapsed() < Duration::from_secs(1) * SLACK, "{}", server.log());
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(put(), 204);
    assert!(server.log().contains("datastore.cfg: line 3: unknown property 'foo'"), "{}", server.log());
}

#[test]
fn a_deleted_token_is_refused_at_once_and_cuts_a_running_download() {
    let server = Server::start();
    let token = server.add_token("admin@local!gone");
    // A sparse file of 8 GiB, which needs no disk space.
    let big = std::fs::File::create(server.data().join("datastores/main/big.bin")).unwrap();
    big.set_len(8 << 30).unwrap();
    for protocol in ["--http1.1", "--http2"] {
        let token =
            if protocol == "--http1.1" { token.clone() } else { server.add_token("admin@local!gone") };
        let taken = server.scratch.path().join("taken");
        let _ = std::fs::remove_file(&taken);
        let mut download = command(&server, &token)
            .args([protocol, "--limit-rate", "20M", "--output"])
            .arg(&taken)
            .arg(server.url("/dav/main/big.bin"))
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        until("the download runs", &server, || std::fs::metadata(&taken).is_ok_and(|meta| meta.len() > 0));
        assert!(download.try_wait().unwrap().is_none());
        server.cli(&["token", "delete", "admin@local!gone"]);
        let deleted = Instant::now();
        assert_eq!(curl(&server, &token, "/whoami", &[]).status, 401);
        let ended = loop {
            if let Some(status) = download.try_wait().unwrap() {
                break status;
            }
            assert!(deleted.elapsed() < Duration::from_secs(2) * SLACK, "{protocol}: {}", server.log());
            std::thread::sleep(Duration::from_millis(20));
        };
        assert!(!ended.success(), "{protocol}: a cut download must not look whole");
        println!("{protocol}: cut {:?} after the deletion", deleted.elapsed());
    }
    let cut = || server.log().lines().filter(|line| line.contains("\"ID03\"")).count();
    until("both are logged", &server, || cut() >= 2);
    assert_eq!(cut(), 2, "{}", server.log());
}

#[test]
fn explain_names_the_door_and_the_rule() {
    let server = Server::start();
    let alice = server.add_user("alice", "DatastorePowerUser");
    server.cli(&["group", "add", "staff"]);
    server.cli(&["group", "member", "add", "staff", "alice@local"]);
    assert_eq!(curl(&server, &alice, "/dav/main/plan.txt", &["--upload-file", "/etc/hostname"]).status, 201);
    server.cli(&["acl", "set", "main", "/plan.txt", "deny @staff write", "allow everyone full"]);
    assert_eq!(curl(&server, &alice, "/dav/main/plan.txt", &["--upload-file", "/etc/hostname"]).status, 403);
    let explain = |arguments: &[&str]| {
        let output = server.cli_output(&[&["explain"], arguments].concat(), "");
        assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap()
    };
    let denied = explain(&["alice@local", "main", "/plan.txt", "write"]);
    let door = denied["doors"].as_array().unwrap().iter().find(|door| door["verdict"] == "refuse").unwrap();
    assert_eq!((door["door"].as_str(), door["code"].as_str()), (Some("access"), Some("AC03")));
    let walk = door["walk"].to_string();
    assert!(walk.contains("#1") && walk.contains("deny") && walk.contains("DatastorePowerUser"), "{walk}");
    // If a role assignment decides, the explanation names the role and its path.
    server.cli(&[
        "role",
        "assign",
        "--path",
        "/datastore/main/plan.txt",
        "--auth-id",
        "alice@local",
        "NoAccess",
    ]);
    let denied = explain(&["alice@local!test", "main", "/plan.txt", "read"]).to_string();
    assert!(denied.contains("NoAccess") && denied.contains("/datastore/main/plan.txt"), "{denied}");
    server.cli(&["datastore", "maintenance", "main", "offline"]);
    let denied = explain(&["alice@local", "main", "/plan.txt", "read"]).to_string();
    assert!(denied.contains("DS02") && denied.contains("offline"), "{denied}");
    server.cli(&["user", "disable", "alice@local"]);
    assert!(explain(&["alice@local", "main", "/plan.txt", "read"]).to_string().contains("ID06"));
    // The log line of the refused request has the same code.
    assert!(server.log().contains("\"code\":\"AC03\""), "{}", server.log());
    assert_eq!(curl(&server, &alice, "/dav/main/", &PROPFIND_1).status, 401);
}
