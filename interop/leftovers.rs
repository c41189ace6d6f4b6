//! Temporary files of killed uploads and copies, and the effects of a running upload on its directory.

use crate::curl::{Answer, curl};
use crate::server::Server;
use std::io::Write as _;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

const LEFT_FILE: &str = ".enfilade-00000000000000aa";
const LEFT_TREE: &str = ".enfilade-00000000000000bb";

fn plant(directory: &Path) {
    std::fs::create_dir_all(directory.join(LEFT_TREE).join("inner")).unwrap();
    std::fs::write(directory.join(LEFT_TREE).join("inner/file"), "left").unwrap();
    std::fs::write(directory.join(LEFT_FILE), "left").unwrap();
    std::fs::write(directory.join("member"), "x").unwrap();
}

fn server() -> (Server, String, PathBuf) {
    let server = Server::start();
    let login = server.add_token("admin@local!test");
    let main = server.data().join("datastores/main");
    (server, login, main)
}

fn ask(server: &Server, login: &str, method: &str, path: &str) -> Answer {
    curl(server, login, &format!("/dav/main/{path}"), &["--request", method])
}

fn transfer(server: &Server, login: &str, method: &str, from: &str, to: &str) -> Answer {
    let destination = format!("Destination: /dav/main/{to}");
    curl(server, login, &format!("/dav/main/{from}"), &["--request", method, "--header", &destination])
}

/// Begins a PUT, and does not finish it.
fn begin_upload(server: &Server, login: &str, path: &str, directory: &Path) -> TcpStream {
    let (user, secret) = login.split_once(':').unwrap();
    let mut stream = TcpStream::connect(&server.plain).unwrap();
    let head = format!(
        "PUT /dav/main/{path} HTTP/1.1\r\nHost: x\r\nAuthorization: PBSAPIToken={user}:{secret}\r\nContent-Length: 600000\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(&vec![b'n'; 300_000]).unwrap();
    assert!(until(|| leftovers(directory) == 1), "the upload did not begin");
    stream
}

fn leftovers(directory: &Path) -> usize {
    let is_reserved = |name: std::ffi::OsString| name.to_string_lossy().starts_with(".enfilade-");
    std::fs::read_dir(directory)
        .unwrap()
        .filter(|entry| is_reserved(entry.as_ref().unwrap().file_name()))
        .count()
}

fn until(mut holds: impl FnMut() -> bool) -> bool {
    (0..6000).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        holds()
    })
}

#[test]
fn what_a_killed_process_left_behind_keeps_no_directory_from_being_deleted_moved_or_replaced() {
    let (server, login, main) = server();
    for name in ["deleted", "outer/deleted", "moved", "outer/moved", "replaced"] {
        plant(&main.join(name));
    }
    std::fs::create_dir(main.join("new")).unwrap();
    let answer = ask(&server, &login, "DELETE", "deleted");
    assert_eq!(answer.status, 204, "{}", answer.text());
    let answer = transfer(&server, &login, "MOVE", "moved", "there");
    assert_eq!(answer.status, 201, "{}", answer.text());
    assert!(main.join("there/member").exists());
    let answer = transfer(&server, &login, "MOVE", "new", "replaced");
    assert_eq!(answer.status, 204, "{}", answer.text());
    let answer = ask(&server, &login, "DELETE", "outer");
    assert_eq!(answer.status, 204, "{}", answer.text());
    for name in ["deleted", "moved", "outer", "replaced/member"] {
        assert!(!main.join(name).exists(), "{name}");
    }
    // The name of this file only begins with `.enfilade-`. It is not a file of the server.
    std::fs::create_dir(main.join("kept")).unwrap();
    std::fs::write(main.join("kept/.enfilade-notes"), "x").unwrap();
    assert_eq!(ask(&server, &login, "DELETE", "kept").status, 207);
    assert!(main.join("kept/.enfilade-notes").exists());
}

#[test]
fn an_upload_that_is_still_going_on_is_the_reason_that_is_told() {
    let (server, login, main) = server();
    std::fs::create_dir_all(main.join("d/e")).unwrap();
    let upload = begin_upload(&server, &login, "d/e/file", &main.join("d/e"));
    let told = "an upload or a copy into the directory is running";
    let answer = transfer(&server, &login, "MOVE", "d", "there");
    assert_eq!((answer.status, answer.text().contains(told)), (409, true), "{}", answer.text());
    let answer = ask(&server, &login, "DELETE", "d");
    assert_eq!((answer.status, answer.text().contains(told)), (207, true), "{}", answer.text());
    assert_eq!(leftovers(&main.join("d/e")), 1, "the temporary file of the running upload must stay");
    drop(upload);
    assert!(until(|| leftovers(&main.join("d/e")) == 0));
    assert_eq!(ask(&server, &login, "DELETE", "d").status, 204);
}

#[test]
fn a_start_removes_what_a_kill_left_and_the_doctor_tells_of_it_before() {
    let (mut server, login, main) = server();
    let said =
        |server: &Server| String::from_utf8_lossy(&server.cli_output(&["doctor"], "").stdout).into_owned();
    std::fs::create_dir(main.join("d")).unwrap();
    let _upload = begin_upload(&server, &login, "d/file", &main.join("d"));
    assert!(!said(&server).contains("never finished"), "the upload is still running: {}", said(&server));
    plant(&main.join("d"));
    assert!(said(&server).contains("2 uploads or copies were never finished"), "{}", said(&server));
    server.kill_and_restart();
    assert!(
        until(|| leftovers(&main.join("d")) == 0),
        "{:?}",
        std::fs::read_dir(main.join("d")).unwrap().count()
    );
    assert!(!said(&server).contains("never finished"), "{}", said(&server));
    assert!(main.join("d/member").exists());
}
