//! The parsed files of a Proxmox Backup Server, and the options of their import.

use crate::error::Error;
use enfilade_facts::tables::FileName;
use enfilade_facts::vocabulary::{Realm, Userid};
use enfilade_sources::files::acl_cfg::AclCfg;
use enfilade_sources::files::file_set::FileSet;
use enfilade_sources::files::proxmox_logins::{self, Passwords, Realms, SecondFactors};
use enfilade_sources::files::section_config::{self, LineError, Section};
use enfilade_sources::files::token_shadow::{Hashes, TokenShadow};
use enfilade_sources::files::user_cfg::{self, UserCfg};
use std::collections::BTreeSet;
use std::path::Path;

/// The options of an import from Proxmox Backup Server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProxmoxTerms {
    /// Whether the import only reports what it would do, and changes nothing.
    pub pretend: bool,
    /// Whether users with a second factor in the source get their password here, although second factors are not imported.
    pub without_second_factor: bool,
    /// Whether the operator says that an earlier import was from the same source. If so, a user, token or datastore of this server counts as the
    /// record with the same name in the source.
    pub same_source: bool,
}

/// The parsed files of a Proxmox Backup Server.
pub struct ProxmoxFiles {
    pub(super) from: FileSet,
    pub(super) users: UserCfg,
    pub(super) hashes: Hashes,
    pub(super) acl: AclCfg,
    pub(super) datastores: Vec<Section>,
    pub(super) realms: Realms,
    /// `None` if `shadow.json` does not exist.
    pub(super) passwords: Option<Passwords>,
    pub(super) factors: SecondFactors,
    /// The list of imports in the file `imported.json` of an earlier version, by kind and name. Now the list is in the facts.
    earlier: BTreeSet<String>,
}

impl ProxmoxFiles {
    /// Reads the files. A file that does not exist counts as empty, but at least one of the four files that a server can follow must exist.
    ///
    /// # Errors
    /// When the directory or a file cannot be read, or `token.shadow` or `shadow.json` cannot be parsed. If `tfa.json` cannot be parsed, it is
    /// unknown which users need a second factor, so this is an error, too, unless `terms.without_second_factor` is set.
    pub fn read(from: &FileSet, terms: ProxmoxTerms) -> Result<Self, Error> {
        check_directory(from.directory())?;
        read(from, terms)
    }

    /// The directory of the files.
    pub fn directory(&self) -> &Path {
        self.from.directory()
    }

    /// Adds the list of an `imported.json`. If a record in this list does not exist on this server any more, the record was removed or revoked, and
    /// is not added again.
    #[must_use]
    pub fn after(self, earlier: BTreeSet<String>) -> Self {
        ProxmoxFiles { earlier, ..self }
    }

    pub(super) fn earlier(&self) -> &BTreeSet<String> {
        &self.earlier
    }

    /// The users with a second factor.
    pub fn with_second_factor(&self) -> impl Iterator<Item = &Userid> {
        self.factors.keys()
    }

    /// The realms, each with its comment.
    pub fn realms(&self) -> impl Iterator<Item = (&Realm, Option<&str>)> {
        self.realms.realms.iter().map(|(realm, section)| (realm, section.comment.as_deref()))
    }
}

fn check_directory(directory: &Path) -> Result<(), Error> {
    let wrong = |what: String| {
        Err(Error::File(format!(
            "{what}: expected the directory with the files of a Proxmox Backup Server, for instance a copy of /etc/proxmox-backup"
        )))
    };
    match std::fs::metadata(directory) {
        Ok(meta) if meta.is_dir() => Ok(()),
        Ok(_) => wrong(format!("`{}` is not a directory", directory.display())),
        Err(why) => wrong(format!("`{}` cannot be opened: {why}", directory.display())),
    }
}

fn read(from: &FileSet, terms: ProxmoxTerms) -> Result<ProxmoxFiles, Error> {
    let bytes = |name: &str| {
        from.read_named(name)
            .map_err(|why| Error::File(format!("`{}`: {why}", from.directory().join(name).display())))
    };
    let wrong = |name: &str, why: LineError| {
        let path = from.directory().join(name);
        Error::File(format!("`{}`, line {}: {}", path.display(), why.line, why.reason))
    };
    let found = FileName::ALL.into_iter().map(|file| bytes(file.as_str())).collect::<Result<Vec<_>, _>>()?;
    let [datastores, users, acl, secrets] = found.as_slice() else {
        return Err(Error::Invalid("expected exactly four names of files that a server can follow".into()));
    };
    if found.iter().all(Option::is_none) {
        return Err(Error::Invalid(format!(
            "none of datastore.cfg, user.cfg, acl.cfg and token.shadow exists in `{}`",
            from.directory().display()
        )));
    }
    let hashes = match secrets {
        None => TokenShadow::default(),
        Some(bytes) => TokenShadow::parse(bytes).map_err(|why| wrong(FileName::Secrets.as_str(), why))?,
    };
    let passwords = match bytes(proxmox_logins::SHADOW)? {
        None => None,
        Some(bytes) => {
            let read = proxmox_logins::passwords(&bytes);
            Some(read.map_err(|why| wrong(proxmox_logins::SHADOW, why))?)
        }
    };
    let factors = match bytes(proxmox_logins::SECOND_FACTORS)? {
        None => SecondFactors::new(),
        Some(bytes) => match proxmox_logins::second_factors(&bytes) {
            Ok(factors) => factors,
            Err(_) if terms.without_second_factor => SecondFactors::new(),
            Err(why) => return Err(wrong(proxmox_logins::SECOND_FACTORS, why)),
        },
    };
    let sections = |bytes: &Option<Vec<u8>>| section_config::parse(bytes.as_deref().unwrap_or_default());
    Ok(ProxmoxFiles {
        from: from.clone(),
        users: user_cfg::read(&sections(users)),
        hashes: hashes.hashes(),
        acl: AclCfg::parse(acl.as_deref().unwrap_or_default()),
        datastores: sections(datastores).sections,
        realms: proxmox_logins::realms(&bytes(proxmox_logins::DOMAINS)?.unwrap_or_default()),
        passwords,
        factors,
        earlier: BTreeSet::new(),
    })
}
