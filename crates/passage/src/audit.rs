//! The one event of every request, with the same fields for every outcome.

use crate::refuse::Refusal;
use enfilade_facts::vocabulary::{CredentialId, Word};
use enfilade_facts::{Clocks, Refuse};
use enfilade_identity::Claim;
use std::fmt::{self, Display, Formatter};
use std::net::IpAddr;

/// The number of a request, in the form of Keystone's request ids: `req-` and a UUID of version 4.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestId(pub u128);

impl Display for RequestId {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let id = self.0 & !(0xf << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62;
        let (a, b, c) = (id >> 96, (id >> 80) & 0xffff, (id >> 64) & 0xffff);
        let (d, e) = ((id >> 48) & 0xffff, id & 0xffff_ffff_ffff);
        write!(f, "req-{a:08x}-{b:04x}-{c:04x}-{d:04x}-{e:012x}")
    }
}

/// The outcome of one request. A field is empty if the request ended before its value was known.
#[derive(Clone, Debug, Default)]
pub struct Event {
    /// Its number, which is also in the header `x-openstack-request-id` of an answer of Identity v3.
    pub id: RequestId,
    /// The client's address.
    pub peer: String,
    /// The face that the client spoke to.
    pub face: &'static str,
    /// The method or call, in the words of its protocol.
    pub verb: Word,
    /// The authid of the client. If door 2 refused, the name that the client sent.
    pub authid: Word,
    /// The datastore.
    pub datastore: String,
    /// The path in the datastore.
    pub path: String,
    /// `permit`, or `refuse` when a door or the face said no.
    pub verdict: &'static str,
    /// The door that refused, or `face`.
    pub door: &'static str,
    /// The refusal's code.
    pub code: &'static str,
    /// The side that must act on the refusal: client, operator or source.
    pub fault: &'static str,
    /// The refusal in the operator's words.
    pub reason: String,
    /// The revision the last door judged on.
    pub revision: u64,
    /// The status the client got.
    pub status: u16,
    /// Bytes of content that went in or out.
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
        self.fault = refusal.fault().name();
        self.reason = refusal.to_string();
    }
}

/// The receiver of events.
pub trait Audit: Send + Sync {
    /// Records that an API token was used. Called at the first use of a token in each minute. After a change of the facts it can be called
    /// twice in a minute.
    fn used(&self, _token: &CredentialId, _from: IpAddr, _now: Clocks) {}

    /// Records that a session was issued.
    fn issued(&self, _claim: &Claim) {}

    /// Takes one event. It must not block for long on a slow reader, and must not fail a request.
    fn record(&self, event: Event);
}
