//! The judgement of a name and a secret.
//!
//! A user or token that is unknown, disabled or expired costs the same work as a wrong secret.

use crate::ask::SecretAsk;
use crate::crypt;
use crate::generated::HashKey;
use crate::grant::{digest, grant};
use crate::memo::IdentityMemo;
use crate::permit::{Granted, Proof};
use crate::refuse::Refusal;
use crate::standing::{self, Standing, stand_in};
use crate::upgrade::Upgrade;
use crate::view::View;
use crate::work::{Closed, Work};
use enfilade_facts::limits::PASSWORD_MEMO_MILLIS;
use enfilade_facts::tables::Verifier;
use enfilade_facts::vocabulary::CredentialId;
use enfilade_facts::{Clocks, MemoKey};
use std::sync::Arc;

/// What a name and a secret are granted, or the slow hash that is missing.
pub(crate) fn judge(
    view: &View<'_>,
    now: Clocks,
    ask: &SecretAsk,
    key: &HashKey,
    memo: &IdentityMemo,
) -> Result<Granted, Closed> {
    let named = standing::named(view, &ask.authid)?;
    let standing = match named {
        Some((user, token)) => Standing::of(view, &ask.authid, user, token)?,
        None => stand_in(view, ask, memo)
            .and_then(|(user, token)| Standing::of(view, &ask.authid, user, token).ok()?),
    };
    let is_there = named.is_some() && standing.as_ref().is_some_and(|found| !found.verifiers(now).is_empty());
    let checked = standing.as_ref().map_or(Ok(()), |standing| standing.check(view, now));
    // Everything below is done for everybody who does not come in, though only one part of it counts for each.
    let proven = standing.as_ref().map(|standing| prove(now, ask, key, standing, memo));
    let refusal = match (standing.as_ref().filter(|_| is_there).zip(proven), checked) {
        (None, _) => Err(Refusal::Unknown(ask.authid.clone())),
        (Some(_), Err(refusal @ (Refusal::Disabled { .. } | Refusal::Expired { .. }))) => Err(refusal),
        (Some(_), Err(refusal)) => return Err(refusal.into()),
        (Some((standing, Ok((verifier, proven_until)))), Ok(())) => {
            standing.check_password(now)?;
            let token = standing.credential.as_ref().map(|(id, credential)| (id, credential));
            let upgrade = token.and_then(|token| Upgrade::of(token, &verifier, ask, key)).map(Arc::new);
            let proof =
                Proof { credential: token.map(|(id, _)| *id), verifier: digest(memo, verifier), upgrade };
            return Ok(grant(view, now, standing, proof, proven_until, memo)?);
        }
        (Some((_, Err(closed))), Ok(())) => Ok(closed),
    };
    if named.is_some() {
        let _ = stand_in(view, ask, memo);
    }
    let wrong = || Refusal::WrongSecret(ask.authid.clone());
    let (closed, refusal) = match refusal {
        Ok(closed) => (Some(closed), wrong()),
        Err(refusal) => (None, refusal),
    };
    let equalized = equalize_cost(now, ask, key, standing.as_ref(), memo, refusal)?;
    Err(closed.unwrap_or(equalized))
}

/// The work of a wrong secret, for whoever does not come in whatever the secret: with a hash that costs what the real one
/// would and matches nothing, so that nothing comes of it that could be remembered.
fn equalize_cost(
    now: Clocks,
    ask: &SecretAsk,
    key: &HashKey,
    standing: Option<&Standing>,
    memo: &IdentityMemo,
    refusal: Refusal,
) -> Result<Closed, Refusal> {
    let verifier = standing
        .and_then(|standing| standing.verifiers(now).into_iter().next())
        .map(|(verifier, _)| verifier);
    let hash = match (&verifier, &ask.authid.token) {
        (Some(verifier), _) => verifier.crypt().map(crypt::matching_nothing),
        // A user without a password costs what one with a password does.
        (None, None) => Some(None),
        (None, Some(_)) => None,
    };
    let Some(hash) = hash else {
        let _ = key.matches(&CredentialId::from_bytes([0; 16]), ask.secret.reveal(), &[0; 32]);
        return Ok(refusal.into());
    };
    let hash = hash.unwrap_or_else(|| NOBODY.to_owned());
    Ok(match known_match(now, ask, &hash, memo)? {
        Ok(_) => refusal.into(),
        Err(key) => {
            let (secret, hashes) = (ask.secret.clone(), vec![(hash, key)]);
            Closed::NeedsWork(Box::new(Work { secret, hashes, refusal }))
        }
    })
}

/// The verifier the secret matches, and until which tick that is known; work, when it is not known.
fn prove(
    now: Clocks,
    ask: &SecretAsk,
    key: &HashKey,
    standing: &Standing,
    memo: &IdentityMemo,
) -> Result<(Verifier, u64), Closed> {
    let wrong = || Refusal::WrongSecret(ask.authid.clone());
    let mut hashes = Vec::new();
    for (verifier, _) in standing.verifiers(now) {
        match &verifier {
            Verifier::Keyed(digest) => {
                let credential = standing.credential.as_ref().map(|(id, _)| id);
                if credential.is_some_and(|id| key.matches(id, ask.secret.reveal(), digest)) {
                    return Ok((verifier, u64::MAX));
                }
            }
            // Anybody may know a fingerprint: it is proven in the handshake or not at all.
            Verifier::Certificate(_) | Verifier::Missing => {}
            Verifier::Crypt(hash) | Verifier::Upgrading(hash) => match known_match(now, ask, hash, memo)? {
                Ok(until) => return Ok((verifier, until)),
                Err(key) => hashes.push((hash.clone(), key)),
            },
        }
    }
    Err(match hashes.is_empty() {
        true => wrong().into(),
        false => Closed::NeedsWork(Box::new(Work { secret: ask.secret.clone(), hashes, refusal: wrong() })),
    })
}

/// Where no password is there to stand in: what a password of our own costs.
const NOBODY: &str =
    "$argon2id$v=19$m=19456,t=2,p=1$bm9ib2R5bm9ib2R5bm8$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// Until which tick it is known that the secret matches the hash; where it is not, what it would be remembered under.
fn known_match(
    now: Clocks,
    ask: &SecretAsk,
    hash: &str,
    memo: &IdentityMemo,
) -> Result<Result<u64, MemoKey>, Refusal> {
    if let Err(why) = crypt::check(hash) {
        return Err(Refusal::BadHash { authid: ask.authid.clone(), why: why.to_string() });
    }
    let key = memo.key("crypt").bytes(ask.secret.reveal()).bytes(hash.as_bytes()).key();
    let is_password = ask.authid.token.is_none();
    let until = match memo.matched_at(key) {
        // A person's password can be guessed, so its fast digest does not stay in memory for long.
        Some(at) if is_password => Some(at.saturating_add(PASSWORD_MEMO_MILLIS)),
        Some(_) => Some(u64::MAX),
        None => None,
    };
    Ok(until.filter(|until| now.tick_millis < *until).ok_or(key))
}
