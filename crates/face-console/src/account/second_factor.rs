//! The second factor of the user: set-up, confirmation, new recovery codes, removal. All these actions except the confirmation need the present
//! password. The password is judged like a login.

use super::passkeys;
use super::password::prove_password;
use super::proof::{code_of, permit, proven};
use crate::click::{Click, Trouble};
use crate::icons::Icon;
use crate::page::{Notice, command, csrf_field, time};
use crate::section::Section;
use crate::session;
use enfilade_admin::SecondFactorState;
use enfilade_faces::browser::{failure_of_change, parameter, redirect};
use enfilade_faces::{Answer, Failure, blocking_failure};
use enfilade_facts::vocabulary::{Secret, shell_word};
use enfilade_passage::FactorSecret;
use hyper::StatusCode;
use hyper::header::HOST;
use maud::{Markup, html};
use qrcodegen::{QrCode, QrCodeEcc};
use std::fmt::Write as _;

/// The width of the light border around a QR code, in modules. ISO/IEC 18004 requires four modules.
const BORDER: i32 = 4;

/// The part of the page about the second factor.
pub(super) async fn section(click: &mut Click<'_>) -> Result<Markup, Failure> {
    let (faces, user) = (click.faces.clone(), click.visit.principal().user);
    let found = blocking_failure(click.visit.share(), move || {
        enfilade_admin::second_factor_of(faces.house().source(), &user).map_err(failure_of_change)
    });
    let found = found.await?;
    let user = click.user().to_string();
    Ok(html! {
        section.card.pad aria-labelledby="factor-head" {
            h2 #factor-head { "Second factor" }
            @match found {
                Some(state) => {
                    (passkeys::part(click, &state.passkeys))
                    (removal(click, &state))
                },
                None => (beginning(click)),
            }
            (command(&[format!("enfilade user second-factor {} show", shell_word(&user))]))
        }
    })
}

fn password_field() -> Markup {
    html! {
        div.field {
            label for="factor-password" { "Present password" }
            input #factor-password type="password" name="present" autocomplete="current-password" required;
        }
    }
}

fn beginning(click: &Click<'_>) -> Markup {
    html! {
        p.weak {
            "With a second factor, signing in needs the password and a code from an authenticator app. Programs then need an API token, "
            "because the password alone is refused everywhere."
        }
        form.stack method="post" action="/console/account/begin-second-factor" {
            (csrf_field(&click.csrf))
            (password_field())
            div { button.main { "Set up a second factor" } }
        }
    }
}

fn removal(click: &Click<'_>, state: &SecondFactorState) -> Markup {
    html! {
        p {
            span.badge.good { (Icon::Right.show()) "on" } " Since " (time(state.since)) ". "
            @if state.recovery_codes == 1 { "1 recovery code is left." } @else { (state.recovery_codes) " recovery codes are left." }
        }
        @if state.recovery_codes < 3 { p.note.warn { "Few recovery codes are left. Make new ones." } }
        form.stack method="post" action="/console/account/remove-second-factor" {
            (csrf_field(&click.csrf))
            (password_field())
            div.field {
                label for="factor-code" { "Code, or a recovery code" }
                input #factor-code name="code" inputmode="numeric" autocomplete="one-time-code" required;
            }
            div.bar {
                button formaction="/console/account/new-recovery-codes" { "Make new recovery codes" }
                button.danger { "Remove the second factor" }
            }
        }
    }
}

/// Begins the set-up. Returns the page with the secret.
pub(super) async fn begin(click: &mut Click<'_>) -> Result<Answer, Trouble> {
    let present = parameter(&click.form, "present").unwrap_or_default().to_owned();
    prove_password(click, present.as_bytes()).await?;
    let user = click.visit.principal().user;
    // The start of each set-up changes the facts. So the number of set-ups in a minute is limited.
    click.faces.house().count_code(&user)?;
    let (permit, faces) = (permit(click)?, click.faces.clone());
    let begun = click
        .change(permit, move |ctx| enfilade_admin::begin_second_factor(ctx, faces.house().hash_key(), &user));
    let secret = begun.await?;
    Ok(set_up(click, Some(&secret)))
}

