//! The decision of door 2.

use crate::ask::{CertificateAsk, SecretAsk};
use crate::crypt;
use crate::generated::HashKey;
use crate::judge::{self, Tokens};
use crate::memo::IdentityMemo;
use crate::permit::{Granted, IdentityPermit, Proof, Validated};
use crate::principal::{Principal, Reach, SidSet};
use crate::refuse::Refusal;
use crate::revocations;
use crate::session::{Claim, Session, SessionAsk};
use crate::standing::{self, Standing, stand_in};
use crate::upgrade::Upgrade;
use crate::used::Used;
use crate::view::View;
use crate::work::Work;
use enfilade_facts::limits::PASSWORD_MEMO_MILLIS;
use enfilade_facts::tables::Verifier;
use enfilade_facts::vocabulary::{Authid, CredentialId, Realm, Sid};
use enfilade_facts::{At, Clocks, Held, MemoKey};
use std::iter;
use std::sync::Arc;

/// What the door says.
#[derive(Debug)]
pub enum Verdict {
    /// Come in.
    Permit(IdentityPermit),
    /// No.
    Refusal(Refusal),
    /// A slow hash has to be computed first; then ask again.
    NeedsWork(Box<Work>),
}

/// Who is this, at this revision and time?
///
/// A user or token that is unknown, disabled or expired costs the same work as a wrong secret.
pub fn open(
    view: &enfilade_facts::View<'_>,
    now: Clocks,
    ask: &SecretAsk,
    key: &HashKey,
    memo: &IdentityMemo,
) -> Verdict {
    let view = View::new(view);
    if let Some(permit) = remembered(view.at(), || now, ask, memo) {
        return Verdict::Permit(permit);
    }
    match decide(&view, now, ask, key, memo) {
        Ok(granted) => Verdict::Permit(permit(memo.verdicts.put(memo.of(ask), granted))),
        Err(Closed::Refused(refusal)) => Verdict::Refusal(refusal),
        Err(Closed::NeedsWork(work)) => Verdict::NeedsWork(work),
    }
}

/// What was granted to this very credential at this very revision, while it is in time: the whole door for the price of a
/// memo probe, without a view. The revision is the newest that was acknowledged (`Source::at`), so whatever was
/// acknowledged before this was asked is obeyed; what is remembered was judged on a view of that revision itself.
/// The time is asked for only where something of the verdict ends by itself.
pub fn remembered(
    at: At,
    now: impl FnOnce() -> Clocks,
    ask: &SecretAsk,
    memo: &IdentityMemo,
) -> Option<IdentityPermit> {
    let permit = permit(memo.verdicts.get(memo.of(ask))?);
    still_holds(at, now, &permit, 0).then_some(permit)
}

/// Whether what was granted to a credential is what would be granted to the very same one now, without a look at the facts.
/// `keys` is the present reading of the keys of sessions, 0 for none.
pub fn still_holds(at: At, now: impl FnOnce() -> Clocks, permit: &IdentityPermit, keys: u64) -> bool {
    if permit.at() != at {
        return false;
    }
    if permit.session().is_some() {
        return keys != 0 && keys == permit.granted.keys && permit.holds(at, now());
    }
    let is_in_time = |now| permit.is_proven(now) && permit.holds(at, now);
    permit.is_timeless() || is_in_time(now())
}

/// Whose certificate is this, at this revision and time? It is a token whose owner proved the key in the handshake; everything else is as
/// for any token: enabled, in time, its owner's rights or its own.
///
/// # Errors
/// When it is nobody's, or its token, owner or realm is disabled or past its time.
pub fn open_certificate(
    view: &enfilade_facts::View<'_>,
    now: Clocks,
    ask: &CertificateAsk,
    memo: &IdentityMemo,
) -> Result<IdentityPermit, Refusal> {
    let key = memo.of_certificate(ask);
    let view = View::new(view);
    if let Some(known) = memo.verdicts.get(key).map(permit)
        && still_holds(view.at(), || now, &known, 0)
    {
        return Ok(known);
    }
    let nobodys = || Refusal::UnknownCertificate;
    let id = view.certificate_named(&ask.fingerprint)?.ok_or_else(nobodys)?;
    let token = view.credential(&id)?.ok_or_else(nobodys)?;
    let user = view.user(&token.owner)?.ok_or_else(nobodys)?;
    let realm: Realm = view.domain(&user.domain)?.ok_or_else(nobodys)?.name;
    let mut authid = Authid::from(judge::userid(&user.name, &realm).ok_or_else(nobodys)?);
    authid.token = Some(token.name);
    let standing = Standing::of(&view, &authid, token.owner, Some(id))?.ok_or_else(nobodys)?;
    standing.check(&view, now)?;
    let shown = Verifier::Certificate(ask.fingerprint);
    // A name that was left behind leads to a token that is something else by now.
    let verifier = standing.verifiers(now).into_iter().map(|(verifier, _)| verifier).find(|it| *it == shown);
    let proof =
        Proof { credential: Some(id), verifier: digest(memo, verifier.ok_or_else(nobodys)?), upgrade: None };
    let granted = grant(&view, now, &standing, proof, u64::MAX, memo)?;
    Ok(permit(memo.verdicts.put(key, granted)))
}

