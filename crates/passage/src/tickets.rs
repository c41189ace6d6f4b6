//! Login tickets of the Proxmox face: a session's token in another form, with a CSRF token.

use crate::credential::{Credential, TicketAsk};
use crate::house::House;
use crate::refuse::Refusal;
use crate::walk::Visit;
use enfilade_facts::limits::TICKET_SECONDS;
use enfilade_facts::vocabulary::{CredentialId, from_hex};
use enfilade_identity::{Claim, Refusal as IdentityRefusal, Scope, Wanted};
use std::fmt::Write as _;

/// An issued ticket.
#[derive(Debug)]
pub struct Ticket {
    /// The token of the ticket's session. The token is a secret until it expires.
    pub token: String,
    /// The CSRF token. A request that changes something must contain the CSRF token.
    pub csrf: String,
}

impl House {
    /// Checks that the visitor's session was issued as a login ticket, and that the name in the ticket is a name of the visitor. A request that
    /// changes something also needs the CSRF token of the ticket, because browsers send cookies with the requests of any page.
    ///
    /// # Errors
    /// The refusal of door 2.
    pub(crate) fn check_ticket(
        &self,
        visit: &Visit,
        ticket: &TicketAsk,
        changes_something: bool,
    ) -> Result<(), Refusal> {
        let claim = visit.identity.session().map(|session| session.claim);
        let is_ticket =
            claim.is_some_and(|claim| claim.scope == Scope::Unscoped && claim.audit.chain.is_none());
        if !is_ticket || !ticket.is_of(&visit.principal().authid) {
            return Err(IdentityRefusal::Malformed("the ticket is not valid, because its token was not issued as a login ticket for the user in the ticket; log in again".into()).into());
        }
        let is_ours = |given: &String| {
            let id = claim.map(|claim| CredentialId::from_bytes(claim.audit.own));
            id.zip(csrf_bytes(given))
                .is_some_and(|(id, digest)| self.parts.hash_key.matches(&id, CSRF, &digest))
        };
        match changes_something && !ticket.csrf.as_ref().is_some_and(is_ours) {
            true => Err(IdentityRefusal::CsrfToken.into()),
            false => Ok(()),
        }
    }

    fn csrf_of(&self, claim: &Claim) -> String {
        let digest = self.parts.hash_key.digest(&CredentialId::from_bytes(claim.audit.own), CSRF);
        digest.iter().fold(format!("{:08X}:", claim.issued_at), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
    }
}

impl Visit {
    /// Issues a ticket for a password. A client that presents a ticket instead of a password gets the same ticket again. So a client cannot extend
    /// the lifetime of a ticket.
    ///
    /// # Errors
    /// The refusal of door 2.
    pub async fn ticket(&mut self, credential: &Credential) -> Result<Ticket, Refusal> {
        if let (Credential::Ticket { ticket, .. }, Some(session)) = (credential, self.identity.session()) {
            let token = ticket.session.token.reveal().to_vec();
            let token = String::from_utf8(token).map_err(|_| IdentityRefusal::NotOurs)?;
            return Ok(Ticket { token, csrf: self.house.csrf_of(&session.claim) });
        }
        if self.identity.token().is_some() {
            return Err(IdentityRefusal::Delegated(
                "no login ticket is issued for an API token: use the token itself",
            )
            .into());
        }
        let made = self.issue_for(Wanted::Scope(Scope::Unscoped), TICKET_SECONDS).await?;
        Ok(Ticket { csrf: self.house.csrf_of(&made.session.claim), token: made.token })
    }
}

/// The CSRF token of a session is a keyed hash of this text and the session's audit id.
const CSRF: &[u8] = b"csrf";

fn csrf_bytes(text: &str) -> Option<[u8; 32]> {
    let (_, digits) = text.split_once(':')?;
    from_hex(digits)?.try_into().ok()
}
