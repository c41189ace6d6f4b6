//! Sessions of browsers. A browser sends a text in a cookie. The text contains the id of a stored session, and the secret that proves the session.
//! Door 2 makes the same kind of `Claim` from the stored session as from a Fernet token. So a session of a browser is judged like any other session,
//! and the same revocations end it.

use crate::ask::BrowserAsk;
use crate::context::Context;
use crate::fernet::payload::Audit;
use crate::grant::grant_session;
use crate::permit::Granted;
use crate::refuse::Refusal;
use crate::session::{Claim, Methods, Scope};
use crate::view::View;
use aws_lc_rs::{constant_time, digest};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use enfilade_facts::Clocks;
use enfilade_facts::tables::{BrowserProof, BrowserSession, BrowserSessionId, SecretDigest};

/// The number of random bytes in the secret of a cookie or a one-time code.
pub const BROWSER_SECRET_BYTES: usize = 32;
const TEXT_BYTES: usize = BrowserSessionId::BYTES + BROWSER_SECRET_BYTES;
const TEXT_CHARS: usize = (TEXT_BYTES * 4).div_ceil(3);

/// The text of a cookie or of a one-time code: the id of the session and the secret, in base64url without padding.
pub fn browser_text(id: BrowserSessionId, secret: &[u8; BROWSER_SECRET_BYTES]) -> String {
    URL_SAFE_NO_PAD.encode([id.to_bytes().as_slice(), secret].concat())
}

/// Reads a text that [`browser_text`] made. Returns the id of the session, and the digest of the secret in the text. `None` for any other text.
pub fn read_browser_text(text: &[u8]) -> Option<(BrowserSessionId, SecretDigest)> {
    // The decoder accepts only one text for the same bytes. The length is checked first, so that a long text is not decoded.
    let bytes = (text.len() == TEXT_CHARS).then(|| URL_SAFE_NO_PAD.decode(text).ok()).flatten()?;
    let (id, secret) = bytes.split_first_chunk::<{ BrowserSessionId::BYTES }>()?;
    Some((BrowserSessionId::of_bytes(*id), secret_digest(secret)))
}

/// The digest of a secret, which is stored in place of the secret.
pub fn secret_digest(secret: &[u8]) -> SecretDigest {
    let mut found = [0; 32];
    found.copy_from_slice(digest::digest(&digest::SHA256, secret).as_ref());
    SecretDigest(found)
}

/// Whether two digests are equal. The comparison takes constant time.
pub fn is_same_digest(one: &SecretDigest, other: &SecretDigest) -> bool {
    constant_time::verify_slices_are_equal(&one.0, &other.0).is_ok()
}

/// The claim of a stored session.
fn claim_of(id: BrowserSessionId, row: &BrowserSession) -> Claim {
    Claim {
        user: row.user,
        methods: Methods(row.methods),
        scope: Scope::Unscoped,
        lent: None,
        issued_at: row.issued_at,
        expires_at: i64::try_from(id.expires_at).unwrap_or(i64::MAX),
        audit: Audit { own: row.audit, chain: None },
    }
}

/// Judges the session that a cookie names. The session must have the audience `ask.audience`.
pub(crate) fn judge(
    view: &View<'_>,
    now: Clocks,
    ask: &BrowserAsk,
    context: &Context<'_>,
) -> Result<Granted, Refusal> {
    let unknown = || Refusal::BrowserSession;
    let (id, digest) = read_browser_text(ask.cookie.reveal()).ok_or_else(unknown)?;
    let row = view.browser_session(&id)?.filter(|row| row.audience == ask.audience);
    let row = row.ok_or_else(unknown)?;
    match &row.proof {
        BrowserProof::Cookie(known) if is_same_digest(known, &digest) => {}
        // A session has no cookie before its one-time code is exchanged.
        BrowserProof::Cookie(_) | BrowserProof::Code { .. } => return Err(unknown()),
    }
    grant_session(view, now, &claim_of(id, &row), Some(row.audience), 0, 0, context)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_has_one_spelling() {
        let id = BrowserSessionId { expires_at: 1_800_000_000, random: [7; 16] };
        let text = browser_text(id, &[9; 32]);
        assert_eq!(text.len(), TEXT_CHARS);
        assert_eq!(read_browser_text(text.as_bytes()), Some((id, secret_digest(&[9; 32]))));
        for wrong in
            [format!("{text}="), format!("{text}A"), text.replacen('A', "+", 1), text[1..].to_owned()]
        {
            assert_eq!(read_browser_text(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
