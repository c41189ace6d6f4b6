//! Links with which people share a file or folder. The URL of a link contains a text with the id of an API token and a secret. The stored token
//! contains the digest of the secret and the shared place. If the user who made the link chose a password for guests, the token also contains a slow
//! hash of this password.
//!
//! After a guest entered the right password, the browser gets a pass: a text that consists of the second in which the pass ends, and a keyed hash. So
//! the browser sends the password only once. The server does not store passes. A pass alone does not give access, because each request must also
//! contain the secret of the link.
//!
//! The door does the same work for each of these refusals: the link was never made, the link was ended, the secret is wrong, or the link has expired.

use crate::account::AccountState;
use crate::ask::{LinkAsk, LinkProof};
use crate::browser_session::{is_same_digest, secret_digest};
use crate::context::Context;
use crate::crypt;
use crate::generated::HashKey;
use crate::grant::{Proven, grant};
use crate::judge;
use crate::memo::IdentityMemo;
use crate::permit::{Granted, Proof};
use crate::refuse::Refusal;
use crate::view::View;
use crate::work::{Closed, Work};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use enfilade_facts::limits::PASSWORD_MEMO_MILLIS;
use enfilade_facts::tables::{Credential, Link, SecretDigest};
use enfilade_facts::vocabulary::{Authid, CredentialId, Secret, from_lower_hex, to_hex};
use enfilade_facts::{Clocks, MemoKey};

/// The number of random bytes in the secret of a link.
pub const LINK_SECRET_BYTES: usize = 32;
const ID_BYTES: usize = 16;
/// The number of characters of the text in the URL of a link.
const TEXT_CHARS: usize = (ID_BYTES + LINK_SECRET_BYTES) * 4 / 3;

/// The text in the URL of a link: the id of the token and the secret, in base64url.
pub fn link_text(id: &CredentialId, secret: &[u8; LINK_SECRET_BYTES]) -> String {
    URL_SAFE_NO_PAD.encode([id.bytes().as_slice(), secret].concat())
}

/// Reads a text that [`link_text`] made. Returns the id of the token, and the digest of the secret in the text. `None` for any other text.
fn read_link_text(text: &[u8]) -> Option<(CredentialId, SecretDigest)> {
    let bytes = (text.len() == TEXT_CHARS).then(|| URL_SAFE_NO_PAD.decode(text).ok()).flatten()?;
    let (id, secret) = bytes.split_first_chunk::<ID_BYTES>()?;
    Some((CredentialId::from_bytes(*id), secret_digest(secret)))
}

/// The id of the token in the text of a link. `None` if no link can have this text.
pub fn link_id(text: &Secret) -> Option<CredentialId> {
    read_link_text(text.reveal()).map(|(id, _)| id)
}

/// The pass of a guest who knows the password of a link. `until` is the first second in which the pass is not valid, in seconds since the epoch.
pub fn link_pass(key: &HashKey, link: &CredentialId, until: i64) -> String {
    format!("{until}.{}", to_hex(&key.digest(link, &passed(until))))
}

/// The text that is hashed for a pass. The pass contains the keyed hash of this text.
fn passed(until: i64) -> Vec<u8> {
    [b"pass of a link:".as_slice(), &until.to_be_bytes()].concat()
}

/// The last second of a pass; `None` if the pass is not valid for this link and this time.
fn last_second_of_pass(key: &HashKey, link: &CredentialId, pass: &Secret, now: Clocks) -> Option<i64> {
    let (until, digest) = std::str::from_utf8(pass.reveal()).ok()?.split_once('.')?;
    let (until, digest) = (until.parse::<i64>().ok()?, from_lower_hex::<32>(digest)?);
    let is_ours = key.matches(link, &passed(until), &digest);
    (is_ours && now.unix_seconds < until).then(|| until - 1)
}

/// Judges the link that a guest presents.
pub(crate) fn judge(
    view: &View<'_>,
    now: Clocks,
    ask: &LinkAsk,
    context: &Context<'_>,
) -> Result<Granted, Closed> {
    let text = ask.text.reveal();
    let read = read_link_text(text);
    let (id, secret) = read.unwrap_or_else(|| (CredentialId::from_bytes([0; 16]), secret_digest(text)));
    let is_it = |token: &Credential| {
        token.link.as_ref().is_some_and(|link| is_same_digest(&link.secret, &secret)) && read.is_some()
    };
    let token = view.credential(&id)?.filter(is_it);
    // For a link that does not exist, another token is read and judged.
    let decoy = view.some_credential(*id.bytes())?;
    let is_there = token.is_some();
    let (id, token) = token.map(|token| (id, token)).or(decoy).ok_or(Refusal::NoLink)?;
    let account = account_of(view, id, &token)?;
    let checked = account.as_ref().map_or(Ok(()), |account| account.check(view, now));
    let (Some(account), Some(link), true) = (account, &token.link, is_there) else {
        return Err(Refusal::NoLink.into());
    };
    checked?;
    // The number of uses is checked only when a request begins, and not while the request runs, because the last use sets this number to zero.
    if link.uses == Some(0) {
        return Err(Refusal::LinkUsedUp(account.authid).into());
    }
    let (last_second, proven_until) = proven_by(link, &id, (ask, now), &account.authid, context)?;
    let proof = Proof { credential: Some(id), verifier: digest(context.memo, link), upgrade: None };
    Ok(grant(view, now, &account, Proven { proof, last_second, proven_until }, context.memo)?)
}

