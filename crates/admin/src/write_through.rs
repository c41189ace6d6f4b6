//! Changes mirrored records: first in the file, then in the facts. Proxmox's lock of the file is held until both are changed.

use crate::change_context::ChangeContext;
use crate::error::Error;
use enfilade_facts::tables::{FileName, MirroredFile};
use enfilade_facts::{At, Effect, Read};
use enfilade_sources::files::acl_cfg::AclCfg;
use enfilade_sources::files::file_set::{EditError, Locked};
use enfilade_sources::files::mirror::{Editor, Mirror};
use enfilade_sources::files::section_config::{self, Section};
use enfilade_sources::files::token_shadow::TokenShadow;
use std::io::ErrorKind;

impl ChangeContext<'_> {
    /// Whether records are mirrored from this file.
    pub(crate) fn uses(&self, file: FileName) -> Result<bool, Error> {
        Ok(self.facts.read(|view| view.get::<MirroredFile>(&file))??.is_some())
    }

    /// Edits files with their locks held, and updates the facts before the locks are released. The change is in effect from the returned revision on.
    /// `what` describes the change in the audit record. `effect` decides how much free space the change must leave.
    pub(crate) fn write_through(
        &self,
        what: &str,
        effect: Effect,
        files: &[FileName],
        edit: impl FnOnce(&mut Files<'_, '_>) -> Result<(), Error>,
    ) -> Result<At, Error> {
        // If the store has no room for the change, the file must not be changed, because nothing undoes the change of the file.
        self.facts.has_room_for(self.requester, effect, 0)?;
        let mut locked = self.files.lock(files).map_err(|why| Error::File(why.to_string()))?;
        let mut mirror = Mirror::new(self.files.clone());
        mirror.has_seen(self.facts, self.now)?;
        self.refuse_missing(files)?;
        edit(&mut Files(&mut locked))?;
        let editor = Editor { who: self.who, what };
        if self.keeps_administrators {
            self.facts.read(|view| {
                let change = mirror.would_commit(view, self.now, editor, locked.edited())?;
                self.keep_administrators(view, &change)
            })??;
        }
        locked.write().map_err(Error::File)?;
        let looked = mirror.look_for(self.facts, self.now, Some(editor));
        let outcome = looked.map_err(|why| {
            Error::File(format!(
                "the change was written to the file, but it has no effect yet, because the facts could not be updated: {why}. A running server tries again every second, so do not repeat the command; if no server runs, start it"
            ))
        })?;
        Ok(outcome.committed.unwrap_or_else(|| self.facts.at()))
    }

    /// Refuses a change of a missing file if the facts contain records of this file. Otherwise the change would write a file with only the new
    /// record, and all other records would be deleted.
    fn refuse_missing(&self, files: &[FileName]) -> Result<(), Error> {
        for file in files {
            let path = self.files.path(*file);
            let is_missing =
                std::fs::symlink_metadata(&path).is_err_and(|why| why.kind() == ErrorKind::NotFound);
            let known = self.facts.read(|view| view.get::<MirroredFile>(file))??;
            if is_missing && known.is_some_and(|row| row.version.is_some() || row.fault.is_some()) {
                return Err(Error::File(format!(
                    "nothing was changed: `{}` is missing, and the server has records from this file; restore the file from a backup; do not create an \
                     empty file, because the server would then delete all these records",
                    path.display()
                )));
            }
        }
        Ok(())
    }
}

/// Files with their locks held.
pub(crate) struct Files<'f, 's>(&'f mut Locked<'s>);

impl Files<'_, '_> {
    pub(crate) fn sections(
        &mut self,
        file: FileName,
        edit: impl FnOnce(&mut Vec<Section>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        done(section_config::edit(self.0, file, edit))
    }

    pub(crate) fn secrets(&mut self, edit: impl FnOnce(&mut TokenShadow)) -> Result<(), Error> {
        let file = FileName::Secrets;
        done(self.0.rewrite(file, |bytes| {
            // A missing file counts as empty, as in Proxmox.
            let mut shadow = match bytes.is_empty() {
                true => TokenShadow::default(),
                false => TokenShadow::parse(bytes).map_err(|why| {
                    EditError::File(format!(
                        "`{file}`, line {}: {}; correct the file, then try again",
                        why.line, why.reason
                    ))
                })?,
            };
            edit(&mut shadow);
            Ok(shadow.print())
        }))
    }

    pub(crate) fn acl(&mut self, edit: impl FnOnce(&mut AclCfg) -> Result<(), Error>) -> Result<(), Error> {
        done(self.0.rewrite(FileName::Acl, |bytes| {
            let mut acl = AclCfg::parse(bytes);
            edit(&mut acl).map_err(EditError::Refused)?;
            Ok(acl.print())
        }))
    }
}

fn done(edited: Result<(), EditError<Error>>) -> Result<(), Error> {
    edited.map_err(|why| match why {
        EditError::File(why) => Error::File(why),
        EditError::Refused(why) => why,
    })
}
