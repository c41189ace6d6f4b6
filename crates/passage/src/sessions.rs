//! Issues sessions, and validates sessions for other services.

use crate::house::{House, SessionTerms};
use crate::refuse::Refusal;
use crate::walk::Visit;
use enfilade_access::ApiPermit;
use enfilade_facts::limits::SESSION_TRIES_MAX;
use enfilade_facts::{Clocks, CommitError, Horizon, Read, View};
use enfilade_identity::fernet::payload::AuditId;
use enfilade_identity::fernet::{KeyRing, frame};
use enfilade_identity::{
    Basis, Login, OAuthProof, Refusal as IdentityRefusal, Revocations, Session, SessionAsk, SignatureAsk,
    Unissued, Validated, Wanted, read_receipt,
};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// An issued token with its session.
pub struct IssuedToken {
    /// The text of the token. It is a secret until the token expires.
    pub token: String,
    /// The session of the token.
    pub session: Session,
}

impl std::fmt::Debug for IssuedToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IssuedToken").field("session", &self.session).finish_non_exhaustive()
    }
}

/// The form in which a session is sealed. Tokens and receipts are sealed with different keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A session's token.
    Token,
    /// A receipt: the client must use further authentication methods before it gets a session.
    Receipt,
}

impl House {
    /// Replaces the Fernet keys. The server calls this function after each reading of the key repository. `None` means that the key repository cannot
    /// be read. Without keys, every token is refused.
    pub fn set_keys(&self, keys: Option<KeyRing>) {
        self.sessions.set_keys(keys);
    }

    /// Sixteen random bytes for a new id; `None` if the system returns no random bytes.
    pub fn random(&self) -> Option<[u8; 16]> {
        let mut random = [0; 16];
        (self.parts.random)(&mut random).then_some(random)
    }

    /// The lifetimes of sessions.
    pub fn session_terms(&self) -> SessionTerms {
        self.parts.session_terms
    }

    /// The number of revocations; 0 if the index of revocations is ahead of the view or cannot be updated.
    ///
    /// # Errors
    /// When no view of the facts can be opened.
    pub fn revocations(&self) -> Result<u64, Refusal> {
        let count = self.parts.source.read(|view| self.sessions.revocations.read(view, Revocations::count));
        count?.or(Ok(0))
    }

