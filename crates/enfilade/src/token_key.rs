//! Loads the key for the hashes of API tokens. If the key file does not exist, a key is created, unless tokens need the lost key. If tokens need a
//! key that differs from the key in the file, this problem is reported.

use crate::output;
use enfilade_admin::{FernetKeys, TokenKey, judge_token_key};
use enfilade_facts::Source;
use enfilade_identity::HashKey;
use enfilade_sources::files::key::{self, SecretKey};
use std::path::{Path, PathBuf};

/// The path of the key file.
pub(crate) fn path(data: &Path) -> PathBuf {
    data.join("keys/token-hash.key")
}

/// Reads the key from its file. If there is no file, makes a new key. Returns `None` if there is no file and tokens need the lost key.
pub(crate) fn find(
    data: &Path,
    group: Option<u32>,
    source: &dyn Source,
) -> anyhow::Result<Option<SecretKey>> {
    let path = path(data);
    if !path.exists() && matches!(judge_token_key(source, None)?, TokenKey::Lost { .. }) {
        return Ok(None);
    }
    Ok(Some(key::load_or_make(&path, group)?))
}

/// Whether two data directories have the same key. Then both belong to the same server, or one was restored from a backup of the other.
pub(crate) fn is_same(one: &Path, other: &Path, group: Option<u32>) -> bool {
    let of = |data: &Path| key::load(&path(data), group).ok();
    of(one).zip(of(other)).is_some_and(|(one, other)| one.bytes() == other.bytes())
}

/// A description of the problem with the key of a data directory; `None` if no token needs another key.
pub(crate) fn fault(data: &Path, judged: TokenKey, is_missing: bool) -> Option<String> {
    let TokenKey::Lost { tokens, since } = judged else { return None };
    let path = path(data);
    let is = match is_missing {
        true => "is missing",
        false => "is not the key of the API tokens",
    };
    let since = since.map_or(String::new(), |since| format!(", in use since {}", output::time(since)));
    Some(format!(
        "`{}` {is}: the hashes of {tokens} API tokens need the key that made them{since}; restore `keys/` from the backup; if the key \
        is lost, run `enfilade keys init --accept-loss`, then `enfilade token regenerate` for each token",
        path.display()
    ))
}

/// Compares the key file of a data directory with the facts. Returns the result, and the key if there is a file.
///
/// # Errors
/// Fails if the key or the facts cannot be read.
pub(crate) fn judge(
    data: &Path,
    group: Option<u32>,
    source: &dyn Source,
) -> anyhow::Result<(TokenKey, Option<HashKey>)> {
    let path = path(data);
    let key = path.exists().then(|| key::load(&path, group)).transpose()?;
    let key = key.map(|key| HashKey::new(key.bytes()));
    Ok((judge_token_key(source, key.as_ref())?, key))
}

/// A warning for `enfilade facts restore`, if the key that the restored facts need differs from the key in the data directory.
pub(crate) fn after_restore(data: &Path, group: Option<u32>, source: &dyn Source) -> Option<String> {
    let key = key::load(&path(data), group).ok();
    let key = key.as_ref().map(|key| HashKey::new(key.bytes()));
    let judged = judge_token_key(source, key.as_ref()).ok()?;
    fault(data, judged, key.is_none())
}

/// A warning, if this data directory issued sessions and has lost the keys of their tokens.
pub(crate) fn lost_session_keys(keys: &FernetKeys, source: &dyn Source) -> anyhow::Result<Option<String>> {
    let is_lost = !keys.directory().exists() && enfilade_admin::has_issued_sessions(source)?;
    Ok(is_lost.then(|| lost_sessions(keys.directory())))
}

/// A text about missing keys of sessions: their effect, and the next step.
pub(crate) fn lost_sessions(directory: &Path) -> String {
    format!(
        "the keys of sessions in `{}` are missing, but this data directory has issued sessions. A server that starts without these keys neither accepts \
        nor issues sessions. A running server uses the last keys until `[facts] stale_limit` is over. Restore `keys/` from the backup; only if \
        the keys are lost, run `enfilade keys init`, which ends all sessions except those of browsers",
        directory.display()
    )
}
