//! The pages that are written from tables in the code.

use std::path::Path;

/// Writes them anew.
pub(crate) fn write(root: &Path) -> Result<(), String> {
    for (path, page) in xtask::tidy::WRITTEN {
        let page = page(root)?;
        std::fs::write(root.join(path), page).map_err(|why| format!("`{path}` cannot be written: {why}"))?;
    }
    Ok(())
}
