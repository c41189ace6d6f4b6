//! A user does not notice changes of hidden entries in a directory: the answers about the directory, and the times in them, stay the same.

use crate::curl::{Answer, PROPFIND_0, PROPFIND_1, curl};
use crate::server::Server;

#[test]
fn hidden_activity_in_a_directory_shows_nowhere() {
    let server = Server::start();
    let admin = server.add_token("admin@local!test");
    let alice = server.add_user("alice", "DatastorePowerUser");
    let root = server.data().join("datastores/main");
    std::fs::create_dir(root.join("box")).unwrap();
    // Only the creator of a new entry in `box` may see it, because the ACL of `box` has no inheritable entries.
    server.cli(&["acl", "set", "main", "/box", "allow alice@local full"]);
    let put = |login: &str, name: &str| {
        let path = format!("/dav/main/box/{name}");
        assert_eq!(curl(&server, login, &path, &["-X", "PUT", "-d", "x"]).status, 201);
    };
    put(&alice, "own");
    let named = "<D:propfind xmlns:D='DAV:'><D:prop><D:getetag/><D:getlastmodified/></D:prop></D:propfind>";
    let ask = || -> Vec<Answer> {
        let asked: [(&str, &[&str]); 7] = [
            ("/dav/main/box/", &PROPFIND_0),
            ("/dav/main/box/", &PROPFIND_1),
            ("/dav/main/", &PROPFIND_1),
            ("/dav/main/box/", &["-X", "PROPFIND", "-H", "Depth: 0", "-d", named]),
            ("/dav/main/", &["-H", "Accept: text/html"]),
            ("/dav/main/box/", &["-H", "Accept: text/html"]),
            // The directory has no modification time. With a modification time, this condition would be false, and the status would be 412.
            ("/dav/main/box", &["-X", "MKCOL", "-H", "If-Unmodified-Since: Sun, 06 Nov 1994 08:49:37 GMT"]),
        ];
        asked.iter().map(|(path, arguments)| curl(&server, &alice, path, arguments)).collect()
    };
    let before = ask();
    assert!(
        before[3].text().contains(" 404 ") && !before[3].text().contains("200 OK"),
        "{}",
        before[3].text()
    );
    assert!(before[1].text().contains("getetag"), "a file has an ETag: {}", before[1].text());
    assert_eq!(before[6].status, 405, "a directory has no date to be compared with");
    // The test waits for the next second, because times in answers are in whole seconds.
    std::thread::sleep(std::time::Duration::from_millis(1100));
    put(&admin, "hidden");
    assert_eq!(curl(&server, &admin, "/dav/main/box/hidden", &["-X", "DELETE"]).status, 204);
    put(&admin, "hidden");
    for (number, (after, before)) in ask().into_iter().zip(before).enumerate() {
        assert_eq!((after.status, after.text()), (before.status, before.text()), "question {number}");
    }
}
