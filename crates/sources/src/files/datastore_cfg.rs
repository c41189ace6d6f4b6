//! `datastore.cfg`: sections as datastores, and editing it as the originals do.

use super::lock::FileLock;
use super::section_config::{self, LineError, Parsed, Section, shown};
use super::{atomic, bounded};
use enfilade_facts::limits::PATH_BYTES_MAX;
use enfilade_facts::tables::Datastore;
use enfilade_facts::vocabulary::{DatastoreName, Maintenance};
use std::io;
use std::path::Path;
use std::time::Duration;

/// The properties of Proxmox Backup Server 4; all are kept, few are acted on.
const KNOWN: [&str; 22] = [
    "path",
    "comment",
    "gc-schedule",
    "gc-on-unmount",
    "prune-schedule",
    "keep-last",
    "keep-hourly",
    "keep-daily",
    "keep-weekly",
    "keep-monthly",
    "keep-yearly",
    "verify-new",
    "notify-user",
    "notify",
    "notification-mode",
    "tuning",
    "maintenance-mode",
    "backing-device",
    "backend",
    "notification-thresholds",
    "counter-reset-schedule",
    "name",
];

/// A file larger than this is no configuration.
pub(crate) const FILE_BYTES_MAX: u64 = 128 * 1024 * 1024;

/// A section larger than this is a mistake, and must not make the change too large that holds its neighbours.
const SECTION_BYTES_MAX: usize = 64 * 1024;
/// How long the originals wait for their lock.
const LOCK_WAIT: Duration = Duration::from_secs(10);

/// What one section says.
pub(crate) fn read(section: &Section) -> Result<(DatastoreName, Datastore), LineError> {
    let at = |line: u32, reason: String| LineError { line, reason };
    if let Some(error) = &section.error {
        return Err(error.clone());
    }
    if section.kind != "datastore" {
        return Err(at(section.line, format!("unknown section type '{}'", shown(&section.kind))));
    }
    let name: DatastoreName = section.id.parse().map_err(|why| at(section.line, format!("{why}")))?;
    let mut datastore = Datastore::default();
    let mut seen: Vec<&str> = Vec::new();
    let mut bytes = 0;
    for (index, (key, value)) in section.properties.iter().enumerate() {
        let line = section.lines.get(index).copied().unwrap_or(section.line);
        if !KNOWN.contains(&key.as_str()) {
            return Err(at(line, format!("unknown property '{}'", shown(key))));
        }
        if seen.contains(&key.as_str()) {
            return Err(at(line, format!("duplicate property '{key}'")));
        }
        if key == "name" && *value != section.id {
            return Err(at(line, format!("the name `{}` is not the section's", shown(value))));
        }
        bytes += key.len() + value.len();
        if SECTION_BYTES_MAX < bytes {
            return Err(at(line, format!("the section is larger than {} KiB", SECTION_BYTES_MAX / 1024)));
        }
        seen.push(key);
        match key.as_str() {
            "path" => datastore.path.clone_from(value),
            "comment" => datastore.comment = Some(value.clone()),
            "maintenance-mode" => datastore.maintenance = Some(Maintenance::from_property(value)),
            "backing-device" => datastore.backing_device = Some(value.clone()),
            _ => datastore.other.push((key.clone(), value.clone())),
        }
    }
    if datastore.path.is_empty() {
        return Err(at(section.line, "property 'path' is missing and it is not optional.".into()));
    }
    if PATH_BYTES_MAX < datastore.path.len() {
        return Err(at(section.line, format!("the path is longer than {PATH_BYTES_MAX} bytes")));
    }
    if datastore.backing_device.is_none() && !datastore.path.starts_with('/') {
        return Err(at(section.line, format!("path `{}` is not absolute", shown(&datastore.path))));
    }
    if datastore.path.split('/').any(|part| part == "..") {
        return Err(at(section.line, format!("path `{}` holds `..`", shown(&datastore.path))));
    }
    Ok((name, datastore))
}

/// A change that was not made.
#[derive(Debug, thiserror::Error)]
pub enum EditError<E> {
    /// The file, its lock, or a value that cannot be written.
    #[error("{0}")]
    File(String),
    /// The change makes no sense.
    #[error("{0}")]
    Refused(E),
}

