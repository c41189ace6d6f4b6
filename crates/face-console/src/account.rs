//! The account of the user: API tokens, sessions, the password and the second factor.
//!
//! - `tokens.rs` makes and deletes API tokens.
//! - `sessions.rs` shows the browsers in which the user is signed in, and ends their sessions.
//! - `password.rs` changes the password.
//! - `second_factor.rs` sets up and removes the second factor. `passkeys.rs` adds and removes passkeys. `proof.rs` checks the password and the code
//!   for both files.

pub(crate) mod passkeys;
pub(crate) mod password;
pub(crate) mod proof;
pub(crate) mod second_factor;
pub(crate) mod sessions;
pub(crate) mod tokens;

use crate::click::{Click, Trouble};
use crate::page::{Notice, command};
use crate::section::Section;
use enfilade_faces::{Answer, Failure, RequestError};
use enfilade_facts::vocabulary::shell_word;
use maud::html;

/// The page of the account.
pub(crate) async fn show(click: &mut Click<'_>) -> Result<Answer, Failure> {
    let (tokens, sessions) = (tokens::section(click).await?, sessions::section(click).await?);
    let factor = second_factor::section(click).await?;
    let user = click.user().to_string();
    let content = html! {
        div.head { div { h1 { "Account" } p { "You are signed in as " strong { (user) } "." } } }
        (tokens)
        (sessions)
        (password::section(click))
        (factor)
        (command(&[format!("enfilade user access {}", shell_word(&user))]))
    };
    Ok(click.page(Section::Account, "Account", &content))
}

/// Does the action that a form of the page requests. If the action fails, the page shows the reason.
pub(crate) async fn submit(click: &mut Click<'_>, action: &str) -> Result<Answer, Failure> {
    let done = match action {
        "create-token" => tokens::create(click).await,
        "delete-token" => tokens::delete(click).await,
        "end-session" => sessions::end(click).await,
        "password" => password::change(click).await,
        "begin-second-factor" => second_factor::begin(click).await,
        "confirm-second-factor" => second_factor::confirm(click).await,
        "new-recovery-codes" => second_factor::renew(click).await,
        "add-passkey" => passkeys::add(click).await,
        "remove-passkey" => passkeys::remove(click).await,
        "remove-second-factor" => second_factor::remove(click).await,
        _ => Err(RequestError::NoRoute.into()),
    };
    match done {
        Ok(answer) => Ok(answer),
        Err(Trouble::Failed(failure)) => Err(failure),
        Err(Trouble::Said(why)) => {
            click.notice = Some(Notice::Failed(why));
            show(click).await
        }
    }
}
