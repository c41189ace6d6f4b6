//! The frame of every page: navigation, headers, and the small parts that all pages use.

use crate::assets::{GUEST_SCRIPT, ICON, SCRIPT, STYLE};
use crate::icons::Icon;
use crate::section::Section;
use enfilade_faces::browser::{NO_STORE, url};
use enfilade_faces::{Answer, Body};
use enfilade_facts::vocabulary::to_rfc3339;
use hyper::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, REFERRER_POLICY, VARY,
    X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Response, StatusCode};
use maud::{DOCTYPE, Markup, html};

/// The content security policy. A page loads only files of this server, and runs only the scripts that this server sends as files. No page of another
/// site can show the page in a frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; \
    base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/// The data that the frame shows around a page.
pub(crate) struct Frame<'p> {
    /// The title of the page.
    pub(crate) title: &'p str,
    /// The section that is marked in the navigation.
    pub(crate) section: Section,
    /// The sections that the user can open.
    pub(crate) sections: &'p [Section],
    /// The name of the user.
    pub(crate) user: &'p str,
    /// The token that every form sends.
    pub(crate) csrf: &'p str,
    /// The result of the last action, or the reason why it failed.
    pub(crate) notice: Option<&'p Notice>,
}

/// A message above the content.
#[derive(Clone, Debug)]
pub(crate) enum Notice {
    /// The action was done.
    Done(&'static str),
    /// The action failed, for this reason. It is possible that a part of the action was done before the failure.
    Failed(String),
    /// Files or folders were moved to the trash. The message offers to restore them.
    Trashed {
        /// The URL of the form that restores them.
        url: String,
        /// The names of the items in the trash.
        names: Vec<String>,
    },
}

/// The messages about actions that were done. After an action, the URL of the next page contains only the key of the message. So a URL cannot make a
/// page show a message that is not in this list.
const DONE: [(&str, &str); 16] = [
    ("folder", "The folder was created."),
    ("moved", "Moved."),
    ("deleted", "Deleted."),
    ("restored", "Restored."),
    ("purged", "Deleted for good."),
    ("emptied", "The trash is empty."),
    ("uploaded", "Uploaded."),
    ("token-deleted", "The token was deleted. The next request with it is refused."),
    ("link-ended", "The link was ended. The next request with it is refused."),
    ("factor-removed", "The second factor was removed. The password alone is enough again."),
    (
        "passkey",
        "The passkey was added. At the next sign-in to the console at this host, it can take the place of the code.",
    ),
    ("passkey-removed", "The passkey was removed."),
    ("session-ended", "That browser is signed out."),
    ("user", "The user was added."),
    ("changed", "Done."),
    ("removed", "Removed."),
];

impl Notice {
    /// The message with this key.
    pub(crate) fn of(key: &str) -> Option<Self> {
        DONE.iter().find(|(known, _)| *known == key).map(|(_, text)| Notice::Done(text))
    }
}

/// A response with the HTML page `html`, and with the headers that every page of the console has.
pub(crate) fn answer(status: StatusCode, html: Markup) -> Answer {
    let mut answer = Response::new(Body::from(html.into_string()));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    answer.headers_mut().insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    guarded(answer)
}

/// Adds the headers that every response of the console has. The headers forbid caches to store the response. They forbid browsers to guess the type
/// of the response. They also forbid pages of other sites to use the response.
pub(crate) fn guarded(mut answer: Answer) -> Answer {
    let headers = answer.headers_mut();
    for (name, value) in [
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // The referrer policy is not `no-referrer`: with that policy, browsers would send `Origin: null` with forms.
        (REFERRER_POLICY, "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (VARY, "cookie"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.insert(CACHE_CONTROL, NO_STORE);
    answer
}

fn document(title: &str, class: Option<&str>, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) " · Enfilade" }
                link rel="stylesheet" href=(STYLE.url());
                link rel="icon" href=(ICON.url()) type="image/svg+xml";
                script src=(SCRIPT.url()) defer {}
                @if class == Some(GUEST) { script src=(GUEST_SCRIPT.url()) defer {} }
            }
            body class=[class] { (body) }
        }
    }
}

