//! The key of token hashes: found, made for a house that needs none yet, and refused if tokens need another one.

use crate::home::{Home, Installation};
use crate::output;
use enfilade_admin::{TokenKey, judge_token_key, record_token_key};
use enfilade_facts::Source;
use enfilade_identity::HashKey;
use enfilade_sources::files::key::{self, SecretKey};
use std::path::{Path, PathBuf};

/// The file of the key.
pub(crate) fn path(data: &Path) -> PathBuf {
    data.join("keys/token-hash.key")
}

/// The key of the file. Where there is none, one is made if no token needs the lost one; else `None`.
pub(crate) fn find(installation: &Installation, source: &dyn Source) -> anyhow::Result<Option<SecretKey>> {
    let path = path(&installation.data);
    let group = installation.config.facts.group;
    if !path.exists() && matches!(judge_token_key(source, None)?, TokenKey::Lost { .. }) {
        return Ok(None);
    }
    Ok(Some(key::load_or_make(&path, group)?))
}

/// What is wrong with the key of a data directory; `None` if the facts need no other one.
pub(crate) fn fault(data: &Path, judged: TokenKey, is_missing: bool) -> Option<String> {
    let TokenKey::Lost { tokens, since } = judged else { return None };
    let path = path(data);
    let is = match is_missing {
        true => "is missing",
        false => "is not the key that made them",
    };
    let since = since.map_or(String::new(), |since| format!(", in use since {}", output::time(since)));
    Some(format!(
        "`{}` {is}: the hashes of {tokens} API tokens need the key of this data directory{since}; restore `keys/` from the backup; if the key \
        is lost, run `enfilade keys init --accept-loss`, then `enfilade token regenerate` for each token",
        path.display()
    ))
}

impl Home {
    /// The key of token hashes.
    ///
    /// # Errors
    /// When tokens need another key, or the facts cannot be read.
    pub(crate) fn hash_key(&self) -> anyhow::Result<HashKey> {
        let key = self.loaded_key();
        let judged = judge_token_key(self.source(), key.as_ref())?;
        match (key, fault(&self.data, judged, self.hash_key.is_none())) {
            (Some(key), None) => {
                if judged == TokenKey::Unrecorded {
                    // The key also serves if it cannot be recorded: a full store still has to be served.
                    let _ = record_token_key(&self.change_context(), &key);
                }
                Ok(key)
            }
            (_, why) => {
                Err(anyhow::anyhow!(why.unwrap_or_else(|| "there is no key of token hashes".to_owned())))
            }
        }
    }

    /// The key of the file, which may be another one than the facts need.
    pub(crate) fn loaded_key(&self) -> Option<HashKey> {
        self.hash_key.as_ref().map(|key| HashKey::new(key.bytes()))
    }

    /// A key for commands that ask the doors and check no secret: they also work, and revoke, while the key is lost.
    pub(crate) fn hash_key_to_ask(&self) -> HashKey {
        self.loaded_key().unwrap_or_else(|| HashKey::new(&[0; 32]))
    }

    /// Accepts that the key of token hashes is lost: makes one where there is none, and records the one that is there. Returns how many tokens
    /// need a new secret.
    ///
    /// # Errors
    /// When the key cannot be made or recorded.
    pub(crate) fn accept_lost_token_key(&self) -> anyhow::Result<u64> {
        let made = key::load_or_make(&path(&self.data), self.config.facts.group)?;
        let key = HashKey::new(made.bytes());
        let judged = judge_token_key(self.source(), self.loaded_key().as_ref())?;
        if judged != TokenKey::Known {
            record_token_key(&self.change_context(), &key)?;
        }
        Ok(match judged {
            TokenKey::Lost { tokens, .. } => tokens,
            TokenKey::Known | TokenKey::Unrecorded => 0,
        })
    }
}

/// What `facts restore` says of a key that is not the one of the restored facts.
pub(crate) fn after_restore(installation: &Installation, source: &dyn Source) -> Option<String> {
    let path = path(&installation.data);
    let key = key::load(&path, installation.config.facts.group).ok();
    let key = key.as_ref().map(|key| HashKey::new(key.bytes()));
    let judged = judge_token_key(source, key.as_ref()).ok()?;
    fault(&installation.data, judged, key.is_none())
}

/// Warns if this data directory issued sessions and has lost the keys of their tokens.
pub(crate) fn lost_session_keys(home: &Home) -> anyhow::Result<Option<String>> {
    let keys = home.fernet_keys();
    let is_lost = !keys.directory().exists() && enfilade_admin::has_issued_sessions(home.source())?;
    Ok(is_lost.then(|| lost_sessions(keys.directory())))
}

/// What it means that the keys of sessions are missing.
pub(crate) fn lost_sessions(directory: &Path) -> String {
    format!(
        "the keys of sessions in `{}` are missing, and this data directory has issued sessions: all of them have ended, and no session can \
        be issued; restore `keys/` from the backup, or run `enfilade keys init`",
        directory.display()
    )
}
