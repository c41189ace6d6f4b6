//! A second reader of `datastore.cfg`. It was written from a table of how Proxmox Backup Server 4.2 treats each kind of line, and shares no code with
//! the server's reader. Both readers must read the same content from a file, whether the server or this module wrote the file.
//!
//! This reader is as strict as Proxmox: if a line has an error, it rejects the whole file.

use std::collections::BTreeMap;

/// The properties of each datastore, by name.
pub type Datastores = BTreeMap<String, BTreeMap<String, String>>;

const PROPERTIES: &str = "path comment gc-schedule gc-on-unmount prune-schedule keep-last keep-hourly keep-daily keep-weekly \
    keep-monthly keep-yearly verify-new notify-user notify notification-mode tuning maintenance-mode backing-device backend \
    notification-thresholds counter-reset-schedule name";

/// The position of the reader in the file.
enum State {
    BeforeHeader,
    InSection(String, BTreeMap<String, String>),
}

/// Reads a file.
///
/// # Errors
/// `line N - PROBLEM`, as Proxmox reports it.
pub fn read(text: &str) -> Result<Datastores, String> {
    let mut found = Datastores::new();
    let mut state = State::BeforeHeader;
    let mut number = 0;
    for line in text.lines() {
        number += 1;
        let said = |why: &str| format!("line {number} - {why}");
        let wrong = |why: &str| Err(said(why));
        let is_blank = line.chars().all(char::is_whitespace);
        state = match state {
            State::BeforeHeader if is_blank => State::BeforeHeader,
            State::BeforeHeader => {
                let Some((kind, name)) = line.split_once(':') else {
                    return wrong("syntax error (expected header)");
                };
                if !kind.starts_with(|first: char| first.is_ascii_alphabetic()) || name.trim().is_empty() {
                    return wrong("syntax error (expected header)");
                }
                if kind.trim() != "datastore" {
                    return wrong(&format!("unknown section type '{}'", kind.trim()));
                }
                State::InSection(name.trim().to_owned(), BTreeMap::new())
            }
            State::InSection(name, properties) if is_blank => {
                end(&mut found, name, properties).map_err(|why| said(&why))?;
                State::BeforeHeader
            }
            State::InSection(name, mut properties) => {
                let Some(rest) = line.strip_prefix(char::is_whitespace) else {
                    return wrong("syntax error (expected section properties)");
                };
                let Some((key, value)) = rest.trim().split_once(char::is_whitespace) else {
                    return wrong("syntax error (expected section properties)");
                };
                if !PROPERTIES.split_whitespace().any(|known| known == key) {
                    return wrong(&format!("unknown property '{key}'"));
                }
                if properties.insert(key.to_owned(), value.trim().to_owned()).is_some() {
                    return wrong(&format!("duplicate property '{key}'"));
                }
                State::InSection(name, properties)
            }
        };
    }
    if let State::InSection(name, properties) = state {
        end(&mut found, name, properties).map_err(|why| format!("line {number} - {why}"))?;
    }
    Ok(found)
}

/// Ends a section. If two sections have the same name, the last section counts.
fn end(found: &mut Datastores, name: String, properties: BTreeMap<String, String>) -> Result<(), String> {
    if !properties.contains_key("path") {
        return Err("property 'path' is missing and it is not optional.".to_owned());
    }
    found.insert(name, properties);
    Ok(())
}

/// Writes a file as Proxmox does.
pub fn print(datastores: &Datastores) -> String {
    let mut text = String::new();
    for (name, properties) in datastores {
        text.push_str(&format!("datastore: {name}\n"));
        properties.iter().for_each(|(key, value)| text.push_str(&format!("\t{key} {value}\n")));
        text.push('\n');
    }
    text
}
