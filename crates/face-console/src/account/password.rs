//! Changing the password. The present password is judged like a login, with the same delays.

use crate::click::{Click, Trouble, said};
use crate::page::{command, csrf_field};
use crate::session;
use enfilade_admin::{ChosenBy, UserAttributes, UserSave, save_user};
use enfilade_faces::Answer;
use enfilade_faces::credential::password;
use enfilade_facts::vocabulary::{Privileges, Secret, shell_word};
use enfilade_passage::{Credential, Lending, Refusal};
use maud::{Markup, html};

/// The part of the page about the password.
pub(super) fn section(click: &Click<'_>) -> Markup {
    let user = click.user().to_string();
    html! {
        section.card.pad aria-labelledby="password-head" {
            h2 #password-head { "Password" }
            form.stack method="post" action="/console/account/password" {
                (csrf_field(&click.csrf))
                // Password managers need the user's name in the form.
                input type="text" name="user" value=(user) autocomplete="username" hidden;
                div.field {
                    label for="present" { "Present password" }
                    input #present type="password" name="present" autocomplete="current-password" required;
                }
                div.field {
                    label for="new" { "New password" }
                    input #new type="password" name="new" autocomplete="new-password" required;
                }
                div.field {
                    label for="again" { "New password, again" }
                    input #again type="password" name="again" autocomplete="new-password" required;
                }
                p.weak.small { "The change signs you out everywhere, and ends all sessions of programs that used the password." }
                div { button.main { "Change password" } }
            }
            (command(&[format!("enfilade user passwd {}", shell_word(&user))]))
        }
    }
}

/// Changes the password, which ends all sessions of the user.
pub(super) async fn change(click: &mut Click<'_>) -> Result<Answer, Trouble> {
    let value = |name| enfilade_faces::browser::parameter(&click.form, name).unwrap_or_default().as_bytes();
    let (present, new, again) = (value("present"), value("new"), value("again"));
    if new != again {
        return Err(said("the two new passwords differ"));
    }
    let user = click.user();
    let Some(new) = Secret::new(new) else { return Err(said(NO_PASSWORD)) };
    let old = prove_password(click, present).await?;
    let permit =
        click.permit("/access/users", Privileges::PERMISSIONS_MODIFY, Lending::People, Some(&user))?;
    let id = click.visit.principal().user;
    click
        .change(permit, move |ctx| {
            let saved = save_user(ctx, &id, &|user, before| {
                if is_locked(before) {
                    let why = "only an administrator may change the password of this account";
                    return Err(enfilade_admin::Error::Refused(why.to_owned()));
                }
                let password = Some((new.clone(), ChosenBy::User(old.clone())));
                let (name, enabled, comment) = (user.name.clone(), user.enabled, user.comment.clone());
                Ok(UserSave {
                    name,
                    enabled,
                    comment,
                    password,
                    is_let_in: false,
                    attributes: before.clone(),
                })
            });
            saved.map(drop)
        })
        .await?;
    Ok(session::changed_password())
}

const NO_PASSWORD: &str = "a password has 1 to 511 bytes, and no NUL byte";

/// Checks the present password of the user, with the same delays as a login.
pub(super) async fn prove_password(click: &Click<'_>, present: &[u8]) -> Result<Secret, Trouble> {
    let asked = password(&click.user().to_string(), present).zip(Secret::new(present));
    let Some(((ask, named), present)) = asked else { return Err(said(NO_PASSWORD)) };
    let from = click.connection.peer.ip();
    match click.faces.arc_house().arrive(&Credential::NamedSecret(ask, named), from).await {
        Ok(arrival) if arrival.user() == click.visit.principal().user => Ok(present),
        Ok(_) => Err(said("the present password is wrong")),
        Err(refusal @ Refusal::Identity(_)) if enfilade_faces::browser::is_unauthorized(&refusal) => {
            Err(said("the present password is wrong"))
        }
        Err(refusal) => Err(refusal.into()),
    }
}

/// Whether the account has the option of the Identity API that forbids the user to change the password.
fn is_locked(account: &UserAttributes) -> bool {
    let extra: serde_json::Value = serde_json::from_str(&account.extra).unwrap_or_default();
    extra.pointer("/options/lock_password") == Some(&serde_json::Value::Bool(true))
}
