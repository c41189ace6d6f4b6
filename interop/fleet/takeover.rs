//! A datastore on shared storage. If the server of its home hangs, another member becomes the home.

use super::passing::{fleet, status};
use super::why;
use crate::curl::curl;
use crate::server::{Server, until};
use crate::signals::signal;
use serde_json::{Value, json};

/// The member that serves the datastore, and the members that may take the datastore over.
fn home(server: &Server) -> (Value, Value) {
    let row = server.cli(&["datastore", "show", "second"]).remove(0);
    (row["home"].clone(), row["may_take_over"].clone())
}

#[test]
fn another_member_serves_the_datastore_of_a_member_that_stopped() {
    let (mut fleet, addresses) = fleet(&[]);
    let (path, file) = (fleet.scratch.path().join("shared"), fleet.scratch.path().join("file"));
    let a = &fleet.members[0];
    let login = a.add_token("admin@local!api");
    a.cli(&["datastore", "create", "second", "--path", path.to_str().unwrap()]);
    std::fs::write(&file, "content").unwrap();
    let put = ["--upload-file", file.to_str().unwrap()];
    assert_eq!(curl(a, &login, "/dav/second/f", &put).status, 201);
    let set = |members: &str| a.cli_output(&["datastore", "set", "second", "--home", members], "");
    a.cli(&["datastore", "maintenance", "second", "offline"]);
    assert!(why(&set("b,x")).contains("no member `x`; its members are a, b"));
    assert!(why(&set("b,a,b")).contains("`b` is twice"));
    assert!(set("b").status.success());
    a.cli(&["datastore", "maintenance", "second", "none"]);
    assert!(why(&set("a,b")).contains("must be in maintenance mode offline"));
    // The home stays member b, so the datastore need not be offline.
    assert!(set("b,a").status.success());
    assert_eq!(home(a), (json!("b"), json!(["a"])));
    assert_eq!(curl(a, &login, "/dav/second/f", &[]).body, b"content");
    // A server that is restarted keeps its datastores.
    fleet.members[1].stop();
    fleet.members[1].start_again_with(&[("ENFILADE_FLEET__LISTEN", &addresses[1])]);
    let [a, b] = [&fleet.members[0], &fleet.members[1]];
    until("requests are passed on again", a, || status(a, &login, "/dav/second/") == 207);
    assert_eq!(home(a), (json!("b"), json!(["a"])));
    // A server that hangs does not keep its datastores.
    signal("STOP", b.pid());
    until("the datastore is taken over", a, || home(a) == (json!("a"), json!(["b"])));
    assert_eq!(status(a, &login, "/dav/second/"), 207);
    assert!(a.log().contains("this member serves datastore second from now on"), "{}", a.log());
    assert_eq!(curl(a, &login, "/dav/second/new", &put).status, 201);
    // The server continues after the signal, and passes requests on to the new home.
    signal("CONT", b.pid());
    until("it is current again", b, || status(b, &login, "/dav/second/") == 207);
    assert_eq!(home(b), (json!("a"), json!(["b"])));
    assert_eq!(curl(b, &login, "/dav/second/new", &[]).body, b"content");
    assert!(why(&b.cli_output(&["acl", "get", "second", "/"], "")).contains("served by member `a`"));
}
