//! Why door 2 refuses a request. The client gets the same answer for most refusals.

use crate::fernet::payload::Unread;
use enfilade_facts::tables::FileName;
use enfilade_facts::vocabulary::{Authid, UserId};
use enfilade_facts::{Door, Fault, RefusalRow, Refuse, SourceError};

/// A refusal of door 2.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The request has no credential.
    #[error("no credential was given")]
    NoCredential,
    /// In this minute, the user made too many requests for a redirect with a one-time code, to sign in to the console, or to change the second factor
    /// or passkeys. All these requests count together.
    #[error(
        "the user made too many requests in this minute. These requests count together: redirects with a one-time code, sign-ins to the console, and changes of the second factor or of passkeys"
    )]
    TooManySignIns {
        /// How long the browser has to wait, in seconds.
        seconds: u64,
    },
    /// The cookie or the one-time code of a browser is not valid.
    #[error(
        "the cookie or the one-time code is not valid: it is unknown, has ended, or belongs to another application or browser"
    )]
    BrowserSession,
    /// There is no such link.
    #[error("there is no such link: it was never made, was ended or has expired, or its URL is not complete")]
    NoLink,
    /// The link was used too often in this minute, or too many wrong passwords were entered for it.
    #[error(
        "the link `{link}` was used too often in this minute, or too many wrong passwords were entered for it"
    )]
    LinkTooOften {
        /// The API token of the link.
        link: Authid,
        /// How long the guest has to wait, in seconds.
        seconds: u64,
    },
    /// No use of the link is left.
    #[error("the link `{0}` has no uses left")]
    LinkUsedUp(Authid),
    /// The link has a password, and the guest presented neither the password nor a valid pass. A pass proves that the guest entered the password
    /// before (`link.rs`).
    #[error("the link `{0}` needs its password")]
    LinkPassword(Authid),
    /// The request has a malformed credential, or more than one credential.
    #[error("the credential cannot be read: {0}")]
    Malformed(String),
    /// The credential was valid and was withdrawn while it was in use.
    #[error("`{0}` was deleted, or its secret or password was changed, while the request was running")]
    Revoked(Authid),
    /// No such user or token.
    #[error("there is no user or token `{0}`")]
    Unknown(Authid),
    /// The user has no password. The client gets the same answer as for an unknown user.
    #[error("user `{0}` has no password on this server: set one with `enfilade user passwd`")]
    NoPassword(Authid),
    /// The secret or password does not match.
    #[error("wrong secret for `{0}`")]
    WrongSecret(Authid),
    /// The user, the token or the realm is disabled.
    #[error("`{authid}` cannot log in: {what} is disabled")]
    Disabled {
        /// The user or token.
        authid: Authid,
        /// The part that is disabled, in words: the user, the token, the realm, or the application credential that created the token.
        what: &'static str,
    },
    /// The user or the token has expired.
    #[error("`{authid}` cannot log in: {what} has expired")]
    Expired {
        /// The user or token.
        authid: Authid,
        /// The part that has expired, in words: the user, the token, or the application credential that created the token.
        what: &'static str,
    },
    /// The user is locked for a while after failed logins.
    #[error("`{0}` is locked after failed logins; `enfilade user enable` ends the lock")]
    Locked(Authid),
    /// The stored hash cannot be used, or the user or token has no secret on this server.
    #[error("the stored hash of `{authid}` cannot be used: {why}")]
    BadHash {
        /// The user or token.
        authid: Authid,
        /// The reason why the hash cannot be used. It is in a box so that no refusal is large.
        why: Box<str>,
    },
    /// A file that defines the user or token has been unreadable or invalid for longer than the stale limit.
    #[error("`{authid}` is defined in {file}, which is stale or invalid: {why}")]
    File {
        /// The user or token.
        authid: Authid,
        /// The file.
        file: FileName,
        /// The error in the file, or the reason why it is stale.
        why: Box<str>,
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
        /// Seconds since the token expired.
        seconds: i64,
    },
    /// A token with an issue time in the future.
    #[error(
        "the token was not issued by this server, and its issue time is {seconds} s ahead of this server's clock. After a revocation, a server issues tokens with issue times up to a minute ahead of its clock, so try again after a minute. If the token is still refused, synchronise the clocks of all servers"
    )]
    TokenFromFuture {
        /// Seconds until the issue time.
        seconds: i64,
    },
    /// A revoked token.
    #[error("the token of `{authid}` is revoked: {by}")]
    TokenRevoked {
        /// The user or token of the session.
        authid: Authid,
        /// What was revoked, in words, for example that all sessions of the user were ended.
        by: &'static str,
    },
    /// No session can be issued, because the clock is behind. The new session would expire so early that the marks of sessions with this expiry time
    /// may already be deleted. So the new session would count as expired.
    #[error(
        "the clock of this server is at least {seconds} s behind, so the server issues no sessions. By this clock, a new session would get an early expiry time, and the server may already have deleted the revocations of sessions with such expiry times. Set the clock, then log in again"
    )]
    ClockBehind {
        /// How many seconds the clock is behind, at least.
        seconds: i64,
    },
    /// The user or credential of a token was deleted.
    #[error("the user or credential of the token was deleted")]
    SubjectDeleted,
    /// A client certificate that is bound to no token.
    #[error(
        "no token is bound to the client certificate; create a token for the certificate with `enfilade token create --certificate`"
    )]
    UnknownCertificate,
    /// A scope that does not exist or is disabled, or in which the user has no role.
    #[error("the scope of the session is not available: {0}")]
    NoScope(&'static str),
    /// A session that would have more rights or a longer lifetime than the credential for which it is issued.
    #[error("{0}")]
    Delegated(&'static str),
    /// The signature was not made with the EC2 key that the request names, or this key does not exist.
    #[error("the signature was not made with the EC2 key that the request names, or this key does not exist")]
    WrongSignature,
    /// An OAuth 1.0a request with a signature, token, verifier, time or nonce that is not accepted.
    #[error("the OAuth request is not accepted: {0}")]
    NotProven(&'static str),
    /// A change that was requested with a login ticket, but without the ticket's CSRF token.
    #[error("the CSRF token is missing or does not belong to the ticket")]
    CsrfToken,
    /// The password is correct, but it has expired. With an expired password, the user can only choose another password.
    #[error(
        "the password of `{authid}` has expired or must be changed first, so it can only be used to set a new password"
    )]
    PasswordExpired {
        /// The user.
        authid: Authid,
        /// The id of the user, in a box so that no refusal is large.
        user: Box<UserId>,
    },
    /// The password or other credential is correct, but the rules of the user for multi-factor authentication need further methods.
    #[error(
        "`{authid}` needs multi-factor authentication, so this method alone is not accepted: use an API token, or a session of Identity v3 that was issued for all methods that the user needs"
    )]
    MoreMethods {
        /// The user.
        authid: Authid,
        /// The id of the user, in a box so that no refusal is large.
        user: Box<UserId>,
    },
    /// A passcode that no credential of the user accepts.
    #[error("the passcode of `{authid}` is not accepted: {why}")]
    WrongPasscode {
        /// The user.
        authid: Authid,
        /// The reason.
        why: &'static str,
    },
    /// The methods of one login belong to different users.
    #[error("the methods of the login belong to different users")]
    OtherUser,
    /// There is no key that can sign the token of a new session.
    #[error(
        "there is no Fernet key to sign tokens: restore `keys/` from the backup; run `enfilade keys init` only if the keys are lost or were never created"
    )]
    NoKeys,
    /// The server cannot serve the request now: for example, too many slow hashes wait, too many OAuth nonces are kept, or the system returns no
    /// random bytes.
    #[error(
        "the server cannot serve the request now: for example, too many secrets are being checked at once, too many OAuth requests came, the system returns no random bytes, or the store could not be changed"
    )]
    Busy,
    /// Too many logins from this address or its network failed. The passage counts the failures and makes this refusal, without computing a slow
    /// hash.
    #[error("too many failed logins from this address; it is blocked for {seconds} s")]
    Blocked {
        /// Seconds until the address is no longer blocked.
        seconds: u64,
    },
    /// Groups that are nested deeper than the limit.
    #[error("groups are nested more than {} deep", enfilade_facts::limits::GROUP_DEPTH_MAX)]
    GroupsTooDeep,
    /// More groups than the limit.
    #[error("the user is in more than {} groups", enfilade_facts::limits::GROUPS_PER_USER_MAX)]
    TooManyGroups,
    /// The stored facts could not be read.
    #[error(transparent)]
    Facts(#[from] SourceError),
}

