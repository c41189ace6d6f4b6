//! The form for signing in.

use maud::{Markup, html};

/// The texts that the form shows, and the hidden fields that it sends.
#[derive(Clone, Copy, Debug)]
pub struct SignInForm<'a> {
    /// The path to which the form is sent.
    pub action: &'a str,
    /// Names and values of hidden fields.
    pub hidden: &'a [(&'a str, &'a str)],
    /// The name that the user entered before.
    pub user: &'a str,
    /// The reason why the last attempt failed.
    pub problem: Option<&'a str>,
}

/// The form. Above the form, the page shows the reason why the last attempt failed.
pub fn sign_in_form(form: &SignInForm<'_>) -> Markup {
    let SignInForm { action, hidden, user, problem } = form;
    html! {
        @if let Some(problem) = problem { p.problem role="alert" { (problem) } }
        form method="post" action=(action) {
            @for (name, value) in *hidden { input type="hidden" name=(name) value=(value); }
            label for="user" { "User" }
            input #user name="user" value=(user) autocomplete="username" autocapitalize="none" spellcheck="false"
                required autofocus[user.is_empty()];
            label for="password" { "Password" }
            input #password type="password" name="password" autocomplete="current-password" required
                autofocus[!user.is_empty()];
            label for="passcode" { "Passcode" }
            input #passcode name="passcode" inputmode="numeric" autocomplete="one-time-code"
                aria-describedby="about-passcode";
            p #about-passcode.weak { "Leave this empty if your account does not use an authenticator app." }
            button { "Sign in" }
        }
    }
}
