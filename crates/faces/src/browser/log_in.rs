//! Checks the name, the password and the code that a person entered in the form for signing in. A program can send all three at once. A person sends
//! the password first, and gets a receipt for the password if the account needs a code. The second form sends the receipt, and the code or
//! the answer of a passkey.

use super::{change, is_unauthorized, parameter, passkeys};
use crate::connection::Connection;
use crate::credential::password;
use crate::faces::Faces;
use crate::request_error::Failure;
use crate::trace::Trace;
use enfilade_admin::keystone::use_passcode;
use enfilade_facts::vocabulary::{Secret, UserId, Word};
use enfilade_passage::{Arrival, Credential, IdentityRefusal, Passcode, Refusal, SecretAsk, SessionAsk};
use std::net::IpAddr;

/// The result of a form for signing in.
pub enum Attempt {
    /// The password is right, and also the code or the passkey if the account needs one.
    Complete(Box<Arrival>),
    /// The password is right, and the account needs a code. The text is the receipt for the password. The receipt is a secret: for five minutes, a
    /// form with the receipt needs no password.
    NeedsCode(String),
}

impl std::fmt::Debug for Attempt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Attempt::Complete(_) => "Complete",
            Attempt::NeedsCode(_) => "NeedsCode",
        })
    }
}

/// Checks the fields of a form: the password or a receipt for the password, and the code or the passkey if the form contains one. `origin` is the
/// value of the header `Origin`, which the caller has checked. If `origin` is `None`, no passkey is accepted.
///
/// # Errors
/// The refusal of door 2, or the failure to store the use of the code. [`why_not`] returns the sentence for the person.
pub async fn log_in(
    faces: &Faces,
    connection: &Connection,
    (pairs, origin): (&[(String, String)], Option<&str>),
    trace: &mut Trace,
) -> Result<Attempt, Failure> {
    let (house, from) = (faces.arc_house(), connection.peer.ip());
    let value = |name| parameter(pairs, name).unwrap_or_default();
    let user = value("user").trim();
    let code: String = value("passcode").chars().filter(|c| !c.is_whitespace() && *c != '-').collect();
    if let Some(text) = parameter(pairs, "receipt") {
        let token = Secret::new(text.as_bytes()).ok_or(IdentityRefusal::NoCredential)?;
        let receipt = house.read_receipt(&SessionAsk { token })?;
        let passkey = passkeys::shown(pairs, text, &receipt, origin);
        let shown = if passkey.is_some() { "passkey".as_bytes() } else { code.as_bytes() };
        let (ask, named) = password(user, shown).ok_or(IdentityRefusal::NoCredential)?;
        trace.event.authid = named.clone();
        // The receipt must belong to the user that the form names. Otherwise a client with the receipt of one user could cause wrong codes to be
        // counted for another user, or learn facts about another user.
        if !house.is_name_of(&ask.authid, &receipt.user())? {
            return Err(IdentityRefusal::OtherUser.into());
        }
        let (proven, name) = (Some(receipt.user()), named.clone());
        let passcode = match passkey {
            Some(passkey) => {
                let checked = house.check_passkey(ask.authid, passkey, proven, &name, from);
                let passcode = trace.admitted(checked).await?;
                used(faces, passcode, trace).await?
            }
            None => passcode(faces, proven, (ask, name), from, trace).await?,
        };
        let arrival = house.arrive_by_passcode(passcode, named).with_receipt(receipt)?;
        return Ok(Attempt::Complete(Box::new(arrival)));
    }
    let (ask, named) = password(user, value("password").as_bytes()).ok_or(IdentityRefusal::NoCredential)?;
    trace.event.authid = named.clone();
    let authid = ask.authid.clone();
    let credential = Credential::NamedSecret(ask, named.clone());
    let arrival = trace.admitted(house.arrive(&credential, from)).await?;
    if code.is_empty() {
        return ask_for_code(arrival).await;
    }
    let secret = Secret::new(code.as_bytes()).ok_or(IdentityRefusal::NoCredential)?;
    let given = (SecretAsk { authid, secret }, named);
    let passcode = passcode(faces, Some(arrival.user()), given, from, trace).await?;
    Ok(Attempt::Complete(Box::new(arrival.with_passcode(passcode)?)))
}