/// Changes the file as the originals do: under its lock file, re-read, changed, written beside and renamed.
/// Sections that cannot be read are written back byte for byte. The new file belongs to whom the old one did.
///
/// # Errors
/// When the lock is not to be had, the file cannot be read or written, or `change` refuses; nothing is changed then.
pub fn edit<E>(
    path: &Path,
    change: impl FnOnce(&mut Vec<Section>) -> Result<(), E>,
) -> Result<(), EditError<E>> {
    let failed = |why: io::Error| EditError::File(why.to_string());
    let _lock = FileLock::take(&path.with_file_name(".datastore.lck"), LOCK_WAIT).map_err(failed)?;
    let (mut parsed, old) = match bounded::open(path) {
        Ok(file) => {
            let bytes = bounded::read_all(&file, FILE_BYTES_MAX).map_err(failed)?;
            (section_config::parse(&bytes), Some(file.metadata().map_err(failed)?))
        }
        Err(why) if why.kind() == io::ErrorKind::NotFound => (Parsed::default(), None),
        Err(why) => return Err(failed(why)),
    };
    change(&mut parsed.sections).map_err(EditError::Refused)?;
    let text = section_config::print(&parsed).map_err(EditError::File)?;
    atomic::replace(path, &text, 0o640, old.as_ref()).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;
    use enfilade_facts::vocabulary::MaintenanceMode;

    fn error(text: &str) -> String {
        let parsed = section_config::parse(text.as_bytes());
        let error = read(&parsed.sections[0]).unwrap_err();
        format!("{}: {}", error.line, error.reason)
    }

    #[test]
    fn sections_as_datastores() {
        let text = "datastore: tank\n\tpath /tank\n\tcomment two words\n\tgc-schedule daily\n\tmaintenance-mode type=read-only\n";
        let (name, datastore) = read(&section_config::parse(text.as_bytes()).sections[0]).unwrap();
        assert_eq!((name.as_str(), datastore.path.as_str()), ("tank", "/tank"));
        assert_eq!(datastore.comment.as_deref(), Some("two words"));
        assert_eq!(datastore.maintenance.unwrap().mode.name(), "read-only");
        assert_eq!(datastore.other, [("gc-schedule".to_owned(), "daily".to_owned())]);
        assert_eq!(error("datastore: tank\n\tpath /a\n\tfoo 1\n"), "3: unknown property 'foo'");
        assert_eq!(error("datastore: tank\n\tpath /a\n\tpath /b\n"), "3: duplicate property 'path'");
        assert_eq!(error("s3: tank\n\tpath /a\n"), "1: unknown section type 's3'");
        assert_eq!(
            error("datastore: tank\n\tcomment x\n"),
            "1: property 'path' is missing and it is not optional."
        );
        assert_eq!(error("datastore: tank\n\tpath relative\n"), "1: path `relative` is not absolute");
        assert_eq!(error("datastore: tank\n\tpath /a/../b\n"), "1: path `/a/../b` holds `..`");
        assert!(error("datastore: x\n\tpath /a\n").contains("datastore name `x`"));
        assert_eq!(
            error("datastore: tank\n\tpath /a\n\tname other\n"),
            "3: the name `other` is not the section's"
        );
        let long = "x".repeat(100_000);
        assert_eq!(
            error(&format!("datastore: tank\n\tpath /a\n\tcomment {long}\n")),
            "3: the section is larger than 64 KiB"
        );
        assert_eq!(
            error(&format!("datastore: tank\n\tpath /{}\n", &long[..5000])),
            "1: the path is longer than 4096 bytes"
        );
        assert!(error(&format!("datastore: tank\n\t{long} 1\n")).len() < 200);
        let unknown = "datastore: tank\n\tpath /a\n\tmaintenance-mode type=offlin\n";
        let (_, datastore) = read(&section_config::parse(unknown.as_bytes()).sections[0]).unwrap();
        assert_eq!(datastore.maintenance.unwrap().mode, MaintenanceMode::Unknown("offlin".into()));
        let removable = "datastore: tank\n\tpath relative\n\tbacking-device 0a\n";
        assert!(read(&section_config::parse(removable.as_bytes()).sections[0]).is_ok());
    }

    #[test]
    fn an_edit_keeps_what_it_does_not_understand() {
        let scratch = Scratch::new();
        let path = scratch.path().join("datastore.cfg");
        edit(&path, |sections| {
            sections.push(Section::new("datastore", "tank", vec![("path".into(), "/tank".into())]));
            Ok::<_, String>(())
        })
        .unwrap();
        let mut text = std::fs::read(&path).unwrap();
        text.extend_from_slice(b"datastore: odd\n\tpath\n");
        std::fs::write(&path, &text).unwrap();
        edit(&path, |sections| {
            sections[0].properties.push(("comment".into(), "x".into()));
            Ok::<_, String>(())
        })
        .unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, "datastore: tank\n\tpath /tank\n\tcomment x\n\ndatastore: odd\n\tpath\n\n");
        assert!(matches!(edit(&path, |_| Err("no")), Err(EditError::Refused("no"))));
        let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&path).unwrap());
        assert_eq!(mode & 0o777, 0o640);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }
}
