//! The wall clocks of the members, which the test can set while the members run, and the other variables of their environment.

use super::KEYS_MAX;
use crate::command::preload;
use crate::server::{Scratch, WITHOUT_PENALTIES, free_port};
use std::fs::File;
use std::os::unix::fs::FileExt as _;

/// The wall clock of each member. A file contains the number of seconds by which the clock is ahead.
pub(super) struct Clocks {
    files: Vec<(String, File)>,
    /// For each member, the address of its listener for members.
    listeners: Vec<String>,
    _scratch: Scratch,
}

impl Clocks {
    pub(super) fn new(members: usize) -> Self {
        let scratch = Scratch::new();
        let file = |member: usize| {
            let path = scratch.path().join(format!("ahead{member}"));
            std::fs::write(&path, [0; 8]).unwrap();
            let file = File::options().write(true).open(&path).unwrap();
            (path.to_str().unwrap().to_owned(), file)
        };
        let listeners = (0..members).map(|_| format!("127.0.0.1:{}", free_port())).collect();
        Clocks { files: (0..members).map(file).collect(), listeners, _scratch: scratch }
    }

    /// The environment of a member. Sessions are valid for a longer time than the largest error of the clock, and keys that signed a session are not
    /// deleted.
    pub(super) fn environment(&self, member: usize) -> Vec<(&str, &str)> {
        vec![
            WITHOUT_PENALTIES,
            ("LD_PRELOAD", preload().to_str().unwrap()),
            ("CLOCK_AHEAD", &self.files[member].0),
            ("ENFILADE_FLEET__LISTEN", &self.listeners[member]),
            ("ENFILADE_IDENTITY__TOKEN_SECONDS", "36000"),
            KEYS_MAX,
        ]
    }

    /// Sets the clock of a member this many seconds ahead of the right time.
    pub(super) fn set(&self, member: usize, ahead: i64) {
        self.files[member].1.write_all_at(&ahead.to_le_bytes(), 0).unwrap();
    }
}
