//! Requests that an OAuth 1.0a consumer signed (RFC 5849, HMAC-SHA1). A consumer is not a principal. A consumer with an access token gets a session
//! of the user who delegated roles to the consumer.

use crate::context::Context;
use crate::fernet::payload::{Audit, AuditId};
use crate::judge::judge_claim;
use crate::login::Receipt;
use crate::mfa;
use crate::nonces::Unfit;
use crate::refuse::Refusal;
use crate::revocations::Revocations;
use crate::session::{Claim, Lent, Methods, Scope, Session};
use crate::view::View;
use aws_lc_rs::{constant_time, hmac};
use enfilade_facts::tables::Approval;
use enfilade_facts::vocabulary::{AccessTokenId, ConsumerId, RequestTokenId};
use enfilade_facts::{Clocks, Index};

/// A signed request.
#[derive(Debug)]
pub struct OAuthAsk {
    /// The consumer.
    pub consumer: ConsumerId,
    /// The token that the request was signed with, in addition to the secret of the consumer.
    pub token: OAuthToken,
    /// The text that was signed (RFC 5849 §3.4.1), as this server built it from the request.
    pub text: Vec<u8>,
    /// The signature.
    pub signature: Vec<u8>,
    /// The time of the request, in seconds since the epoch.
    pub timestamp: i64,
    /// The nonce, which the consumer uses once.
    pub nonce: String,
}

/// The token of a signed request.
#[derive(Debug)]
pub enum OAuthToken {
    /// No token: the consumer asks for a request token.
    None,
    /// A request token, to be exchanged for an access token, and the code `oauth_verifier` that the user passed to the consumer.
    Request(RequestTokenId, Verifier),
    /// An access token.
    Access(AccessTokenId),
}

/// The code `oauth_verifier`, as the consumer sent it. It is a secret.
pub struct Verifier(pub String);

impl std::fmt::Debug for Verifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Verifier")
    }
}

/// The proof that a consumer signed a request, and that the request is new. Only [`prove`] makes such a proof.
#[derive(Debug)]
pub struct OAuthProof {
    consumer: ConsumerId,
    request: Option<(RequestTokenId, Approval)>,
    access: Option<AccessTokenId>,
}

impl OAuthProof {
    /// The consumer.
    pub fn consumer(&self) -> ConsumerId {
        self.consumer
    }

    /// The request token with which the request was signed, if any, and its approval. The consumer has proven that it knows the code
    /// `oauth_verifier` of this approval.
    pub fn request_token(&self) -> Option<(RequestTokenId, &Approval)> {
        self.request.as_ref().map(|(id, approval)| (*id, approval))
    }
}

const UNKNOWN: Refusal = Refusal::NotProven(
    "the signature or the `oauth_verifier` is wrong, or there is no such consumer or token, or the token is expired or not approved",
);

/// Checks that the consumer signed the request, and that the request is new.
///
/// # Errors
/// [`Refusal::NotProven`], or when the facts cannot be read.
pub fn prove(
    view: &enfilade_facts::View<'_>,
    now: Clocks,
    ask: &OAuthAsk,
    context: &Context<'_>,
) -> Result<OAuthProof, Refusal> {
    let view = &View::new(view);
    let is_its = |consumer: ConsumerId, expires: i64| consumer == ask.consumer && now.unix_seconds < expires;
    let secret = view.consumer(&ask.consumer)?.and_then(|row| row.secret.text());
    let mut approved = None;
    let (token, is_verified, id) = match &ask.token {
        OAuthToken::None => (Some(String::new()), true, [0; 16]),
        OAuthToken::Request(id, verifier) => {
            let row = view.request_token(id)?.filter(|row| is_its(row.consumer, row.expires));
            let secret = row.as_ref().and_then(|row| row.secret.text());
            let is_its = |approval: &Approval| {
                let expected = approval.verifier.text();
                expected.is_some_and(|text| is_same(text.as_bytes(), verifier.0.as_bytes()))
            };
            approved = row.and_then(|row| row.approval).filter(is_its);
            (secret, approved.is_some(), *id.bytes())
        }
        OAuthToken::Access(id) => {
            let row = view.access_token(id)?.filter(|row| is_its(row.consumer, row.expires));
            (row.and_then(|row| row.secret.text()), true, *id.bytes())
        }
    };
    // The signature is computed even if the consumer or the token does not exist, so that the time does not reveal which consumers and tokens exist.
    let is_signed = is_same(&signed(secret.as_deref(), token.as_deref(), &ask.text), &ask.signature);
    if secret.is_none() || token.is_none() || !is_verified || !is_signed {
        return Err(UNKNOWN);
    }
    let nonce = context.memo.key("nonce").bytes(ask.consumer.bytes()).bytes(&id).bytes(ask.nonce.as_bytes());
    context.sessions.nonces.accept(now, ask.timestamp, ask.consumer, nonce.key()).map_err(
        |unfit| match unfit {
            Unfit::Time => Refusal::NotProven(
                "the timestamp of the request differs from the clock of this server by more than 5 minutes",
            ),
            Unfit::Again => Refusal::NotProven("a request with this nonce was accepted before"),
            Unfit::Full => Refusal::Busy,
        },
    )?;
    let (request, access) = match ask.token {
        OAuthToken::None => (None, None),
        OAuthToken::Request(id, _) => (approved.map(|approval| (id, approval)), None),
        OAuthToken::Access(id) => (None, Some(id)),
    };
    Ok(OAuthProof { consumer: ask.consumer, request, access })
}

