//! A login to Identity v3: the methods that were proven for one user. A login is not a permit. If the methods satisfy the rules of the user, door 2
//! issues a session for the login. Otherwise, door 2 issues a receipt.

use crate::ask::SessionAsk;
use crate::context::{Context, Ring};
use crate::grant::judge_in_time;
use crate::mfa;
use crate::open::granted_again;
use crate::passcode::Passcode;
use crate::permit::{Granted, IdentityPermit, Unfinished};
use crate::refuse::Refusal;
use crate::session::{Claim, Methods, Session};
use crate::view::View;
use enfilade_facts::vocabulary::{Authid, CredentialId, UserId};
use enfilade_facts::{Clocks, Held};

/// The methods that were proven for one user.
#[derive(Clone, Debug)]
pub struct Login {
    authid: Authid,
    user: UserId,
    /// The verdict on the password, API token or session; `None` if the login has only a passcode.
    first: Option<Held<Granted>>,
    passcode: Option<Passcode>,
    receipt: Option<Receipt>,
}

/// A receipt: the proof that a user presented some methods a short time ago. Only [`read_receipt`] makes a value of this type.
#[derive(Clone, Debug)]
pub struct Receipt(Claim);

/// Reads and judges a receipt. A receipt ends like a session: when the receipt expires, and when the sessions of its user are revoked.
///
/// # Errors
/// The refusals that a session can get.
pub fn read_receipt(
    view: &enfilade_facts::View<'_>,
    now: Clocks,
    ask: &SessionAsk,
    context: &Context<'_>,
) -> Result<Receipt, Refusal> {
    let ring = context.sessions.ring();
    let keys = ring.as_deref().and_then(|Ring { keys, .. }| keys.receipts()).ok_or(Refusal::NotOurs)?;
    let receipt = Receipt(Claim::read(keys, ask)?);
    receipt.check(&View::new(view), now, context)?;
    Ok(receipt)
}

impl Receipt {
    /// When the receipt expires, in seconds since the epoch.
    pub fn expires_at(&self) -> i64 {
        self.0.expires_at
    }

    /// The methods that the receipt proves for this user.
    ///
    /// # Errors
    /// When the receipt belongs to another user.
    pub(crate) fn methods_of(&self, user: &UserId) -> Result<Methods, Refusal> {
        match self.0.user == *user {
            true => Ok(self.0.methods),
            false => Err(Refusal::OtherUser),
        }
    }

    /// The user of the receipt.
    pub fn user(&self) -> UserId {
        self.0.user
    }

    fn check(&self, view: &View<'_>, now: Clocks, context: &Context<'_>) -> Result<(), Refusal> {
        judge_in_time(view, now, &self.0, 0, context).map(drop)
    }
}

impl From<Held<Granted>> for Login {
    fn from(first: Held<Granted>) -> Self {
        let (authid, user) = (first.principal.authid.clone(), first.principal.user);
        Login { authid, user, first: Some(first), passcode: None, receipt: None }
    }
}

impl From<&IdentityPermit> for Login {
    fn from(permit: &IdentityPermit) -> Self {
        permit.granted.clone().into()
    }
}

impl From<Unfinished> for Login {
    fn from(unfinished: Unfinished) -> Self {
        unfinished.granted.into()
    }
}

impl From<Passcode> for Login {
    fn from(passcode: Passcode) -> Self {
        let (authid, user) = (passcode.authid.clone(), passcode.user);
        Login { authid, user, first: None, passcode: Some(passcode), receipt: None }
    }
}

impl Login {
    /// Adds a passcode.
    ///
    /// # Errors
    /// When the passcode belongs to another user.
    pub fn with_passcode(self, passcode: Passcode) -> Result<Self, Refusal> {
        match passcode.user == self.user {
            true => Ok(Login { passcode: Some(passcode), ..self }),
            false => Err(Refusal::OtherUser),
        }
    }

