//! The judgement of a name and a secret.
//!
//! To refuse an unknown, disabled, locked or expired user or token, the door does the same work as to refuse a wrong secret.

use crate::account::{self, AccountState, decoy};
use crate::ask::SecretAsk;
use crate::crypt;
use crate::generated::HashKey;
use crate::grant::{Proven, digest, grant};
use crate::memo::IdentityMemo;
use crate::permit::{Granted, Proof};
use crate::refuse::Refusal;
use crate::upgrade::Upgrade;
use crate::view::View;
use crate::work::{Closed, Work};
use enfilade_facts::limits::PASSWORD_MEMO_MILLIS;
use enfilade_facts::tables::Verifier;
use enfilade_facts::vocabulary::CredentialId;
use enfilade_facts::{Clocks, MemoKey};
use std::sync::Arc;

/// The verdict on a name and a secret, or the slow hash that must be computed first.
pub(crate) fn judge(
    view: &View<'_>,
    now: Clocks,
    ask: &SecretAsk,
    key: &HashKey,
    memo: &IdentityMemo,
) -> Result<Granted, Closed> {
    let named = account::ids_of(view, &ask.authid)?;
    let account = match named {
        Some((user, token)) => AccountState::of(view, &ask.authid, user, token)?,
        None => decoy(view, ask, memo)
            .and_then(|(user, token)| AccountState::of(view, &ask.authid, user, token).ok()?),
    };
    let exists =
        named.is_some() && account.as_ref().is_some_and(|found| found.verifiers(now).next().is_some());
    let check = |account: &AccountState| account.check(view, now).and_then(|()| account.check_lock(now));
    let checked = account.as_ref().map_or(Ok(()), check);
    // The secret is checked even if the result is not used, so that every refusal does the same work.
    let proven = account.as_ref().map(|account| prove(now, ask, key, account, memo));
    let refusal = match (account.as_ref().filter(|_| exists).zip(proven), checked) {
        (None, _) if named.is_some() && ask.authid.token.is_none() => {
            Err(Refusal::NoPassword(ask.authid.clone()))
        }
        (None, _) if named.is_some() && account.is_some() => Err(Refusal::no_secret(ask.authid.clone())),
        (None, _) => Err(Refusal::Unknown(ask.authid.clone())),
        (
            Some(_),
            Err(refusal @ (Refusal::Disabled { .. } | Refusal::Expired { .. } | Refusal::Locked(_))),
        ) => Err(refusal),
        (Some(_), Err(refusal)) => return Err(refusal.into()),
        (Some((account, Ok((verifier, last_second, proven_until)))), Ok(())) => {
            account.check_password(now)?;
            let token = account.credential.as_ref().map(|(id, credential)| (id, credential));
            let upgrade = token.and_then(|token| Upgrade::of(token, &verifier, ask, key)).map(Arc::new);
            let proof =
                Proof { credential: token.map(|(id, _)| *id), verifier: digest(memo, &verifier), upgrade };
            return Ok(grant(view, now, account, Proven { proof, last_second, proven_until }, memo)?);
        }
        (Some((_, Err(closed))), Ok(())) => Ok(closed),
    };
    if named.is_some() {
        let _ = decoy(view, ask, memo);
    }
    let wrong = || Refusal::WrongSecret(ask.authid.clone());
    let (closed, refusal) = match refusal {
        Ok(closed) => (Some(closed), wrong()),
        Err(refusal) => (None, refusal),
    };
    let equalized = equalize_cost(now, ask, key, account.as_ref(), memo, refusal)?;
    Err(closed.unwrap_or(equalized))
}

