//! The credentials that the holder of a lent credential knows.

use crate::http::Shown;
use crate::world::World;
use enfilade_facts::vocabulary::to_rfc3339;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// A session's token.
    Session(String),
    Password {
        user: String,
        password: String,
    },
    /// An application credential.
    Credential {
        id: String,
        secret: String,
        authid: String,
    },
    /// A trust, which its trustee uses.
    Trust {
        id: String,
        trustee: String,
    },
    /// An EC2 key.
    Key {
        access: String,
        secret: String,
    },
    /// An OAuth access token: the ids and secrets of the consumer and of the token.
    Access {
        consumer: (String, String),
        token: (String, String),
    },
    ApiToken {
        authid: String,
        secret: String,
    },
    Ticket {
        ticket: String,
        csrf: String,
    },
}

fn by_password(user: &str, password: &str) -> Value {
    json!({ "methods": ["password"], "password": { "user": { "id": user, "password": password } } })
}

impl Way {
    /// The credential in the form in which a request contains it. `None` if the holder must get a session first.
    pub(crate) fn shown(&self) -> Option<Shown> {
        Some(match self {
            Way::Session(token) => Shown::Token(token.clone()),
            Way::Credential { secret, authid, .. } | Way::ApiToken { authid, secret } => {
                Shown::Basic(authid.clone(), secret.clone())
            }
            Way::Ticket { ticket, csrf } => Shown::Ticket(ticket.clone(), csrf.clone()),
            Way::Password { .. } | Way::Trust { .. } | Way::Key { .. } | Way::Access { .. } => return None,
        })
    }

    /// Requests a session with this credential. Returns the token of the session, if the server issues one.
    pub(crate) async fn login(&self, world: &World, scope: Value) -> Option<String> {
        let (identity, scope) = match self {
            Way::Session(token) => (json!({ "methods": ["token"], "token": { "id": token } }), scope),
            Way::Password { user, password } => (by_password(user, password), scope),
            Way::Credential { id, secret, .. } => {
                let given = json!({ "id": id, "secret": secret });
                (json!({ "methods": ["application_credential"], "application_credential": given }), scope)
            }
            Way::Trust { id, trustee } => {
                (by_password(trustee, crate::world::PASSWORD), json!({ "OS-TRUST:trust": { "id": id } }))
            }
            Way::Key { access, secret } => return by_key(world, access, secret).await,
            Way::Access { consumer, token } => return by_access(world, consumer, token, scope).await,
            Way::ApiToken { .. } | Way::Ticket { .. } => return None,
        };
        let body = json!({ "auth": { "identity": identity, "scope": scope } });
        world.http.ask(&Shown::Nothing, "POST", "/v3/auth/tokens", &body).await.subject
    }
}

/// Logs in as a consumer, with a request that the consumer signs with an access token (RFC 5849).
async fn by_access(
    world: &World,
    consumer: &(String, String),
    token: &(String, String),
    scope: Value,
) -> Option<String> {
    use base64::Engine as _;
    static NONCE: AtomicU64 = AtomicU64::new(0);
    let (nonce, now) = (NONCE.fetch_add(1, Ordering::Relaxed), world.now());
    // The signed text contains the parameters in the order of their names.
    let pairs = format!(
        "oauth_consumer_key={}&oauth_nonce={nonce}&oauth_signature_method=HMAC-SHA1&oauth_timestamp={now}&oauth_token={}",
        consumer.0, token.0
    );
    let text = format!(
        "POST&https%3A%2F%2Fhere%2Fv3%2Fauth%2Ftokens&{}",
        pairs.replace('=', "%3D").replace('&', "%26")
    );
    let key = format!("{}&{}", consumer.1, token.1);
    let key = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, key.as_bytes());
    let signature = aws_lc_rs::hmac::sign(&key, text.as_bytes());
    let signature = base64::engine::general_purpose::STANDARD.encode(signature);
    let signature = signature.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
    let quoted: Vec<String> = pairs
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .map(|(name, value)| format!("{name}=\"{value}\""))
        .collect();
    let header = format!("OAuth {}, oauth_signature=\"{signature}\"", quoted.join(", "));
    let body = json!({ "auth": { "identity": { "methods": ["oauth1"], "oauth1": {} }, "scope": scope } });
    world.http.ask(&Shown::Signed(header), "POST", "/v3/auth/tokens", &body).await.subject
}

/// Logs in as a service that received a request with an EC2 signature (AWS Signature Version 2). The service requests a session for the owner of the
/// EC2 key.
async fn by_key(world: &World, access: &str, secret: &str) -> Option<String> {
    use base64::Engine as _;
    let date = to_rfc3339(world.now());
    let query = format!(
        "SignatureMethod=HmacSHA256&SignatureVersion=2&Timestamp={}",
        date.replace(':', "%3A").replace('+', "%2B")
    );
    let text = format!("GET\ncloud\n/\n{query}");
    let key = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, secret.as_bytes());
    let signature = aws_lc_rs::hmac::sign(&key, text.as_bytes());
    let signature = base64::engine::general_purpose::STANDARD.encode(signature);
    let body = json!({ "credentials": {
        "access": access, "signature": signature, "verb": "GET", "host": "cloud", "path": "/", "headers": {},
        "params": { "SignatureVersion": "2", "SignatureMethod": "HmacSHA256", "Timestamp": date },
    } });
    world.http.ask(&world.asker(), "POST", "/v3/ec2tokens", &body).await.subject
}
