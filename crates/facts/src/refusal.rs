//! The types that the refusals of all five doors share.

use std::fmt;

/// One of the five doors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Door {
    /// Which certificate does a client get for this server name?
    Tls,
    /// Which principal does the credential prove?
    Identity,
    /// Does the datastore exist, and is it open for this kind of operation?
    Datastore,
    /// What may the principal do, and what does it see?
    Access,
    /// Reads and writes the bytes.
    Content,
}

impl Door {
    /// The doors, in the order in which they check a request.
    pub const ALL: [Door; 5] = [Door::Tls, Door::Identity, Door::Datastore, Door::Access, Door::Content];

    /// The door's name in logs, metrics and `explain`.
    pub fn name(self) -> &'static str {
        match self {
            Door::Tls => "tls",
            Door::Identity => "identity",
            Door::Datastore => "datastore",
            Door::Access => "access",
            Door::Content => "content",
        }
    }
}

impl fmt::Display for Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The side that must act on a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The client: for example, the credential or the path is wrong, or a right is missing.
    Client,
    /// The operator: the cause is a setting or a state that the operator controls.
    Operator,
    /// The source: the facts or the content cannot be read or written, and the operator must act.
    Source,
}

impl Fault {
    /// The word used in logs, metrics and `explain`.
    pub fn name(self) -> &'static str {
        match self {
            Fault::Client => "client",
            Fault::Operator => "operator",
            Fault::Source => "source",
        }
    }
}

/// A row of a door's table of refusals. The log, metrics, `enfilade explain` and the reference use the row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefusalRow {
    /// Stable code: two letters of the door and two digits.
    pub code: &'static str,
    /// The side that must act.
    pub fault: Fault,
    /// The reason for the refusal.
    pub meaning: &'static str,
    /// The next step for the side that must act.
    pub action: &'static str,
}

impl RefusalRow {
    /// A row.
    pub const fn new(code: &'static str, fault: Fault, meaning: &'static str, action: &'static str) -> Self {
        RefusalRow { code, fault, meaning, action }
    }

    /// The side that must act on the refusal with this code; `Source` if the table does not contain the code.
    pub fn fault_of(table: &[RefusalRow], code: &str) -> Fault {
        table.iter().find(|row| row.code == code).map_or(Fault::Source, |row| row.fault)
    }
}

/// A refusal: its door, a stable code, and the side that must act. The `Display` text is for the operator, never for the client.
pub trait Refuse: fmt::Display + fmt::Debug {
    /// The door that refused.
    fn door(&self) -> Door;
    /// Stable code, two letters of the door and two digits; see `docs/refusals.md`.
    fn code(&self) -> &'static str;
    /// The side that must act.
    fn fault(&self) -> Fault;
}
