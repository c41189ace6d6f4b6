//! The name of a datastore. In `datastore.cfg` the name is the identity.

use super::authid::text_type;
use super::{Malformed, is_safe_id};
use crate::limits;
use std::fmt;
use std::str::FromStr;

text_type! {
    /// 3 to 32 bytes of Proxmox's `SAFE_ID`; dots are allowed.
    DatastoreName
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
