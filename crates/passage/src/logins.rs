//! Logins to Identity v3, with one or several methods. A login that satisfies the rules of its user gets a session. Any other login with a password
//! or a passcode gets a receipt. With the receipt, the client can present the missing methods in a later request.

use crate::credential::Credential;
use crate::house::House;
use crate::refuse::Refusal;
use crate::sessions::{IssuedToken, Purpose};
use enfilade_facts::tables::Audience;
use enfilade_facts::vocabulary::{Authid, UserId, Word};
use enfilade_facts::{Clocks, Read as _, View};
use enfilade_identity::fernet::payload::AuditId;
use enfilade_identity::{
    Basis, Login, Passcode, Receipt, Refusal as IdentityRefusal, Scope, Session, SessionAsk, Unissued,
    Wanted, read_receipt,
};
use std::net::IpAddr;
use std::sync::Arc;

/// A login in progress: the client has authenticated with one or more methods. The user may need further methods.
pub struct Arrival {
    house: Arc<House>,
    login: Login,
    /// The names under which failed logins of this client are counted. When the login is complete, the delays for these names end. Empty if they
    /// have ended already.
    named: Vec<Word>,
}

/// A receipt, and the rules that the user can still satisfy with it.
pub struct IssuedReceipt {
    /// The text of the receipt. It is a secret until the receipt expires.
    pub receipt: String,
    /// The user, the methods and the times of the receipt. The text of the receipt is not accepted as a token.
    pub session: Session,
    /// The rules of the user that contain at least one of the proven methods.
    pub required: Vec<Vec<String>>,
}

impl std::fmt::Debug for IssuedReceipt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IssuedReceipt").field("session", &self.session).finish_non_exhaustive()
    }
}

impl House {
    /// Begins a login with a password, an API token or a session.
    ///
    /// # Errors
    /// The refusal of door 2.
    pub async fn arrive(self: &Arc<Self>, credential: &Credential, from: IpAddr) -> Result<Arrival, Refusal> {
        let (login, named) = match credential {
            Credential::NamedSecret(ask, named) => match self.open_login(ask, Some(named), from).await? {
                Ok(identity) => {
                    self.parts.penalties.succeeded(|| named.clone(), self.now());
                    (Login::from(&self.welcome(identity, from).identity), Vec::new())
                }
                // The login is not complete, so the delays of the name continue. Otherwise a client that has the password could guess passcodes
                // faster.
                Err(unfinished) => (Login::from(unfinished), vec![named.clone(), ask.authid.to_word()]),
            },
            other => (Login::from(&self.admit(other, from).await?.identity), Vec::new()),
        };
        Ok(Arrival { house: Arc::clone(self), login, named })
    }

    /// Reads and judges a receipt.
    ///
    /// # Errors
    /// When the receipt is not valid.
    pub fn read_receipt(&self, ask: &SessionAsk) -> Result<Receipt, Refusal> {
        let (now, context) = (self.now(), self.identity_context());
        Ok(self.source().read(|view| read_receipt(view, now, ask, &context))??)
    }

    /// Begins a login with a passcode. The caller has stored that the passcode was used. So the passcode cannot be used again.
    pub fn arrive_by_passcode(self: &Arc<Self>, passcode: Passcode, named: Word) -> Arrival {
        let login = Login::from(passcode);
        let named = vec![named, login.authid().to_word()];
        Arrival { house: Arc::clone(self), login, named }
    }
}

impl Arrival {
    /// Adds a passcode. The caller has stored that the passcode was used.
    ///
    /// # Errors
    /// When the passcode belongs to another user.
    pub fn with_passcode(self, passcode: Passcode) -> Result<Self, Refusal> {
        Ok(Arrival { login: self.login.with_passcode(passcode)?, ..self })
    }

    /// Adds the methods of a receipt.
    ///
    /// # Errors
    /// When the receipt belongs to another user.
    pub fn with_receipt(self, receipt: Receipt) -> Result<Self, Refusal> {
        Ok(Arrival { login: self.login.with_receipt(receipt)?, ..self })
    }

