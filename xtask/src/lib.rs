//! The rules of the repository, as a library, so that tests can check them.

pub mod campaigns;
pub mod figures;
pub mod messages;
pub mod package;
pub mod pages;
pub mod tidy;

use std::path::{Path, PathBuf};

/// The root directory of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}
