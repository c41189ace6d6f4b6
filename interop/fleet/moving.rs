//! Another member becomes the member with the edited files, while all servers run.

use super::passing::{fleet, status};
use super::{passes, why};
use crate::command::run;
use crate::curl::{command, curl};
use crate::server::{Server, until};
use std::process::{Command, Stdio};
use std::time::Duration;

const FILES: [&str; 4] = ["datastore.cfg", "user.cfg", "acl.cfg", "token.shadow"];

/// Whether `/readyz/datastores` reports that the server serves the datastores (status 200, not 503).
fn serves(server: &Server) -> bool {
    let output = Command::new("curl")
        .args(["--silent", "--max-time", "20", "--output", "/dev/null", "--write-out", "%{http_code}"])
        .arg(format!("http://{}/readyz/datastores", server.operations))
        .output()
        .unwrap();
    match output.stdout.as_slice() {
        b"200" => true,
        b"503" => false,
        other => panic!("{}", String::from_utf8_lossy(other)),
    }
}

fn users(server: &Server) -> Vec<String> {
    let rows = server.cli(&["user", "list"]);
    rows.iter().map(|row| row["user"].as_str().unwrap().to_owned()).collect()
}

fn edit(server: &Server, text: &str) {
    std::fs::write(server.data().join("user.cfg"), text).unwrap();
}

fn has(server: &Server, user: &str) -> bool {
    users(server).iter().any(|name| name == user)
}

fn copy_files(from: &Server, to: &Server) {
    for name in FILES {
        std::fs::copy(from.data().join(name), to.data().join(name)).unwrap();
    }
}

#[test]
fn the_edited_files_move_while_the_servers_run() {
    let (fleet, _) = fleet(&[]);
    let [a, b] = [&fleet.members[0], &fleet.members[1]];
    let login = a.add_token("admin@local!api");
    for (name, text) in [("token.shadow", "{}"), ("acl.cfg", ""), ("user.cfg", "user: kept@pbs\n\n")] {
        std::fs::write(a.data().join(name), text).unwrap();
    }
    until("the files are followed", a, || has(b, "kept@pbs"));
    assert_eq!((serves(a), serves(b)), (true, false));
    // If member b has no copies of the edited files of member a, the command changes nothing.
    let refused = why(&run(&b.data(), &["fleet", "follow-files"], None));
    assert!(refused.contains("is missing, but the fleet has read such a file"), "{refused}");
    assert_eq!((serves(a), serves(b)), (true, false));
    // An upload runs while member b takes over the edited files.
    let file = fleet.scratch.path().join("big");
    std::fs::write(&file, vec![b'x'; 64 << 20]).unwrap();
    let mut upload = command(a, &login)
        .args(["--limit-rate", "1M", "--max-time", "50", "--fail", "--output", "/dev/null"])
        .args(["--upload-file", file.to_str().unwrap()])
        .arg(a.url("/dav/main/under-way"))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(700));
    copy_files(a, b);
    b.cli(&["fleet", "follow-files"]);
    until("it serves", b, || serves(b));
    until("the other one has noticed it", a, || !serves(a));
    assert!(!upload.wait().unwrap().success(), "the upload through the earlier member must fail");
    assert!(!a.data().join("datastores/main/under-way").exists());
    // Both members accept requests for files, and the new member serves the files.
    std::fs::write(&file, "content").unwrap();
    let put = ["--upload-file", file.to_str().unwrap()];
    until("requests are passed on", a, || status(a, &login, "/dav/main/") == 207);
    assert_eq!(curl(a, &login, "/dav/main/f", &put).status, 201);
    assert_eq!(curl(b, &login, "/dav/main/f", &[]).body, b"content");
    until("it was passed on", a, || {
        a.log().lines().any(|line| line.contains("\"passed\"") && line.contains("PUT"))
    });
    let listed = b.cli_output(&["acl", "get", "main", "/"], "");
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    assert!(why(&run(&a.data(), &["acl", "get", "main", "/"], None)).contains("served by member `b`"));
    // Only the files of the new member are followed. The older files do not restore deleted users (rule 11 of docs/fleet-protocol.md).
    edit(b, "user: other@pbs\n\n");
    until("its edit is followed", b, || has(a, "other@pbs") && !has(a, "kept@pbs"));
    edit(a, "user: kept@pbs\n\nuser: ghost@pbs\n\n");
    let refused = why(&run(&a.data(), &["user", "remove", "other@pbs"], None));
    assert!(refused.contains("follows the edited files of member `b`"), "{refused}");
    std::thread::sleep(Duration::from_secs(3));
    assert!(!has(b, "ghost@pbs") && !has(b, "kept@pbs"), "{:?}", users(b));
    // A change over HTTP on the earlier member is passed on, and is then in the file of the new member.
    let (id, secret) = login.split_once(':').unwrap();
    let header = format!("Authorization: PBSAPIToken={id}:{secret}");
    let change = ["--request", "PUT", "--data", "comment=moved", "--header", &header];
    let changed = curl(a, "", "/api2/json/config/datastore/main", &change);
    assert_eq!(changed.status, 200, "{}", changed.text());
    assert!(std::fs::read_to_string(b.data().join("datastore.cfg")).unwrap().contains("comment moved"));
    // Member a takes over the edited files again. A server that followed its files earlier can follow them again.
    let again = b.cli(&["fleet", "follow-files"]);
    assert_eq!(again[0]["before"], "b", "member b has the edited files already");
    copy_files(b, a);
    passes(&a.data(), &["fleet", "follow-files"]);
    until("it serves again", a, || serves(a));
    until("the other one has noticed it", b, || !serves(b));
    edit(a, "user: other@pbs\n\nuser: last@pbs\n\n");
    until("its edit is followed again", a, || has(b, "last@pbs"));
    edit(b, "");
    std::thread::sleep(Duration::from_secs(3));
    assert!(has(b, "last@pbs") && has(b, "other@pbs"), "{:?}", users(b));
    assert_eq!(curl(b, &login, "/dav/main/f", &[]).body, b"content");
    for server in [a, b] {
        assert!(!server.log().contains("restart"), "no log line may ask for a restart: {}", server.log());
    }
}
