//! The author of a change, the description of the change, and the kind of author.

use crate::vocabulary::RequestId;

/// The author and the description of a change, committed in the same transaction as the change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRecord {
    /// The author: an authid, a person at the command line, the edited files that the change mirrors, or the server itself (`enfilade`).
    pub who: String,
    /// The description, in the words of the command line. It never contains a secret.
    pub what: String,
    /// The time of the change, in seconds since the epoch.
    pub unix_seconds: i64,
    /// The request that made the change; `None` if a command or the server itself made the change.
    pub request: Option<RequestId>,
}

/// The kind of author of a change. The kind matters when the store or its disk is nearly full. Users can make any number of changes that only take
/// rights away, and could fill the store with these changes. So the last free space is reserved for administrators who take rights away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Requester {
    /// A user, who changes only the user's own records.
    #[default]
    User,
    /// An administrator, or the server itself.
    Administrator,
    /// A file that people edit. The file has changed already. If the records could not be changed to match the file, the server would have to refuse
    /// every request that needs these records. So this change may use all free space, even if the change gives rights. Commands and requests check
    /// that there is space before they change the file ([`crate::Source::has_room_for`]).
    File,
}
