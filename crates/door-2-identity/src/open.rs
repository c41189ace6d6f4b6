//! The decision of door 2.

use crate::ask::Ask;
use crate::crypt;
use crate::generated::HashKey;
use crate::memo::IdentityMemo;
use crate::permit::{Granted, IdentityPermit, Proof};
use crate::principal::Principal;
use crate::refuse::Refusal;
use crate::upgrade::Upgrade;
use crate::view::View;
use crate::work::Work;
use enfilade_facts::limits::PASSWORD_MEMO_MILLIS;
use enfilade_facts::tables::{Credential, FileName, Kept, User, Verifier};
use enfilade_facts::vocabulary::{Authid, CredentialId, Sid, UserId};
use enfilade_facts::{At, Held, MemoKey, Now};
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
    now: Now,
    ask: &Ask,
    key: &HashKey,
    memo: &IdentityMemo,
) -> Verdict {
    let view = View(view);
    if let Some(permit) = remembered(view.at(), || now, ask, memo) {
        return Verdict::Permit(permit);
    }
    match decide(&view, now, ask, key, memo) {
        Ok(granted) => Verdict::Permit(IdentityPermit { granted: memo.verdicts.put(memo.of(ask), granted) }),
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
    now: impl FnOnce() -> Now,
    ask: &Ask,
    memo: &IdentityMemo,
) -> Option<IdentityPermit> {
    let permit = IdentityPermit { granted: memo.verdicts.get(memo.of(ask))? };
    let is_in_time = || {
        let now = now();
        permit.is_proven(now) && permit.holds(at, now)
    };
    (permit.at() == at && (permit.is_timeless() || is_in_time())).then_some(permit)
}

/// Does a permit that was granted earlier still hold, at this revision and time? Needs no secret: what was proven then
/// is compared with the verifier the facts hold now.
///
/// # Errors
/// When the credential is gone, changed, disabled or expired, or the facts cannot be read.
pub fn reopen(
    view: &enfilade_facts::View<'_>,
    now: Now,
    permit: &IdentityPermit,
    memo: &IdentityMemo,
) -> Result<IdentityPermit, Refusal> {
    let view = View(view);
    if permit.holds(view.at(), now) {
        return Ok(permit.clone());
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
    let granted = grant(&view, now, standing, proof, permit.granted.proven_until, memo)?;
    Ok(IdentityPermit { granted: Held::new(granted) })
}

/// Who `authid` would be if the secret were right: for `explain` and reviews. No permit comes of it.
///
/// # Errors
/// As for a visitor with the right secret.
pub fn who_would(
    view: &enfilade_facts::View<'_>,
    now: Now,
    authid: &Authid,
    memo: &IdentityMemo,
) -> Result<Principal, Refusal> {
    let view = View(view);
    let standing = look_up(&view, authid)?.ok_or_else(|| Refusal::Unknown(authid.clone()))?;
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
    now: Now,
    ask: &Ask,
    key: &HashKey,
    memo: &IdentityMemo,
) -> Result<Granted, Closed> {
    let standing = look_up(view, &ask.authid)?;
    let unknown = || Refusal::Unknown(ask.authid.clone());
    let Some(standing) = standing.filter(|standing| !standing.verifiers(now).is_empty()) else {
        // Nobody there: the same work as for somebody, then no.
        match stand_in(view, ask, memo) {
            Some(hash) => {
                if let Err(key) = known_match(now, ask, &hash, memo)? {
                    let (secret, hashes) = (ask.secret.clone(), vec![(hash, key)]);
                    return Err(Closed::NeedsWork(Box::new(Work { secret, hashes, refusal: unknown() })));
                }
            }
            None => drop(key.matches(&CredentialId::from_bytes([0; 16]), ask.secret.reveal(), &[0; 32])),
        }
        return Err(unknown().into());
    };
    let (verifier, proven_until) = prove(now, ask, key, &standing, memo)?;
    standing.check(view, now)?;
    let token = standing.credential.as_ref().map(|(id, credential)| (id, credential));
    let upgrade = token.and_then(|token| Upgrade::of(token, &verifier, ask, key)).map(Arc::new);
    let credential = token.map(|(id, _)| *id);
    let proof = Proof { credential, verifier: digest(memo, verifier), upgrade };
    Ok(grant(view, now, standing, proof, proven_until, memo)?)
}

/// The verifier the secret matches, and until which tick that is known; work, when it is not known.
fn prove(
    now: Now,
    ask: &Ask,
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
            Verifier::Missing => {}
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

/// What the secret of somebody who is not there is compared with: the hash of somebody who is, chosen by the authid, so
/// that it costs what it might; `None` where that is no slow hash. What comes of it does not matter.
fn stand_in(view: &View<'_>, ask: &Ask, memo: &IdentityMemo) -> Option<String> {
    let by = memo.key("stand-in").bytes(ask.authid.to_string().as_bytes()).key().as_choice();
    let hash = match &ask.authid.token {
        Some(_) => view.some_credential(by).ok().flatten()?.verifier.crypt()?.to_owned(),
        None => view
            .some_user(by)
            .ok()
            .flatten()
            .and_then(|user| user.password)
            .unwrap_or_else(|| NOBODY.to_owned()),
    };
    Some(crypt::matching_nothing(&hash).unwrap_or_else(|| NOBODY.to_owned()))
}

/// Where no password is there to stand in: what a password of our own costs.
const NOBODY: &str =
    "$argon2id$v=19$m=19456,t=2,p=1$bm9ib2R5bm9ib2R5bm8$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// Until which tick it is known that the secret matches the hash; where it is not, what it would be remembered under.
fn known_match(
    now: Now,
    ask: &Ask,
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

pub(crate) fn digest(memo: &IdentityMemo, verifier: Verifier) -> MemoKey {
    match verifier {
        Verifier::Keyed(digest) => memo.key("keyed").bytes(&digest).key(),
        Verifier::Crypt(hash) | Verifier::Upgrading(hash) => {
            memo.key("crypt string").bytes(hash.as_bytes()).key()
        }
        Verifier::Missing => memo.key("missing").key(),
    }
}

/// What the facts say of an authid, whatever its secret.
struct Standing {
    authid: Authid,
    id: UserId,
    user: User,
    realm_enabled: bool,
    credential: Option<(CredentialId, Credential)>,
}

fn look_up(view: &View<'_>, authid: &Authid) -> Result<Option<Standing>, Refusal> {
    let Some(domain) = view.domain_named(authid.user.realm())? else { return Ok(None) };
    let Some(user) = view.user_named(&domain, authid.user.name())? else { return Ok(None) };
    let credential = match &authid.token {
        None => None,
        Some(name) => match view.token_named(&user, name)? {
            Some(id) => Some(id),
            None => return Ok(None),
        },
    };
    Standing::of(view, authid, user, credential)
}

impl Standing {
    /// By id: a name that was deleted and made again is somebody else.
    fn of(
        view: &View<'_>,
        authid: &Authid,
        id: UserId,
        credential: Option<CredentialId>,
    ) -> Result<Option<Standing>, Refusal> {
        let Some(user) = view.user(&id)? else { return Ok(None) };
        let credential = match credential {
            None => None,
            Some(credential) => match view.credential(&credential)?.filter(|row| row.owner == id) {
                Some(row) => Some((credential, row)),
                None => return Ok(None),
            },
        };
        let realm_enabled = view.domain(&user.domain)?.is_some_and(|domain| domain.enabled);
        Ok(Some(Standing { authid: authid.clone(), id, user, realm_enabled, credential }))
    }

    /// What a secret may match now, each with the last second it may.
    fn verifiers(&self, now: Now) -> Vec<(Verifier, i64)> {
        let Some((_, credential)) = &self.credential else {
            return self
                .user
                .password
                .clone()
                .map(|hash| (Verifier::Crypt(hash), i64::MAX))
                .into_iter()
                .collect();
        };
        let previous = credential.previous.as_ref().filter(|previous| now.unix_seconds < previous.until);
        let previous = previous.map(|previous| (previous.verifier.clone(), previous.until - 1));
        let both = [(credential.verifier.clone(), i64::MAX)].into_iter().chain(previous);
        both.filter(|(verifier, _)| *verifier != Verifier::Missing).collect()
    }

    /// Believed, enabled and in time: judged anew every time, never remembered without a revision.
    fn check(&self, view: &View<'_>, now: Now) -> Result<(), Refusal> {
        self.check_kept(view, now)?;
        let over = |expires: i64| expires != 0 && expires <= now.unix_seconds;
        let token = self.credential.as_ref().map(|(_, token)| token);
        let disabled = match () {
            () if !self.realm_enabled => Some("its realm is"),
            () if !self.user.enabled => Some("the user is"),
            () if token.is_some_and(|token| !token.enabled) => Some("the token is"),
            () => None,
        };
        if let Some(what) = disabled {
            return Err(Refusal::Disabled { authid: self.authid.clone(), what });
        }
        let expired = match () {
            () if over(self.user.expires) => Some("the user"),
            () if token.is_some_and(|token| over(token.expires)) => Some("the token"),
            () => None,
        };
        expired.map_or(Ok(()), |what| Err(Refusal::Expired { authid: self.authid.clone(), what }))
    }

    /// What is kept in files people edit has to be known: last good facts serve until the stale limit, and no longer.
    fn check_kept(&self, view: &View<'_>, now: Now) -> Result<(), Refusal> {
        let of_token = self.credential.as_ref().and_then(|(_, token)| token.kept.as_ref());
        let check = |kept: Option<&Kept>, files: &[FileName]| {
            let Some(kept) = kept else { return Ok(()) };
            let refused =
                |file: FileName, why: String| Refusal::Kept { authid: self.authid.clone(), file, why };
            for file in files {
                if !now.files_current {
                    return Err(refused(*file, "nobody has been able to look at it lately".to_owned()));
                }
                let faults = [view.fault_of(*file)?, kept.fault.clone()];
                if let Some(fault) = faults.into_iter().flatten().find(|fault| fault.refuses) {
                    return Err(refused(*file, fault.to_string()));
                }
            }
            Ok(())
        };
        check(self.user.kept.as_ref(), &[FileName::Users])?;
        check(of_token, &[FileName::Users, FileName::Secrets])
    }

    /// The last second all of it is in time.
    fn good_until(&self) -> i64 {
        let token = self.credential.as_ref().map_or(0, |(_, token)| token.expires);
        [self.user.expires, token]
            .into_iter()
            .filter(|expires| *expires != 0)
            .min()
            .map_or(i64::MAX, |end| end - 1)
    }
}

fn principal(view: &View<'_>, standing: &Standing, memo: &IdentityMemo) -> Result<Principal, Refusal> {
    let user = &standing.user;
    let groups = view.groups_of(&standing.id)?;
    let mut sids: Vec<Sid> = groups.iter().map(|(_, group)| group.sid).collect();
    sids.extend([user.sid, Sid::EVERYONE, Sid::AUTHENTICATED, Sid::NETWORK]);
    sids.sort_unstable();
    sids.dedup();
    let mut gids: Vec<u32> = groups.iter().filter_map(|(_, group)| group.gid).chain(user.gid).collect();
    gids.sort_unstable();
    gids.dedup();
    Ok(Principal {
        authid: standing.authid.clone(),
        user: standing.id,
        narrowed_to: standing.credential.as_ref().filter(|(_, token)| token.own_roles).map(|(id, _)| *id),
        sid: user.sid,
        groups: groups.into_iter().map(|(id, _)| id).collect(),
        set: memo.sets.intern(&sids, user.uid, &gids),
        sids,
        uid: user.uid,
        gids,
    })
}

/// The one place where it is decided what an [`IdentityPermit`] says (invariant D2).
fn grant(
    view: &View<'_>,
    now: Now,
    standing: Standing,
    proof: Proof,
    proven_until: u64,
    memo: &IdentityMemo,
) -> Result<Granted, Refusal> {
    let principal = principal(view, &standing, memo)?;
    let verifiers = standing.verifiers(now).into_iter();
    let of_secret = verifiers.filter(|(verifier, _)| digest(memo, verifier.clone()) == proof.verifier);
    let good_until = of_secret.map(|(_, until)| until).max().unwrap_or(i64::MIN).min(standing.good_until());
    let kept = [
        standing.user.kept.as_ref(),
        standing.credential.as_ref().and_then(|(_, token)| token.kept.as_ref()),
    ];
    let of_files = kept.iter().any(Option::is_some);
    let files_current = now.files_current;
    let at = view.at();
    Ok(Granted { principal, proof, at, good_until, proven_until, of_files, files_current })
}