/// The account of a token; `None` if its owner was deleted.
fn account_of(
    view: &View<'_>,
    id: CredentialId,
    token: &Credential,
) -> Result<Option<AccountState>, Refusal> {
    let Some(user) = view.user(&token.owner)? else { return Ok(None) };
    let Some(realm) = view.domain(&user.domain)?.map(|domain| domain.name) else { return Ok(None) };
    let Some(userid) = judge::userid(&user.name, &realm) else { return Ok(None) };
    let authid = Authid { token: Some(token.name.clone()), ..Authid::from(userid) };
    AccountState::of(view, &authid, token.owner, Some(id))
}

/// Checks the password, if the link has one. Returns the last second in which the proof is valid, and the tick (milliseconds of the monotonic clock)
/// until which the proof may be used again.
fn proven_by(
    link: &Link,
    id: &CredentialId,
    (ask, now): (&LinkAsk, Clocks),
    authid: &Authid,
    context: &Context<'_>,
) -> Result<(i64, u64), Closed> {
    let Some(hash) = &link.password else { return Ok((i64::MAX, u64::MAX)) };
    let needed = || Refusal::LinkPassword(authid.clone());
    match &ask.proof {
        LinkProof::Nothing => Err(needed().into()),
        LinkProof::Pass(pass) => {
            let last = last_second_of_pass(context.hash_key, id, pass, now).ok_or_else(needed)?;
            Ok((last, u64::MAX))
        }
        LinkProof::Password(secret) => {
            if let Err(why) = crypt::check(hash) {
                let why = why.to_string().into();
                return Err(Refusal::BadHash { authid: authid.clone(), why }.into());
            }
            let key = context.memo.key("crypt").bytes(secret.reveal()).bytes(hash.as_bytes()).key();
            let until = context.memo.matched_at(key).map(|at| at.saturating_add(PASSWORD_MEMO_MILLIS));
            until.filter(|until| now.tick_millis < *until).map(|until| (i64::MAX, until)).ok_or_else(|| {
                let (secret, hashes) = (secret.clone(), vec![(hash.clone(), key)]);
                Closed::NeedsWork(Box::new(Work {
                    secret,
                    hashes,
                    refusal: Refusal::WrongSecret(authid.clone()),
                }))
            })
        }
    }
}

/// The digest of the secret of a link, for the proof in a permit.
pub(crate) fn digest(memo: &IdentityMemo, link: &Link) -> MemoKey {
    memo.key("link").bytes(&link.secret.0).key()
}

#[cfg(test)]
mod tests {
    use super::*;
    use enfilade_facts::MirrorHealth;

    #[test]
    fn the_text_of_a_link_has_one_spelling() {
        let id = CredentialId::from_bytes([7; 16]);
        let text = link_text(&id, &[9; 32]);
        assert_eq!(text.len(), TEXT_CHARS);
        assert_eq!(read_link_text(text.as_bytes()), Some((id, secret_digest(&[9; 32]))));
        for wrong in
            [format!("{text}="), format!("{text}A"), text[1..].to_owned(), text.replacen('B', "/", 1)]
        {
            assert_eq!(read_link_text(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn a_pass_is_for_one_link_and_ends() {
        let (key, other) = (HashKey::new(&[1; 32]), HashKey::new(&[2; 32]));
        let (link, another) = (CredentialId::from_bytes([7; 16]), CredentialId::from_bytes([8; 16]));
        let now = |unix_seconds| Clocks { unix_seconds, tick_millis: 0, mirror: MirrorHealth::Current };
        let secret = |text: &str| Secret::new(text.as_bytes()).unwrap();
        let pass = link_pass(&key, &link, 100);
        let last = |key, link, pass: &str, at| last_second_of_pass(key, link, &secret(pass), now(at));
        assert_eq!(last(&key, &link, &pass, 99), Some(99));
        assert_eq!(last(&key, &link, &pass, 100), None);
        assert_eq!(last(&other, &link, &pass, 99), None);
        assert_eq!(last(&key, &another, &pass, 99), None);
        for wrong in [pass.replacen("100", "900", 1), "100.".to_owned(), ".".to_owned(), "x".to_owned()] {
            assert_eq!(last(&key, &link, &wrong, 99), None, "{wrong}");
        }
    }
}