/// Whose session is this, at this revision and time?
///
/// # Errors
/// When the token is none of ours, past its time or revoked, or its subject or scope is not what it was.
pub fn open_session(
    view: &enfilade_facts::View<'_>,
    now: Clocks,
    ask: &SessionAsk,
    tokens: &Tokens<'_>,
    memo: &IdentityMemo,
) -> Result<IdentityPermit, Refusal> {
    if let Some(permit) = known_session(view, now, ask, tokens, memo)? {
        return Ok(permit);
    }
    let granted = judge_session(view, now, ask, 0, tokens, memo)?;
    Ok(permit(memo.verdicts.put(memo.of_session(ask), granted)))
}

/// The same for a token somebody else asks about, who may be told of one that expired so many seconds ago, too.
/// What comes of it lets nobody in.
///
/// # Errors
/// As for [`open_session`].
pub fn validate(
    view: &enfilade_facts::View<'_>,
    now: Clocks,
    ask: &SessionAsk,
    expired_seconds: i64,
    tokens: &Tokens<'_>,
    memo: &IdentityMemo,
) -> Result<Validated, Refusal> {
    if let Some(permit) = known_session(view, now, ask, tokens, memo)? {
        return Ok(Validated { granted: permit.granted });
    }
    let granted = judge_session(view, now, ask, expired_seconds, tokens, memo)?;
    // One that expired is not remembered: whatever is lets somebody in.
    let granted = match now.unix_seconds <= granted.good_until {
        true => memo.verdicts.put(memo.of_session(ask), granted),
        false => Held::new(granted),
    };
    Ok(Validated { granted })
}

/// The same without a view, where it is remembered.
pub fn validated(at: At, now: Clocks, ask: &SessionAsk, keys: u64, memo: &IdentityMemo) -> Option<Validated> {
    remembered_session(at, now, ask, keys, memo).map(|permit| Validated { granted: permit.granted })
}

/// What was granted to this very token at this very revision, by the keys of this reading (0 is none), while it is in time.
pub fn remembered_session(
    at: At,
    now: Clocks,
    ask: &SessionAsk,
    keys: u64,
    memo: &IdentityMemo,
) -> Option<IdentityPermit> {
    let permit = permit(memo.verdicts.get(memo.of_session(ask))?);
    still_holds(at, || now, &permit, keys).then_some(permit)
}

/// The same on a view: also what was granted at an earlier revision, where nothing but revocations was changed since, and
/// none of them is about it. So revocations that arrive all the time cost those they are not about a few probes.
fn known_session(
    view: &enfilade_facts::View<'_>,
    now: Clocks,
    ask: &SessionAsk,
    tokens: &Tokens<'_>,
    memo: &IdentityMemo,
) -> Result<Option<IdentityPermit>, Refusal> {
    let key = memo.of_session(ask);
    let Some(known) = memo.verdicts.get(key).map(permit) else { return Ok(None) };
    let is_by_these = tokens.ring.is_some_and(|ring| ring.generation == known.granted.keys);
    let as_of_then = known.holds(known.at(), now) && known.at().store == view.at().store;
    let Some(session) = known.session().filter(|_| is_by_these && as_of_then) else { return Ok(None) };
    if known.at() == view.at() {
        return Ok(Some(known));
    }
    if !judge::still_stands(&View::new(view), session, known.at().revision, tokens.revocations)? {
        return Ok(None);
    }
    let granted = Granted { at: view.at(), ..Granted::clone(&known.granted) };
    Ok(Some(permit(memo.verdicts.put(key, granted))))
}

