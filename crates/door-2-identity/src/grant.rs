//! The verdict on a credential that was proven: its principal, and how long the verdict stays valid.

use crate::account::AccountState;
use crate::context::Context;
use crate::judge;
use crate::memo::IdentityMemo;
use crate::mfa;
use crate::permit::{Granted, Proof};
use crate::principal::{Principal, Reach};
use crate::refuse::Refusal;
use crate::revocations;
use crate::session::{Claim, Methods, Session};
use crate::sid_set::SidSet;
use crate::used::Used;
use crate::validity::Validity;
use crate::view::View;
use enfilade_facts::tables::{Audience, Verifier};
use enfilade_facts::vocabulary::Sid;
use enfilade_facts::{Clocks, MemoKey};
use std::iter;
use std::sync::Arc;

/// A proof, and how long the proof is valid.
pub(crate) struct Proven {
    pub(crate) proof: Proof,
    /// The last second in which the verifier is valid.
    pub(crate) last_second: i64,
    /// The time of the monotonic clock, in milliseconds, until which the match of secret and verifier may be used again.
    pub(crate) proven_until: u64,
}

/// The verdict on a proven credential. If the credential is a password and the user needs further methods, the verdict is unfinished. The user's
/// rules for multi-factor authentication are checked here only for passwords, not for API tokens.
pub(crate) fn grant(
    view: &View<'_>,
    now: Clocks,
    account: &AccountState,
    proven: Proven,
    memo: &IdentityMemo,
) -> Result<Granted, Refusal> {
    let is_password = proven.proof.credential.is_none();
    let mut granted = granted(view, now, account, proven, memo)?;
    granted.is_unfinished =
        is_password && !mfa::suffice(&mfa::rules_of(view, &account.id)?, Methods::PASSWORD);
    Ok(granted)
}

fn granted(
    view: &View<'_>,
    now: Clocks,
    account: &AccountState,
    proven: Proven,
    memo: &IdentityMemo,
) -> Result<Granted, Refusal> {
    let Proven { proof, last_second, proven_until } = proven;
    let principal = principal(view, account, memo)?;
    let mirrored = [
        account.user.mirrored.as_ref(),
        account.credential.as_ref().and_then(|(_, token)| token.mirrored.as_ref()),
    ];
    let validity = Validity {
        at: view.at(),
        first_second: i64::MIN,
        last_second: last_second.min(account.last_second()),
        proven_until,
        of_files: mirrored.iter().any(Option::is_some),
        mirror: now.mirror,
        keys: 0,
    };
    let (used, principal) = (Used::default(), Arc::new(principal));
    Ok(Granted { validity, used, proof, principal, session: None, is_unfinished: false })
}

/// The verdict on a session. `audience` is the audience of a browser's session. `keys` is the generation of the key ring that opened the session's
/// token; 0 if the session has no token. A session that expired less than `expired_seconds` seconds ago is also accepted.
pub(crate) fn grant_session(
    view: &View<'_>,
    now: Clocks,
    claim: &Claim,
    audience: Option<Audience>,
    keys: u64,
    expired_seconds: i64,
    context: &Context<'_>,
) -> Result<Granted, Refusal> {
    let (revocations, memo) = (&context.sessions.revocations, context.memo);
    let (account, mut session, good_from) = judge_in_time(view, now, claim, expired_seconds, context)?;
    let view = &view.of_session(claim.issued_at, revocations);
    let proof = Proof { credential: claim.credential(), verifier: MemoKey::default(), upgrade: None };
    let proven = Proven { proof, last_second: i64::MAX, proven_until: u64::MAX };
    let mut granted = granted(view, now, &account, proven, memo)?;
    view.check_over(&account.authid)?;
    Arc::make_mut(&mut granted.principal).reach = session.reach();
    session.audience = audience;
    let lent_until = session.lent_until();
    let validity = &mut granted.validity;
    validity.first_second = good_from;
    validity.last_second = account.last_second().min(claim.expires_at - 1).min(lent_until);
    validity.keys = keys;
    granted.session = Some(Arc::new(session));
    Ok(granted)
}

