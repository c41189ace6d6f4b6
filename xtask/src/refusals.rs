//! `docs/refusals.md`, from the tables the doors have of their refusals.

use std::path::Path;

/// Writes the page anew.
pub(crate) fn write(root: &Path) -> Result<(), String> {
    let path = root.join(xtask::tidy::REFUSALS_PAGE);
    let page = xtask::tidy::refusals_page(root)?;
    std::fs::write(&path, page).map_err(|why| format!("`{}` cannot be written: {why}", path.display()))
}
