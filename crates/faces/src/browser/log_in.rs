//! Checks the name, the password and the passcode that a person entered in the form for signing in.

use super::{change, is_unauthorized, parameter};
use crate::connection::Connection;
use crate::credential::password;
use crate::faces::Faces;
use crate::request_error::Failure;
use crate::trace::Trace;
use enfilade_admin::keystone::use_passcode;
use enfilade_facts::vocabulary::{Secret, Word};
use enfilade_passage::{Arrival, Credential, IdentityRefusal, Refusal, SecretAsk};
use std::net::IpAddr;

/// Checks the password, and the passcode if there is one, in the fields of a form.
///
/// # Errors
/// The refusal of door 2. [`why_not`] returns the sentence for the person.
pub async fn log_in(
    faces: &Faces,
    connection: &Connection,
    pairs: &[(String, String)],
    trace: &mut Trace,
) -> Result<Arrival, Failure> {
    let (house, from) = (faces.arc_house(), connection.peer.ip());
    let user = parameter(pairs, "user").unwrap_or_default().trim();
    let shown = parameter(pairs, "password").unwrap_or_default();
    let (ask, named) = password(user, shown.as_bytes()).ok_or(IdentityRefusal::NoCredential)?;
    trace.event.authid = named.clone();
    let authid = ask.authid.clone();
    let credential = Credential::NamedSecret(ask, named.clone());
    let arrival = trace.admitted(house.arrive(&credential, from)).await?;
    let passcode = parameter(pairs, "passcode").unwrap_or_default();
    let passcode: String = passcode.chars().filter(|c| !c.is_whitespace()).collect();
    if passcode.is_empty() {
        return Ok(arrival);
    }
    let secret = Secret::new(passcode.as_bytes()).ok_or(IdentityRefusal::NoCredential)?;
    let given = (SecretAsk { authid, secret }, named);
    with_passcode(faces, arrival, given, from, trace).await
}

async fn with_passcode(
    faces: &Faces,
    arrival: Arrival,
    (ask, named): (SecretAsk, Word),
    from: IpAddr,
    trace: &mut Trace,
) -> Result<Arrival, Failure> {
    let checked = faces.arc_house().check_passcode(&ask, Some(arrival.user()), &named, from);
    let passcode = trace.admitted(checked).await?;
    // The use of the passcode is committed before the login continues. So nobody can use the passcode again.
    let passcode = change(faces, trace, move |ctx| use_passcode(ctx, &passcode).map(|()| passcode)).await?;
    Ok(arrival.with_passcode(passcode)?)
}

/// The reason why the person is not signed in, in a sentence for the form. `None` if another attempt with the
/// form would not help.
pub fn why_not(refusal: &Refusal) -> Option<&'static str> {
    match refusal {
        Refusal::Identity(IdentityRefusal::MoreMethods { .. }) => Some(
            "Your account also needs a passcode. Enter the password again, and the passcode of your authenticator app.",
        ),
        Refusal::Identity(IdentityRefusal::PasswordExpired { .. }) => {
            Some("The password is right, but it has expired. Ask your administrator for a new one.")
        }
        refusal if is_unauthorized(refusal) => {
            Some("The user name, the password or the passcode is wrong, or the account is locked.")
        }
        _ => None,
    }
}
