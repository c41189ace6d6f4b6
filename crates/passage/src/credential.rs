//! The credentials that clients present to door 2.

use enfilade_facts::vocabulary::{Authid, Word, percent_decoded};
use enfilade_identity::{Ask, BrowserAsk, CertificateAsk, LinkAsk, SecretAsk, SessionAsk};

/// A credential that a client presents.
#[derive(Debug)]
pub enum Credential {
    /// A name and a secret: a password, or the secret of an API token.
    Secret(SecretAsk),
    /// A name and a secret, if the client sent an id or another text instead of the account's name. Failures are counted for the text that the client
    /// sent. So the delay of a failed login does not reveal which account the text stands for.
    NamedSecret(SecretAsk, Word),
    /// The token of a session.
    Session(SessionAsk),
    /// A certificate that was proven in the TLS handshake.
    Certificate(CertificateAsk),
    /// The cookie of a browser's session.
    Browser(BrowserAsk),
    /// A link with which somebody shares a file or folder.
    Link(LinkAsk),
    /// A login ticket.
    Ticket {
        /// The ticket.
        ticket: TicketAsk,
        /// Whether the request changes something. A request that changes something also needs the CSRF token.
        changes_something: bool,
    },
}

impl Credential {
    /// The question to door 2 about this credential.
    pub(crate) fn ask(&self) -> Ask<'_> {
        match self {
            Credential::Secret(ask) | Credential::NamedSecret(ask, _) => Ask::Secret(ask),
            Credential::Session(ask) => Ask::Session(ask),
            Credential::Certificate(ask) => Ask::Certificate(ask),
            Credential::Browser(ask) => Ask::Browser(ask),
            Credential::Link(ask) => Ask::Link(ask),
            Credential::Ticket { ticket, .. } => Ask::Session(&ticket.session),
        }
    }
}

/// A login ticket of the Proxmox face: a session's token in another form.
#[derive(Debug)]
pub struct TicketAsk {
    /// The name of the user in the ticket, as the client sent it. Some clients percent-encode tickets, and others do not. The spelling of a name can
    /// itself be percent-encoded. So only [`TicketAsk::is_of`] and [`TicketAsk::word`] interpret this text.
    pub userid: String,
    /// The token of the ticket's session.
    pub session: SessionAsk,
    /// The CSRF token, which a page of another site does not know. The CSRF token is required for changes.
    pub csrf: Option<String>,
}

impl TicketAsk {
    /// The users that the text in the ticket can mean. The text is read in two ways: as the client sent it, and with percent-encoding decoded.
    fn readings(&self) -> impl Iterator<Item = Authid> {
        let decoded = percent_decoded(self.userid.as_bytes()).and_then(|bytes| String::from_utf8(bytes).ok());
        [Some(self.userid.clone()), decoded].into_iter().flatten().filter_map(|text| text.parse().ok())
    }

    /// Whether the name in the ticket is a name of this user. Only the token proves the user, and the name proves nothing. But the name and the token
    /// must belong to the same user.
    pub fn is_of(&self, user: &Authid) -> bool {
        self.readings().any(|named| named == *user)
    }

    /// The name for the log, as one ASCII word.
    pub fn word(&self) -> Word {
        self.readings().next().map_or_else(|| Authid::word_of(&self.userid), |named| named.to_word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use enfilade_facts::vocabulary::Secret;

    #[test]
    fn a_ticket_names_its_user_however_the_client_encodes_it() {
        for (user, others) in [
            ("alice@pbs", ["alice%40pbs", "alice@%pbs"]),
            (
                "J%C3%BCrgen%20Gro%C3%9F@%local",
                [
                    "J%25C3%25BCrgen%2520Gro%25C3%259F%40%25local",
                    "J%25C3%25BCrgen%2520Gro%25C3%259F@%25local",
                ],
            ),
            ("a#b@pbs", ["a%23b@pbs", "a%23b%40pbs"]),
            ("a%23b@pbs", ["a%2523b@pbs", "a%2523b%40pbs"]),
        ] {
            let authid: Authid = user.parse().unwrap();
            for text in others.into_iter().chain([user, &authid.to_word()]) {
                let session = SessionAsk { token: Secret::new(b"x").unwrap() };
                let ticket = TicketAsk { userid: text.to_owned(), session, csrf: None };
                assert!(ticket.is_of(&authid), "{text}");
                assert!(!ticket.is_of(&"bob@pbs".parse().unwrap()), "{text}");
                assert!(ticket.word().is_ascii());
            }
        }
    }
}