impl Refusal {
    /// The reason of the refusal without the authid, for a text that already names the user or token.
    pub fn reason(&self) -> String {
        match self {
            Refusal::Disabled { what, .. } => format!("{what} is disabled"),
            Refusal::Expired { what, .. } => format!("{what} has expired"),
            Refusal::Locked(_) => "the user is locked after failed logins".to_owned(),
            Refusal::NoScope(why) => (*why).to_owned(),
            Refusal::PasswordExpired { .. } => {
                "the password can only be used to set a new password".to_owned()
            }
            Refusal::MoreMethods { .. } => {
                "the user needs multi-factor authentication, so this method alone is not accepted".to_owned()
            }
            Refusal::BadHash { why, .. } => format!("the stored hash cannot be used: {why}"),
            Refusal::File { file, why, .. } => format!("{file} is stale or invalid: {why}"),
            other => other.to_string(),
        }
    }
}

impl Refusal {
    /// The value of the field `what` of [`Refusal::Disabled`] for an inactive user.
    pub const INACTIVE: &'static str = "the user did not log in for longer than `[identity] inactive_days` (`enfilade user enable USER` enables the user again), so the user";
    /// The reason of [`Refusal::NoScope`] if the project or its domain does not exist or is disabled.
    pub const PROJECT_CLOSED: &'static str = "the project is deleted or disabled";
    /// The reason of [`Refusal::NoScope`] if the credential is for no project or for another project.
    pub const OF_OTHER_PROJECT: &'static str = "the credential is not for this project";
}

