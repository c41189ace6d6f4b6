//! Door 2: who is this?
//!
//! Door 2 has these entry points. [`open`] identifies a client by its credential. [`reopen`] judges a permit again after a change of the stored
//! facts. [`validate`] judges a session for a service that asks about the session. [`issue`] judges a new session for a login to Identity v3
//! ([`Login`]), for a signed request, or for an OAuth consumer. For an OAuth consumer, [`prove`] must first check the signature.
//!
//! To understand the code, first read about the input: the credentials of clients ([`Ask`]), the stored facts that the door may read (`view`), and
//! the state of the process that the door needs ([`Context`]). Then read the code of the decision (`open`). The result of the decision is a permit
//! ([`IdentityPermit`]), which is valid under conditions ([`Validity`]), or the reason why there is no permit ([`Closed`]). At the end, read the code
//! of the door's memo ([`IdentityMemo`]).

mod ask;
mod view;
mod context;
mod open;
mod secret;
mod grant;
mod permit;
mod validity;
mod refuse;
mod memo;
mod principal;
mod sid_set;
mod reaches;
mod work;
mod crypt;
mod generated;
mod sealed;
mod totp;
mod second_factor;
pub mod sealed_certificate;
pub mod fernet;
mod account;
mod upgrade;
mod used;
mod session;
mod revocations;
mod mfa;
mod passcode;
mod passkey;
mod judge;
mod browser_session;
mod link;
mod login;
mod issue;
mod signature;
mod nonces;
mod oauth;
mod standing;

pub use account::user_named;
pub use ask::{Ask, BrowserAsk, CertificateAsk, LinkAsk, LinkProof, SecretAsk, SessionAsk};
pub use browser_session::{
    BROWSER_SECRET_BYTES, browser_text, is_same_digest, read_browser_text, secret_digest,
};
pub use context::{Context, Ring, SessionState};
pub use crypt::{HashRefused, check as check_hash, hash_generated, hash_password, matches as matches_hash};
pub use generated::{HashKey, SECRET_RANDOM_BYTES, generate as generate_secret};
pub use issue::{Basis, Unissued, Wanted, issue};
pub use judge::roles_of;
pub use link::{LINK_SECRET_BYTES, link_id, link_pass, link_text};
pub use login::{Login, Receipt, read_receipt};
pub use memo::IdentityMemo;
pub use mfa::is_enough;
pub use oauth::{OAuthAsk, OAuthProof, OAuthToken, Verifier, prove};
pub use open::{open, reopen, validate};
pub use passcode::{Passcode, PasskeyAsk, check_passcode, check_passkey};
pub use passkey::{Assertion, Ceremony, NewPasskey, PASSKEY_ALGORITHMS, host_of_origin, passkey_challenge};
pub use permit::{IdentityPermit, Unfinished, Validated};
pub use principal::{Principal, Reach, SetId, Sets};
pub use reaches::{check_login, lacks_secret, reaches, who_would};
pub use refuse::{CODES, Refusal};
pub use revocations::Revocations;
pub use sealed::NotSealed;
pub use second_factor::{
    Code, CodeUse, FactorSecret, RECOVERY_RANDOM_BYTES, check_code, recovery_codes, recovery_digest,
};
pub use session::{Claim, HeldRole, Lent, Methods, Scope, Session};
pub use sid_set::SidSet;
pub use signature::{AWS4_HMAC_SHA256, SignatureAsk, Signed, Signing, chain_of};
pub use standing::{Opener, check_opener, check_secret, check_session};
pub use upgrade::Upgrade;
pub use validity::Validity;
pub use work::{Closed, Outcome, Work};
