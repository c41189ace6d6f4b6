//! The form for signing in. It has two steps, so that only a person who knows the password learns that the account needs a code.

use super::OfferedPasskeys;
use maud::{Markup, html};

/// The texts that the form shows, and the hidden fields that it sends.
#[derive(Clone, Copy, Debug)]
pub struct SignInForm<'a> {
    /// The path to which the form is sent.
    pub action: &'a str,
    /// Names and values of hidden fields.
    pub hidden: &'a [(&'a str, &'a str)],
    /// The name that the user entered in an earlier attempt or step.
    pub user: &'a str,
    /// The reason why the last attempt failed.
    pub problem: Option<&'a str>,
    /// The receipt for the right password; `None` if the form asks for the password.
    pub receipt: Option<&'a str>,
    /// The passkeys that can take the place of the code; `None` if there are none, or the page has no script.
    pub passkeys: Option<&'a OfferedPasskeys>,
}

/// The form. Above the form, the page shows the reason why the last attempt failed.
pub fn sign_in_form(form: &SignInForm<'_>) -> Markup {
    let SignInForm { action, hidden, user, problem, receipt, passkeys } = form;
    html! {
        @if let Some(problem) = problem { p.problem role="alert" { (problem) } }
        form method="post" action=(action) {
            @for (name, value) in *hidden { input type="hidden" name=(name) value=(value); }
            @match receipt {
                Some(receipt) => (code_fields(user, receipt, *passkeys)),
                None => (password_fields(user)),
            }
            button { "Sign in" }
        }
    }
}

fn password_fields(user: &str) -> Markup {
    html! {
        label for="user" { "User" }
        input #user name="user" value=(user) autocomplete="username" autocapitalize="none" spellcheck="false"
            required autofocus[user.is_empty()];
        label for="password" { "Password" }
        input #password type="password" name="password" autocomplete="current-password" required
            autofocus[!user.is_empty()];
    }
}

fn code_fields(user: &str, receipt: &str, passkeys: Option<&OfferedPasskeys>) -> Markup {
    html! {
        input type="hidden" name="user" value=(user);
        input type="hidden" name="receipt" value=(receipt);
        p { "The password of " strong { (user) } " is right." }
        @if let Some(OfferedPasskeys { challenge, ids }) = passkeys { (passkey_fields(challenge, ids)) }
        label for="passcode" { "Code" }
        input #passcode name="passcode" inputmode="numeric" autocomplete="one-time-code" required autofocus
            aria-describedby="about-passcode";
        p #about-passcode.weak { "Enter the code that your authenticator app shows, or a recovery code." }
    }
}

/// The fields of a passkey, which the script fills. The button is hidden until the script shows it.
fn passkey_fields(challenge: &str, ids: &[String]) -> Markup {
    html! {
        @for name in ["passkey", "client-data", "authenticator-data", "signature"] {
            input type="hidden" name=(name);
        }
        button.main type="button" data-passkey="use" data-challenge=(challenge) data-ids=(ids.join(" ")) hidden {
            "Use a passkey"
        }
        p.problem data-passkey-problem role="alert" hidden {}
    }
}
