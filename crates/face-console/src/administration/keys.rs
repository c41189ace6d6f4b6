//! The page of the keys that sign sessions. Keys are made and rotated on the machine, and not on this page.

use super::may_see;
use crate::click::Click;
use crate::icons::Icon;
use crate::page::{command, empty, time};
use crate::section::Section;
use enfilade_admin::{KeySummary, KeyUse};
use enfilade_faces::browser::failure_of_change;
use enfilade_faces::{Answer, Failure, blocking_failure};
use maud::{Markup, html};

pub(crate) async fn show(click: &mut Click<'_>) -> Result<Answer, Failure> {
    may_see(click, "/access")?;
    let list = click.faces.keys().cloned();
    let keys = blocking_failure(click.visit.share(), move || {
        list.map(|list| list()).transpose().map_err(failure_of_change)
    });
    let keys = keys.await?.unwrap_or_default();
    let now = click.now();
    let content = html! {
        div.head { div {
            h1 { "Keys" }
            p { "The Fernet keys with which this server signs the tokens of sessions. At a rotation, the staged key becomes the key that signs." }
        } }
        div.card.scroll tabindex="0" {
            @if keys.is_empty() {
                (empty(Icon::Key, "No keys", &html! { "Without keys, the server accepts and issues no session tokens, and nobody with a second factor can sign in. Restore the directory of the keys from the backup. Only if the keys are lost or were never made, run " code { "enfilade keys init" } "." }))
            } @else {
                table {
                    thead { tr { th.number scope="col" { "Key" } th scope="col" { "Use" } th scope="col" { "Since" } th scope="col" { "Needed" } } }
                    tbody {
                        @for key in &keys {
                            tr { td.number { (key.number) } td { (badge(key)) } td { (time(key.since)) } td { (needed(key, now)) } }
                        }
                    }
                }
            }
        }
        (command(&["enfilade keys list".to_owned(), "enfilade keys rotate".to_owned()]))
    };
    Ok(click.page(Section::Keys, "Keys", &content))
}

fn badge(key: &KeySummary) -> Markup {
    match key.used_for {
        KeyUse::Primary => html! { span.badge.good { "signs" } },
        KeyUse::Staged => html! { span.badge { "staged" } },
        KeyUse::Secondary => html! { span.badge { "verifies" } },
    }
}

fn needed(key: &KeySummary, now: i64) -> Markup {
    match (key.used_for, key.needed_until) {
        (KeyUse::Staged, _) => html! { "signs after the next rotation" },
        (KeyUse::Primary, _) => html! { "signs now" },
        (KeyUse::Secondary, Some(until)) if now < until => html! { "until " (time(until)) },
        (KeyUse::Secondary, _) => html! { "not needed any more" },
    }
}
