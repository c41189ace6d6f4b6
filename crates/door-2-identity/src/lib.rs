//! Door 2: who is this?
//!
//! Read in this order: what the visitor brings (`ask`), what may be read (`view`), the decision ([`open`]),
//! what it grants ([`IdentityPermit`]) or says instead ([`Refusal`], [`Work`]), and what it remembers ([`IdentityMemo`]).

mod ask;
mod view;
mod open;
mod permit;
mod refuse;
mod memo;
mod principal;
mod reaches;
mod work;
mod crypt;
mod generated;
pub mod fernet;
mod standing;
mod upgrade;
mod used;
mod session;
mod revocations;
mod judge;
mod issue;
mod signature;

pub use ask::{CertificateAsk, SecretAsk};
pub use crypt::{HashRefused, check as check_hash, hash_generated, hash_password, matches as matches_hash};
pub use generated::{HashKey, SECRET_RANDOM_BYTES, generate as generate_secret};
pub use issue::{Issue, Wanted, issue};
pub use judge::{Ring, Tokens, roles_by, roles_of};
pub use memo::IdentityMemo;
pub use open::{
    Verdict, open, open_certificate, open_session, remembered, remembered_session, reopen, still_holds,
    validate, validated, who_would,
};
pub use permit::{IdentityPermit, Validated};
pub use principal::{Principal, Reach, SetId, Sets, SidSet};
pub use reaches::reaches;
pub use refuse::{CODES, Refusal};
pub use revocations::Revocations;
pub use session::{Claim, HeldRole, Lent, Methods, Scope, Session, SessionAsk};
pub use signature::{AWS4_HMAC_SHA256, SignatureAsk, Signed, Signing, chain_of, issue_signed};
pub use upgrade::Upgrade;
pub use work::{Outcome, Work};
