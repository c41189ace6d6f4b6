//! Checks whether the key of this server is the key with which the token hashes in the facts were made, and whether earlier sessions need Fernet
//! keys. Keys are not stored in the facts. So a key can be lost, or a restore can replace the key by another key. In both cases, all tokens that need
//! the lost or replaced key are refused as invalid.

use crate::change_context::ChangeContext;
use crate::error::Error;
use crate::resolve::Names;
use enfilade_facts::tables::{
    Credential, KnownKey, Revocation, Revoked, SidSpace, SidSpaceKey, Verifier, Who,
};
use enfilade_facts::{Read, Source};
use enfilade_identity::HashKey;
use std::ops::ControlFlow;

/// The stored record of a key of token hashes: a check value of the key, and the time when the key came into use.
pub(crate) fn known(key: &HashKey, since: i64) -> KnownKey {
    KnownKey { check: key.check_value(), since }
}

/// Whether a key is the key with which the token hashes in the facts were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKey {
    /// The key is the recorded key.
    Known,
    /// The facts do not record this key, and no token is known to need another key.
    Unrecorded,
    /// Some tokens need another key.
    Lost {
        /// The number of tokens with hashes that were made with the lost key.
        tokens: u64,
        /// When the lost key came into use, in seconds since the epoch, if the facts record this time.
        since: Option<i64>,
    },
}

/// Determines whether `key` is the key with which the token hashes in the facts were made; `key` is `None` if there is no key. Reads all tokens if
/// there is no key, or if the facts record another key.
///
/// # Errors
/// When the facts cannot be read.
pub fn judge_token_key(source: &dyn Source, key: Option<&HashKey>) -> Result<TokenKey, Error> {
    source.read(|view| {
        let recorded = view.get::<SidSpace>(&SidSpaceKey)?.and_then(|space| space.token_key);
        let is_another = |key: &HashKey| recorded.is_some_and(|known| known.check != key.check_value());
        match key {
            Some(key) if recorded.is_some() && !is_another(key) => return Ok(TokenKey::Known),
            // The store was created by an older version, which did not record keys. So the present key is accepted.
            Some(_) if recorded.is_none() => return Ok(TokenKey::Unrecorded),
            _ => {}
        }
        let mut tokens = 0;
        view.scan::<Credential>(&[], |_, token| {
            tokens += u64::from(matches!(token.verifier, Verifier::Keyed(_)));
            ControlFlow::Continue(())
        })?;
        Ok(match tokens {
            0 => TokenKey::Unrecorded,
            tokens => TokenKey::Lost { tokens, since: recorded.map(|known| known.since) },
        })
    })?
}

/// The number of hashes that one change removes.
const REMOVED_AT_ONCE: usize = 1_000;

/// Removes the hashes that a lost key made, so that lists and `enfilade doctor` show which tokens need a new secret. Returns the names of the tokens.
///
/// # Errors
/// When the facts cannot be read or changed.
pub fn remove_lost_hashes(ctx: &ChangeContext<'_>) -> Result<Vec<String>, Error> {
    let (ids, names) = ctx.facts.read(|view| {
        let mut ids = Vec::new();
        view.scan::<Credential>(&[], |id, token| {
            ids.extend(matches!(token.verifier, Verifier::Keyed(_)).then_some(id));
            ControlFlow::Continue(())
        })?;
        let names = Names::read(view)?.with_tokens(view, ids.iter().copied())?;
        let names = ids.iter().map(|id| names.who(&Who::Token(*id))).collect();
        Ok::<_, Error>((ids, names))
    })??;
    for ids in ids.chunks(REMOVED_AT_ONCE) {
        ctx.commit("remove the token hashes that a lost key made", |view, change| {
            for id in ids {
                let Some(before) = view.get::<Credential>(id)? else { continue };
                if matches!(before.verifier, Verifier::Keyed(_)) {
                    let after = Credential { verifier: Verifier::Missing, ..before.clone() };
                    change.expect_same(id, &before).put(id, &after);
                }
            }
            Ok(())
        })?;
    }
    Ok(names)
}

/// Records the key of token hashes.
///
/// # Errors
/// When the facts cannot be changed.
pub fn record_token_key(ctx: &ChangeContext<'_>, key: &HashKey) -> Result<(), Error> {
    ctx.commit("record the key of token hashes", |view, change| {
        if let Some(space) = view.get::<SidSpace>(&SidSpaceKey)? {
            let token_key = Some(known(key, ctx.now.unix_seconds));
            change.expect_same(&SidSpaceKey, &space).put(&SidSpaceKey, &SidSpace { token_key, ..space });
        }
        Ok(())
    })?;
    Ok(())
}

/// Whether a server with these facts has issued sessions. The tokens of these sessions need the Fernet keys.
///
/// # Errors
/// When the facts cannot be read.
pub fn has_issued_sessions(source: &dyn Source) -> Result<bool, Error> {
    Ok(source.read(|view| view.get::<Revocation>(&Revoked::Horizon))??.is_some())
}
