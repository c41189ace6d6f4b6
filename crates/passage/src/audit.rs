//! The event that the server records for every request. The event has the same fields for every outcome.

use crate::refuse::Refusal;
use enfilade_facts::vocabulary::{CredentialId, RequestId, Word};
use enfilade_facts::{Clocks, Refuse};
use enfilade_identity::Claim;
use std::net::IpAddr;

/// The outcome of one request. A field is empty if the request ended before its value was known.
#[derive(Clone, Debug, Default)]
pub struct Event {
    /// The number of the request, which is also in the header `x-request-id` of the answer.
    pub id: RequestId,
    /// The id that a trusted proxy gave the request in the header `X-Request-Id`.
    pub proxy_id: Word,
    /// The client's address.
    pub peer: String,
    /// The face (the code of one protocol) that answered the request.
    pub face: &'static str,
    /// The path of the route in the table of routes.
    pub route: &'static str,
    /// The method or call, as its protocol names it.
    pub verb: Word,
    /// The authid of the client. If door 2 refused, this is the name that the client sent.
    pub authid: Word,
    /// The datastore.
    pub datastore: String,
    /// The path in the datastore.
    pub path: String,
    /// `permit`, or `refuse` if a door or the face refused.
    pub verdict: &'static str,
    /// The door that refused, or `face` if the face refused.
    pub door: &'static str,
    /// The refusal's code.
    pub code: &'static str,
    /// Whether door 2 refused a name or a secret that may be a guess of an attacker.
    pub is_failed_login: bool,
    /// Where the cause of the refusal is: `client`, `operator` or `source`.
    pub fault: &'static str,
    /// The reason for the refusal, in the text for the operator.
    pub reason: String,
    /// The revision of the facts on which the last door judged.
    pub revision: u64,
    /// The status that the client got.
    pub status: u16,
    /// The bytes of content that were received or sent.
    pub bytes: u64,
    /// How long the request took, in milliseconds.
    pub millis: u64,
}

impl Event {
    /// Fills in the refusal of a door.
    pub fn refused(&mut self, refusal: &Refusal) {
        self.verdict = "refuse";
        self.door = refusal.door().name();
        self.code = refusal.code();
        self.is_failed_login = matches!(refusal, Refusal::Identity(identity) if identity.is_failure());
        self.fault = refusal.fault().name();
        self.reason = refusal.to_string();
    }
}

/// The receiver of events.
pub trait Audit: Send + Sync {
    /// Records that an API token was used. The server calls this function at the first use of a token in each minute. After a change of the facts,
    /// the server can call this function twice in a minute for the same token.
    fn used(&self, _token: &CredentialId, _from: IpAddr, _now: Clocks) {}

    /// Records that a session was issued.
    fn issued(&self, _claim: &Claim) {}

    /// Records one event. An implementation must not wait long for a slow reader of the events, and must not make a request fail.
    fn record(&self, event: Event);
}