/// The code of every refusal of this door, with its fault, its cause and its remedy.
#[rustfmt::skip]
pub const CODES: [RefusalRow; 36] = [
    RefusalRow::new("ID01", Fault::Client, "no credential was given", "send an API token, a password, a session or a client certificate"),
    RefusalRow::new("ID02", Fault::Client, "the credential cannot be read, or there is more than one", "send one credential; a user is NAME@REALM, a token NAME@REALM!TOKEN"),
    RefusalRow::new("ID03", Fault::Client, "the credential was revoked, or withdrawn while it was in use", "log in again, or create a new token"),
    RefusalRow::new("ID04", Fault::Client, "no such user or token", "check name and realm: `enfilade user list`, `enfilade token list`"),
    RefusalRow::new("ID05", Fault::Client, "wrong secret or password", "send the correct secret or password; if all tokens fail, restore `keys/` from the backup"),
    RefusalRow::new("ID06", Fault::Client, "the user, token or realm is disabled", "run `enfilade user enable` or `enfilade token set --enable`, or enable the domain"),
    RefusalRow::new("ID07", Fault::Client, "the user or token has expired", "set a later date with `enfilade user set --expires` or `enfilade token set --expires`"),
    RefusalRow::new("ID08", Fault::Operator, "the stored hash cannot be used, or the token has no hash", "the log says why; set a new password or secret; `enfilade doctor` lists the tokens whose hash cannot be used"),
    RefusalRow::new("ID09", Fault::Operator, "the server cannot check the credential now: usually because too many passwords are being checked at the same time", "try again; if it persists and the server computes many hashes, raise `[identity] hash_slots`"),
    RefusalRow::new("ID10", Fault::Operator, "groups are nested too deep", "remove a level of groups (`enfilade group list`)"),
    RefusalRow::new("ID11", Fault::Operator, "the user is in too many groups", "remove the user from some groups"),
    RefusalRow::new("ID12", Fault::Source, "the records of the user could not be read", "run `enfilade facts check`; the log says why the facts cannot be read"),
    RefusalRow::new("ID13", Fault::Client, "too many attempts from this address failed", "wait as long as the header `Retry-After` says; if the log shows the address of your proxy for all clients, set `[http] trusted_proxies` or `[tls] proxy_from`: otherwise all clients count as one address"),
    RefusalRow::new("ID14", Fault::Operator, "the file that defines this user or token (`user.cfg` or `token.shadow`) has been invalid, or no server has read it, for longer than the stale limit", "`enfilade doctor` shows the reason: correct the line of the file, or start a server if none runs"),
    RefusalRow::new("ID15", Fault::Client, "the session token was not signed with any of the keys", "log in again; servers that share sessions need the same Fernet keys"),
    RefusalRow::new("ID16", Fault::Client, "this server does not support the kind or content of the session token", "log in again; the log says which kind or content"),
    RefusalRow::new("ID17", Fault::Client, "the session token has expired", "log in again"),
    RefusalRow::new("ID18", Fault::Client, "the user or credential of the session was deleted", "log in as a user that exists"),
    RefusalRow::new("ID19", Fault::Client, "the session's project, domain or system is not available: it is deleted or disabled, or the user has no role on it", "choose another scope, enable the project or domain, or assign a role (`enfilade role assign`)"),
    RefusalRow::new("ID20", Fault::Client, "a new credential or session cannot have more rights or a longer lifetime than the credential or session with which it is requested", "log in with a password, or request fewer rights or a shorter lifetime"),
    RefusalRow::new("ID21", Fault::Operator, "there is no key that signs session tokens", "restore `keys/` from the backup; only if the keys are lost or were never created, run `enfilade keys init`, which ends all sessions except those of browsers"),
    RefusalRow::new("ID22", Fault::Client, "a change was requested with a login ticket and without its CSRF token", "send the header `CSRFPreventionToken`"),
    RefusalRow::new("ID23", Fault::Client, "the client certificate is not bound to a token", "create a token for the certificate with `enfilade token create --certificate FILE`"),
    RefusalRow::new("ID24", Fault::Client, "the signature was not made with the EC2 key that the request names, or this key does not exist", "check access key, secret and clock of the client"),
    RefusalRow::new("ID25", Fault::Client, "the password is right, but it has expired or must be changed first", "choose a new password (`POST /v3/users/ID/password`)"),
    RefusalRow::new("ID26", Fault::Client, "the session token's issue time is more than 5 s ahead of this server's clock, and this server did not issue it", "wait a minute: after a revocation, a server issues tokens with issue times up to a minute ahead; if the token is still refused, synchronise the clocks of all servers"),
    RefusalRow::new("ID27", Fault::Operator, "this server's clock is set back too far to issue sessions", "set the clock"),
    RefusalRow::new("ID28", Fault::Client, "an OAuth request is not accepted: its signature, its request or access token, its `oauth_verifier`, its time or its nonce is wrong", "the log says which of them; check keys and secrets, the URL that the client signs, and the clock of the client; sign each request with a new nonce"),
    RefusalRow::new("ID29", Fault::Client, "the password or other credential is right, and the user needs multi-factor authentication, so this method alone is not accepted", "use an API token (`enfilade token create`), or log in at `/v3/auth/tokens` with all methods that the user needs, and use that session"),
    RefusalRow::new("ID30", Fault::Client, "the user is locked for a while, because too many logins failed (`[identity] lockout_failures`)", "wait for `[identity] lockout_duration`, or run `enfilade user enable`; API tokens and sessions still work"),
    RefusalRow::new("ID31", Fault::Client, "the cookie of a browser, or the one-time code in a redirect, is not valid: it is unknown, has ended, or belongs to another application or browser", "sign in again"),
    RefusalRow::new("ID32", Fault::Client, "the user made too many requests in this minute; these requests count together, in all browsers: redirects with a one-time code, sign-ins to the console, and changes of the second factor or of passkeys", "wait a minute; if it happens again, the operator must check that the proxy passes the cookie `__Host-enfilade` to Enfilade: without it, the browser is redirected again and again"),
    RefusalRow::new("ID33", Fault::Client, "there is no such link", "ask the maker of the link for a new one; the maker sees the links in the console; the operator can list them with `enfilade link list`"),
    RefusalRow::new("ID34", Fault::Client, "the link has no uses left", "ask the maker of the link for a new one"),
    RefusalRow::new("ID35", Fault::Client, "the link needs its password", "enter the password that the maker of the link chose"),
    RefusalRow::new("ID36", Fault::Client, "the link was used too often in this minute, or too many wrong passwords were entered for it", "wait a minute"),
];