/// The page with the secret, and the form for the first code. Only the response to the form with the password contains the secret. If the user has to
/// enter the code again, the page does not contain the secret, because a client with the cookie, but without the password, could request this page.
fn set_up(click: &mut Click<'_>, secret: Option<&FactorSecret>) -> Answer {
    let shown = secret.map(|secret| shown(click, secret));
    let content = html! {
        div.head { div {
            h1 { "Set up a second factor" }
            @if shown.is_some() {
                p { "Scan the picture with an authenticator app, or type the secret into the app. Then enter the code that the app shows. The second factor is on only after that." }
            } @else {
                p { "Enter the code that the app shows now." }
            }
        } }
        div.card.pad {
            @match shown {
                Some(shown) => (shown),
                None => p.weak { "If the app has no entry for this account, press Cancel and begin again." },
            }
            form.stack method="post" action="/console/account/confirm-second-factor" {
                (csrf_field(&click.csrf))
                div.field {
                    label for="factor-code" { "Code" }
                    input #factor-code name="code" inputmode="numeric" autocomplete="one-time-code" required autofocus;
                }
                p.weak.small { "When you confirm, all sessions of the account end, and you sign in again with the next code." }
                div.bar { button.main { "Confirm" } a.button href="/console/account" { "Cancel" } }
            }
        }
    };
    let status = match &click.notice {
        Some(Notice::Failed(_)) => StatusCode::UNPROCESSABLE_ENTITY,
        _ => StatusCode::OK,
    };
    click.page_with(status, Section::Account, "Set up a second factor", &content)
}