/// A page for a signed-in user.
pub(crate) fn page(status: StatusCode, frame: &Frame<'_>, content: &Markup) -> Answer {
    let Frame { title, section, sections, user, csrf, notice } = frame;
    let group = |label: &str, is_of: fn(Section) -> bool| {
        let shown: Vec<Section> = sections.iter().copied().filter(|section| is_of(*section)).collect();
        html! {
            @if !shown.is_empty() {
                div {
                    h2 { (label) }
                    ul {
                        @for one in shown {
                            li {
                                a href=(one.url()) aria-current=[(one == *section).then_some("page")] {
                                    (one.icon().show()) (one.label())
                                }
                            }
                        }
                    }
                }
            }
        }
    };
    let body = html! {
        a.skip href="#content" { "Skip to the content" }
        div.frame {
            header.side {
                a.brand href="/console/" { (Icon::Brand.show()) "Enfilade" }
                nav aria-label="Sections" {
                    (group("Mine", |section| !section.is_administration()))
                    (group("Administration", Section::is_administration))
                }
                form.me method="post" action="/console/sign-out" {
                    (csrf_field(csrf))
                    span.name title=(user) { (user) }
                    button.slim title="Sign out" { (Icon::Leave.show()) span.hide-text { "Sign out" } }
                }
            }
            main #content tabindex="-1" data-csrf=(csrf) {
                @match notice {
                    Some(Notice::Done(what)) => p.note.good.toast role="status" { (Icon::Right.show()) (what) },
                    Some(Notice::Trashed { url, names }) => form.note.good.toast method="post" action=(url) {
                        (Icon::Trash.show())
                        span role="status" { "Moved to the trash." }
                        (csrf_field(csrf))
                        @for name in names { input type="hidden" name="item" value=(name); }
                        button.slim name="do" value="undo" { "Undo" }
                    },
                    Some(Notice::Failed(why)) => div.note.bad role="alert" { (Icon::Wrong.show()) div { (why) } },
                    None => {}
                }
                (content)
            }
        }
    };
    answer(status, document(title, None, &body))
}

/// A page for a browser that is not signed in.
pub(crate) fn outside(status: StatusCode, title: &str, content: &Markup) -> Answer {
    let body = html! {
        main #content.card {
            div.brand { (Icon::Brand.show()) "Enfilade" }
            h1 { (title) }
            (content)
        }
    };
    answer(status, document(title, Some("sign-in"), &body))
}

/// The CSS class of the pages for guests of links.
const GUEST: &str = "guest";

/// A page of a link, for a guest.
pub(crate) fn guest(status: StatusCode, title: &str, content: &Markup) -> Answer {
    let body = html! {
        main #content tabindex="-1" {
            div.brand { (Icon::Brand.show()) "Enfilade" }
            (content)
        }
    };
    answer(status, document(title, Some(GUEST), &body))
}

/// The hidden field that every form contains: the token against forged requests.
pub(crate) fn csrf_field(csrf: &str) -> Markup {
    html! { input type="hidden" name="csrf" value=(csrf); }
}

/// A shell command that has the same effect as a form, or shows the same facts as a page.
pub(crate) fn command(lines: &[String]) -> Markup {
    html! {
        details.command {
            summary { "The same on the command line" }
            pre { code { (lines.join("\n")) } }
        }
    }
}

/// The text that a page shows if there is no other content.
pub(crate) fn empty(icon: Icon, title: &str, text: &Markup) -> Markup {
    html! { div.empty { (icon.show()) h2 { (title) } p { (text) } } }
}

