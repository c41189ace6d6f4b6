//! Builds an older version of the program. The campaign updates a fleet from this version, member by member.

use super::planted::{cargo, copy_of};
use std::path::PathBuf;

/// The name of the campaign.
pub(super) const NAME: &str = "rolling";

/// The last commit whose program knows only format 13 of the facts.
const COMMIT: &str = "a0b6a32197c5891f983d3f5b8c41b09ae4d822af";

/// Builds the older program. Returns its path.
pub(super) fn build() -> Result<PathBuf, String> {
    let place = xtask::root().join("target/older");
    copy_of(COMMIT, &place)?;
    eprintln!("building the program of commit {COMMIT}");
    let built = cargo(&place).args(["build", "-p", "enfilade", "--bin", "enfilade"]).status();
    match built.is_ok_and(|status| status.success()) {
        true => Ok(place.join("target/debug/enfilade")),
        false => Err(format!("the program of commit {COMMIT} cannot be built, see above")),
    }
}
