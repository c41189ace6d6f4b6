//! What a client presents to door 2.

use enfilade_identity::{Ask, CertificateAsk, SecretAsk, SessionAsk};

/// What a client presents.
#[derive(Debug)]
pub enum Credential {
    /// A name and a secret: a password, or the secret of an API token.
    Secret(SecretAsk),
    /// A name and a secret, from a client that sent an id or another text instead of the account's name. Failures are counted for the text that the
    /// client sent. So the delay of a failed login does not reveal which account the text stands for.
    NamedSecret(SecretAsk, String),
    /// The token of a session.
    Session(SessionAsk),
    /// A certificate that was proven in the TLS handshake.
    Certificate(CertificateAsk),
    /// A login ticket.
    Ticket {
        /// The ticket.
        ticket: TicketAsk,
        /// Whether the request changes something. A request that changes something also needs the CSRF token.
        changes_something: bool,
    },
}

impl Credential {
    /// The credential as door 2 takes it.
    pub(crate) fn ask(&self) -> Ask<'_> {
        match self {
            Credential::Secret(ask) | Credential::NamedSecret(ask, _) => Ask::Secret(ask),
            Credential::Session(ask) => Ask::Session(ask),
            Credential::Certificate(ask) => Ask::Certificate(ask),
            Credential::Ticket { ticket, .. } => Ask::Session(&ticket.session),
        }
    }
}

/// A login ticket of the Proxmox face: a session's token in another form.
#[derive(Debug)]
pub struct TicketAsk {
    /// The user that the ticket names.
    pub userid: String,
    /// The token of the ticket's session.
    pub session: SessionAsk,
    /// The CSRF token, which a page of another site does not know. It is required for changes.
    pub csrf: Option<String>,
}
