//! Passkeys in forms: the fields that a page offers, and the fields that its script sends. The script of the console asks the authenticator.

use super::parameter;
use crate::faces::Faces;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use enfilade_facts::vocabulary::Secret;
use enfilade_passage::{
    Assertion, NewPasskey, PasskeyAsk, Receipt, SessionAsk, host_of_origin, passkey_challenge,
};

/// The passkeys that a user can use in the second step of signing in, and the challenge for them.
#[derive(Clone, Debug)]
pub struct OfferedPasskeys {
    /// The challenge, in base64url.
    pub challenge: String,
    /// The ids of the passkeys, in base64url.
    pub ids: Vec<String>,
}

/// Bytes in base64url without padding (RFC 4648, section 5).
pub fn base64url(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The bytes in a field of a form; empty if the field is missing or is not base64url.
pub fn octets(pairs: &[(String, String)], name: &str) -> Vec<u8> {
    parameter(pairs, name).and_then(|text| URL_SAFE_NO_PAD.decode(text).ok()).unwrap_or_default()
}

/// The passkeys of a user for pages of this origin; `None` if there are none. The user is the user of the receipt. Only a person who knows the
/// password has a receipt.
pub async fn offered_passkeys(faces: &Faces, receipt: &str, origin: Option<&str>) -> Option<OfferedPasskeys> {
    let host = origin.and_then(host_of_origin)?.to_owned();
    let token = Secret::new(receipt.as_bytes())?;
    let house = faces.arc_house().clone();
    let found = tokio::task::spawn_blocking(move || {
        let user = house.read_receipt(&SessionAsk { token }).ok()?.user();
        enfilade_admin::second_factor_of(house.source(), &user).ok()?
    });
    let of_host = |passkey: &enfilade_facts::tables::Passkey| passkey.host == host;
    let passkeys = found.await.ok()??.passkeys;
    let ids: Vec<String> =
        passkeys.iter().filter(|passkey| of_host(passkey)).map(|passkey| base64url(&passkey.id.0)).collect();
    let challenge = base64url(&passkey_challenge(receipt.as_bytes()));
    (!ids.is_empty()).then_some(OfferedPasskeys { challenge, ids })
}

/// The answer of an authenticator in a form for signing in; `None` if the form has none, or if there is no `origin`.
pub(super) fn shown(
    pairs: &[(String, String)],
    token: &str,
    receipt: &Receipt,
    origin: Option<&str>,
) -> Option<PasskeyAsk> {
    let id = octets(pairs, "passkey");
    let origin = origin.filter(|_| !id.is_empty())?.to_owned();
    let [client_data, authenticator_data, signature] =
        ["client-data", "authenticator-data", "signature"].map(|name| octets(pairs, name));
    let assertion = Assertion { id, client_data, authenticator_data, signature };
    let challenge = passkey_challenge(token.as_bytes());
    Some(PasskeyAsk { assertion, challenge, origin, until: receipt.expires_at() })
}

/// The new passkey in a form.
pub fn new_passkey(pairs: &[(String, String)]) -> NewPasskey {
    let [id, key, client_data, authenticator_data] =
        ["passkey", "key", "client-data", "authenticator-data"].map(|name| octets(pairs, name));
    NewPasskey { id, key, client_data, authenticator_data }
}