    /// Adds the methods of a receipt.
    ///
    /// # Errors
    /// When the receipt belongs to another user.
    pub fn with_receipt(self, receipt: Receipt) -> Result<Self, Refusal> {
        receipt.methods_of(&self.user)?;
        Ok(Login { receipt: Some(receipt), ..self })
    }

    /// The name with which the client logged in.
    pub fn authid(&self) -> &Authid {
        &self.authid
    }

    /// The user.
    pub fn user(&self) -> UserId {
        self.user
    }

    /// All methods that were proven.
    pub fn methods(&self) -> Methods {
        let first = match (self.session(), self.token()) {
            (Some(before), _) => before.claim.methods.and(Methods::TOKEN),
            (None, Some(_)) => Methods::APPLICATION_CREDENTIAL,
            (None, None) if self.first.is_some() => Methods::PASSWORD,
            (None, None) => Methods(0),
        };
        let passcode = self.passcode.as_ref().map_or(Methods(0), |_| Methods::TOTP);
        first.and(passcode).and(self.receipt.as_ref().map_or(Methods(0), |receipt| receipt.0.methods))
    }

    /// The session, if the client presented a session to get a new session in exchange.
    pub(crate) fn session(&self) -> Option<&Session> {
        self.first.as_ref()?.session.as_deref()
    }

    /// The API token, if the client logged in with an API token.
    pub(crate) fn token(&self) -> Option<&CredentialId> {
        self.first.as_ref()?.proof.credential.as_ref()
    }

    /// The first second in which the password, API token or session of this login is no longer valid; `None` if this credential does not expire, or
    /// if the login has only a passcode. A session for this login ends at this second at the latest.
    pub(crate) fn end(&self) -> Option<i64> {
        self.first.as_ref()?.validity.last_second().map(|second| second.saturating_add(1))
    }

    /// When the receipt of this login expires; `i64::MAX` if the login has no receipt. A receipt that is issued for this login does not expire later
    /// than this time, so that no method counts for longer than the lifetime of one receipt.
    pub(crate) fn receipt_end(&self) -> i64 {
        self.receipt.as_ref().map_or(i64::MAX, |receipt| receipt.0.expires_at)
    }

    /// Judges the credential, the passcode and the receipt again, at the revision of the view.
    ///
    /// # Errors
    /// When the credential or the receipt is no longer valid, or the use of the passcode was not committed.
    pub fn again(
        &self,
        view: &enfilade_facts::View<'_>,
        now: Clocks,
        context: &Context<'_>,
    ) -> Result<Login, Refusal> {
        let first = self.first.as_ref().map(|first| granted_again(view, now, first, context)).transpose()?;
        let view = &View::new(view);
        self.passcode.as_ref().map_or(Ok(()), |passcode| passcode.check_used(view))?;
        self.receipt.as_ref().map_or(Ok(()), |receipt| receipt.check(view, now, context))?;
        Ok(Login { first, ..self.clone() })
    }

    /// Whether the methods satisfy the rules of the user.
    ///
    /// # Errors
    /// When the facts cannot be read.
    pub fn satisfies_rules(&self, view: &enfilade_facts::View<'_>) -> Result<bool, Refusal> {
        Ok(mfa::suffice(&mfa::rules_of(&View::new(view), &self.user)?, self.methods()))
    }

    /// Checks that the methods satisfy the rules of the user.
    pub(crate) fn check_methods(&self, view: &View<'_>) -> Result<(), Refusal> {
        mfa::check(view, &self.authid, self.user, self.methods())
    }

    /// The rules that a further login can satisfy if it presents a receipt for this login. `None` if this login is by an API token or a session. The
    /// door issues no receipt for such a login, because a receipt proves that the user authenticated in person.
    ///
    /// # Errors
    /// When the facts cannot be read.
    pub fn to_complete(&self, view: &enfilade_facts::View<'_>) -> Result<Option<Vec<Vec<String>>>, Refusal> {
        if self.session().is_some() || self.token().is_some() {
            return Ok(None);
        }
        let rules = mfa::rules_of(&View::new(view), &self.user)?;
        Ok(Some(mfa::to_complete(&rules, self.methods())))
    }
}