impl Refusal {
    /// The refusal of a token without a secret, such as an imported application credential.
    pub(crate) fn no_secret(authid: Authid) -> Self {
        let why =
            "the token has no secret on this server; set a secret with `enfilade token regenerate`".into();
        Refusal::BadHash { authid, why }
    }

    /// Whether the refusal counts as a failed login, because a client may be guessing secrets.
    pub fn is_failure(&self) -> bool {
        matches!(
            self,
            Refusal::Unknown(_)
                | Refusal::NoPassword(_)
                | Refusal::WrongSecret(_)
                | Refusal::WrongPasscode { .. }
                | Refusal::Disabled { .. }
                | Refusal::Expired { .. }
                | Refusal::Locked(_)
                | Refusal::BadHash { .. }
                | Refusal::NotProven(_)
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
            Refusal::Unknown(_) | Refusal::NoPassword(_) => "ID04",
            Refusal::WrongSecret(_) | Refusal::WrongPasscode { .. } | Refusal::OtherUser => "ID05",
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
            Refusal::BrowserSession => "ID31",
            Refusal::TooManySignIns { .. } => "ID32",
            Refusal::NoLink => "ID33",
            Refusal::LinkUsedUp(_) => "ID34",
            Refusal::LinkPassword(_) => "ID35",
            Refusal::LinkTooOften { .. } => "ID36",
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
            Refusal::NotProven(_) => "ID28",
            Refusal::MoreMethods { .. } => "ID29",
            Refusal::Locked(_) => "ID30",
        }
    }