fn judge_session(
    view: &enfilade_facts::View<'_>,
    now: Clocks,
    ask: &SessionAsk,
    expired_seconds: i64,
    tokens: &Tokens<'_>,
    memo: &IdentityMemo,
) -> Result<Granted, Refusal> {
    let ring = tokens.ring.ok_or(Refusal::NotOurs)?;
    let claim = Claim::read(&ring.keys, ask)?;
    let over = now.unix_seconds.saturating_sub(claim.expires_at);
    if over >= 0 && over >= expired_seconds {
        return Err(Refusal::TokenExpired { seconds: over });
    }
    grant_session(&View::new(view), now, &claim, ring.generation, tokens, memo)
}

fn grant_session(
    view: &View<'_>,
    now: Clocks,
    claim: &Claim,
    keys: u64,
    tokens: &Tokens<'_>,
    memo: &IdentityMemo,
) -> Result<Granted, Refusal> {
    let horizon = revocations::issuing(view.facts, tokens.revocations, now.unix_seconds)?.horizon;
    if now.unix_seconds < claim.good_from(horizon) {
        return Err(Refusal::TokenNotYet { seconds: claim.issued_at.saturating_sub(now.unix_seconds) });
    }
    let (standing, session) = judge::stand(view, now, claim, tokens.revocations)?;
    let view = &view.of_session(claim.issued_at, tokens.revocations);
    let proof = Proof { credential: claim.credential(), verifier: memo.key("session").key(), upgrade: None };
    let mut granted = grant(view, now, &standing, proof, u64::MAX, memo)?;
    view.check_over(&standing.authid)?;
    Arc::make_mut(&mut granted.principal).reach = session.reach();
    let lent_until = session.trusted.as_ref().map_or(i64::MAX, |trusted| trusted.good_until);
    granted.good_from = claim.good_from(horizon);
    granted.good_until = standing.good_until().min(claim.expires_at - 1).min(lent_until);
    granted.keys = keys;
    granted.session = Some(Arc::new(session));
    Ok(granted)
}

/// Does a permit that was granted earlier still hold, at this revision and time? Needs no secret: what was proven then
/// is compared with the verifier the facts hold now.
///
/// # Errors
/// When the credential is gone, changed, disabled or expired, or the facts cannot be read.
pub fn reopen(
    view: &enfilade_facts::View<'_>,
    now: Clocks,
    permit: &IdentityPermit,
    tokens: &Tokens<'_>,
    memo: &IdentityMemo,
) -> Result<IdentityPermit, Refusal> {
    let view = View::new(view);
    if permit.holds(view.at(), now) {
        return Ok(permit.clone());
    }
    if let Some(session) = permit.session() {
        return reopen_session(&view, now, session, permit.granted.keys, tokens, memo);
    }
    let (principal, proof) = (permit.principal(), permit.proof());
    let authid = &principal.authid;
    let revoked = || Refusal::Revoked(authid.clone());
    let standing = Standing::of(&view, authid, principal.user, proof.credential)?.ok_or_else(revoked)?;
    let matches = |proof: &Proof| {
        standing.verifiers(now).into_iter().any(|(verifier, _)| digest(memo, verifier) == proof.verifier)
    };
    // A slow hash that became a fast one is of the same secret.
    let proofs = [Some(proof.clone()), proof.upgraded(memo)];
    let proof = proofs.into_iter().flatten().find(matches).ok_or_else(revoked)?;
    standing.check(&view, now)?;
    standing.check_password(now)?;
    let granted = grant(&view, now, &standing, proof, permit.granted.proven_until, memo)?;
    Ok(self::permit(Held::new(granted)))
}

/// A key that is gone ends no session that is inside; whatever was revoked does.
fn reopen_session(
    view: &View<'_>,
    now: Clocks,
    session: &Session,
    keys: u64,
    tokens: &Tokens<'_>,
    memo: &IdentityMemo,
) -> Result<IdentityPermit, Refusal> {
    let over = now.unix_seconds.saturating_sub(session.claim.expires_at);
    if over >= 0 {
        return Err(Refusal::TokenExpired { seconds: over });
    }
    grant_session(view, now, &session.claim, keys, tokens, memo).map(|granted| permit(Held::new(granted)))
}

/// Who `authid` would be if the secret were right: for `explain` and reviews. No permit comes of it.
///
/// # Errors
/// As for a visitor with the right secret.
pub fn who_would(
    view: &enfilade_facts::View<'_>,
    now: Clocks,
    authid: &Authid,
    memo: &IdentityMemo,
) -> Result<Principal, Refusal> {
    let view = View::new(view);
    let unknown = || Refusal::Unknown(authid.clone());
    let (user, token) = standing::named(&view, authid)?.ok_or_else(unknown)?;
    let standing = Standing::of(&view, authid, user, token)?.ok_or_else(unknown)?;
    standing.check(&view, now)?;
    principal(&view, &standing, memo)
}

