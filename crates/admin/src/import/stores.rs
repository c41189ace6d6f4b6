//! Imports datastores into `datastore.cfg`. A datastore that may be a chunk store of a running Proxmox Backup Server becomes read-only.

use super::earlier::{Earlier, Stage, listed};
use super::{HERE, Imported, existed, removed};
use crate::change_context::ChangeContext;
use crate::datastores::{is_chunk_store, overlap, roots};
use crate::error::Error;
use enfilade_facts::tables::{Datastore, FileName};
use enfilade_facts::vocabulary::{DatastoreName, Maintenance, MaintenanceMode, RolePath, excerpt};
use enfilade_facts::{At, Effect};
use enfilade_sources::files::datastore_cfg;
use enfilade_sources::files::section_config::{self, LineError, Section};
use std::collections::BTreeSet;
use std::fmt::Display;
use std::path::{Path, PathBuf};

const KIND: &str = "datastore";
/// The maximum number of names in one reason.
const NAMED_MAX: usize = 5;

/// The decision about each datastore of the source. Roles are imported only for datastores that have the content of the source.
#[derive(Default)]
pub(super) struct Stores {
    /// The result for each section.
    pub(super) report: Vec<Imported>,
    /// The sections to add to `datastore.cfg`.
    new: Vec<Section>,
    /// The datastores of the source that are imported.
    imported: BTreeSet<DatastoreName>,
    /// The datastores of the source for which this server already has a datastore with the same name and path. If the source is another machine,
    /// these may be different datastores.
    known: BTreeSet<DatastoreName>,
    /// The datastores of the source that are left out.
    left: BTreeSet<DatastoreName>,
    /// All datastores of this server that are not in `known`. One of them may have the name of a datastore in `left`.
    others: BTreeSet<DatastoreName>,
}

impl Stores {
    /// Decides on each section. Changes nothing.
    pub(super) fn judge(
        ctx: &ChangeContext<'_>,
        sections: &[Section],
        earlier: &Earlier<'_>,
    ) -> Result<Self, Error> {
        let mut here = roots(ctx.facts)?;
        let mut stores =
            Stores { others: here.iter().map(|(name, _)| name.clone()).collect(), ..Stores::default() };
        for section in sections {
            let (name, row) = match readable(ctx, section, &here) {
                Ok(row) => row,
                Err(why) => {
                    stores.report.push(Imported::left(KIND, excerpt(&section.id), why.reason));
                    let name = section.id.parse::<DatastoreName>().ok();
                    match (name, why.is_same) {
                        (Some(name), true) => drop(stores.known.insert(name)),
                        (Some(name), false) => drop(stores.left.insert(name)),
                        (None, _) => {}
                    }
                    continue;
                }
            };
            if earlier.has(KIND, name.as_str()) {
                stores.report.push(Imported::left(KIND, &section.id, removed(KIND)));
                stores.left.insert(name);
                continue;
            }
            let root = row.root(&name);
            let mut properties = section.properties.clone();
            let why = if row.maintenance.is_none() { why_read_only(&root) } else { None };
            properties.extend(why.as_ref().map(|_| ("maintenance-mode".to_owned(), read_only())));
            stores.report.push(Imported::taken(KIND, &section.id).but(why));
            stores.new.push(Section::new(&section.kind, &section.id, properties));
            stores.imported.insert(name.clone());
            here.push((name, root));
        }
        stores.others.retain(|name| !stores.known.contains(name));
        Ok(stores)
    }

    /// The names for the list of imports: the names of the datastores that this import adds, and the names of the datastores of the source that this
    /// server already has.
    pub(super) fn names(&self) -> impl Iterator<Item = (String, Stage)> {
        let new = self.imported.iter().map(|name| (name, Stage::Begun));
        new.chain(self.known.iter().map(|name| (name, Stage::Whole)))
            .map(|(name, stage)| (listed(KIND, name.as_str()), stage))
    }

