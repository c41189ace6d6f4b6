//! The decision of door 2. The entry functions are [`open`], [`validate`] and [`reopen`], and [`crate::issue`] for new sessions.
//!
//! [`open`] and [`validate`] share their code. Both functions use the verdict in the memo if this verdict is valid at the newest revision. Otherwise,
//! they judge the credential on a view, and the memo remembers the verdict.

use crate::account::AccountState;
use crate::ask::{Ask, CertificateAsk, SessionAsk};
use crate::browser_session;
use crate::context::{Context, Ring};
use crate::grant::{Proven, digest, grant, grant_session};
use crate::judge;
use crate::link;
use crate::memo::IdentityMemo;
use crate::permit::{Granted, IdentityPermit, Proof, Unfinished, Validated};
use crate::refuse::Refusal;
use crate::secret;
use crate::session::Claim;
use crate::view::View;
use crate::work::Closed;
use enfilade_facts::tables::Verifier;
use enfilade_facts::vocabulary::{Authid, Realm};
use enfilade_facts::{Clocks, Held, MemoKey, Read};

/// Identifies a client by its credential. `facts` is a source of facts, or a view of a source.
///
/// # Errors
/// [`Closed`]: a refusal, the slow hash that must be computed before the secret can be judged, or a login that needs further methods.
pub fn open(
    facts: &(impl Read + ?Sized),
    now: impl Fn() -> Clocks,
    ask: Ask<'_>,
    context: &Context<'_>,
) -> Result<IdentityPermit, Closed> {
    permit(enter(facts, now, ask, 0, context)?).map_err(Closed::Unfinished)
}

/// Judges the token of another client, for a service that asks about the token. The token may have expired less than `expired_seconds` seconds ago.
/// The result is not a permit.
///
/// # Errors
/// When the token was not signed with any of the keys, when it is expired or revoked, or when its user or scope is no longer valid.
pub fn validate(
    facts: &(impl Read + ?Sized),
    now: impl Fn() -> Clocks,
    ask: &SessionAsk,
    expired_seconds: i64,
    context: &Context<'_>,
) -> Result<Validated, Refusal> {
    let granted = enter(facts, now, Ask::Session(ask), expired_seconds, context);
    granted.map(|granted| Validated { granted }).map_err(Closed::refuse)
}

/// Judges an earlier permit again, at the revision of the view and at the time `now`. The secret is not needed: the proof in the permit is compared
/// with the verifier that is stored now. A session stays valid even if the key that signed its token was deleted.
///
/// # Errors
/// When the credential is deleted, changed, disabled, expired or revoked, or the facts cannot be read.
pub fn reopen(
    view: &enfilade_facts::View<'_>,
    now: Clocks,
    permit: &IdentityPermit,
    context: &Context<'_>,
) -> Result<IdentityPermit, Refusal> {
    let granted = granted_again(view, now, &permit.granted, context)?;
    self::permit(granted).map_err(|unfinished| unfinished.refuse())
}

/// Returns the earlier verdict if it is still valid at the revision of the view. Otherwise judges the credential again.
pub(crate) fn granted_again(
    view: &enfilade_facts::View<'_>,
    now: Clocks,
    granted: &Held<Granted>,
    context: &Context<'_>,
) -> Result<Held<Granted>, Refusal> {
    if granted.validity.holds(view.at(), now) {
        return Ok(granted.clone());
    }
    let view = &View::new(view);
    Ok(Held::new(match &granted.session {
        Some(session) => {
            let audience = session.audience.clone();
            grant_session(view, now, &session.claim, audience, granted.validity.keys, 0, context)?
        }
        None => proven_again(view, now, granted, context.memo)?,
    }))
}

/// Makes a permit from a verdict that is valid now, unless the login needs further methods. No other function makes an [`IdentityPermit`].
fn permit(granted: Held<Granted>) -> Result<IdentityPermit, Unfinished> {
    match granted.is_unfinished {
        false => Ok(IdentityPermit { granted }),
        true => Err(Unfinished { granted }),
    }
}

/// Returns the verdict on a credential at the newest revision. If the memo contains a valid verdict, one lookup is enough. Otherwise the credential
/// is judged on a view.
fn enter(
    facts: &(impl Read + ?Sized),
    now: impl Fn() -> Clocks,
    ask: Ask<'_>,
    expired_seconds: i64,
    context: &Context<'_>,
) -> Result<Held<Granted>, Closed> {
    // The revision is read first. If a change is acknowledged after the revision was read, the change takes effect with the next request.
    let at = facts.newest();
    let key = context.memo.key_of(ask);
    let known = context.memo.verdicts.get(key);
    match known {
        Some(known) if known.validity.admits(at, context.sessions.generation(), &now) => Ok(known),
        known => judge_anew(facts, now(), ask, expired_seconds, (key, known), context),
    }
}

