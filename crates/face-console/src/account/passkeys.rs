//! The passkeys of the user. When the user signs in to the console, a passkey can replace the code of the second factor. A user with a second factor
//! can add passkeys. To add a passkey, the user needs the password and a code. To remove a passkey, the user needs the password. Otherwise a thief of
//! a session could remove all passkeys, and then the user would need codes.

use super::password::prove_password;
use super::proof::{permit, proven};
use crate::click::{Click, Trouble, said};
use crate::icons::Icon;
use crate::page::{csrf_field, time, time_or_never};
use crate::session::origin;
use enfilade_faces::Answer;
use enfilade_faces::browser::{base64url, new_passkey, octets, parameter, redirect};
use enfilade_facts::limits::PASSKEYS_MAX;
use enfilade_facts::tables::{Octets, Passkey};
use enfilade_facts::vocabulary::is_unseen;
use enfilade_passage::{Ceremony, PASSKEY_ALGORITHMS, passkey_challenge};
use maud::{Markup, html};

/// The maximum length of the name of a passkey, in characters.
const NAME_CHARS_MAX: usize = 64;

/// The challenge for a new passkey. Each session has its own challenge.
fn challenge(click: &Click<'_>) -> [u8; 32] {
    passkey_challenge(click.csrf.as_bytes())
}

/// The list of passkeys, and the form for a new one.
pub(super) fn part(click: &Click<'_>, passkeys: &[Passkey]) -> Markup {
    html! {
        h3 { "Passkeys" }
        @if passkeys.is_empty() {
            p.weak { "When you sign in to the console at this host, a passkey can take the place of the code: the browser asks for a fingerprint, a PIN or a security key. Applications still ask for a code." }
        } @else {
            div.scroll tabindex="0" {
                table {
                    thead { tr { th scope="col" { "Name" } th scope="col" { "Host" } th scope="col" { "Made" } th scope="col" { "Last use" } th {} } }
                    tbody { @for (at, passkey) in passkeys.iter().enumerate() { (row(click, at, passkey)) } }
                }
            }
        }
        @if passkeys.len() < PASSKEYS_MAX { (form(click, passkeys)) } @else { p.weak { "You have " (PASSKEYS_MAX) " passkeys. Remove one to add another." } }
    }
}

fn row(click: &Click<'_>, at: usize, passkey: &Passkey) -> Markup {
    let id = format!("passkey-{at}");
    html! {
        tr {
            td { (passkey.name) } td { (passkey.host) } td { (time(passkey.made_at)) } td { (time_or_never(passkey.used_at)) }
            td {
                details.more {
                    summary.button.slim { "Remove" span.hide-text { " " (passkey.name) } }
                    div {
                        form.stack method="post" action="/console/account/remove-passkey" {
                            (csrf_field(&click.csrf))
                            input type="hidden" name="passkey" value=(base64url(&passkey.id.0));
                            label for=(id) { "Present password" }
                            input id=(id) type="password" name="present" autocomplete="current-password" required;
                            button.danger { "Remove the passkey" }
                        }
                    }
                }
            }
        }
    }
}

fn form(click: &Click<'_>, passkeys: &[Passkey]) -> Markup {
    let ids: Vec<String> = passkeys.iter().map(|passkey| base64url(&passkey.id.0)).collect();
    let algorithms = PASSKEY_ALGORITHMS.map(|number| number.to_string()).join(" ");
    let user = click.visit.principal().user;
    html! {
        details {
            summary.button { (Icon::Add.show()) "Add a passkey" }
            form.stack method="post" action="/console/account/add-passkey" data-passkey="make"
                data-challenge=(base64url(&challenge(click))) data-ids=(ids.join(" ")) data-algorithms=(algorithms)
                data-user=(base64url(user.bytes())) data-name=(click.user()) {
                (csrf_field(&click.csrf))
                @for name in ["passkey", "key", "client-data", "authenticator-data"] { input type="hidden" name=(name); }
                div.field {
                    label for="passkey-name" { "Name of the passkey" }
                    input #passkey-name name="name" maxlength=(NAME_CHARS_MAX) required placeholder="phone" autocomplete="off";
                }
                div.field {
                    label for="passkey-password" { "Present password" }
                    input #passkey-password type="password" name="present" autocomplete="current-password" required;
                }
                div.field {
                    label for="passkey-code" { "Code, or a recovery code" }
                    input #passkey-code name="code" inputmode="numeric" autocomplete="one-time-code" required;
                }
                p.problem data-passkey-problem role="alert" hidden {}
                div { button.main { "Make the passkey" } }
            }
        }
    }
}

/// Adds the passkey that the browser made.
pub(super) async fn add(click: &mut Click<'_>) -> Result<Answer, Trouble> {
    let name = click.field("name").trim().to_owned();
    let is_name = !name.is_empty()
        && name.chars().count() <= NAME_CHARS_MAX
        && !name.contains(|c| c == '`' || is_unseen(c));
    if !is_name {
        return Err(said(format!(
            "the name of a passkey has 1 to {NAME_CHARS_MAX} visible characters, and no backtick"
        )));
    }
    let new = new_passkey(&click.form);
    if new.id.is_empty() {
        return Err(said(
            "the browser sent no passkey. Passkeys need https, a host name instead of an IP address, and a browser that supports passkeys and runs scripts",
        ));
    }
    let origin = origin(&click.head).unwrap_or_default().to_owned();
    let ceremony = Ceremony { challenge: challenge(click), origin: &origin };
    let passkey = new.check(&ceremony, &name, click.now()).map_err(said)?;
    let passcode = proven(click).await?;
    click.faces.house().count_code(&click.visit.principal().user)?;
    let permit = permit(click)?;
    click.change(permit, move |ctx| enfilade_admin::add_passkey(ctx, &passcode, &passkey)).await?;
    Ok(redirect("/console/account?done=passkey"))
}

/// Removes a passkey.
pub(super) async fn remove(click: &mut Click<'_>) -> Result<Answer, Trouble> {
    let present = parameter(&click.form, "present").unwrap_or_default().to_owned();
    prove_password(click, present.as_bytes()).await?;
    let (id, user) = (Octets(octets(&click.form, "passkey")), click.visit.principal().user);
    click.faces.house().count_code(&user)?;
    let permit = permit(click)?;
    click.change(permit, move |ctx| enfilade_admin::remove_passkey(ctx, &user, &id)).await?;
    Ok(redirect("/console/account?done=passkey-removed"))
}