    /// The name with which the client logged in.
    pub fn authid(&self) -> &Authid {
        self.login.authid()
    }

    /// The user.
    pub fn user(&self) -> UserId {
        self.login.user()
    }

    fn judge(
        &self,
        (view, now): (&View<'_>, Clocks),
        own: AuditId,
        lifetime: i64,
        basis: impl FnOnce(&Login) -> Basis<'_>,
    ) -> Result<Result<Session, Unissued>, Refusal> {
        let context = self.house.identity_context();
        let login = self.login.again(view, now, &context)?;
        Ok(enfilade_identity::issue(view, now, basis(&login), lifetime, own, &context))
    }

    /// Checks that [`Arrival::issue`] would succeed, and issues nothing.
    ///
    /// # Errors
    /// The refusal of door 2.
    pub fn would_issue(&self, wanted: Wanted) -> Result<(), Refusal> {
        let (now, lifetime) = (self.house.now(), self.house.session_terms().token_seconds);
        let own = self.house.random().ok_or(IdentityRefusal::Busy)?;
        let judged =
            |view: &View<'_>| self.judge((view, now), own, lifetime, |login| Basis::Login(login, wanted));
        match self.house.source().read(judged)?? {
            Err(Unissued::Refused(refusal)) => Err(refusal.into()),
            Ok(_) | Err(Unissued::Beyond(_)) => Ok(()),
        }
    }

    /// Issues a session.
    ///
    /// # Errors
    /// The refusal of door 2, also if the methods do not satisfy the rules of the user.
    pub async fn issue(&self, wanted: Wanted) -> Result<IssuedToken, Refusal> {
        let lifetime = self.house.session_terms().token_seconds;
        let judge = |view: &View<'_>, now, own| {
            self.judge((view, now), own, lifetime, |login| Basis::Login(login, wanted))
        };
        let made = self.house.make(Purpose::Token, judge).await?;
        self.complete();
        Ok(made)
    }

    /// Issues the session of a browser in which the user signs in: at the page for signing in, or at the console. The session has no token. So the
    /// caller must store the claim of the session together with the secret of a cookie.
    ///
    /// # Errors
    /// As [`Arrival::issue`].
    pub async fn sign_in(&self, audience: Audience) -> Result<Session, Refusal> {
        let lifetime = i64::try_from(self.house.limits().browser_session_seconds).unwrap_or(i64::MAX);
        let judge = |view: &View<'_>, now, own| {
            let unscoped = Wanted::Scope(Scope::Unscoped);
            self.judge((view, now), own, lifetime, |login| Basis::Login(login, unscoped))
        };
        let (mut session, _) = self.house.grant(judge).await?;
        session.audience = Some(audience);
        self.house.parts.audit.issued(&session.claim);
        self.complete();
        Ok(session)
    }

    /// Ends the delays of `named` after a complete login, and reports the login. If `named` is empty, [`House::welcome`] has done both already.
    fn complete(&self) {
        for named in &self.named {
            let parts = &self.house.parts;
            parts.penalties.succeeded(|| named.clone(), self.house.now());
            parts.accounts.succeeded(&self.user());
            parts.accounts.logged_in(&self.user());
        }
    }

    /// Issues a receipt if the methods do not satisfy the rules of the user. Returns `None` if the methods satisfy the rules. No receipt is issued
    /// for an API token or a session.
    ///
    /// # Errors
    /// The refusal of door 2.
    pub async fn receipt(&self) -> Result<Option<IssuedReceipt>, Refusal> {
        let rules = |view: &View<'_>| {
            Ok::<_, Refusal>((self.login.satisfies_rules(view)?, self.login.to_complete(view)?))
        };
        let (false, Some(required)) = self.house.source().read(rules)?? else { return Ok(None) };
        let lifetime = self.house.session_terms().token_seconds;
        let judge =
            |view: &View<'_>, now, own| self.judge((view, now), own, lifetime, |login| Basis::Receipt(login));
        let IssuedToken { token, session } = self.house.make(Purpose::Receipt, judge).await?;
        Ok(Some(IssuedReceipt { receipt: token, session, required }))
    }
}
