//! Checks of the limits (confinement) that the kernel enforces on the running servers.

use super::{Finding, error, warning, well};
use crate::confinement::State;
use crate::control;
use crate::home::Installation;
use enfilade_privileged::client::{self, Connection};

/// For each kind of limit, a finding about the running server with the worst state. Also a finding about the helper. If no server runs, the finding
/// about a limit says what the configuration contains.
pub(super) fn check(installation: &Installation) -> Vec<Finding> {
    let privileges = &installation.config.privileges;
    let servers = control::limits(&installation.data).unwrap_or_default();
    let rows = [
        (
            "landlock",
            "the server may open only the files and ports that it knew at its start",
            privileges.landlock,
        ),
        ("seccomp", "the server may make only the system calls that it needs", privileges.seccomp),
    ];
    let of_kind = |(what, says, is_on): (&'static str, &str, bool)| {
        let mut states: Vec<State> = servers
            .iter()
            .map(|server| if what == "landlock" { server.landlock } else { server.seccomp })
            .collect();
        states.sort();
        // If several servers run, the finding contains the worst of their states.
        match (states.last(), is_on) {
            (Some(State::Set), _) => well(what, says),
            (Some(State::Partly), _) => warning(
                what,
                format!(
                    "the kernel is too old, and enforces only a part of this limit ({says}): update the kernel"
                ),
            ),
            (Some(State::Missing), _) => warning(
                what,
                format!(
                    "the kernel does not support this limit ({says}), so nothing enforces it: update the kernel"
                ),
            ),
            (Some(State::Off), _) | (None, false) => warning(
                what,
                format!("switched off: set `[privileges] {what} = true`, and restart the server"),
            ),
            (None, true) => well(what, "the configuration switches this limit on, but no server runs"),
        }
    };
    rows.into_iter().map(of_kind).chain(helper()).collect()
}

/// Whether the helper process answers, if a helper is configured.
fn helper() -> Option<Finding> {
    let path = client::helper()?.display();
    Some(match Connection::open() {
        Ok(_) => well("helper", format!("the helper process answers at `{path}`")),
        Err(why) => error(
            "helper",
            format!(
                "the helper process does not answer at `{path}`: {why}; run `systemctl restart enfilade-privileged.socket`"
            ),
        ),
    })
}
