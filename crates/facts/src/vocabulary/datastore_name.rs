//! The name of a datastore. In `datastore.cfg` the name is the identity.

use super::{Malformed, Word, is_safe_id};
use crate::limits;
use std::fmt;
use std::str::FromStr;

/// 3 to 32 bytes of Proxmox's `SAFE_ID`; dots are allowed.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DatastoreName(Word);

impl DatastoreName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DatastoreName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for DatastoreName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for DatastoreName {
    type Err = Malformed;
    fn from_str(text: &str) -> Result<Self, Malformed> {
        let fits =
            (limits::DATASTORE_NAME_BYTES_MIN..=limits::DATASTORE_NAME_BYTES_MAX).contains(&text.len());
        if fits && is_safe_id(text) {
            return Ok(DatastoreName(text.into()));
        }
        Err(Malformed::new(
            "datastore name",
            text,
            "expected 3 to 32 letters, digits, `_`, `.` or `-`, not starting with `.` or `-`",
        ))
    }
}
