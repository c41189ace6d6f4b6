//! Limits that the server sets for its own process in the kernel. Landlock limits the files and ports that the process may open. seccomp limits the
//! system calls that it may make. So if code of an attacker runs in the process, the code can do little.
//!
//! If the kernel does not support a limit, the server logs this and starts. If the kernel supports a limit but refuses to set it, the server does not
//! start.

mod places;
mod system_calls;

use crate::certificates::WatchedList;
use crate::config::{Config, Tls};
use crate::home::Installation;
use crate::output;
use crate::reserved::certificate_directories;
use anyhow::Context as _;
use landlock::RulesetStatus;
use places::Places;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Whether a limit is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum State {
    Set,
    /// The kernel is too old for the whole limit, and enforces only some of the restrictions.
    Partly,
    /// The kernel does not support the limit.
    Missing,
    /// The configuration switches the limit off.
    Off,
}

/// The limits of a server. Commands ask the server for them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
pub(crate) struct Confinement {
    /// The process id of the server.
    pub(crate) server: u32,
    pub(crate) landlock: State,
    pub(crate) seccomp: State,
    /// The directories in which the server can open content of datastores. Each directory is given by its device and inode. `None` if the server can
    /// open content in all directories.
    pub(crate) openable: Option<BTreeSet<(u64, u64)>>,
    /// The directories in which the server can read files such as certificates. The form is the same as that of `openable`.
    readable: Option<BTreeSet<(u64, u64)>>,
}

impl Confinement {
    /// Limits the files that this process can open, and the TCP ports that it can use (Landlock). When this function is called, the process has no
    /// other thread, except the threads that open the directories of datastores. `config` includes the addresses from the command line. `list`
    /// contains the links in the directory of certificates. If it is `None`, this function reads the links itself.
    ///
    /// # Errors
    /// When the kernel has Landlock but refuses to set the limits.
    pub(crate) fn of_files(
        installation: &Installation,
        config: &Config,
        list: Option<&WatchedList>,
    ) -> anyhow::Result<Confinement> {
        let mut limits = Confinement {
            server: std::process::id(),
            landlock: State::Off,
            seccomp: State::Off,
            openable: None,
            readable: None,
        };
        if !config.privileges.landlock {
            return Ok(limits);
        }
        let places = Places::of(installation, config, list)?;
        let restricted = places.restrict().context(
            "this server cannot limit the files that it may open (Landlock): update the kernel, or set `[privileges] landlock = false`",
        )?;
        limits.landlock = match restricted.status {
            RulesetStatus::FullyEnforced => State::Set,
            RulesetStatus::PartiallyEnforced => State::Partly,
            RulesetStatus::NotEnforced => State::Missing,
        };
        if limits.landlock == State::Missing {
            output::note(
                "the kernel has no Landlock, so this server may open every file that its user may open",
            );
            return Ok(limits);
        }
        limits.openable = Some(restricted.openable);
        limits.readable = Some(restricted.readable);
        Ok(limits)
    }

    /// Limits the system calls that this process can make (seccomp), for all threads.
    ///
    /// # Errors
    /// When the kernel has seccomp but refuses to set the limits.
    pub(crate) fn limit_calls(&mut self, config: &Config) -> anyhow::Result<()> {
        if !config.privileges.seccomp {
            return Ok(());
        }
        if !system_calls::is_supported() {
            self.seccomp = State::Missing;
            output::note("the kernel has no seccomp filters, so this server may make every system call");
            return Ok(());
        }
        system_calls::restrict().context(
            "this server cannot limit the system calls that it may make (seccomp): update the kernel, or set `[privileges] seccomp = false`",
        )?;
        self.seccomp = State::Set;
        Ok(())
    }

    /// Which limits are set, for the metrics.
    pub(crate) fn states(&self) -> [(&'static str, bool); 2] {
        let is_set = |state| matches!(state, State::Set | State::Partly);
        [("landlock", is_set(self.landlock)), ("seccomp", is_set(self.seccomp))]
    }

    /// Refuses a new directory or crt-list of certificates that the server cannot read without a restart.
    ///
    /// # Errors
    /// When a directory is not in one of the directories that the server could read at its start.
    pub(crate) fn refuse_unreadable(&self, tls: &Tls, data: &Path) -> anyhow::Result<()> {
        let Some(readable) = &self.readable else { return Ok(()) };
        let directories = certificate_directories(&tls.place(data)).into_iter().chain(tls.issuers.clone());
        for directory in directories.filter(|directory| directory.is_dir()) {
            anyhow::ensure!(
                is_in(&directory, readable),
                "the server may read only directories that it knew at its start, and `{}` is not one of them: restart the server",
                directory.display()
            );
        }
        Ok(())
    }
}

/// Whether a directory is one of these directories, or is in one of them.
fn is_in(directory: &Path, these: &BTreeSet<(u64, u64)>) -> bool {
    let Ok(real) = std::fs::canonicalize(directory) else { return false };
    let mut ids = real.ancestors().filter_map(|above| std::fs::metadata(above).ok());
    ids.any(|found| these.contains(&(found.dev(), found.ino())))
}
