//! Refusals: the datastore does not exist or is not open.

use crate::fleet_place::UNKNOWN;
use enfilade_facts::vocabulary::{DatastoreName, Maintenance, OperationKind};
use enfilade_facts::{Door, Fault, RefusalRow, Refuse, SourceError};

/// A refusal of door 3.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The datastore does not exist.
    #[error("there is no datastore `{0}`")]
    Unknown(DatastoreName),
    /// The maintenance mode closes the datastore for this kind of operation.
    #[error("datastore `{name}` is in maintenance mode `{}`, which refuses every {kind}{}", maintenance.mode.name(), said(maintenance))]
    Maintenance {
        /// The datastore.
        name: DatastoreName,
        /// The kind of the operation.
        kind: OperationKind,
        /// The maintenance mode and its message.
        maintenance: Maintenance,
    },
    /// An unknown maintenance mode: the datastore refuses every operation until the mode is corrected.
    #[error(
        "datastore `{name}` has the unknown maintenance mode `{mode}`: expected read-only, offline, unmount, s3-refresh or delete"
    )]
    UnknownMode {
        /// The datastore.
        name: DatastoreName,
        /// The text of the unknown mode.
        mode: String,
    },
    /// The datastore has a mount point, and nothing is mounted there.
    #[error("datastore `{name}` is not mounted; mount its file system at `{point}`")]
    NotMounted {
        /// The datastore.
        name: DatastoreName,
        /// The mount point.
        point: String,
    },
    /// `datastore.cfg` or the section of the datastore cannot be read, or no server has checked the file for longer than the stale limit.
    #[error("datastore `{name}` cannot be read from datastore.cfg{}: {reason}", at_line(*line))]
    Broken {
        /// The datastore.
        name: DatastoreName,
        /// The line of the problem; 0 if the problem does not belong to a single line.
        line: u32,
        /// The problem.
        reason: String,
    },
    /// The ledger has no place for another datastore. A datastore keeps its place until the server ends.
    #[error(
        "the operation ledger is full: this server has served {0} datastores since its start; restart the server"
    )]
    LedgerFull(usize),
    /// Another member of the fleet serves the datastore.
    #[error("{}", elsewhere(name, member))]
    Elsewhere {
        /// The datastore.
        name: DatastoreName,
        /// The name of the member; [`UNKNOWN`] if no member serves the datastore now.
        member: String,
    },
    /// The stored facts could not be read.
    #[error(transparent)]
    Facts(#[from] SourceError),
}

fn said(maintenance: &Maintenance) -> String {
    maintenance.message.as_ref().map(|message| format!("; message: {message}")).unwrap_or_default()
}

fn at_line(line: u32) -> String {
    if line == 0 { String::new() } else { format!(", line {line}") }
}

/// Every refusal of this door.
#[rustfmt::skip]
pub const CODES: [RefusalRow; 8] = [
    RefusalRow::new("DS01", Fault::Client, "no such datastore", "check the name: `enfilade datastore list`"),
    RefusalRow::new("DS02", Fault::Operator, "the datastore's maintenance mode forbids this kind of operation", "open the datastore with `enfilade datastore maintenance NAME none`"),
    RefusalRow::new("DS03", Fault::Operator, "the datastore's maintenance mode is unknown", "set a known mode with `enfilade datastore maintenance NAME MODE`"),
    RefusalRow::new("DS04", Fault::Operator, "the datastore's file system is not mounted", "mount the file system"),
    RefusalRow::new("DS05", Fault::Operator, "the datastore's section of `datastore.cfg` cannot be read, or no server has read the file for longer than the stale limit", "`enfilade doctor` shows the reason: correct the line, or start a server if none runs; in a fleet, start the server of the files member"),
    RefusalRow::new("DS06", Fault::Operator, "the server has served too many different datastores since its start", "restart the server; remove datastores, or move some to another server"),
    RefusalRow::new("DS07", Fault::Source, "the record of the datastore could not be read", "run `enfilade facts check`; the log says why the facts cannot be read"),
    RefusalRow::new("DS08", Fault::Client, "another member of the fleet serves the datastore", "send requests for the datastore to that member (`enfilade datastore list` shows the member), or set `[fleet] listen` (docs/fleet.md)"),
];

fn elsewhere(name: &DatastoreName, member: &str) -> String {
    match member {
        UNKNOWN => format!(
            "no member of the fleet serves datastore `{name}` now, because another member becomes the files member. If this lasts longer than 15 s, run `enfilade fleet follow-files` on the member that should become the files member"
        ),
        member => format!("datastore `{name}` is served by member `{member}` of the fleet"),
    }
}

impl Refuse for Refusal {
    fn door(&self) -> Door {
        Door::Datastore
    }

    fn code(&self) -> &'static str {
        match self {
            Refusal::Unknown(_) => "DS01",
            Refusal::Maintenance { .. } => "DS02",
            Refusal::UnknownMode { .. } => "DS03",
            Refusal::NotMounted { .. } => "DS04",
            Refusal::Broken { .. } => "DS05",
            Refusal::LedgerFull(_) => "DS06",
            Refusal::Facts(_) => "DS07",
            Refusal::Elsewhere { .. } => "DS08",
        }
    }

    fn fault(&self) -> Fault {
        RefusalRow::fault_of(&CODES, self.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_has_its_fault_and_says_what_is_wrong() {
        let name: DatastoreName = "tank".parse().unwrap();
        let maintenance = |text: &str| Refusal::Maintenance {
            name: name.clone(),
            kind: OperationKind::Write,
            maintenance: Maintenance::from_property(text),
        };
        let broken = |line| Refusal::Broken { name: name.clone(), line, reason: "no path".into() };
        for (refusal, fault, said) in [
            (Refusal::Unknown(name.clone()), Fault::Client, "there is no datastore `tank`"),
            (
                maintenance("read-only"),
                Fault::Operator,
                "datastore `tank` is in maintenance mode `read-only`, which refuses every write",
            ),
            (
                maintenance("type=offline,message=moves"),
                Fault::Operator,
                "datastore `tank` is in maintenance mode `offline`, which refuses every write; message: moves",
            ),
            (
                Refusal::UnknownMode { name: name.clone(), mode: "off".into() },
                Fault::Operator,
                "datastore `tank` has the unknown maintenance mode `off`: expected read-only, offline, unmount, s3-refresh or delete",
            ),
            (
                Refusal::NotMounted { name: name.clone(), point: "/mnt/tank".into() },
                Fault::Operator,
                "datastore `tank` is not mounted; mount its file system at `/mnt/tank`",
            ),
            (
                broken(3),
                Fault::Operator,
                "datastore `tank` cannot be read from datastore.cfg, line 3: no path",
            ),
            (broken(0), Fault::Operator, "datastore `tank` cannot be read from datastore.cfg: no path"),
            (
                Refusal::LedgerFull(2),
                Fault::Operator,
                "the operation ledger is full: this server has served 2 datastores since its start; restart the server",
            ),
            (Refusal::Facts(SourceError::Unavailable("no disk".into())), Fault::Source, ""),
        ] {
            assert_eq!(refusal.fault(), fault, "{refusal}");
            assert!(refusal.to_string().starts_with(said), "{refusal}");
            assert_eq!(refusal.to_string() == said, !said.is_empty(), "{refusal}");
        }
    }
}
