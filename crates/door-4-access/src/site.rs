//! How requests name applications.

use enfilade_facts::vocabulary::{ApplicationName, HostName};
use std::fmt;

/// How a request names its application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Site {
    /// By the host of a URL.
    Host(HostName),
    /// By name.
    Named(ApplicationName),
}

impl Site {
    /// The host or the name, as text.
    pub fn as_str(&self) -> &str {
        match self {
            Site::Host(host) => host.as_str(),
            Site::Named(name) => name.as_str(),
        }
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
