//! Requests for files, each to a random member. One member serves the files, and the other members pass requests on.

use super::{Client, Ends, Run, Writer, credential};
use crate::decision_campaigns::seed;
use crate::kill_loop::Random;
use std::sync::atomic::Ordering;

const READER: &str = "files@local";

/// Writes files and reads them. After a confirmed write, the content is the written content. A revoked token reads nothing.
pub(super) fn write_and_read(run: &Run) {
    let _ends = Ends(run);
    let clients = (0..run.addresses.len()).map(|member| Client::new(&run.addresses[member])).collect();
    let mut files = Files(Writer { run, clients, random: Random(seed() + 300) });
    files.0.change("POST", "users", &format!("userid={READER}"));
    files.0.change("PUT", "acl", &reads(READER));
    let mut name = String::new();
    for nth in 0_u64.. {
        if run.is_over() {
            return;
        }
        // In most cases, the same file is written again.
        if name.is_empty() || nth.is_multiple_of(8) {
            name = format!("f{nth}");
        }
        let path = format!("/dav/main/{name}");
        let content = format!("{nth} ").repeat(1 + files.0.random.below(2_000) as usize);
        match files.ask("PUT", &path, &run.admin, &content) {
            Some((201 | 204, _)) => files.expect(&path, &run.admin, &content),
            // The server may write the file later, so the test does not use this name again.
            Some((503 | 507, _)) | None => {
                name.clear();
                continue;
            }
            Some((status, text)) => panic!("PUT {path}: {status} {text}"),
        }
        if nth.is_multiple_of(4) {
            let _ = files.give_and_take(&path, &content, nth);
        }
    }
}

/// The body of a request that assigns the role of a reader.
fn reads(authid: &str) -> String {
    format!("path=/datastore/main&role=DatastoreReader&auth-id={authid}")
}

struct Files<'a>(Writer<'a>);

impl Files<'_> {
    fn ask(&mut self, method: &str, path: &str, login: &str, body: &str) -> Option<(u16, String)> {
        let nth = self.0.random.below(self.0.clients.len() as u64) as usize;
        self.0.clients[nth].ask(method, path, &credential(login), body)
    }

    /// Reads a file at a member. Either the member answers with this content, or it does not answer with content.
    fn expect(&mut self, path: &str, login: &str, content: &str) {
        match self.ask("GET", path, login, "") {
            Some((200, read)) => {
                assert!(read == content, "stale: {path} has other content than was confirmed: {read:.40}");
                self.0.run.counts.files_read.fetch_add(1, Ordering::Relaxed);
            }
            Some((503, _)) | None => {}
            Some((status, text)) => panic!("lost: GET {path}: {status} {text}"),
        }
    }

    /// Lets a token read, and deletes the token. Returns `None` if it is not known whether a change was made.
    fn give_and_take(&mut self, path: &str, content: &str, nth: u64) -> Option<()> {
        let login = self.0.add_token(READER, &format!("t{nth}"))?;
        self.0.change("PUT", "acl", &reads(login.split(':').next()?))?;
        self.expect(path, &login, content);
        self.0.change("DELETE", &format!("users/{READER}/token/t{nth}"), "")?;
        for _ in 0..3 {
            match self.ask("GET", path, &login, "") {
                Some((401, _)) => drop(self.0.run.counts.files_refused.fetch_add(1, Ordering::Relaxed)),
                Some((503, _)) | None => {}
                Some((status, _)) => panic!("stale: a revoked token got {status} for {path}"),
            }
        }
        Some(())
    }
}