    /// Adds the new sections to `datastore.cfg`, and then records that their import has ended. Returns the revision; `None` if there is no new
    /// section. All accounts are already imported. So an error says that the accounts are imported, and whether the datastores are
    /// in the file.
    pub(super) fn add(
        &self,
        ctx: &ChangeContext<'_>,
        what: &str,
        of_file: &BTreeSet<String>,
    ) -> Result<Option<At>, Error> {
        self.write(ctx, what, of_file).map_err(|why| self.unfinished(ctx, &why))
    }

    fn write(
        &self,
        ctx: &ChangeContext<'_>,
        what: &str,
        of_file: &BTreeSet<String>,
    ) -> Result<Option<At>, Error> {
        if self.new.is_empty() {
            return Ok(None);
        }
        ctx.write_through(what, Effect::Gives, &[FileName::Datastores], |files| {
            files.sections(FileName::Datastores, |sections| {
                let is_there = |new: &&Section| sections.iter().any(|section| section.id == new.id);
                if let Some(there) = self.new.iter().find(is_there) {
                    return Err(Error::Invalid(format!(
                        "somebody else added datastore `{0}` to datastore.cfg during the import. If it is not the datastore of the source, the imported roles on /datastore/{0} now apply to it: find these roles with `enfilade role list`, and remove them",
                        there.id
                    )));
                }
                sections.extend(self.new.iter().cloned());
                Ok(())
            })
        })?;
        let ended = || self.imported.iter().map(|name| (listed(KIND, name.as_str()), Stage::Whole));
        let ((), at) = ctx.commit(what, |view, change| {
            Earlier::read(view, of_file)?.add(change, ended());
            Ok(())
        })?;
        Ok(Some(at))
    }

    /// The error if the import of the datastores failed after the accounts were imported. An error can also occur after the file was written. So
    /// this function reads `datastore.cfg`, which shows whether the datastores were imported nevertheless.
    fn unfinished(&self, ctx: &ChangeContext<'_>, why: &Error) -> Error {
        let names = some(&self.imported);
        let unfinished = match self.are_in_file(ctx) {
            Some(true) => format!(
                "the users, passwords, tokens, realms and roles were imported, and the datastores are in datastore.cfg, but the end of the import could \
                 not be recorded: {why}. Correct the cause, then run the same import again. Until then, remove none of these datastores, because the \
                 import would add a removed datastore again: {names}"
            ),
            Some(false) => format!(
                "the users, passwords, tokens, realms and roles were imported, but the datastores were not: {why}. Correct the cause, then run the same \
                 import again. Until then, create no datastore with one of these names, because it would get the imported roles: {names}"
            ),
            None => format!(
                "the users, passwords, tokens, realms and roles were imported. Whether the datastores were imported is unknown, because datastore.cfg \
                 cannot be read: {why}. Correct the cause, then run the same import again. Until then, create and remove none of these datastores: \
                 {names}"
            ),
        };
        Error::File(unfinished)
    }

    /// Whether `datastore.cfg` has all new sections; `None` if it cannot be read.
    fn are_in_file(&self, ctx: &ChangeContext<'_>) -> Option<bool> {
        let there =
            section_config::parse(&ctx.files.read(FileName::Datastores).ok()?.unwrap_or_default()).sections;
        let is_there = |new: &Section| {
            there.iter().any(|section| section.id == new.id && section.properties == new.properties)
        };
        Some(self.new.iter().all(is_there))
    }

