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

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Site::Host(host) => host.fmt(f),
            Site::Named(name) => name.fmt(f),
        }
    }
}
