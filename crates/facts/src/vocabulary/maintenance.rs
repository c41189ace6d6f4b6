//! Maintenance modes, and the kinds of operation that each mode refuses.

use super::percent_decoded_leniently;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The effect of an operation on a datastore.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OperationKind {
    /// The operation reads only the state of the datastore, such as its used space.
    Lookup,
    /// The operation reads content.
    Read,
    /// The operation changes content.
    Write,
}

impl OperationKind {
    /// The name of the kind.
    pub fn name(self) -> &'static str {
        match self {
            OperationKind::Lookup => "lookup",
            OperationKind::Read => "read",
            OperationKind::Write => "write",
        }
    }
}

impl fmt::Display for OperationKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The reason why a datastore is not open for every operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum MaintenanceMode {
    /// Writes are refused.
    ReadOnly,
    /// Everything except lookups is refused.
    Offline,
    /// The datastore will be unmounted. Everything except lookups is refused.
    Unmount,
    /// The datastore's cache of an object store is being rebuilt. Everything except lookups is refused.
    S3Refresh,
    /// The datastore will be deleted. Every operation is refused.
    Delete,
    /// An unknown mode. Proxmox Backup Server permits writing to a datastore with an unknown mode; this server refuses every operation on it.
    Unknown(String),
}

impl MaintenanceMode {
    /// Reads the name used in `datastore.cfg`.
    pub fn from_name(name: &str) -> Self {
        match name {
            "read-only" => Self::ReadOnly,
            "offline" => Self::Offline,
            "unmount" => Self::Unmount,
            "s3-refresh" => Self::S3Refresh,
            "delete" => Self::Delete,
            other => Self::Unknown(other.to_owned()),
        }
    }

    /// The name used in `datastore.cfg`.
    pub fn name(&self) -> &str {
        match self {
            Self::ReadOnly => "read-only",
            Self::Offline => "offline",
            Self::Unmount => "unmount",
            Self::S3Refresh => "s3-refresh",
            Self::Delete => "delete",
            Self::Unknown(name) => name,
        }
    }
}

impl From<String> for MaintenanceMode {
    fn from(name: String) -> Self {
        MaintenanceMode::from_name(&name)
    }
}

impl From<MaintenanceMode> for String {
    fn from(mode: MaintenanceMode) -> Self {
        mode.name().to_owned()
    }
}

/// A mode, and the operator's message about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Maintenance {
    /// The mode.
    pub mode: MaintenanceMode,
    /// The text that a refused client gets.
    pub message: Option<String>,
}

impl Maintenance {
    /// Reads the property string `[type=]<mode>[,message=<percent-encoded>]`. Any other text becomes an unknown mode, which refuses every operation.
    pub fn from_property(text: &str) -> Self {
        let mut mode = None;
        let mut message = None;
        let mut wrong = false;
        for (index, part) in text.split(',').enumerate() {
            match part.split_once('=') {
                None if index == 0 => mode = Some(part.trim()),
                Some((key, value)) if key.trim() == "type" && mode.is_none() => mode = Some(value.trim()),
                Some((key, value)) if key.trim() == "message" && message.is_none() => message = Some(value),
                _ => wrong = true,
            }
        }
        let mode = match mode {
            Some(mode) if !wrong => MaintenanceMode::from_name(mode),
            _ => MaintenanceMode::Unknown(text.to_owned()),
        };
        Maintenance { mode, message: message.map(percent_decoded_leniently) }
    }

    /// Writes the property string.
    pub fn to_property(&self) -> String {
        let mut text = format!("type={}", self.mode.name());
        if let Some(message) = &self.message {
            text.push_str(",message=");
            for byte in message.bytes() {
                match byte {
                    b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                        text.push(char::from(byte))
                    }
                    other => text.push_str(&format!("%{other:02X}")),
                }
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn property_strings() {
        for (text, mode, message) in [
            ("type=read-only", "read-only", None),
            ("offline", "offline", None),
            ("type=offline,message=new%20disks", "offline", Some("new disks")),
            ("type=offlin", "offlin", None),
            ("type=offline,colour=red", "type=offline,colour=red", None),
            ("", "", None),
        ] {
            let read = Maintenance::from_property(text);
            assert_eq!((read.mode.name(), read.message.as_deref()), (mode, message), "{text}");
        }
        assert!(matches!(Maintenance::from_property("type=offlin").mode, MaintenanceMode::Unknown(_)));
        let full = Maintenance { mode: MaintenanceMode::ReadOnly, message: Some("50 % done, ok".into()) };
        assert_eq!(Maintenance::from_property(&full.to_property()), full);
    }
}
