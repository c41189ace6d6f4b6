//! The systemd service that the package installs.

use crate::home::Home;
use crate::{example, operations, output, owner};
use anyhow::{Context, bail, ensure};
use enfilade_sources::files::atomic;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The data directory in the unit of the package.
const DATA: &str = "/var/lib/enfilade";
const UNIT: &str = "enfilade.service";
/// The directories in which systemd finds units of packages and of administrators.
const UNITS: [&str; 3] = ["/etc/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"];
/// The drop-in file of the unit. It lists the directories of datastores to which the service may write.
const ADDITION: &str = "/etc/systemd/system/enfilade.service.d/datastores.conf";
/// The directories that the unit hides from the server: home directories (`ProtectHome`), and temporary files of other processes (`PrivateTmp`).
const HIDDEN: [&str; 5] = ["/home", "/root", "/run/user", "/tmp", "/var/tmp"];

/// The way in which the server of a data directory is started.
pub(super) enum Service {
    /// The unit of the package serves this data directory.
    Systemd {
        /// Whether this process may start the service.
        is_root: bool,
    },
    /// An operator starts `enfilade serve`.
    ByHand,
}

/// Whether a server runs at the end of the command.
pub(super) enum Running {
    /// A server ran already, or was started.
    Yes,
    /// No server runs, or the running server cannot write to the datastore yet. The text is the command that starts or restarts the server.
    No(String),
}

impl Service {
    pub(super) fn find(data: &Path) -> Self {
        let is_of_unit = std::path::absolute(data).is_ok_and(|data| data == Path::new(DATA));
        let has_unit = UNITS.iter().any(|place| Path::new(place).join(UNIT).exists());
        // systemd documents this test: sd_booted(3).
        let is_booted = Path::new("/run/systemd/system").is_dir();
        match is_of_unit && has_unit && is_booted {
            true => Service::Systemd { is_root: rustix::process::geteuid().is_root() },
            false => Service::ByHand,
        }
    }

    /// Whether this command can start the service.
    pub(super) fn can_start(&self) -> bool {
        matches!(self, Service::Systemd { is_root: true })
    }

    /// Refuses a directory that the unit hides from the server.
    pub(super) fn refuse_unreachable(&self, path: Option<&Path>) -> anyhow::Result<()> {
        let Some(path) = path.map(std::path::absolute).transpose()? else { return Ok(()) };
        let hidden = HIDDEN.iter().find(|hidden| path.starts_with(hidden));
        match (self, hidden) {
            (Service::Systemd { .. }, Some(hidden)) => bail!(
                "the service cannot reach `{}`, because its unit hides `{hidden}`; nothing was changed; give a directory elsewhere, such as /srv/files",
                path.display()
            ),
            _ => Ok(()),
        }
    }

    /// If `agreed` is set and this process may start the service, starts it, and gives it access to a datastore outside of the data directory.
    /// Otherwise returns the command that starts or restarts the server, if a start or restart is needed.
    pub(super) fn start(&self, home: &Home, datastore: &str, agreed: bool) -> anyhow::Result<Running> {
        let outside = Some(datastore).filter(|path| !Path::new(path).starts_with(&home.data));
        let Service::Systemd { is_root } = self else {
            return Ok(match operations::is_served(&home.data) {
                true => Running::Yes,
                false => Running::No(by_hand(home)),
            });
        };
        if !(agreed && *is_root) {
            let also = outside.filter(|path| !is_added(path)).map(|path| {
                format!(
                    "mkdir -p {} && printf '[Service]\\nReadWritePaths=%s\\n' {} >> {ADDITION} && systemctl daemon-reload && ",
                    ADDITION.trim_end_matches("/datastores.conf"),
                    output::word(&in_unit(path))
                )
            });
            return Ok(match (operations::is_served(&home.data), also) {
                (true, None) => Running::Yes,
                (true, Some(also)) => Running::No(format!("{also}systemctl restart enfilade")),
                (false, also) => {
                    Running::No(format!("{}systemctl enable --now enfilade", also.unwrap_or_default()))
                }
            });
        }
        let is_new = outside.map(add).transpose()?.unwrap_or(false);
        if is_new {
            systemctl(&["daemon-reload"])?;
        }
        systemctl(&["enable", "--now", UNIT])?;
        if is_new {
            systemctl(&["restart", UNIT])?;
        }
        Ok(Running::Yes)
    }
}

/// The command that starts the server as the owner of the data directory.
fn by_hand(home: &Home) -> String {
    let owner = std::fs::metadata(&home.data).map_or(0, |meta| meta.uid());
    if !rustix::process::geteuid().is_root() || owner == 0 {
        return example::command(home, "serve");
    }
    let data = output::word(&home.data.display().to_string());
    format!("runuser -u {} -- enfilade --data {data} serve", output::word(&owner::name_of(owner)))
}

/// A path in the form that a unit needs (systemd.syntax(7)): in quotes, with `\` and `"` escaped, and with `%` doubled.
fn in_unit(path: &str) -> String {
    format!("\"{}\"", path.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%"))
}

fn line_of(path: &str) -> String {
    format!("ReadWritePaths={}", in_unit(path))
}

fn is_added(path: &str) -> bool {
    std::fs::read_to_string(ADDITION).is_ok_and(|text| text.lines().any(|line| line == line_of(path)))
}

/// Lets the service write to a directory. Returns whether the unit was changed.
fn add(path: &str) -> anyhow::Result<bool> {
    if is_added(path) {
        return Ok(false);
    }
    let old = std::fs::read_to_string(ADDITION).unwrap_or_else(|_| {
        "# Written by `enfilade setup`: the directories of datastores outside of the data directory.\n[Service]\n".to_owned()
    });
    let place = PathBuf::from(ADDITION);
    let failed = || {
        format!(
            "`{ADDITION}`, which lets the service write to `{path}`, cannot be written; the user, the datastore and the token exist; correct the cause, and run the command again"
        )
    };
    std::fs::create_dir_all(place.parent().unwrap_or(&place)).with_context(failed)?;
    let text = format!("{old}{}\n", line_of(path));
    atomic::write(&place, text.as_bytes(), 0o644).with_context(failed)?;
    output::note(&format!("`{ADDITION}` lets the service write to `{path}`"));
    Ok(true)
}

fn systemctl(words: &[&str]) -> anyhow::Result<()> {
    let line = format!("systemctl {}", words.join(" "));
    let status = Command::new("systemctl").args(words).status();
    let status = status.with_context(|| format!("`{line}` cannot be run: start the service in another way; the user, the datastore and the token exist"))?;
    ensure!(
        status.success(),
        "`{line}` failed; the reason is in `journalctl -u enfilade`. The user, the datastore and the token exist. After you correct the cause, run the same `enfilade setup` again: it starts the service"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_in_a_unit_is_quoted() {
        assert_eq!(line_of("/srv/my files"), "ReadWritePaths=\"/srv/my files\"");
        assert_eq!(in_unit("/srv/100%\"x\\"), "\"/srv/100%%\\\"x\\\\\"");
    }

    #[test]
    fn a_datastore_that_the_unit_hides_is_refused() {
        let service = Service::Systemd { is_root: true };
        let why = service.refuse_unreachable(Some(Path::new("/var/tmp/files"))).unwrap_err().to_string();
        assert!(why.contains("hides `/var/tmp`"), "{why}");
        service.refuse_unreachable(Some(Path::new("/var/tmpfiles"))).unwrap();
        Service::ByHand.refuse_unreachable(Some(Path::new("/tmp/files"))).unwrap();
    }
}
