//! Imports datastores into `datastore.cfg`. A datastore that may be a chunk store of a running Proxmox Backup Server becomes read-only.

use super::{HERE, Imported};
use crate::change_context::ChangeContext;
use crate::datastores::{is_chunk_store, overlap, roots};
use crate::error::Error;
use enfilade_facts::At;
use enfilade_facts::tables::{Datastore, FileName};
use enfilade_facts::vocabulary::{DatastoreName, Maintenance, MaintenanceMode};
use enfilade_sources::files::datastore_cfg;
use enfilade_sources::files::section_config::{LineError, Section};
use std::path::Path;

const KIND: &str = "datastore";

/// Imports the sections. Returns a result for each section, and the revision if a datastore was imported.
pub(super) fn import(
    ctx: &ChangeContext<'_>,
    what: &str,
    sections: &[Section],
    pretend: bool,
) -> Result<(Vec<Imported>, Option<At>), Error> {
    let mut here = roots(ctx.facts)?;
    let (mut report, mut new) = (Vec::new(), Vec::new());
    for section in sections {
        let row = match readable(ctx, section, &here) {
            Ok(row) => row,
            Err(why) => {
                report.push(Imported::left(KIND, &section.id, why));
                continue;
            }
        };
        let (name, row) = row;
        let root = row.root(&name);
        let mut properties = section.properties.clone();
        let why = if row.maintenance.is_none() { why_read_only(&root) } else { None };
        properties.extend(why.as_ref().map(|_| ("maintenance-mode".to_owned(), read_only())));
        report.push(Imported::taken(KIND, &section.id).but(why));
        new.push(Section::new(&section.kind, &section.id, properties));
        here.push((name, root));
    }
    if pretend || new.is_empty() {
        return Ok((report, None));
    }
    let at = ctx.write_through(what, &[FileName::Datastores], |files| {
        files.sections(FileName::Datastores, |sections| {
            sections.extend(new);
            Ok(())
        })
    })?;
    Ok((report, Some(at)))
}

/// Why the imported datastore is read-only; `None` if its directory is certainly no chunk store.
fn why_read_only(root: &str) -> Option<String> {
    match is_chunk_store(Path::new(root)) {
        Ok(false) => None,
        Ok(true) => Some(format!("read-only: `{root}` is a chunk store of Proxmox Backup Server")),
        Err(why) => Some(format!("read-only: `{root}` may be a chunk store of Proxmox Backup Server: {why}")),
    }
}

fn read_only() -> String {
    let message = Some("imported from Proxmox Backup Server".to_owned());
    Maintenance { mode: MaintenanceMode::from_name("read-only"), message }.to_property()
}

/// The datastore of a section, or why it is left out.
fn readable(
    ctx: &ChangeContext<'_>,
    section: &Section,
    here: &[(DatastoreName, String)],
) -> Result<(DatastoreName, Datastore), String> {
    let read = datastore_cfg::read(section);
    let (name, row) =
        read.map_err(|LineError { line, reason }| format!("datastore.cfg, line {line}: {reason}"))?;
    if here.iter().any(|(store, _)| *store == name) {
        return Err(HERE.to_owned());
    }
    let backend = row.other.iter().find(|(key, _)| key == "backend");
    if backend.is_some_and(|(_, value)| value.split(',').any(|part| part.trim() == "type=s3" || part == "s3"))
    {
        return Err("the content of the datastore is in S3, and the directory is only a cache".to_owned());
    }
    let root = row.root(&name);
    if let Some(own) = ctx.reserved.overlap_of_path(Path::new(&root)) {
        let own = own.display();
        return Err(format!(
            "the path `{root}` overlaps with `{own}`, which the server reserves for its own files"
        ));
    }
    match overlap(Path::new(&root), here.iter().cloned()) {
        Some(why) => Err(why),
        None => Ok((name, row)),
    }
}
