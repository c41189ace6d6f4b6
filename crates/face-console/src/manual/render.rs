//! HTML from Markdown. The texts are part of the program, so they are trusted. Pictures and HTML in the texts are left out, because the manual shows
//! only text.

use super::texts::{TEXTS, Text};
use maud::{Markup, PreEscaped};
use pulldown_cmark::{CowStr, Event, Options, Parser, Tag, TagEnd, html};
use std::collections::BTreeMap;

/// Identifiers of headings begin with this text, so that they differ from the identifiers of the console.
const PREFIX: &str = "s-";

/// The part of a page below one heading.
pub(super) struct Part {
    /// The identifier of the heading in the page.
    pub(super) id: String,
    pub(super) heading: String,
    pub(super) text: String,
}

/// The content of a page.
pub(super) fn render(text: &Text) -> Markup {
    let mut out = String::with_capacity(text.markdown.len() * 2);
    html::push_html(&mut out, events(text).into_iter());
    PreEscaped(out)
}

/// The parts of a page, without markup.
pub(super) fn parts(text: &Text) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    let mut is_heading = false;
    for event in events(text) {
        match (event, parts.last_mut()) {
            (Event::Start(Tag::Heading { id, .. }), _) => {
                is_heading = true;
                let id = id.map_or_else(String::new, CowStr::into_string);
                parts.push(Part { id, heading: String::new(), text: String::new() });
            }
            (Event::End(TagEnd::Heading(_)), _) => is_heading = false,
            (Event::Text(words) | Event::Code(words), Some(part)) => {
                if is_heading { &mut part.heading } else { &mut part.text }.push_str(&words);
            }
            (Event::SoftBreak | Event::HardBreak | Event::End(_), Some(part)) if !is_heading => {
                part.text.push(' ')
            }
            _ => {}
        }
    }
    parts
}

/// The events of the parser. Headings get identifiers, links to files become links to pages of the manual, and wide content can be scrolled.
fn events(text: &Text) -> Vec<Event<'_>> {
    const SCROLLED: &str = r#"<div class="scroll" tabindex="0" role="group" aria-label="Wide content">"#;
    let mut events: Vec<Event<'_>> = Vec::new();
    // `heading` is the position of the open heading. `links` says for each open link whether its target is in the manual. `ids` contains the
    // identifiers of the earlier headings.
    let (mut heading, mut links, mut ids) = (None, Vec::new(), BTreeMap::new());
    for event in Parser::new_ext(text.markdown, Options::ENABLE_TABLES) {
        match event {
            Event::Html(_) | Event::InlineHtml(_) => {}
            Event::Start(Tag::Image { .. }) => events.push(Event::Start(Tag::Emphasis)),
            Event::End(TagEnd::Image) => events.push(Event::End(TagEnd::Emphasis)),
            Event::Start(Tag::Link { link_type, dest_url, title, id }) => {
                let target = target(text, &dest_url);
                links.push(target.is_some());
                if let Some(target) = target {
                    events.push(Event::Start(Tag::Link { link_type, dest_url: target.into(), title, id }));
                }
            }
            Event::End(TagEnd::Link) => {
                if links.pop() == Some(true) {
                    events.push(Event::End(TagEnd::Link));
                }
            }
            Event::Start(tag @ Tag::Heading { .. }) => {
                heading = Some(events.len());
                events.push(Event::Start(tag));
            }
            Event::End(TagEnd::Heading(level)) => {
                let (before, inside) = events.split_at_mut(heading.take().map_or(0, |at| at + 1));
                let words: String = inside.iter().filter_map(text_of).collect();
                if let Some(Event::Start(Tag::Heading { id, .. })) = before.last_mut() {
                    *id = Some(identifier(&words, &mut ids).into());
                }
                events.push(Event::End(TagEnd::Heading(level)));
            }
            Event::Start(tag @ (Tag::Table(_) | Tag::CodeBlock(_))) => {
                events.extend([Event::Html(SCROLLED.into()), Event::Start(tag)]);
            }
            Event::End(tag @ (TagEnd::Table | TagEnd::CodeBlock)) => {
                events.extend([Event::End(tag), Event::Html("</div>\n".into())]);
            }
            other => events.push(other),
        }
    }
    events
}

fn text_of<'e>(event: &'e Event<'_>) -> Option<&'e str> {
    match event {
        Event::Text(words) | Event::Code(words) => Some(words),
        _ => None,
    }
}

/// The identifier of a heading, as GitHub makes it: lower case, and `-` instead of a space. Other punctuation is left out, except `-` and `_`. If
/// several headings have the same words, `-1` is appended to the identifier of the second heading, `-2` to that of the third heading, and so on. The
/// identifier begins with [`PREFIX`].
fn identifier(words: &str, known: &mut BTreeMap<String, usize>) -> String {
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, '-' | '_' | ' ');
    let id: String =
        words.to_lowercase().chars().filter(kept).map(|c| if c == ' ' { '-' } else { c }).collect();
    let count = known.entry(id.clone()).or_default();
    *count += 1;
    if *count == 1 { format!("{PREFIX}{id}") } else { format!("{PREFIX}{id}-{}", *count - 1) }
}

/// The target of a link; `None` if the link leads to a file that is not in the manual.
fn target(text: &Text, link: &str) -> Option<String> {
    if link.starts_with("https://") || link.starts_with("http://") {
        return Some(link.to_owned());
    }
    if let Some(id) = link.strip_prefix('#') {
        return Some(format!("#{PREFIX}{id}"));
    }
    let (file, id) = link.split_once('#').unwrap_or((link, ""));
    let mut path: Vec<&str> = text.file.split('/').collect();
    path.pop();
    for step in file.split('/') {
        match step {
            ".." => drop(path.pop()),
            step => path.push(step),
        }
    }
    let path = path.join("/");
    let page = TEXTS.iter().find(|text| text.file == path)?;
    Some(if id.is_empty() { page.url() } else { format!("{}#{PREFIX}{id}", page.url()) })
}
