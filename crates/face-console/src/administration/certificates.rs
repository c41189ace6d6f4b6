//! The page of certificates. It shows when each certificate expires, and which certificate a client gets for a server name.

use super::may_see;
use crate::click::Click;
use crate::icons::Icon;
use crate::page::{command, empty, pages, time};
use crate::section::Section;
use enfilade_faces::{
    Answer, Failure, SentCertificate, ServedCertificate, SomeCertificates, blocking_failure,
};
use enfilade_facts::vocabulary::shell_word;
use maud::{Markup, html};

/// The number of certificates on a page. For the names in the certificates, the server reads the file of each certificate on the page.
const ROWS: usize = 50;
/// The maximum number of names that a row shows.
const NAMES_SHOWN: usize = 5;
/// The page marks a certificate that expires within this time, in seconds. The log uses the same limit for its warnings.
const SOON: i64 = 14 * 86_400;
/// The maximum length of a server name (RFC 1035, section 2.3.4).
const NAME_MAX: usize = 253;
const DAY: i64 = 86_400;

/// The content of the page: some certificates, and the certificate for the server name in the query.
struct Found {
    some: SomeCertificates,
    sent: Option<Result<SentCertificate, String>>,
}

pub(crate) async fn show(click: &mut Click<'_>) -> Result<Answer, Failure> {
    may_see(click, "/system/certificates")?;
    let number: usize = click.asked("page").parse().unwrap_or(0);
    let name = click.asked("name").trim().to_ascii_lowercase();
    let (certificates, asked) = (click.faces.certificates().cloned(), name.clone());
    let found = blocking_failure(click.visit.share(), move || {
        Ok(certificates.map(|certificates| {
            let some = certificates.some(number.saturating_mul(ROWS), ROWS);
            let sent = (!asked.is_empty()).then(|| match asked.len() <= NAME_MAX {
                true => certificates.sent_for(&asked),
                false => Err("a server name has at most 253 characters".to_owned()),
            });
            Found { some, sent }
        }))
    });
    let found = found.await?;
    let now = click.now();
    let content = html! {
        div.head { div { h1 { "Certificates" } p { "The certificates that this server sends to clients now. The first to expire comes first." } } }
        form.bar role="search" {
            input type="search" name="name" value=(name) placeholder="Server name or IP address" aria-label="Server name or IP address" autocapitalize="none";
            button { (Icon::Question.show()) "Which certificate?" }
        }
        @match &found {
            None => div.card { (empty(Icon::Certificate, "The server is starting", &html! { "Open this page again in a second." })) },
            Some(Found { some, sent }) => {
                @if let Some(sent) = sent { (answer(&name, sent, now)) }
                @if !some.faults.is_empty() { (faults(some)) }
                (list(some, now, &name, number))
            }
        }
        (command(&[
            "enfilade certs list".to_owned(),
            format!("enfilade certs show {}", if name.is_empty() { "NAME".into() } else { shell_word(&name) }),
        ]))
    };
    Ok(click.page(Section::Certificates, "Certificates", &content))
}

fn answer(name: &str, sent: &Result<SentCertificate, String>, now: i64) -> Markup {
    html! {
        section.card aria-label="Answer" {
            div.pad {
                @match sent {
                    Err(why) => p { "A client that asks for " strong { (name) } " gets no certificate: " (why) "." },
                    Ok(SentCertificate { certificate, is_default, line }) => {
                        p {
                            "A client that asks for " strong { (name) } " gets the certificate "
                            code { (certificate.file) } "."
                            @if *is_default { " No certificate was found for this name or address, so this is the default certificate." }
                        }
                        dl.pair {
                            dt { "Expires" } dd { (time(certificate.not_after)) " " (left(certificate, now)) }
                            dt { "Key" } dd { (certificate.key) }
                            dt { "Names" } dd { (names(certificate)) }
                            @if let Some(line) = line { dt { "Line of the crt-list" } dd { (line) } }
                        }
                    }
                }
            }
        }
    }
}

fn faults(some: &SomeCertificates) -> Markup {
    let more = some.fault_count.saturating_sub(some.faults.len());
    html! {
        section.card aria-label="Problems" {
            div.card-head { h2 { "Files that cannot be used" } }
            ul.pad {
                @for (file, why) in &some.faults { li { code { (file) } ": " (why) } }
                @if more > 0 { li { "and " (more) " more" } }
            }
        }
    }
}

fn list(some: &SomeCertificates, now: i64, name: &str, number: usize) -> Markup {
    let has_more = number.saturating_add(1).saturating_mul(ROWS) < some.total;
    html! {
        div.card.scroll tabindex="0" {
            @if some.certificates.is_empty() { (empty(Icon::Certificate, "No certificate", &html! { "There is no certificate on this page." })) } @else {
                table {
                    thead { tr {
                        th scope="col" { "Expires" } th scope="col" { "Left" } th scope="col" { "Names" }
                        th scope="col" { "Key" } th scope="col" { "File" }
                    } }
                    tbody {
                        @for certificate in &some.certificates {
                            tr {
                                td { (time(certificate.not_after)) } td { (left(certificate, now)) }
                                td { (names(certificate)) } td { (certificate.key) } td { code { (certificate.file) } }
                            }
                        }
                    }
                }
            }
            (pages(&[("name", name)], "page", number, has_more))
        }
    }
}

/// The names in a certificate, or the reason why they are not known.
fn names(certificate: &ServedCertificate) -> Markup {
    match &certificate.names {
        Err(why) => html! { span.weak { "the file cannot be read: " (why) } },
        Ok(names) => {
            let more = names.len().saturating_sub(NAMES_SHOWN);
            html! {
                (names.iter().take(NAMES_SHOWN).map(String::as_str).collect::<Vec<_>>().join(", "))
                @if more > 0 { " and " (more) " more" }
            }
        }
    }
}

/// The time until the certificate expires.
fn left(certificate: &ServedCertificate, now: i64) -> Markup {
    let left = certificate.not_after - now;
    let text = match left / DAY {
        0 => "less than a day".to_owned(),
        1 => "1 day".to_owned(),
        days => format!("{days} days"),
    };
    html! {
        @if left < 0 { span.badge.bad { "expired" } }
        @else if left < SOON { span.badge.warn { (text) } }
        @else { span.badge.good { (text) } }
    }
}
