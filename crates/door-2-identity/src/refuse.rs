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
    /// The user, the token or the domain may not be used.
    #[error("`{authid}` is disabled: {what}")]
    Disabled {
        /// The user or token.
        authid: Authid,
        /// The user, the token or the realm.
        what: &'static str,
    },
    /// The user or the token is past its time.
    #[error("`{authid}` has expired: {what}")]
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
    /// What the file says of it now is not known, and has not been for longer than the stale limit.
    #[error("`{authid}` is kept in {file}, and that cannot be believed: {why}")]
    Kept {
        /// The user or token.
        authid: Authid,
        /// The file.
        file: FileName,
        /// What is wrong with it.
        why: String,
    },
    /// A token that was not signed with any of the keys.
    #[error("the token was not signed with any key of the ring")]
    NotOurs,
    /// A token that was, and says what cannot be judged here.
    #[error("the token cannot be judged: {0}")]
    TokenUnread(Unread),
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
    TokenNotYet {
        /// Seconds until then.
        seconds: i64,
    },
    /// A token that was revoked.
    #[error("the token of `{authid}` was revoked: {by} was")]
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
    /// The user or credential a token speaks of is gone.
    #[error("whoever the token was for is gone")]
    NoSubject,
    /// A certificate of a client that is nobody's token.
    #[error("the client's certificate is nobody's: bind it with `enfilade token create --certificate`")]
    UnknownCertificate,
    /// A token for something where its user has nothing.
    #[error("the session is for nothing: {0}")]
    NoScope(&'static str),
    /// A session that would exceed the credential it is issued for.
    #[error("{0}")]
    Delegated(&'static str),
    /// A signature that is not by the key it is said to be by, or there is no such key.
    #[error("the signature is not by the EC2 key that is named, or there is no such key")]
    WrongSignature,
    /// A change that is asked for with a cookie, and without what only the page that was logged in at knows.
    #[error("the CSRF token is missing or is not the ticket's")]
    CrossSite,
    /// The password is right, and is good for nothing any more but choosing another.
    #[error("the password of `{authid}` has to be changed")]
    PasswordOver {
        /// The user or token.
        authid: Authid,
        /// Its id.
        user: UserId,
    },
    /// No token can be made.
    #[error("there is no key that signs tokens; run `enfilade keys init`")]
    NoKeys,
    /// Every hashing slot is taken and the queue is full.
    #[error("too many secrets are being checked at once")]
    Busy,
    /// Too many attempts from one address failed. The passage says this, before the door is asked to do any work.
    #[error("too many attempts from this address failed; it is heard again in {seconds} s")]
    Barred {
        /// When it is heard again.
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
    ("ID13", Fault::Client, "too many attempts from this address failed"),
    ("ID14", Fault::Operator, "the file the user or token is kept in cannot be believed"),
    ("ID15", Fault::Client, "the token was not signed with any key of the ring"),
    ("ID16", Fault::Client, "the token is of a kind that is not supported, or speaks of what cannot be here"),
    ("ID17", Fault::Client, "the token has expired"),
    ("ID18", Fault::Client, "whoever the token was for is gone"),
    ("ID19", Fault::Client, "the user has no role where the session is for, or that is gone or disabled"),
    ("ID20", Fault::Client, "the session would be more than what it comes of"),
    ("ID21", Fault::Operator, "there is no key that signs tokens"),
    ("ID22", Fault::Client, "a change was asked for with a ticket and without its CSRF token"),
    ("ID23", Fault::Client, "the client's certificate is nobody's token"),
    ("ID24", Fault::Client, "a signature that a service asks about is not by the EC2 key it names"),
    ("ID25", Fault::Client, "the password is right and too old, or was to be changed first"),
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
            Refusal::Barred { .. } => "ID13",
            Refusal::Kept { .. } => "ID14",
            Refusal::NotOurs => "ID15",
            Refusal::TokenUnread(_) => "ID16",
            Refusal::TokenExpired { .. } => "ID17",
            Refusal::NoSubject => "ID18",
            Refusal::NoScope(_) => "ID19",
            Refusal::Delegated(_) => "ID20",
            Refusal::NoKeys => "ID21",
            Refusal::CrossSite => "ID22",
            Refusal::UnknownCertificate => "ID23",
            Refusal::WrongSignature => "ID24",
            Refusal::PasswordOver { .. } => "ID25",
            Refusal::TokenNotYet { .. } => "ID26",
            Refusal::ClockBehind { .. } => "ID27",
        }
    }

    fn fault(&self) -> Fault {
        CODES.iter().find(|(code, ..)| *code == self.code()).map_or(Fault::Source, |(_, fault, _)| *fault)
    }
}
