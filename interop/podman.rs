//! Podman with separate storage, and with the options that it needs on this machine.

use crate::debian_root::both;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Options of `podman run` for a machine that is itself a container: Podman may not raise limits there, and the machine may have version 1 of the
/// control groups.
const LESS: [&str; 3] = ["--cgroupns=host", "--ulimit=nofile=1024:1024", "--ulimit=nproc=4096:4096"];

pub(crate) struct Podman {
    place: PathBuf,
    /// Options that precede the command.
    before: Vec<&'static str>,
    /// Options of `run`.
    of_run: Vec<&'static str>,
}

impl Podman {
    pub(crate) fn new(place: &Path) -> Self {
        Podman { place: place.to_owned(), before: Vec::new(), of_run: Vec::new() }
    }

    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("podman");
        command.arg("--root").arg(self.place.join("storage")).arg("--runroot").arg(self.place.join("run"));
        command.args(["--storage-driver", "vfs"]).args(&self.before).args(words);
        command
    }

    /// `podman run` with the options that work on this machine.
    pub(crate) fn run(&self, words: &[&str]) -> Command {
        let mut command = self.command(&["run"]);
        command.args(&self.of_run).args(words);
        command
    }

    /// Finds options with which `podman run` with these words succeeds.
    ///
    /// # Errors
    /// The error text of podman, if no options work.
    pub(crate) fn fit(&mut self, words: &[&str]) -> Result<(), String> {
        let mut last = String::new();
        for (before, of_run) in
            [(&[][..], &[][..]), (&["--runtime=runc"], &LESS), (&["--runtime=crun"], &LESS)]
        {
            (self.before, self.of_run) = (before.to_vec(), of_run.to_vec());
            let tried = self.run(&["--rm"]).args(words).output().map_err(|why| why.to_string())?;
            if tried.status.success() {
                return Ok(());
            }
            last = both(&tried);
        }
        Err(last)
    }

    /// Ends a container, and removes it.
    pub(crate) fn remove(&self, name: &str) {
        let _ = self.command(&["rm", "--force", "--time", "5", name]).output();
    }
}