/// The secret, as a picture and as text.
fn shown(click: &Click<'_>, secret: &FactorSecret) -> Markup {
    let uri = secret.uri(&issuer(click), &click.user().to_string());
    html! {
        @if let Some(picture) = picture(&uri) { (picture) }
        dl.pair {
            dt { "Secret" }
            dd { div.secret { code #secret { (*secret.base32()) } button data-copy="secret" type="button" { "Copy" } } }
            dt { "Address for the app" } dd { code #address { (*uri) } }
        }
    }
}

/// The name under which the authenticator app lists the account: the host of this server.
fn issuer(click: &Click<'_>) -> String {
    let host = click.head.headers.get(HOST).and_then(|host| host.to_str().ok());
    let host = click.head.uri.host().or_else(|| host.and_then(|host| host.split(':').next()));
    host.filter(|host| !host.is_empty() && !host.contains(['[', ':'])).unwrap_or("Enfilade").to_owned()
}

/// The QR code of a text, as SVG with one path. `None` if the text is too long.
fn picture(text: &str) -> Option<Markup> {
    let code = QrCode::encode_text(text, QrCodeEcc::Medium).ok()?;
    let mut path = String::new();
    for y in 0..code.size() {
        for x in (0..code.size()).filter(|x| code.get_module(*x, y)) {
            let _ = write!(path, "M{} {}h1v1h-1z", x + BORDER, y + BORDER);
        }
    }
    let size = code.size() + 2 * BORDER;
    Some(html! {
        svg.qr viewBox={ "0 0 " (size) " " (size) } role="img" aria-label="QR code with the secret for the authenticator app"
            shape-rendering="crispEdges" {
            rect width=(size) height=(size) fill="#fff" {}
            path d=(path) fill="#000" {}
        }
    })
}

/// Confirms the second factor. Returns the page with the recovery codes. All sessions of the user end, including the session of this request.
pub(super) async fn confirm(click: &mut Click<'_>) -> Result<Answer, Trouble> {
    let (code, user) = (code_of(click)?, click.visit.principal().user);
    // A client with the cookie, but without the password, must not be able to try many codes. So the number of codes in a minute is limited.
    click.faces.house().count_code(&user)?;
    let (permit, faces) = (permit(click)?, click.faces.clone());
    let confirmed = click.change(permit, move |ctx| {
        enfilade_admin::confirm_second_factor(ctx, faces.house().hash_key(), &user, &code)
    });
    match confirmed.await {
        Ok(codes) => {
            let content = html! {
                p { "Your account has a second factor now, and all its sessions have ended." }
                (recovery(&codes))
            };
            Ok(session::signed_out("Second factor set up", &content))
        }
        Err(Trouble::Said(why)) => {
            let (faces, now) = (click.faces.clone(), click.now());
            let pending = blocking_failure(click.visit.share(), move || {
                let found = enfilade_admin::check_pending_second_factor(faces.house().source(), &user, now);
                Ok::<_, Failure>(found.is_ok())
            });
            // If no set-up waits for a confirmation any more, the page of the account shows why the confirmation failed.
            if !pending.await? {
                return Err(Trouble::Said(why));
            }
            click.notice = Some(Notice::Failed(why));
            Ok(set_up(click, None))
        }
        Err(other) => Err(other),
    }
}

/// The codes in the form in which people copy them: each code is on its own line, in groups of four digits.
fn lines_of(codes: &[Secret]) -> String {
    let mut lines = String::new();
    for code in codes {
        let text = String::from_utf8_lossy(code.reveal());
        let parts: Vec<&str> = (0..text.len()).step_by(4).filter_map(|at| text.get(at..at + 4)).collect();
        let _ = writeln!(lines, "{}", parts.join(" "));
    }
    lines
}

/// The recovery codes. They are shown only once.
fn recovery(codes: &[Secret]) -> Markup {
    html! {
        p { "If you lose the device, you can enter each of these codes once, in place of a code of the app. Keep them in a safe place: this is the only time that they are shown." }
        pre #recovery-codes { (lines_of(codes)) }
        button data-copy="recovery-codes" type="button" { "Copy the codes" }
    }
}

/// Makes new recovery codes. The password and a code are needed. Returns the page with the new codes.
pub(super) async fn renew(click: &mut Click<'_>) -> Result<Answer, Trouble> {
    let passcode = proven(click).await?;
    // Each renewal changes the facts. So the number of renewals in a minute is limited.
    click.faces.house().count_code(&click.visit.principal().user)?;
    let (permit, faces) = (permit(click)?, click.faces.clone());
    let renewed = click.change(permit, move |ctx| {
        enfilade_admin::renew_recovery_codes(ctx, faces.house().hash_key(), &passcode)
    });
    let codes = renewed.await?;
    let content = html! {
        div.head { div { h1 { "New recovery codes" } p { "The earlier recovery codes are refused from now on." } } }
        div.card.pad { (recovery(&codes)) div.bar { a.button href="/console/account" { "Done" } } }
    };
    Ok(click.page_with(StatusCode::OK, Section::Account, "New recovery codes", &content))
}

/// Removes the second factor. The form must contain the password and a code.
pub(super) async fn remove(click: &mut Click<'_>) -> Result<Answer, Trouble> {
    let passcode = proven(click).await?;
    let permit = permit(click)?;
    click.change(permit, move |ctx| enfilade_admin::remove_second_factor(ctx, &passcode).map(drop)).await?;
    Ok(redirect("/console/account?done=factor-removed"))
}

#[cfg(test)]
mod tests {
    use super::picture;

    #[test]
    fn a_picture_is_one_path_without_a_style() {
        let text = picture("otpauth://totp/x").unwrap().into_string();
        assert!(
            text.starts_with("<svg class=\"qr\" viewBox=\"0 0 33 33\"") && !text.contains("style"),
            "{text}"
        );
        // The first module of a QR code belongs to a finder pattern.
        assert!(text.contains("d=\"M4 4h1v1h-1zM5 4h1v1h-1z"), "{text}");
        assert!(picture(&"x".repeat(5_000)).is_none());
    }
}
