//! Reads datastores from the sections of `datastore.cfg`.

use super::section_config::{LineError, Section};
use enfilade_facts::limits::PATH_BYTES_MAX;
use enfilade_facts::tables::Datastore;
use enfilade_facts::vocabulary::{DatastoreName, Maintenance, excerpt};

/// The properties of Proxmox Backup Server 4. All of these properties are stored, but only a few have an effect in this server.
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

/// The greatest size of a section, in bytes. A larger section is a mistake of its author, and is refused. Without this limit, one section could make
/// the whole change too large, because one change contains all sections.
const SECTION_BYTES_MAX: usize = 64 * 1024;

/// Parses one section.
///
/// # Errors
/// The first problem of the section.
pub fn read(section: &Section) -> Result<(DatastoreName, Datastore), LineError> {
    let at = |line: u32, reason: String| LineError { line, reason };
    if let Some(error) = &section.error {
        return Err(error.clone());
    }
    if section.kind != "datastore" {
        return Err(at(section.line, format!("unknown section type '{}'", excerpt(&section.kind))));
    }
    let name: DatastoreName = section.id.parse().map_err(|why| at(section.line, format!("{why}")))?;
    let mut datastore = Datastore::default();
    let mut seen: Vec<&str> = Vec::new();
    let mut bytes = 0;
    for (index, (key, value)) in section.properties.iter().enumerate() {
        let line = section.lines.get(index).copied().unwrap_or(section.line);
        if !KNOWN.contains(&key.as_str()) {
            return Err(at(line, format!("unknown property '{}'", excerpt(key))));
        }
        if seen.contains(&key.as_str()) {
            return Err(at(line, format!("duplicate property '{key}'")));
        }
        if key == "name" && *value != section.id {
            return Err(at(
                line,
                format!(
                    "property 'name': `{}` differs from the name in the header of the section",
                    excerpt(value)
                ),
            ));
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
        return Err(at(section.line, format!("path `{}` is not absolute", excerpt(&datastore.path))));
    }
    if datastore.path.split('/').any(|part| part == "..") {
        return Err(at(section.line, format!("path `{}` contains `..`", excerpt(&datastore.path))));
    }
    Ok((name, datastore))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::section_config;
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
        assert_eq!(error("datastore: tank\n\tpath /a/../b\n"), "1: path `/a/../b` contains `..`");
        assert!(error("datastore: x\n\tpath /a\n").contains("datastore name `x`"));
        assert_eq!(
            error("datastore: tank\n\tpath /a\n\tname other\n"),
            "3: property 'name': `other` differs from the name in the header of the section"
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
}
