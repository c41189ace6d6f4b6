//! What a client presents to door 2.

use enfilade_identity::{Ask, CertificateAsk, SecretAsk, SessionAsk};

/// What a client presents.
#[derive(Debug)]
pub enum Credential {
    /// A name and a secret: a password, or the secret of an API token.
    Secret(SecretAsk),
    /// The same from a client that named the account in other words. Its failures are counted by these words, so that a delay does not tell
    /// which account that is.
    NamedSecret(SecretAsk, String),
    /// The token of a session.
    Session(SessionAsk),
    /// A certificate that was shown in the TLS handshake.
    Certificate(CertificateAsk),
    /// A login ticket.
    Ticket {
        /// What is in it.
        ticket: TicketAsk,
        /// Whether the request changes something, for which the ticket alone is not enough.
        changes_something: bool,
    },
}

impl Credential {
    /// What door 2 is asked.
    pub(crate) fn ask(&self) -> Ask<'_> {
        match self {
            Credential::Secret(ask) | Credential::NamedSecret(ask, _) => Ask::Secret(ask),
            Credential::Session(ask) => Ask::Session(ask),
            Credential::Certificate(ask) => Ask::Certificate(ask),
            Credential::Ticket { ticket, .. } => Ask::Session(&ticket.session),
        }
    }
}

/// A login ticket of the Proxmox face: a session's token in another spelling.
#[derive(Debug)]
pub struct TicketAsk {
    /// Whom it says it is of.
    pub userid: String,
    /// The token in it.
    pub session: SessionAsk,
    /// What a page of another site does not know: given with whatever changes something.
    pub csrf: Option<String>,
}