/// The account and the session of a claim, and the first second in which the session is valid. A claim is also accepted in the first
/// `expired_seconds` seconds after it expired.
pub(crate) fn judge_in_time(
    view: &View<'_>,
    now: Clocks,
    claim: &Claim,
    expired_seconds: i64,
    context: &Context<'_>,
) -> Result<(AccountState, Session, i64), Refusal> {
    let revocations = &context.sessions.revocations;
    let over = now.unix_seconds.saturating_sub(claim.expires_at);
    if over >= 0 && over >= expired_seconds {
        return Err(Refusal::TokenExpired { seconds: over });
    }
    let good_from = claim.good_from(revocations::issuing(view.facts, revocations, now.unix_seconds)?.horizon);
    if now.unix_seconds < good_from {
        return Err(Refusal::TokenFromFuture { seconds: claim.issued_at.saturating_sub(now.unix_seconds) });
    }
    let (account, session) = judge::judge_claim(view, now, claim, revocations)?;
    Ok((account, session, good_from))
}

/// The principal of a client that presented the secret of this account.
pub(crate) fn principal(
    view: &View<'_>,
    account: &AccountState,
    memo: &IdentityMemo,
) -> Result<Principal, Refusal> {
    let user = &account.user;
    let credential = account.credential.as_ref();
    let reach = match credential.zip(account.delegation.as_ref()) {
        Some(((id, _), delegation)) => judge::reach_of(view, &account.id, id, delegation)?,
        None => Reach::Everything,
    };
    let groups = view.groups_of(&account.id)?;
    let mut sids: Vec<Sid> = groups
        .iter()
        .flat_map(|(_, group)| iter::once(group.sid).chain(group.also.iter().copied()))
        .collect();
    sids.extend(&user.also);
    sids.extend([user.sid, Sid::EVERYONE, Sid::AUTHENTICATED, Sid::NETWORK]);
    let mut gids: Vec<u32> = groups.iter().filter_map(|(_, group)| group.gid).chain(user.gid).collect();
    gids.sort_unstable();
    gids.dedup();
    // Adds the SIDs that Samba derives from the uid and the gids on the machine.
    sids.extend(user.uid.map(Sid::of_unix_user));
    sids.extend(gids.iter().copied().map(Sid::of_unix_group));
    let sids = SidSet::new(sids);
    Ok(Principal {
        authid: account.authid.clone(),
        user: account.id,
        narrowed_to: credential
            .filter(|(_, token)| token.own_roles || token.link.is_some())
            .map(|(id, _)| *id),
        link: account.link().map(|link| link.place.clone()),
        reach,
        sid: user.sid,
        groups: groups.into_iter().map(|(id, _)| id).collect(),
        set: memo.sets.intern(sids.as_slice(), user.uid, &gids),
        sids,
        uid: user.uid,
        gids,
    })
}

impl Proof {
    /// Returns a proof of the same secret for the fast hash that replaces the slow hash. `None` if there is no upgrade.
    pub(crate) fn upgraded(&self, memo: &IdentityMemo) -> Option<Proof> {
        let verifier = digest(memo, &Verifier::Keyed(self.upgrade.as_ref()?.to));
        Some(Proof { credential: self.credential, verifier, upgrade: None })
    }
}

/// The digest of a verifier. A proof is valid if its digest equals the digest of a stored verifier.
pub(crate) fn digest(memo: &IdentityMemo, verifier: &Verifier) -> MemoKey {
    match verifier {
        Verifier::Keyed(digest) => memo.key("keyed").bytes(digest).key(),
        Verifier::Crypt(hash) | Verifier::Upgrading(hash) => {
            memo.key("crypt string").bytes(hash.as_bytes()).key()
        }
        Verifier::Certificate(fingerprint) => memo.key("certificate").bytes(fingerprint).key(),
        Verifier::Missing => memo.key("missing").key(),
    }
}
