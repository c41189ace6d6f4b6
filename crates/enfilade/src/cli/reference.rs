//! The tables of `enfilade reference`.

use clap::ValueEnum;

/// The subject of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Subject {
    /// Keys of enfilade.toml, except limits
    Configuration,
    /// Keys of `[limits]`
    Limits,
    /// Limits that cannot be changed
    Fixed,
    /// Codes of refusals
    Refusals,
    /// Metrics of the operations listener
    Metrics,
    /// Routes of HTTP, and the calls of each API
    Routes,
    /// Commands and their arguments
    Commands,
    /// Changes that end sessions
    Endings,
}
