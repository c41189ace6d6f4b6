//! Notices that the configuration file was lost. Without the file, every key would have its default. For example, a server would no longer ask for
//! client certificates, and a command would read the edited files of another directory. So the data directory contains a record that the file
//! existed. If the record exists and the file does not exist, no server starts, and only the commands that examine or restore a data directory work.

use super::{FILE, path};
use anyhow::{anyhow, ensure};
use enfilade_sources::files::atomic;
use std::path::Path;

/// The name of the record, in the data directory.
pub(crate) const RECORD: &str = "enfilade.toml.required";
const TEXT: &[u8] =
    b"This data directory has had an enfilade.toml: without that file, no server starts here.\n";

/// Writes the record, if the configuration file is in the data directory. A file given with `--config` is not recorded: if that file is missing,
/// every start fails anyway.
pub(crate) fn remember(data: &Path, file: Option<&Path>, group: Option<u32>) -> anyhow::Result<()> {
    let record = data.join(RECORD);
    if file.is_some() || record.exists() || !data.join(FILE).exists() {
        return Ok(());
    }
    let written = atomic::write_shared(&record, TEXT, group);
    written.map_err(|why| {
        anyhow!(
            "cannot write `{}`: {why}; without this file, the server cannot detect a missing configuration file at a later start; correct the \
             permissions of the directory",
            record.display()
        )
    })
}

/// Whether the configuration file exists, or the data directory has the record that it existed.
pub(crate) fn had(data: &Path, file: Option<&Path>) -> bool {
    path(data, file).exists() || file.is_none() && data.join(RECORD).exists()
}

/// Refuses a data directory if its configuration file existed before, and is missing now.
pub(crate) fn refuse_lost(data: &Path, file: Option<&Path>) -> anyhow::Result<()> {
    let path = path(data, file);
    ensure!(path.exists() || !had(data, file), lost_file(&path));
    Ok(())
}

/// The error for a configuration file that existed before, and is missing now.
pub(crate) fn lost_file(path: &Path) -> String {
    let path = path.display();
    format!(
        "configuration `{path}` is missing, but existed before. Restore it from a backup, or give its new path with --config. Make an empty file \
         (`touch '{path}'`) only if every key may have its default: then, for example, no client is asked for a certificate"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_there_is_missed_and_an_empty_one_is_a_decision() {
        let scratch = enfilade_testkit::Scratch::new();
        let (data, toml) = (scratch.path(), scratch.path().join(FILE));
        remember(data, None, None).unwrap();
        assert!(!had(data, None) && refuse_lost(data, None).is_ok(), "there never was one");
        std::fs::write(&toml, "[tls]\nstrict_sni = true\n").unwrap();
        // A file given with `--config` needs no record.
        remember(data, Some(&toml), None).unwrap();
        assert!(!data.join(RECORD).exists());
        remember(data, None, None).unwrap();
        refuse_lost(data, None).unwrap();
        std::fs::remove_file(&toml).unwrap();
        assert!(had(data, None));
        let why = refuse_lost(data, None).unwrap_err().to_string();
        assert!(why.contains("is missing, but existed before. ") && why.contains("touch '"), "{why}");
        assert!(why.contains("Restore it from a backup, or give"), "{why}");
        refuse_lost(data, Some(Path::new("/elsewhere.toml"))).unwrap();
        std::fs::write(&toml, "").unwrap();
        refuse_lost(data, None).unwrap();
    }
}