/// Returns [`Attempt::NeedsCode`] if the password alone does not satisfy the rules of the user, but password and code together do. In all other
/// cases, returns [`Attempt::Complete`]. If the rules need another method, door 2 refuses the session later (`MoreMethods`).
async fn ask_for_code(arrival: Arrival) -> Result<Attempt, Failure> {
    let is_enough =
        |rule: &Vec<String>| rule.iter().all(|method| ["password", "totp"].contains(&method.as_str()));
    Ok(match arrival.receipt().await? {
        Some(receipt) if receipt.required.iter().any(is_enough) => Attempt::NeedsCode(receipt.receipt),
        _ => Attempt::Complete(Box::new(arrival)),
    })
}

/// Checks a code, and commits the use of the code before the login continues. So nobody can use the code again.
async fn passcode(
    faces: &Faces,
    proven: Option<UserId>,
    (ask, named): (SecretAsk, Word),
    from: IpAddr,
    trace: &mut Trace,
) -> Result<Passcode, Failure> {
    let checked = faces.arc_house().check_passcode(&ask, proven, &named, from);
    let passcode = trace.admitted(checked).await?;
    used(faces, passcode, trace).await
}

/// Commits the use of a code or passkey.
async fn used(faces: &Faces, passcode: Passcode, trace: &mut Trace) -> Result<Passcode, Failure> {
    change(faces, trace, move |ctx| use_passcode(ctx, &passcode).map(|()| passcode)).await
}

/// The receipt in the form, if door 2 refused only the code or the passkey. The next form must send this receipt again. `None` for all other
/// refusals.
pub fn kept_receipt<'p>(pairs: &'p [(String, String)], refusal: &Refusal) -> Option<&'p str> {
    let is_code = matches!(refusal, Refusal::Identity(IdentityRefusal::WrongPasscode { .. }));
    parameter(pairs, "receipt").filter(|_| is_code)
}

/// The reason why the person is not signed in, in a sentence for the form. `None` for any other refusal, for example if too many logins from the
/// address failed. The caller then shows the refusal itself.
pub fn why_not(refusal: &Refusal, pairs: &[(String, String)]) -> Option<&'static str> {
    let has_receipt = parameter(pairs, "receipt").is_some();
    let has_passkey = parameter(pairs, "passkey").is_some_and(|id| !id.is_empty());
    match refusal {
        Refusal::Identity(IdentityRefusal::MoreMethods { .. }) => Some(
            "The password is right, but your account needs a method that this page does not offer. Ask your administrator.",
        ),
        Refusal::Identity(IdentityRefusal::PasswordExpired { .. }) => {
            Some("The password is right, but it has expired. Ask your administrator for a new one.")
        }
        Refusal::Identity(IdentityRefusal::WrongPasscode { .. }) if has_receipt && has_passkey => Some(
            "The passkey was not accepted, or there were too many wrong attempts. Try again, or enter a code. After five wrong attempts, wait ten minutes.",
        ),
        Refusal::Identity(IdentityRefusal::WrongPasscode { .. }) if has_receipt => Some(
            "The code is wrong or was used before, or there were too many wrong codes. Wait for the next code, then try again. After five wrong codes, wait ten minutes.",
        ),
        refusal if has_receipt && is_unauthorized(refusal) => {
            Some("The sign-in took too long, or ended. Enter the password again.")
        }
        refusal if is_unauthorized(refusal) => {
            Some("The user name, the password or the code is wrong, or the account is locked.")
        }
        _ => None,
    }
}
