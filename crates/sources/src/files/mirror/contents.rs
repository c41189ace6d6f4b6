//! The files that are compared: their contents, and the entries in them.

use super::datastores::Datastores;
use super::draft::Draft;
use crate::files::acl_cfg::AclCfg;
use crate::files::section_config::{self, LineError};
use crate::files::token_shadow::{Changes, Secrets, TokenShadow};
use crate::files::user_cfg::{self, UserCfg};
use enfilade_facts::MemoSeed;
use enfilade_facts::memo::KeyMaker;
use enfilade_facts::tables::{FileFault, FileName, FileVersion, MirroredFile};

pub(super) type Digest = [u8; 16];

/// A file that has to be compared with the facts.
pub(super) struct News {
    pub(super) file: FileName,
    pub(super) before: Option<MirroredFile>,
    pub(super) content: Content,
}

pub(super) enum Content {
    Read { bytes: Vec<u8>, digest: Digest, version: Option<FileVersion> },
    Unreadable(String),
}

impl Content {
    pub(super) fn of(bytes: Vec<u8>, version: Option<FileVersion>) -> Content {
        let digest = KeyMaker::new(&MemoSeed(*b"enfilade file  1"), "file").bytes(&bytes).key().as_choice();
        Content::Read { bytes, digest, version }
    }
}

impl News {
    pub(super) fn digest(&self) -> Option<Digest> {
        match &self.content {
            Content::Read { digest, .. } => Some(*digest),
            Content::Unreadable(_) => None,
        }
    }

    pub(super) fn bytes(&self) -> Option<&[u8]> {
        match &self.content {
            Content::Read { bytes, .. } => Some(bytes),
            Content::Unreadable(_) => None,
        }
    }

    /// Whether the facts were taken from this content, and the content had no problems.
    pub(super) fn is_known(&self) -> bool {
        self.before.as_ref().is_some_and(|before| {
            before.problem_count == 0 && before.fault.is_none() && self.digest() == Some(before.digest)
        })
    }

    /// Whether the facts and the record of the file are already up to date.
    pub(super) fn is_known_and_current(&self) -> bool {
        let version = match &self.content {
            Content::Read { version, .. } => *version,
            Content::Unreadable(_) => None,
        };
        self.is_known() && self.before.as_ref().is_some_and(|before| before.version == version)
    }
}

/// The contents of the files that are compared.
pub(super) struct FileContents {
    pub(super) datastores: Option<Datastores>,
    pub(super) users: Option<UserCfg>,
    pub(super) acl: Option<AclCfg>,
    pub(super) secrets: Option<Secrets>,
    /// The error, if `token.shadow` is not a JSON object.
    no_secrets: Option<LineError>,
}

impl FileContents {
    pub(super) fn of(news: &[News], changes: Option<Changes>) -> FileContents {
        let bytes = |file: FileName| news.iter().find(|news| news.file == file).and_then(News::bytes);
        let whole = || bytes(FileName::Secrets).map(TokenShadow::parse);
        let (secrets, no_secrets) = match changes {
            // If `user.cfg` also changed, the whole `token.shadow` is parsed, because the hashes of the tokens in `user.cfg` are needed.
            Some(changes) if bytes(FileName::Users).is_none() => (Some(Secrets::Alone(changes)), None),
            changes => match whole() {
                Some(Ok(shadow)) => {
                    let changed =
                        changes.map(|changes| changes.into_iter().map(|(token, _)| token).collect());
                    (Some(Secrets::Whole(shadow.hashes(), changed)), None)
                }
                Some(Err(why)) => (None, Some(why)),
                None => (None, None),
            },
        };
        FileContents {
            datastores: bytes(FileName::Datastores).map(Datastores::of),
            users: bytes(FileName::Users).map(|bytes| user_cfg::read(&section_config::parse(bytes))),
            acl: bytes(FileName::Acl).map(AclCfg::parse),
            secrets,
            no_secrets,
        }
    }

    /// The record of a file: its version, and a [`FileFault`] if the whole file cannot be used.
    pub(super) fn row(&self, news: &News, draft: &mut Draft<'_, '_>) -> MirroredFile {
        let before = news.before.as_ref();
        let no_secrets = self.no_secrets.as_ref().filter(|_| news.file == FileName::Secrets);
        let error = match (&news.content, no_secrets) {
            (Content::Unreadable(why), _) => Some((0, why.as_str())),
            (Content::Read { .. }, Some(why)) => Some((why.line, why.reason.as_str())),
            (Content::Read { .. }, None) => None,
        };
        let fault = error.map(|error| {
            let had = before.is_some();
            // If the file already had errors, the new error keeps the start time of the earlier errors. So the stale limit is still counted from that
            // time.
            let of_parts = |since| FileFault { line: 0, reason: String::new(), since, refuses: false };
            let earlier = before.and_then(|before| before.fault.clone().or(before.since.map(of_parts)));
            let fault = draft.fault(earlier.as_ref(), error, had);
            let means = draft.means(&fault, had);
            draft.problem(news.file, format!("{fault} (no entry of the file can be read: {means})"));
            fault
        });
        match &news.content {
            Content::Read { digest, version, .. } => {
                MirroredFile { version: *version, digest: *digest, fault, ..MirroredFile::default() }
            }
            Content::Unreadable(_) => {
                let digest = before.map_or([0; 16], |before| before.digest);
                MirroredFile { version: None, digest, fault, ..MirroredFile::default() }
            }
        }
    }
}