    fn fault(&self) -> Fault {
        RefusalRow::fault_of(&CODES, self.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn an_inactive_user_is_told_the_setting_and_the_command() {
        let refusal = Refusal::Disabled { authid: "alice@local".parse().unwrap(), what: Refusal::INACTIVE };
        for text in [refusal.to_string(), refusal.reason()] {
            assert!(
                text.contains("`[identity] inactive_days`") && text.contains("`enfilade user enable USER`"),
                "{text}"
            );
        }
    }

    #[test]
    fn the_table_of_codes_is_the_enum_and_guesses_are_failures() {
        let authid: Authid = "alice@local".parse().unwrap();
        let (who, why, what) = (|| authid.clone(), || String::new(), "the user");
        let facts = || SourceError::Unavailable(why());
        // A client that guesses names and secrets gets these refusals.
        let failures = [
            ("ID04", Refusal::Unknown(who())),
            ("ID04", Refusal::NoPassword(who())),
            ("ID05", Refusal::WrongSecret(who())),
            ("ID05", Refusal::WrongPasscode { authid: who(), why: "wrong" }),
            ("ID06", Refusal::Disabled { authid: who(), what }),
            ("ID07", Refusal::Expired { authid: who(), what }),
            ("ID08", Refusal::BadHash { authid: who(), why: why().into() }),
            ("ID28", Refusal::NotProven("it")),
            ("ID30", Refusal::Locked(who())),
        ];
        let others = [
            ("ID01", Refusal::NoCredential),
            ("ID31", Refusal::BrowserSession),
            ("ID32", Refusal::TooManySignIns { seconds: 1 }),
            ("ID33", Refusal::NoLink),
            ("ID34", Refusal::LinkUsedUp(who())),
            ("ID35", Refusal::LinkPassword(who())),
            ("ID36", Refusal::LinkTooOften { link: who(), seconds: 1 }),
            ("ID05", Refusal::OtherUser),
            ("ID02", Refusal::Malformed(why())),
            ("ID03", Refusal::Revoked(who())),
            ("ID03", Refusal::TokenRevoked { authid: who(), by: "it" }),
            ("ID09", Refusal::Busy),
            ("ID10", Refusal::GroupsTooDeep),
            ("ID11", Refusal::TooManyGroups),
            ("ID12", Refusal::Facts(facts())),
            ("ID13", Refusal::Blocked { seconds: 1 }),
            ("ID14", Refusal::File { authid: who(), file: FileName::Users, why: why().into() }),
            ("ID15", Refusal::NotOurs),
            ("ID16", Refusal::TokenUnsupported(Unread::Malformed)),
            ("ID17", Refusal::TokenExpired { seconds: 1 }),
            ("ID18", Refusal::SubjectDeleted),
            ("ID19", Refusal::NoScope("gone")),
            ("ID20", Refusal::Delegated("more")),
            ("ID21", Refusal::NoKeys),
            ("ID22", Refusal::CsrfToken),
            ("ID23", Refusal::UnknownCertificate),
            ("ID24", Refusal::WrongSignature),
            ("ID25", Refusal::PasswordExpired { authid: who(), user: Box::new(UserId::from_bytes([1; 16])) }),
            ("ID26", Refusal::TokenFromFuture { seconds: 1 }),
            ("ID27", Refusal::ClockBehind { seconds: 1 }),
            ("ID29", Refusal::MoreMethods { authid: who(), user: Box::new(UserId::from_bytes([1; 16])) }),
        ];
        let mut codes = BTreeSet::new();
        for (are_failures, refusals) in [(true, &failures[..]), (false, &others)] {
            for (code, refusal) in refusals {
                assert_eq!((refusal.code(), refusal.door()), (*code, Door::Identity));
                assert_eq!(refusal.is_failure(), are_failures, "{code}");
                codes.insert(*code);
            }
        }
        assert!(codes.into_iter().eq(CODES.iter().map(|row| row.code)));
    }
}
