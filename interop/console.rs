//! The console, with curl in the role of a browser: curl handles cookies like a browser, including the rules for the prefix `__Host-`.

mod bounds;
mod browser;
mod commands;
mod files;
mod links;
mod pages;
mod pieces;
mod second_factor;
mod signing_in;
mod trash;

use crate::server::{Scratch, Server};
use std::path::PathBuf;
use std::process::Command;

pub(crate) const PASSWORD: &str = "correct horse";

/// A browser with its cookies.
pub(crate) struct Browser<'s> {
    pub(crate) server: &'s Server,
    directory: Scratch,
}

/// A response.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Page {
    pub(crate) fn header(&self, name: &str) -> &str {
        let value = |line: &'_ str| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then_some(value.len())
        };
        let line = self.head.lines().find_map(|line| value(line).map(|length| &line[line.len() - length..]));
        line.unwrap_or_default().trim()
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The token that the forms of the page send.
    pub(crate) fn csrf(&self) -> String {
        let text = self.text();
        let rest = text.split_once("name=\"csrf\" value=\"").map(|(_, rest)| rest).unwrap_or_default();
        rest.split('"').next().unwrap_or_default().to_owned()
    }
}

impl<'s> Browser<'s> {
    pub(crate) fn new(server: &'s Server) -> Self {
        Browser { server, directory: Scratch::new() }
    }

    pub(crate) fn jar(&self) -> PathBuf {
        self.directory.path().join("cookies")
    }

    pub(crate) fn send(&self, path: &str, arguments: &[&str]) -> Page {
        let (jar, head) = (self.jar(), self.directory.path().join("head"));
        let (jar, head) = (jar.to_str().unwrap(), head.to_str().unwrap());
        let mut curl = Command::new("curl");
        curl.args([
            "--silent",
            "--show-error",
            "--insecure",
            "--max-time",
            "60",
            "--http1.1",
            "--path-as-is",
        ]);
        curl.args(["--globoff", "--cookie", jar, "--cookie-jar", jar, "--dump-header", head]);
        let output = curl.args(arguments).arg(self.server.url(path)).output().unwrap();
        let text = std::fs::read_to_string(head).unwrap_or_default();
        // 100 Continue precedes the response.
        let head = text.split("\r\n\r\n").filter(|head| !head.is_empty()).last().unwrap_or_else(|| {
            panic!("{path}: {}\n{}", String::from_utf8_lossy(&output.stderr), self.server.log())
        });
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Page { status, head: head.to_owned(), body: output.stdout }
    }

    /// Opens a page, as if a person had clicked a link.
    pub(crate) fn open(&self, path: &str) -> Page {
        self.send(path, &["--header", "Accept: text/html", "--header", "Sec-Fetch-Mode: navigate"])
    }

    /// The origin of the server's pages.
    pub(crate) fn origin(&self) -> String {
        format!("Origin: {}", self.server.url(""))
    }

    /// Sends a form of a page.
    pub(crate) fn submit(&self, path: &str, fields: &[(&str, &str)]) -> Page {
        let origin = self.origin();
        let fields: Vec<String> = fields
            .iter()
            .flat_map(|(name, value)| ["--data-urlencode".to_owned(), format!("{name}={value}")])
            .collect();
        let mut arguments = vec!["--header", origin.as_str(), "--header", "Sec-Fetch-Mode: navigate"];
        arguments.extend(fields.iter().map(String::as_str));
        self.send(path, &arguments)
    }

    /// Sends a form of a page, with the token of the session.
    pub(crate) fn act(&self, path: &str, fields: &[(&str, &str)]) -> Page {
        let csrf = self.open("/console/").csrf();
        self.submit(path, &[&[("csrf", csrf.as_str())], fields].concat())
    }

    pub(crate) fn sign_in(&self, user: &str) -> Page {
        let page = self.submit("/console/sign-in", &[("user", user), ("password", PASSWORD)]);
        assert_eq!(page.status, 303, "{}\n{}", page.text(), self.server.log());
        page
    }

    /// The value of the cookie of the console.
    pub(crate) fn cookie(&self) -> String {
        let jar = std::fs::read_to_string(self.jar()).unwrap_or_default();
        let is_it = |fields: &Vec<&str>| fields.len() == 7 && fields[5] == "__Host-enfilade-console";
        let mut lines = jar.lines().map(|line| line.split('\t').collect::<Vec<_>>());
        lines.find(is_it).map(|fields| fields[6].to_owned()).unwrap_or_default()
    }
}

/// A server with the users alice and bob, who have passwords and roles on `main`.
pub(crate) fn server() -> Server {
    server_with(&[])
}

/// As [`server`], with settings in the environment.
pub(crate) fn server_with(environment: &[(&str, &str)]) -> Server {
    let server = Server::start_with(environment);
    for (name, role) in [("alice", "DatastorePowerUser"), ("bob", "DatastoreReader")] {
        server.add_user(name, role);
        set_password(&server, &format!("{name}@local"));
    }
    server
}

pub(crate) fn set_password(server: &Server, user: &str) {
    let set = server.cli_output(&["user", "passwd", user, "--password-stdin"], PASSWORD);
    assert!(set.status.success(), "{}", String::from_utf8_lossy(&set.stderr));
}
