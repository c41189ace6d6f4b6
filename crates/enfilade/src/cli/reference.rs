//! The tables of `enfilade reference`.

use clap::ValueEnum;

/// What a table is about.
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
    /// Commands and their arguments
    Commands,
    /// Changes that end sessions
    Endings,
}
