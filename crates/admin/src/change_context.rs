//! How a change is made: the change is built on a view, and committed with the name of the caller. After a conflict with another change, the change
//! is built again.

use crate::error::Error;
use crate::limit_model::LimitModel;
use crate::passwords::PasswordRules;
use enfilade_content::ReservedPaths;
use enfilade_facts::vocabulary::RequestId;
use enfilade_facts::{At, AuditRecord, Change, Clocks, CommitError, Read, Requester, Source, View};
use enfilade_sources::files::file_set::FileSet;
use std::path::PathBuf;

/// The context of a change: the facts, the files, the rules, the caller and the time.
#[derive(Clone, Copy)]
pub struct ChangeContext<'a> {
    /// The facts.
    pub facts: &'a dyn Source,
    /// The files that people edit. If the server uses such a file, records of the file are changed first in the file, then in the facts.
    pub files: &'a FileSet,
    /// The rules for passwords.
    pub passwords: &'a PasswordRules,
    /// Whether the limit of a project may be larger than the limit of the project or domain above it.
    pub limit_model: LimitModel,
    /// The reserved paths. No datastore may contain a reserved path or lie in a reserved path.
    pub reserved: &'a ReservedPaths,
    /// The directories beneath which datastores may be made; `None` for an operator of the machine, who may make datastores anywhere.
    pub roots: Option<&'a [PathBuf]>,
    /// The author of the changes in the audit log: an authid, or a person at the command line.
    pub who: &'a str,
    /// The request that makes the changes; `None` if a command or the server itself makes the changes.
    pub request: Option<RequestId>,
    /// Whether a user or an administrator makes the changes. This determines how much of the free space of the store the changes may use.
    pub requester: Requester,
    /// Whether to refuse a change after which no administrator could log in. This is set for commands without `--force`, and not for requests of API
    /// clients.
    pub keeps_administrators: bool,
    /// The present time.
    pub now: Clocks,
}

/// The maximum number of attempts to commit one change. Concurrent writers alone do not cause this many conflicts in a row.
const TRIES: usize = 64;

impl ChangeContext<'_> {
    pub(crate) fn audit(&self, what: &str) -> AuditRecord {
        let (who, what) = (self.who.to_owned(), what.to_owned());
        AuditRecord { who, what, unix_seconds: self.now.unix_seconds, request: self.request }
    }

    /// Builds a change with `build`, and commits it. After a conflict with another change, builds the change again. `what` describes the change in
    /// the audit record.
    pub(crate) fn commit<R>(
        &self,
        what: &str,
        build: impl Fn(&View<'_>, &mut Change) -> Result<R, Error>,
    ) -> Result<(R, At), Error> {
        let audit = self.audit(what);
        let mut conflict = None;
        for _ in 0..TRIES {
            let (result, change) = self.built(&audit, &build)?;
            match self.facts.commit(&change) {
                Ok(at) => return Ok((result, at)),
                Err(why @ CommitError::Conflict { .. }) => conflict = Some(why),
                Err(other) => return Err(other.into()),
            }
        }
        Err(conflict.map_or_else(|| Error::Invalid("the change was not attempted".into()), Error::Commit))
    }

    /// Builds a change and checks it, but does not commit it. If a change is first written to a file and then to the facts, this function is called
    /// before the file is changed.
    pub(crate) fn check<R>(
        &self,
        what: &str,
        build: impl Fn(&View<'_>, &mut Change) -> Result<R, Error>,
    ) -> Result<(), Error> {
        self.built(&self.audit(what), &build).map(drop)
    }

    fn built<R>(
        &self,
        audit: &AuditRecord,
        build: &impl Fn(&View<'_>, &mut Change) -> Result<R, Error>,
    ) -> Result<(R, Change), Error> {
        let mut change = Change::requested_by(self.requester, audit.clone());
        let result = self.facts.read(|view| {
            let result = build(view, &mut change)?;
            if self.keeps_administrators {
                self.keep_administrators(view, &change)?;
            }
            Ok::<_, Error>(result)
        })??;
        Ok((result, change))
    }
}

/// Random bytes from the kernel.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .map_err(|why| Error::Invalid(format!("the kernel gives no random bytes: {why}")))?;
    Ok(bytes)
}
