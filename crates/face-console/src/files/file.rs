//! The page of a file. The page shows a picture, or the beginning of a text, and offers actions on the file.

use super::{change, content, crumbs};
use crate::click::Click;
use crate::icons::Icon;
use crate::links;
use crate::page::{bytes, command, empty, time};
use crate::place::Place;
use crate::section::Section;
use enfilade_faces::browser::redirect;
use enfilade_faces::{Answer, Failure, blocking};
use enfilade_facts::vocabulary::{AccessMask, OperationKind};
use enfilade_passage::{Blocking, Meta, NodeKind, Refusal, Visit};
use maud::{Markup, html};

/// The maximum number of bytes that the page shows of a text.
const SHOWN_BYTES: usize = 64 * 1024;

/// The part of the content that a page shows.
enum Shown {
    Picture,
    Text(String),
    Nothing,
}

struct File {
    meta: Meta,
    shown: Shown,
    may_read: bool,
}

pub(crate) async fn show(click: &mut Click<'_>, place: Place) -> Result<Answer, Failure> {
    let (visit, at) = (click.visit.clone(), place.clone());
    let file = blocking(visit.share(), move || read(visit, &at)).await?;
    let Some(file) = file else {
        let place = Place { is_folder: true, ..place };
        return Ok(redirect(&place.url("files")));
    };
    let content = page(click, &place, &file);
    Ok(click.page(Section::Files, place.name(), &content))
}

/// The file at a place; `None` if there is a folder at the place.
fn read(visit: Visit, place: &Place) -> Result<Option<File>, Refusal> {
    let mut stay = visit.enter(&place.datastore, OperationKind::Read, Blocking)?;
    let found = stay.find(&place.path, AccessMask::NONE, Blocking)?;
    if found.kind() == NodeKind::Directory {
        return Ok(None);
    }
    let (meta, may_read) = (found.node.meta().clone(), found.granted().covers(AccessMask::READ_DATA));
    let shown = match content::picture(place.name()) {
        _ if !may_read => Shown::Nothing,
        Some(_) => Shown::Picture,
        None => {
            let mut begin = Vec::with_capacity(SHOWN_BYTES);
            stay.read(&place.path, Blocking)?.read_at(0, &mut begin)?;
            text(begin).map_or(Shown::Nothing, Shown::Text)
        }
    };
    Ok(Some(File { meta, shown, may_read }))
}

/// The bytes as text, if they are UTF-8 text. An incomplete last character is left out.
fn text(bytes: Vec<u8>) -> Option<String> {
    let is_odd = |c: char| c.is_control() && !matches!(c, '\n' | '\r' | '\t' | '\u{c}' | '\u{1b}');
    let text = match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(why) if why.utf8_error().error_len().is_none() => {
            let end = why.utf8_error().valid_up_to();
            let mut bytes = why.into_bytes();
            bytes.truncate(end);
            String::from_utf8(bytes).ok()?
        }
        Err(_) => return None,
    };
    (!text.contains(is_odd)).then_some(text)
}

fn page(click: &Click<'_>, place: &Place, file: &File) -> Markup {
    let File { meta, shown, may_read } = file;
    let user = click.user().to_string();
    html! {
        (crumbs(place))
        div.head {
            div { h1 { (place.name()) } p { (bytes(meta.bytes)) ", changed " (time(meta.modified.0)) } }
            div.bar {
                @if *may_read {
                    a.button.main href=(place.url("content")) download { (Icon::Download.show()) "Download" }
                    (links::form(click, place, false))
                }
                details.more {
                    summary.button aria-label="More for this file" { (Icon::More.show()) }
                    div {
                        a href=(place.url("why")) { "What may I do with it?" }
                        a href=(place.url("review")) { "Who can read it?" }
                        (change::forms(click, place))
                    }
                }
            }
        }
        div.card {
            @match shown {
                Shown::Picture => figure.picture { img src={ (place.url("content")) "?show" } alt=(place.name()); },
                Shown::Text(text) if text.is_empty() => (empty(Icon::Text, "The file is empty", &html! { "It has no bytes." })),
                Shown::Text(text) => {
                    // A browser does not show a line break at the beginning of `pre`. So this line break is
                    // added before the text.
                    pre.text tabindex="0" aria-label="Content" { "\n" (text) }
                    @if meta.bytes > text.len() as u64 {
                        p.pages { span { "The first " (bytes(text.len() as u64)) " of " (bytes(meta.bytes)) "." } }
                    }
                },
                Shown::Nothing if !may_read => (empty(Icon::File, "You may not read this file", &html! {
                    "You can only see that it exists. "
                    a href=(place.url("why")) { "Why may you not read it?" }
                })),
                Shown::Nothing => (empty(Icon::File, "No preview", &html! {
                    "Only pictures and text are shown here. Download the file to open it."
                })),
            }
        }
        (command(&[place.curl(&user, "--remote-name")]))
    }
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn text_is_shown_and_other_bytes_are_not() {
        for (bytes, shown) in [
            (&b"a\tb\r\n\xc3\xa4"[..], Some("a\tb\r\nä")),
            (b"cut \xc3", Some("cut ")),
            (b"\xff\xfe", None),
            (b"a\0b", None),
            (b"", Some("")),
        ] {
            assert_eq!(text(bytes.to_vec()).as_deref(), shown);
        }
    }
}