    /// Issues a session for an OAuth consumer that signed the request with an access token. The session belongs to the user who delegated roles to
    /// the consumer. The consumer may also present a receipt: it proves that this user has already used some authentication methods.
    ///
    /// # Errors
    /// The refusal of door 2.
    pub async fn issue_for_access(
        self: &Arc<Self>,
        proof: &OAuthProof,
        receipt: Option<&SessionAsk>,
        wanted: Wanted,
    ) -> Result<IssuedToken, Refusal> {
        let judge = |view: &View<'_>, now, own| {
            let (lifetime, context) = (self.session_terms().token_seconds, self.identity_context());
            let receipt = receipt.map(|ask| read_receipt(view, now, ask, &context)).transpose()?;
            let basis = Basis::Access(proof, receipt.as_ref(), wanted);
            Ok(enfilade_identity::issue(view, now, basis, lifetime, own, &context))
        };
        let made = self.make(Purpose::Token, judge).await?;
        self.parts.accounts.logged_in(&made.session.claim.user);
        Ok(made)
    }

    /// Moves the horizon: commits a change after which sessions with issue times up to `second` may be issued. In a fleet, all members know the new
    /// horizon afterwards.
    async fn move_horizon(self: &Arc<Self>, now: Clocks, second: i64) -> Result<(), Refusal> {
        let allow = Arc::clone(&self.parts.allow_issue);
        match tokio::task::spawn_blocking(move || allow(now, second)).await {
            Ok(Ok(_)) => {
                self.issues_until.fetch_max(Horizon::moved_for(second, now), Ordering::Relaxed);
                Ok(())
            }
            Ok(Err(CommitError::Source(why))) => Err(why.into()),
            Ok(Err(_)) | Err(_) => Err(IdentityRefusal::Busy.into()),
        }
    }

    /// Issues a session that `judge` grants on a fresh view, and seals its token.
    pub(crate) async fn make(
        self: &Arc<Self>,
        purpose: Purpose,
        judge: impl FnMut(&View<'_>, Clocks, AuditId) -> Result<Result<Session, Unissued>, Refusal>,
    ) -> Result<IssuedToken, Refusal> {
        let (session, iv) = self.grant(judge).await?;
        let ring = self.sessions.ring().ok_or(IdentityRefusal::NoKeys)?;
        let keys = match purpose {
            Purpose::Token => &ring.keys,
            Purpose::Receipt => ring.keys.receipts().ok_or(IdentityRefusal::NoKeys)?,
        };
        let issued_at = u64::try_from(session.claim.issued_at).unwrap_or(0);
        let token = frame::seal(keys, issued_at, iv, &session.claim.to_payload());
        let token = token.map_err(|_| IdentityRefusal::NoKeys)?;
        if purpose == Purpose::Token {
            self.parts.audit.issued(&session.claim);
        }
        Ok(IssuedToken { token, session })
    }

    /// Issues a session that `judge` grants on a fresh view. Also returns 16 random bytes: the initialisation vector for sealing the session.
    pub(crate) async fn grant(
        self: &Arc<Self>,
        mut judge: impl FnMut(&View<'_>, Clocks, AuditId) -> Result<Result<Session, Unissued>, Refusal>,
    ) -> Result<(Session, [u8; 16]), Refusal> {
        for _ in 0..SESSION_TRIES_MAX {
            let mut random = [0; 32];
            if !(self.parts.random)(&mut random) {
                return Err(IdentityRefusal::Busy.into());
            }
            let (own, more) = halves(random);
            let now = self.now();
            match self.parts.source.read(|view| judge(view, now, own))?? {
                Ok(session) => {
                    let second = session.claim.issued_at;
                    // It is possible that another member of the fleet does not know the horizon of this view yet. That member would refuse the
                    // session. So this process commits a change of the horizon, too: the commit waits until all members know this change and all
                    // earlier changes. If the horizon is already a minute after the present time, the change contains nothing to write, but the
                    // commit still waits.
                    if self.issues_until.load(Ordering::Relaxed) < second {
                        self.move_horizon(now, second).await?;
                    }
                    return Ok((session, more));
                }
                Err(Unissued::Refused(refusal)) => return Err(refusal.into()),
                Err(Unissued::Beyond(second)) => self.move_horizon(now, second).await?,
            }
        }
        Err(IdentityRefusal::Busy.into())
    }
}

impl Visit {
    /// Issues a session for the visitor's credential.
    ///
    /// # Errors
    /// The refusal of door 2.
    pub async fn issue(&mut self, wanted: Wanted) -> Result<IssuedToken, Refusal> {
        let lifetime = self.house.session_terms().token_seconds;
        self.issue_for(wanted, lifetime).await
    }

    /// As [`Visit::issue`], for a session that lasts `lifetime` seconds.
    ///
    /// # Errors
    /// The refusal of door 2.
    pub(crate) async fn issue_for(&mut self, wanted: Wanted, lifetime: i64) -> Result<IssuedToken, Refusal> {
        let house = Arc::clone(&self.house);
        let judge = |view: &View<'_>, now, own| {
            self.ask_again(view)?;
            let (login, context) = (Login::from(&self.identity), self.house.identity_context());
            let basis = Basis::Login(&login, wanted);
            Ok(enfilade_identity::issue(view, now, basis, lifetime, own, &context))
        };
        house.make(Purpose::Token, judge).await
    }

    /// Issues a session for a user who signed a request to another service with an EC2 key. That service asks for the session. The visitor is that
    /// service, and the `ApiPermit` allows the service to ask.
    ///
    /// # Errors
    /// The refusal of door 2, if the user who signed the request may not get a session.
    pub async fn issue_signed(&mut self, _: &ApiPermit, ask: &SignatureAsk) -> Result<IssuedToken, Refusal> {
        let house = Arc::clone(&self.house);
        let judge = |view: &View<'_>, now, own| {
            self.ask_again(view)?;
            let (lifetime, context) =
                (self.house.session_terms().token_seconds, self.house.identity_context());
            Ok(enfilade_identity::issue(view, now, Basis::Signature(ask), lifetime, own, &context))
        };
        let made = house.make(Purpose::Token, judge).await?;
        house.parts.accounts.logged_in(&made.session.claim.user);
        Ok(made)
    }

    /// Judges a token that a service asks about, and returns the session of the token. With `allow_expired`, an expired token is accepted until the
    /// configured time after its expiry has passed.
    ///
    /// # Errors
    /// The refusal of door 2 for that token.
    pub fn validate(&self, ask: &SessionAsk, allow_expired: bool) -> Result<Validated, Refusal> {
        let house = &self.house;
        let window = if allow_expired { house.session_terms().expired_seconds } else { 0 };
        let context = house.identity_context();
        Ok(enfilade_identity::validate(house.source(), || house.now(), ask, window, &context)?)
    }
}

fn halves(random: [u8; 32]) -> ([u8; 16], [u8; 16]) {
    let byte = |at: usize| random.get(at).copied().unwrap_or(0);
    (std::array::from_fn(byte), std::array::from_fn(|at| byte(at + 16)))
}
