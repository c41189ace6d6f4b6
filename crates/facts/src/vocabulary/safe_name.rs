//! The names of datastores and of applications. Datastores and applications are identified by their names. Datastores have no ids, because
//! `datastore.cfg` contains none. Applications have no ids, because roles are assigned on paths that contain the name of the application.

use super::{Malformed, Word, is_safe_id};
use crate::limits;
use std::fmt;
use std::str::FromStr;

/// Whether the text has 3 to 32 bytes and the form of Proxmox's `SAFE_ID`, in which dots are allowed.
fn is_name(text: &str) -> bool {
    let bytes = limits::DATASTORE_NAME_BYTES_MIN..=limits::DATASTORE_NAME_BYTES_MAX;
    bytes.contains(&text.len()) && is_safe_id(text)
}

macro_rules! safe_names {
    ($($(#[doc = $about:literal])+ $Name:ident: $what:literal;)+) => {$(
        $(#[doc = $about])+
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $Name(Word);

        impl $Name {
            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $Name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $Name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl FromStr for $Name {
            type Err = Malformed;
            fn from_str(text: &str) -> Result<Self, Malformed> {
                if is_name(text) {
                    return Ok($Name(text.into()));
                }
                Err(Malformed::new(
                    $what,
                    text,
                    "expected 3 to 32 letters, digits, `_`, `.` or `-`, not starting with `.` or `-`",
                ))
            }
        }
    )+};
}

safe_names! {
    /// The name of a datastore: a text of 3 to 32 bytes in the form of Proxmox's `SAFE_ID`, in which dots are allowed.
    DatastoreName: "datastore name";
    /// The name of an application, under the same rule as the name of a datastore.
    ApplicationName: "application name";
}