/// For a refusal that does not depend on the secret, does the same work as for a wrong secret. If this work is a slow hash, the hash costs as much as
/// the real hash, and no secret matches this hash. So no match is remembered.
fn equalize_cost(
    now: Clocks,
    ask: &SecretAsk,
    key: &HashKey,
    account: Option<&AccountState>,
    memo: &IdentityMemo,
    refusal: Refusal,
) -> Result<Closed, Refusal> {
    let verifier = account.and_then(|account| account.verifiers(now).next()).map(|(verifier, _)| verifier);
    let hash = match (&verifier, &ask.authid.token) {
        (Some(verifier), _) => verifier.crypt().map(crypt::decoy_of),
        // For a user without a password, the check costs as much as for a user with a password.
        (None, None) => Some(None),
        (None, Some(_)) => None,
    };
    let Some(hash) = hash else {
        let _ = key.matches(&CredentialId::from_bytes([0; 16]), ask.secret.reveal(), &[0; 32]);
        return Ok(refusal.into());
    };
    let hash = hash.unwrap_or_else(|| DECOY_HASH.to_owned());
    Ok(match known_match(now, ask, &hash, memo)? {
        Ok(_) => refusal.into(),
        Err(key) => {
            let (secret, hashes) = (ask.secret.clone(), vec![(hash, key)]);
            Closed::NeedsWork(Box::new(Work { secret, hashes, refusal }))
        }
    })
}

/// Returns the verifier that the secret matches, the last second in which the verifier is valid, and the time of the monotonic clock (in
/// milliseconds) until which the match stays valid. Otherwise returns a refusal, or the hashes that must be computed first.
fn prove(
    now: Clocks,
    ask: &SecretAsk,
    key: &HashKey,
    account: &AccountState,
    memo: &IdentityMemo,
) -> Result<(Verifier, i64, u64), Closed> {
    let wrong = || Refusal::WrongSecret(ask.authid.clone());
    let mut hashes = Vec::new();
    for (verifier, last_second) in account.verifiers(now) {
        match &verifier {
            Verifier::Keyed(digest) => {
                let credential = account.credential.as_ref().map(|(id, _)| id);
                if credential.is_some_and(|id| key.matches(id, ask.secret.reveal(), digest)) {
                    return Ok((verifier, last_second, u64::MAX));
                }
            }
            // A fingerprint is not a secret: a certificate is proven only in the TLS handshake.
            Verifier::Certificate(_) | Verifier::Missing => {}
            Verifier::Crypt(hash) | Verifier::Upgrading(hash) => match known_match(now, ask, hash, memo)? {
                Ok(until) => return Ok((verifier, last_second, until)),
                Err(key) => hashes.push((hash.clone(), key)),
            },
        }
    }
    Err(match hashes.is_empty() {
        true => wrong().into(),
        false => Closed::NeedsWork(Box::new(Work { secret: ask.secret.clone(), hashes, refusal: wrong() })),
    })
}

/// The hash for users without a password. It costs as much as the hash of a password that this server stores.
const DECOY_HASH: &str =
    "$argon2id$v=19$m=19456,t=2,p=1$bm9ib2R5bm9ib2R5bm8$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// Returns the time of the monotonic clock, in milliseconds, until which the secret is known to match the hash. If no match is known, returns the
/// memo key for the secret and the hash.
fn known_match(
    now: Clocks,
    ask: &SecretAsk,
    hash: &str,
    memo: &IdentityMemo,
) -> Result<Result<u64, MemoKey>, Refusal> {
    if let Err(why) = crypt::check(hash) {
        return Err(Refusal::BadHash { authid: ask.authid.clone(), why: why.to_string().into() });
    }
    let key = memo.key("crypt").bytes(ask.secret.reveal()).bytes(hash.as_bytes()).key();
    let is_password = ask.authid.token.is_none();
    let until = match memo.matched_at(key) {
        // A match of a password is used only for a limited time. After this time, the slow hash is computed again.
        Some(at) if is_password => Some(at.saturating_add(PASSWORD_MEMO_MILLIS)),
        Some(_) => Some(u64::MAX),
        None => None,
    };
    Ok(until.filter(|until| now.tick_millis < *until).ok_or(key))
}
