//! Why the door refuses. Most of these look alike to the client.

use crate::fernet::payload::Unread;
use enfilade_facts::tables::FileName;
use enfilade_facts::vocabulary::{Authid, UserId};
use enfilade_facts::{Door, Fault, Refuse, SourceError};

/// A refusal of door 2.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The request has no credential.
    #[error("no credential was given")]
    NoCredential,
    /// The request has a malformed credential, or more than one.
    #[error("the credential cannot be read: {0}")]
    Malformed(String),
    /// The credential was valid and was withdrawn while it was in use.
    #[error("`{0}` was withdrawn: deleted, or its secret or password was changed")]
    Revoked(Authid),
    /// No such user or token.
    #[error("there is no `{0}`")]
    Unknown(Authid),
    /// The secret or password does not match.
    #[error("wrong secret for `{0}`")]
    WrongSecret(Authid),
    /// The user, the token or the realm is disabled.
    #[error("`{authid}` cannot log in: {what} is disabled")]
    Disabled {
        /// The user or token.
        authid: Authid,
        /// The user, the token or the realm.
        what: &'static str,
    },
    /// The user or the token has expired.
    #[error("`{authid}` cannot log in: {what} has expired")]
    Expired {
        /// The user or token.
        authid: Authid,
        /// The user or the token.
        what: &'static str,
    },
    /// The stored hash cannot be used.
    #[error("the stored hash of `{authid}` cannot be used: {why}")]
    BadHash {
        /// The user or token.
        authid: Authid,
        /// What is wrong with it.
        why: String,
    },
    /// A file that defines it has been unreadable or invalid for longer than the stale limit.
    #[error("`{authid}` is defined in {file}, which is stale or invalid: {why}")]
    File {
        /// The user or token.
        authid: Authid,
        /// The file.
        file: FileName,
        /// What is wrong with it.
        why: String,
    },
    /// A token that none of the keys signed.
    #[error("none of the Fernet keys signed the token")]
    NotOurs,
    /// A token with content that is not supported.
    #[error("the token is not accepted: {0}")]
    TokenUnsupported(Unread),
    /// An expired token.
    #[error("the token expired {seconds} s ago")]
    TokenExpired {
        /// Seconds since then.
        seconds: i64,
    },
    /// A token whose issue time is in the future.
    #[error(
        "the token's issue time is {seconds} s ahead of this server's clock: synchronise the clocks of all servers"
    )]
    TokenFromFuture {
        /// Seconds until then.
        seconds: i64,
    },
    /// A revoked token.
    #[error("the token of `{authid}` is revoked: {by}")]
    TokenRevoked {
        /// Its user or token.
        authid: Authid,
        /// The revocation.
        by: &'static str,
    },
    /// No session can be issued, because revocations of sessions with so early an end may be purged.
    #[error(
        "the clock of this server is at least {seconds} s behind: revocations of sessions with so early an end may be \
            deleted already, so the server issues no session; set the clock of the server, then log in again"
    )]
    ClockBehind {
        /// Seconds at least.
        seconds: i64,
    },
    /// The user or credential of a token was deleted.
    #[error("the user or credential of the token was deleted")]
    SubjectDeleted,
    /// A client certificate that no token has.
    #[error(
        "the client certificate is bound to no token: bind it with `enfilade token create --certificate`"
    )]
    UnknownCertificate,
    /// A scope that does not exist or is disabled, or in which the user has no role.
    #[error("the scope of the session is not available: {0}")]
    NoScope(&'static str),
    /// A session that would exceed the credential it is issued for.
    #[error("{0}")]
    Delegated(&'static str),
    /// A signature that the named key did not make, or the key does not exist.
    #[error("the signature was not made with the named EC2 key, or the key does not exist")]
    WrongSignature,
    /// A change with a ticket and without its CSRF token.
    #[error("the CSRF token is missing or does not belong to the ticket")]
    CsrfToken,
    /// The password is right and has expired. It only allows to choose another one.
    #[error("the password of `{authid}` must be changed")]
    PasswordExpired {
        /// The user.
        authid: Authid,
        /// Its id.
        user: UserId,
    },
    /// No session can be issued without a key.
    #[error("there is no Fernet key to sign tokens; run `enfilade keys init`")]
    NoKeys,
    /// Every hashing slot is taken and the queue is full.
    #[error("too many secrets are being checked at once")]
    Busy,
    /// Too many logins from this address failed. The passage refuses before the door does any work.
    #[error("too many failed logins from this address; it is blocked for {seconds} s")]
    Blocked {
        /// Seconds until it is not blocked any more.
        seconds: u64,
    },
    /// Groups that are nested deeper than the limit.
    #[error("groups are nested more than {} deep", enfilade_facts::limits::GROUP_DEPTH_MAX)]
    GroupsTooDeep,
    /// More groups than the limit.
    #[error("the user is in more than {} groups", enfilade_facts::limits::GROUPS_PER_USER_MAX)]
    TooManyGroups,
    /// The facts could not be read.
    #[error(transparent)]
    Facts(#[from] SourceError),
}

/// Code, fault and meaning of every refusal of this door.
pub const CODES: [(&str, Fault, &str); 27] = [
    ("ID01", Fault::Client, "no credential was given"),
    ("ID02", Fault::Client, "the credential cannot be read, or there is more than one"),
    ("ID03", Fault::Client, "the credential was revoked, or withdrawn while it was in use"),
    ("ID04", Fault::Client, "no such user or token"),
    ("ID05", Fault::Client, "wrong secret or password"),
    ("ID06", Fault::Client, "the user, token or realm is disabled"),
    ("ID07", Fault::Client, "the user or token has expired"),
    ("ID08", Fault::Operator, "the stored hash cannot be used"),
    ("ID09", Fault::Operator, "too many secrets are being checked at once"),
    ("ID10", Fault::Operator, "groups are nested too deep"),
    ("ID11", Fault::Operator, "the user is in too many groups"),
    ("ID12", Fault::Source, "the facts about the user could not be read"),
    ("ID13", Fault::Client, "too many failed logins from this address"),
    ("ID14", Fault::Operator, "the file that defines the user or token is stale or invalid"),
    ("ID15", Fault::Client, "none of the Fernet keys signed the token"),
    ("ID16", Fault::Client, "the token is of a kind or has content that is not supported"),
    ("ID17", Fault::Client, "the token has expired"),
    ("ID18", Fault::Client, "the user or credential of the token was deleted"),
    ("ID19", Fault::Client, "the scope does not exist or is disabled, or the user has no role in it"),
    ("ID20", Fault::Client, "the session would exceed the credential it is issued for"),
    ("ID21", Fault::Operator, "there is no Fernet key to sign tokens"),
    ("ID22", Fault::Client, "a change with a ticket and without its CSRF token"),
    ("ID23", Fault::Client, "the client certificate is bound to no token"),
    ("ID24", Fault::Client, "a signature that a service asks about was not made with the named EC2 key"),
    ("ID25", Fault::Client, "the password is right and must be changed"),
    (
        "ID26",
        Fault::Client,
        "the token's issue time is more than 5 s ahead of this server's clock, and no session of this store",
    ),
    ("ID27", Fault::Operator, "this server's clock is set back too far to issue sessions"),
];

impl Refusal {
    /// Whether it counts as a failed login, because a client may be guessing secrets.
    pub fn is_failure(&self) -> bool {
        matches!(
            self,
            Refusal::Unknown(_)
                | Refusal::WrongSecret(_)
                | Refusal::Disabled { .. }
                | Refusal::Expired { .. }
                | Refusal::BadHash { .. }
        )
    }
}

impl Refuse for Refusal {
    fn door(&self) -> Door {
        Door::Identity
    }

    fn code(&self) -> &'static str {
        match self {
            Refusal::NoCredential => "ID01",
            Refusal::Malformed(_) => "ID02",
            Refusal::Revoked(_) | Refusal::TokenRevoked { .. } => "ID03",
            Refusal::Unknown(_) => "ID04",
            Refusal::WrongSecret(_) => "ID05",
            Refusal::Disabled { .. } => "ID06",
            Refusal::Expired { .. } => "ID07",
            Refusal::BadHash { .. } => "ID08",
            Refusal::Busy => "ID09",
            Refusal::GroupsTooDeep => "ID10",
            Refusal::TooManyGroups => "ID11",
            Refusal::Facts(_) => "ID12",
            Refusal::Blocked { .. } => "ID13",
            Refusal::File { .. } => "ID14",
            Refusal::NotOurs => "ID15",
            Refusal::TokenUnsupported(_) => "ID16",
            Refusal::TokenExpired { .. } => "ID17",
            Refusal::SubjectDeleted => "ID18",
            Refusal::NoScope(_) => "ID19",
            Refusal::Delegated(_) => "ID20",
            Refusal::NoKeys => "ID21",
            Refusal::CsrfToken => "ID22",
            Refusal::UnknownCertificate => "ID23",
            Refusal::WrongSignature => "ID24",
            Refusal::PasswordExpired { .. } => "ID25",
            Refusal::TokenFromFuture { .. } => "ID26",
            Refusal::ClockBehind { .. } => "ID27",
        }
    }

    fn fault(&self) -> Fault {
        CODES.iter().find(|(code, ..)| *code == self.code()).map_or(Fault::Source, |(_, fault, _)| *fault)
    }
}