/// Returns one page of a list: the rows of the page, and the links to the previous page and the next page. `query` is the name of the URL parameter
/// that contains the number of the page. The first page has the number 0.
pub(crate) fn part<'r, T>(all: &'r [T], rows: usize, query: &str, asked: &str) -> (&'r [T], Markup) {
    let number: usize = asked.parse().unwrap_or(0);
    let rest = all.get(number.saturating_mul(rows)..).unwrap_or_default();
    let (shown, more) = rest.split_at(rest.len().min(rows));
    (shown, pages(&[], query, number, !more.is_empty()))
}

/// The links from the page with this number to the previous page and the next page. The query of each link also contains the fields `kept`.
pub(crate) fn pages(kept: &[(&str, &str)], query: &str, number: usize, has_more: bool) -> Markup {
    let to = |number: usize| {
        let number = number.to_string();
        let kept = kept.iter().copied().filter(|(_, value)| !value.is_empty());
        url("", &kept.chain([(query, number.as_str())]).collect::<Vec<_>>())
    };
    html! {
        @if number > 0 || has_more {
            nav.pages aria-label={ "Pages of " (query) } {
                @if number > 0 { a rel="prev" href=(to(number - 1)) { "Previous page" } } @else { span {} }
                @if has_more { a rel="next" href=(to(number + 1)) { "Next page" } } @else { span {} }
            }
        }
    }
}

/// A point in time. The script shows the time in the time zone of the browser.
pub(crate) fn time(unix_seconds: i64) -> Markup {
    let text = to_rfc3339(unix_seconds);
    let short = text.get(..16).unwrap_or(&text).replace('T', " ");
    html! { time.nowrap datetime=(text) { (short) " UTC" } }
}

/// A point in time. The page shows the value 0 as `never`.
pub(crate) fn time_or_never(unix_seconds: i64) -> Markup {
    if unix_seconds == 0 {
        html! { span.weak { "never" } }
    } else {
        time(unix_seconds)
    }
}

/// A number of bytes, with at most three digits before the unit.
pub(crate) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["kB", "MB", "GB", "TB", "PB", "EB"];
    if bytes < 1_000 {
        return format!("{bytes} B");
    }
    let (mut rest, mut unit) = (bytes, 0);
    while rest >= 1_000_000 && unit + 1 < UNITS.len() {
        (rest, unit) = (rest / 1_000, unit + 1);
    }
    let unit = UNITS.get(unit).copied().unwrap_or_default();
    match rest {
        0..10_000 => format!("{}.{} {unit}", rest / 1_000, rest % 1_000 / 100),
        _ => format!("{} {unit}", rest / 1_000),
    }
}

#[cfg(test)]
mod tests {
    use super::{bytes, part};

    #[test]
    fn every_row_is_on_one_page() {
        let all: Vec<usize> = (0..7).collect();
        for (asked, shown, links) in [
            ("", &[0, 1, 2][..], vec!["?rows=1"]),
            ("1", &[3, 4, 5], vec!["?rows=0", "?rows=2"]),
            ("2", &[6], vec!["?rows=1"]),
            ("3", &[], vec!["?rows=2"]),
            ("-1", &[0, 1, 2], vec!["?rows=1"]),
            ("18446744073709551615", &[], vec!["?rows=18446744073709551614"]),
        ] {
            let (rows, pages) = part(&all, 3, "rows", asked);
            let text = pages.into_string();
            let found: Vec<&str> =
                text.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
            assert_eq!((rows, found), (shown, links), "{asked}");
        }
    }

    #[test]
    fn sizes_are_short() {
        for (count, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1_000, "1.0 kB"),
            (9_999, "9.9 kB"),
            (10_000, "10 kB"),
            (999_999, "999 kB"),
            (1_000_000, "1.0 MB"),
            (12_345_678_901, "12 GB"),
            (u64::MAX, "18 EB"),
        ] {
            assert_eq!(bytes(count), text);
        }
    }
}