fn is_same(one: &[u8], other: &[u8]) -> bool {
    constant_time::verify_slices_are_equal(one, other).is_ok()
}

/// The signature of a text (RFC 5849 §3.4.2). The key needs no percent-encoding, because secrets are hexadecimal digits.
fn signed(consumer: Option<&str>, token: Option<&str>, text: &[u8]) -> Vec<u8> {
    let key = [consumer.unwrap_or_default(), "&", token.unwrap_or_default()].concat();
    let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, key.as_bytes());
    hmac::sign(&key, text).as_ref().to_vec()
}

/// The session of the user who delegated roles to the consumer. The methods of a receipt of this user also count.
pub(crate) fn judge(
    view: &View<'_>,
    now: Clocks,
    issued_at: i64,
    (proof, receipt): (&OAuthProof, Option<&Receipt>),
    lifetime: i64,
    own: AuditId,
    revocations: &Index<Revocations>,
) -> Result<Session, Refusal> {
    let id = proof.access.ok_or(Refusal::Delegated(
        "a session is issued only for an OAuth access token, and this request was signed without an access token",
    ))?;
    let row = view.access_token(&id)?.ok_or(UNKNOWN)?;
    let methods = match receipt {
        Some(receipt) => Methods::OAUTH1.and(receipt.methods_of(&row.user)?),
        None => Methods::OAUTH1,
    };
    let claim = Claim {
        user: row.user,
        methods,
        scope: Scope::Project(row.project),
        lent: Some(Lent::AccessToken(id)),
        issued_at,
        expires_at: now.unix_seconds.saturating_add(lifetime),
        audit: Audit { own, chain: None },
    };
    let (account, mut session) = judge_claim(view, now, &claim, revocations)?;
    // As in Keystone, the user's rules for multi-factor authentication also apply when a consumer gets a session of the user.
    mfa::check(view, &account.authid, claim.user, claim.methods)?;
    let last_second = account.last_second().min(session.lent_until());
    session.claim.expires_at = claim.expires_at.min(last_second.saturating_add(1));
    Ok(session)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verifier_is_not_shown() {
        assert_eq!(format!("{:?}", Verifier("8f3a".to_owned())), "Verifier");
    }

    /// The example of RFC 5849 §1.2 (the request for a photo). Its secrets have another form than the secrets of this server.
    #[test]
    fn the_published_example_is_signed_alike() {
        let text = "GET&http%3A%2F%2Fphotos.example.net%2Fphotos&file%3Dvacation.jpg%26oauth_consumer_key%3Ddpf43f3p2l4k3l03%26\
                    oauth_nonce%3DchapoH%26oauth_signature_method%3DHMAC-SHA1%26oauth_timestamp%3D137131202%26\
                    oauth_token%3Dnnch734d00sl2jdk%26size%3Doriginal";
        let of = |consumer, token, text: &str| signed(Some(consumer), token, text.as_bytes());
        let (consumer, token) = ("kd94hf93k423kf44", "pfkkdhi9sl3r4s00");
        // In Base64: "MdpQcU8iPSUjWoN/UDMsK2sui9I=".
        let expected = [
            0x31, 0xda, 0x50, 0x71, 0x4f, 0x22, 0x3d, 0x25, 0x23, 0x5a, 0x83, 0x7f, 0x50, 0x33, 0x2c, 0x2b,
            0x6b, 0x2e, 0x8b, 0xd2,
        ];
        assert_eq!(of(consumer, Some(token), text), expected);
        for other in [of(token, Some(token), text), of(consumer, None, text), of(consumer, Some(token), "x")]
        {
            assert_ne!(other, expected);
        }
    }
}