/// Judges a credential that has no valid verdict in the memo. This function is never inlined, so that the code for a remembered credential stays
/// short.
#[inline(never)]
fn judge_anew(
    facts: &(impl Read + ?Sized),
    now: Clocks,
    ask: Ask<'_>,
    expired_seconds: i64,
    (key, known): (MemoKey, Option<Held<Granted>>),
    context: &Context<'_>,
) -> Result<Held<Granted>, Closed> {
    let memo = context.memo;
    let ring = context.sessions.ring();
    facts.read(|view| {
        let view = &View::new(view);
        let keys = ring.as_ref().map_or(0, |ring| ring.generation);
        let renewed = known.map(|known| renew(view, now, known, keys, context)).transpose()?.flatten();
        let granted = match (renewed, ask) {
            (Some(granted), _) => granted,
            (None, Ask::Secret(ask)) => secret::judge(view, now, ask, context.hash_key, memo)?,
            (None, Ask::Certificate(ask)) => judge_certificate(view, now, ask, memo)?,
            (None, Ask::Browser(ask)) => browser_session::judge(view, now, ask, context)?,
            (None, Ask::Link(ask)) => link::judge(view, now, ask, context)?,
            (None, Ask::Session(ask)) => {
                let Ring { keys, generation } = ring.as_deref().ok_or(Refusal::NotOurs)?;
                let claim = Claim::read(keys, ask)?;
                grant_session(view, now, &claim, None, *generation, expired_seconds, context)?
            }
        };
        // An expired session is not remembered, because every remembered verdict admits a client.
        Ok(match granted.validity.holds(view.at(), now) {
            true => memo.verdicts.put(key, granted),
            false => Held::new(granted),
        })
    })?
}

/// Renews the verdict on a session for the revision of the view, if only revocations were committed since the verdict was made, and no revocation
/// ends the session. Returns `None` in all other cases: the session must be judged anew. Because verdicts are renewed, a session that is not revoked
/// needs only a few lookups in the index after many revocations.
fn renew(
    view: &View<'_>,
    now: Clocks,
    known: Held<Granted>,
    keys: u64,
    context: &Context<'_>,
) -> Result<Option<Granted>, Refusal> {
    let (then, at) = (known.validity.at, view.at());
    let Some(session) = &known.session else { return Ok(None) };
    let is_valid = then.store == at.store && known.validity.admits(then, keys, || now);
    let revocations = &context.sessions.revocations;
    if !is_valid || then != at && !judge::is_still_valid(view, session, then.revision, revocations)? {
        return Ok(None);
    }
    let mut granted = Granted::clone(&known);
    granted.validity.at = at;
    Ok(Some(granted))
}

/// Judges a certificate that is bound to an API token. The client proved in the handshake that it has the key of the certificate.
fn judge_certificate(
    view: &View<'_>,
    now: Clocks,
    ask: &CertificateAsk,
    memo: &IdentityMemo,
) -> Result<Granted, Refusal> {
    let unknown = || Refusal::UnknownCertificate;
    let id = view.certificate_named(&ask.fingerprint)?.ok_or_else(unknown)?;
    let token = view.credential(&id)?.ok_or_else(unknown)?;
    let user = view.user(&token.owner)?.ok_or_else(unknown)?;
    let realm: Realm = view.domain(&user.domain)?.ok_or_else(unknown)?.name;
    let mut authid = Authid::from(judge::userid(&user.name, &realm).ok_or_else(unknown)?);
    authid.token = Some(token.name);
    let account = AccountState::of(view, &authid, token.owner, Some(id))?.ok_or_else(unknown)?;
    account.check(view, now)?;
    let shown = Verifier::Certificate(ask.fingerprint);
    // The record of a certificate's fingerprint may still point to a token that now has another verifier.
    let found = account.verifiers(now).find(|(verifier, _)| *verifier == shown);
    let (verifier, last_second) = found.ok_or_else(unknown)?;
    let proof = Proof { credential: Some(id), verifier: digest(memo, &verifier), upgrade: None };
    grant(view, now, &account, Proven { proof, last_second, proven_until: u64::MAX }, memo)
}

/// Judges again a password, API token, link or certificate that was proven for an earlier verdict.
fn proven_again(
    view: &View<'_>,
    now: Clocks,
    granted: &Granted,
    memo: &IdentityMemo,
) -> Result<Granted, Refusal> {
    let (principal, proof) = (&granted.principal, &granted.proof);
    let authid = &principal.authid;
    let revoked = || Refusal::Revoked(authid.clone());
    let account = AccountState::of(view, authid, principal.user, proof.credential)?.ok_or_else(revoked)?;
    let proven_until = granted.validity.proven_until;
    let proven = |proof: Proof| {
        if let Some(link) = account.link() {
            let is_same = link::digest(memo, link) == proof.verifier;
            return is_same.then_some(Proven { proof, last_second: i64::MAX, proven_until });
        }
        let is_proven = |(verifier, _): &(Verifier, i64)| digest(memo, verifier) == proof.verifier;
        let (_, last_second) = account.verifiers(now).find(is_proven)?;
        Some(Proven { proof, last_second, proven_until })
    };
    // If an upgrade replaced the slow hash by a fast one, both hashes are of the same secret, so the proof counts for both.
    let proven = proven(proof.clone()).or_else(|| proven(proof.upgraded(memo)?)).ok_or_else(revoked)?;
    account.check(view, now)?;
    account.check_password(now)?;
    grant(view, now, &account, proven, memo)
}
