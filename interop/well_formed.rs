//! Dead properties are returned as well-formed XML. An independent parser checks answers after random bodies, and with properties that older versions
//! or other programs wrote.

use crate::curl::{PROPFIND_0, PROPFIND_1, curl};
use crate::server::Server;
use enfilade_facts::codec::Writer;
use rustix::fs::{XattrFlags, setxattr};
use std::process::Command;

#[test]
fn random_bodies_come_back_as_they_were() {
    let number =
        |name: &str, usual: u64| std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(usual);
    let server = Server::start();
    let alice = server.add_user("alice", "DatastorePowerUser");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../interop/well_formed.py");
    let output = Command::new("python3")
        .args([script, &server.plain, &alice])
        .arg(number("ENFILADE_CAMPAIGN_N", 400).to_string())
        .arg(number("ENFILADE_CAMPAIGN_SEED", 1).to_string())
        .output()
        .expect("python3 is needed");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    println!("{said}");
}

/// Writes properties to the attribute of a file, in the server's format: namespace, name, language, value.
fn keep(server: &Server, file: &str, properties: &[(&str, &str, &str, &str)]) {
    let path = server.data().join("datastores/main").join(file);
    std::fs::write(&path, "x").unwrap();
    let mut kept = Writer::default();
    kept.list(properties, |to, (namespace, name, language, value)| {
        let language = Some(*language).filter(|text| !text.is_empty());
        to.text(namespace).text(name).option(language, |to, language| {
            to.text(language);
        });
        to.text(value);
    });
    setxattr(&path, "user.enfilade.properties", &kept.into_bytes(), XattrFlags::empty()).unwrap();
}

#[test]
fn what_an_older_version_kept_breaks_no_listing() {
    let server = Server::start();
    let alice = server.add_user("alice", "DatastorePowerUser");
    keep(
        &server,
        "old",
        &[
            ("http://www.w3.org/XML/1998/namespace", "foo", "", "1"),
            ("urn:x", "\u{aa}", "", "2"),
            ("urn:x", "a b", "", "3"),
            ("u}x", "braced", "", "1"),
            ("urn:x", "good", "de\"><", "4 &lt; <b xmlns=\"urn:b\">5</b>"),
            ("urn:\"&<", "odd", "", "6"),
            ("", "bare", "", "<xml:bar></xml:bar>"),
            ("urn:x", "open", "", "</P:open></D:prop>"),
            ("urn:x", "control", "", "\u{1}"),
        ],
    );
    let check = |text: &str| {
        let parse = "import sys, xml.etree.ElementTree as E; E.fromstring(sys.argv[1])";
        let output = Command::new("python3").args(["-c", parse, text]).output().unwrap();
        assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    };
    let names = "<propfind xmlns='DAV:'><propname/></propfind>";
    let some =
        "<propfind xmlns='DAV:'><prop><good xmlns='urn:x'/><open xmlns='urn:x'/><getetag/></prop></propfind>";
    for arguments in [vec![], vec!["--data", names], vec!["--data", some]] {
        for (path, depth) in [("/dav/main/", PROPFIND_1), ("/dav/main/old", PROPFIND_0)] {
            let answer = curl(&server, &alice, path, &[&depth[..], &arguments].concat());
            assert_eq!(answer.status, 207);
            check(&answer.text());
        }
    }
    let all = curl(&server, &alice, "/dav/main/old", &PROPFIND_0).text();
    for expected in [
        "xml:lang=\"de&quot;&gt;&lt;\">4 &lt; <b xmlns=\"urn:b\">5</b></",
        ":odd>6</",
        // A malformed property is shown as text.
        "<bare>&lt;xml:bar&gt;&lt;/xml:bar&gt;</bare>",
        "&lt;/P:open&gt;",
    ] {
        assert!(all.contains(expected), "{expected}: {all}");
    }
    assert!(!all.contains('\u{aa}') && !all.contains("=\"http://www.w3.org/XML"), "{all}");
    // Malformed properties do not prevent new properties on the file.
    let set = "<propertyupdate xmlns='DAV:'><set><prop><good xmlns='urn:x'>new</good></prop></set></propertyupdate>";
    let admin = server.add_token("admin@local!test");
    let patched = curl(&server, &admin, "/dav/main/old", &["--request", "PROPPATCH", "--data", set]);
    assert!(patched.status == 207 && patched.text().contains("200 OK"), "{}", patched.text());
    assert!(curl(&server, &alice, "/dav/main/old", &PROPFIND_0).text().contains(":good>new</"));
}

#[test]
fn names_that_cannot_be_written_are_refused() {
    let server = Server::start();
    let alice = server.add_user("alice", "DatastorePowerUser");
    curl(&server, &alice, "/dav/main/file", &["--request", "PUT", "--data", "x"]);
    let long = "x".repeat(1025);
    for property in [
        "<xml:foo>1</xml:foo>".to_owned(),
        "<x:\u{aa} xmlns:x='urn:x'>1</x:\u{aa}>".to_owned(),
        "<y xmlns='urn:x'><xml:foo/></y>".to_owned(),
        "<y xmlns='http://www.w3.org/2000/xmlns/'/>".to_owned(),
        "<y xmlns='u x'/>".to_owned(),
        "<y xmlns='u}x'/>".to_owned(),
        "<y xmlns='urn:x'><b xmlns='{u'/></y>".to_owned(),
        format!("<y xmlns='{long}'/>"),
        (0..65).map(|n| format!("<y xmlns='urn:{n}'/>")).collect(),
    ] {
        let body =
            format!("<propertyupdate xmlns='DAV:'><set><prop>{property}</prop></set></propertyupdate>");
        let answer = curl(&server, &alice, "/dav/main/file", &["--request", "PROPPATCH", "--data", &body]);
        assert_eq!(answer.status, 400, "{property}: {}", answer.text());
    }
}