    /// Why roles on this path must not be imported: they would apply to a datastore that was not imported from the source, or to a datastore that is
    /// created later with the name in the path. `None` if they can be imported. `is_same_source` means that the operator says that an earlier import
    /// was from this source.
    pub(super) fn gives_more(&self, path: &RolePath, is_same_source: bool) -> Option<String> {
        const ALL_DATASTORES: [&str; 2] = ["/", "/datastore"];
        let doubtful = self.known.iter().filter(|_| !is_same_source);
        let others: BTreeSet<&DatastoreName> = self.others.iter().chain(doubtful).collect();
        if ALL_DATASTORES.contains(&path.as_str()) && !others.is_empty() {
            return Some(format!(
                "the roles would also apply to datastores that were on this server before the import: {}",
                some(&others)
            ));
        }
        let name = path.as_str().strip_prefix("/datastore/")?.split('/').next()?;
        let Ok(known) = name.parse::<DatastoreName>() else {
            return Some(format!("`{name}` is not a valid name of a datastore on this server"));
        };
        if self.imported.contains(&known) {
            return None;
        }
        if self.known.contains(&known) {
            return (!is_same_source).then(|| existed(&format!("the datastore `{name}`")));
        }
        Some(match (self.left.contains(&known), self.others.contains(&known)) {
            (true, true) => format!(
                "the datastore `{name}` of the source was not imported, and on this server `{name}` is another datastore, to which the roles would \
                 apply"
            ),
            (true, false) => format!("the datastore `{name}` of the source was not imported"),
            (false, true) => format!(
                "the source has no datastore `{name}`, and on this server `{name}` is another datastore, to which the roles would apply"
            ),
            (false, false) => format!("the datastore `{name}` is not in the source and not on this server"),
        })
    }
}

/// Some names, such as `a, b and 7 more`.
pub(super) fn some(names: impl IntoIterator<Item: Display>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| name.to_string()).collect();
    let shown = names.iter().take(NAMED_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMED_MAX) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Why the imported datastore is read-only; `None` if its directory is certainly not a chunk store.
fn why_read_only(root: &str) -> Option<String> {
    match is_chunk_store(Path::new(root)) {
        Ok(false) => None,
        Ok(true) => Some(format!("read-only: `{root}` is a chunk store of Proxmox Backup Server")),
        Err(why) => Some(format!(
            "read-only: `{root}` could not be examined, and may be a chunk store of Proxmox Backup Server: {why}"
        )),
    }
}

fn read_only() -> String {
    let message = Some("imported from Proxmox Backup Server".to_owned());
    Maintenance { mode: MaintenanceMode::from_name("read-only"), message }.to_property()
}

/// Why a section is left out.
struct Left {
    reason: String,
    /// Whether a datastore with the same name and the same directory exists here.
    is_same: bool,
}

impl From<String> for Left {
    fn from(reason: String) -> Self {
        Left { reason, is_same: false }
    }
}

/// The datastore of a section, or why it is left out.
fn readable(
    ctx: &ChangeContext<'_>,
    section: &Section,
    here: &[(DatastoreName, String)],
) -> Result<(DatastoreName, Datastore), Left> {
    let read = datastore_cfg::read(section);
    let (name, row) =
        read.map_err(|LineError { line, reason }| format!("datastore.cfg, line {line}: {reason}"))?;
    let root = row.root(&name);
    if let Some((_, own)) = here.iter().find(|(store, _)| *store == name) {
        return Err(match real(own) == real(&root) {
            true => Left { reason: HERE.to_owned(), is_same: true },
            false => Left::from(format!(
                "another datastore has this name here, with the path `{own}`; to serve the datastore of the source, too, create it with another name: `enfilade datastore create NAME --path {root}`"
            )),
        });
    }
    let backend = row.other.iter().find(|(key, _)| key == "backend");
    if backend.is_some_and(|(_, value)| value.split(',').any(|part| part.trim() == "type=s3" || part == "s3"))
    {
        return Err("the content of the datastore is in S3, and the directory is only a cache"
            .to_owned()
            .into());
    }
    if let Some(own) = ctx.reserved.overlap_of_path(Path::new(&root)) {
        let own = own.display();
        return Err(format!(
            "the path `{root}` overlaps with `{own}`, which the server reserves for its own files"
        )
        .into());
    }
    match overlap(Path::new(&root), here.iter().cloned()) {
        Some(why) => Err(why.into()),
        None => Ok((name, row)),
    }
}

fn real(path: &str) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.into())
}