enum Closed {
    Refused(Refusal),
    NeedsWork(Box<Work>),
}

impl<R: Into<Refusal>> From<R> for Closed {
    fn from(refusal: R) -> Self {
        Closed::Refused(refusal.into())
    }
}

fn decide(
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

impl Proof {
    /// What was proven, once the upgrade is made.
    pub(crate) fn upgraded(&self, memo: &IdentityMemo) -> Option<Proof> {
        let verifier = digest(memo, Verifier::Keyed(self.upgrade.as_ref()?.to));
        Some(Proof { credential: self.credential, verifier, upgrade: None })
    }
}

pub(crate) fn digest(memo: &IdentityMemo, verifier: Verifier) -> MemoKey {
    match verifier {
        Verifier::Keyed(digest) => memo.key("keyed").bytes(&digest).key(),
        Verifier::Crypt(hash) | Verifier::Upgrading(hash) => {
            memo.key("crypt string").bytes(hash.as_bytes()).key()
        }
        Verifier::Certificate(fingerprint) => memo.key("certificate").bytes(&fingerprint).key(),
        Verifier::Missing => memo.key("missing").key(),
    }
}

pub(crate) fn principal(
    view: &View<'_>,
    standing: &Standing,
    memo: &IdentityMemo,
) -> Result<Principal, Refusal> {
    let user = &standing.user;
    let groups = view.groups_of(&standing.id)?;
    let mut sids: Vec<Sid> = groups
        .iter()
        .flat_map(|(_, group)| iter::once(group.sid).chain(group.also.iter().copied()))
        .collect();
    sids.extend(&user.also);
    sids.extend([user.sid, Sid::EVERYONE, Sid::AUTHENTICATED, Sid::NETWORK]);
    let mut gids: Vec<u32> = groups.iter().filter_map(|(_, group)| group.gid).chain(user.gid).collect();
    gids.sort_unstable();
    gids.dedup();
    // As Samba calls those who have a number on the machine.
    sids.extend(user.uid.map(Sid::of_unix_user));
    sids.extend(gids.iter().copied().map(Sid::of_unix_group));
    let sids = SidSet::new(sids);
    Ok(Principal {
        authid: standing.authid.clone(),
        user: standing.id,
        narrowed_to: standing.credential.as_ref().filter(|(_, token)| token.own_roles).map(|(id, _)| *id),
        reach: Reach::Everything,
        sid: user.sid,
        groups: groups.into_iter().map(|(id, _)| id).collect(),
        set: memo.sets.intern(sids.as_slice(), user.uid, &gids),
        sids,
        uid: user.uid,
        gids,
    })
}

/// The one place an [`IdentityPermit`] is made (invariant D2), of what [`grant`] said, now or at this very revision before.
fn permit(granted: Held<Granted>) -> IdentityPermit {
    IdentityPermit { granted }
}

/// What a permit says.
fn grant(
    view: &View<'_>,
    now: Clocks,
    standing: &Standing,
    proof: Proof,
    proven_until: u64,
    memo: &IdentityMemo,
) -> Result<Granted, Refusal> {
    let mut principal = principal(view, standing, memo)?;
    if let Some(credential) = &proof.credential
        && let Some(delegation) = view.delegation(credential)?
    {
        principal.reach = judge::reach_of(view, &standing.id, credential, delegation.project)?;
    }
    let verifiers = standing.verifiers(now).into_iter();
    let of_secret = verifiers.filter(|(verifier, _)| digest(memo, verifier.clone()) == proof.verifier);
    let good_until = of_secret.map(|(_, until)| until).max().unwrap_or(i64::MIN).min(standing.good_until());
    let mirrored = [
        standing.user.mirrored.as_ref(),
        standing.credential.as_ref().and_then(|(_, token)| token.mirrored.as_ref()),
    ];
    let of_files = mirrored.iter().any(Option::is_some);
    let mirror = now.mirror;
    let at = view.at();
    let (keys, session) = (0, None);
    let used = Used::default();
    Ok(Granted {
        at,
        good_from: i64::MIN,
        good_until,
        proven_until,
        of_files,
        mirror,
        keys,
        used,
        proof,
        principal: Arc::new(principal),
        session,
    })
}
