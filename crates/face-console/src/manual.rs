//! The manual: the documentation of this version, with a search. `manual/texts.rs` lists the pages, and `manual/render.rs` makes HTML from them.

mod render;
mod texts;

use crate::click::Click;
use crate::icons::Icon;
use crate::page::empty;
use crate::section::Section;
use enfilade_faces::{Answer, Failure, RequestError};
use maud::{Markup, html};
use render::{Part, parts, render};
use std::cmp::Reverse;
use std::sync::LazyLock;
use texts::{TEXTS, Text};

/// The maximum number of results of a search.
const FOUND_MAX: usize = 50;
/// The maximum number of words of a search. The server ignores further words.
const WORDS_MAX: usize = 8;
/// The length of the text around the first word of a result, in characters.
const EXCERPT: usize = 160;

impl Text {
    /// The path of the page in the manual. The page that lists the other pages has an empty path.
    fn path(&self) -> &'static str {
        let path = self.file.trim_end_matches(".md");
        if path == "docs/README" { "" } else { path.trim_start_matches("docs/") }
    }

    fn url(&self) -> String {
        format!("/console/manual/{}", self.path())
    }

    /// The first heading.
    fn title(&self) -> &'static str {
        self.markdown.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or(self.file)
    }
}

/// Shows a page of the manual, or the results of a search.
pub(crate) fn show(click: &mut Click<'_>, path: &str) -> Result<Answer, Failure> {
    let asked = click.asked("q").to_owned();
    if path.is_empty() && !asked.is_empty() {
        return Ok(click.page(Section::Manual, "Search in the manual", &results(&asked)));
    }
    let text = TEXTS.iter().find(|text| text.path() == path).ok_or(RequestError::NoRoute)?;
    let content = html! {
        (form(""))
        @if !path.is_empty() { p { a href="/console/manual" { "All pages of the manual" } } }
        article.card.pad.manual { (render(text)) }
    };
    Ok(click.page(Section::Manual, text.title(), &content))
}

fn form(asked: &str) -> Markup {
    html! {
        form.bar method="get" action="/console/manual" role="search" {
            label.hide-text for="manual-q" { "Search in the manual" }
            input #manual-q type="search" name="q" value=(asked) placeholder="Search in the manual";
            button { (Icon::Search.show()) "Search" }
        }
    }
}

/// A part of a page, and its words in lower case.
struct Entry {
    text: &'static Text,
    part: Part,
    lower: String,
    heading: String,
}

/// Every part of every page. The parts are made at the first search.
static ENTRIES: LazyLock<Vec<Entry>> = LazyLock::new(|| {
    let entry = |text, part: Part| {
        let (lower, heading) = (part.text.to_lowercase(), part.heading.to_lowercase());
        Entry { text, part, lower, heading }
    };
    TEXTS.iter().flat_map(|text| parts(text).into_iter().map(move |part| entry(text, part))).collect()
});

/// Returns the parts of pages that contain all words: at most [`FOUND_MAX`] parts, and the number of all such parts. Parts with more of the words in
/// their heading come first.
fn search(words: &[String]) -> (Vec<&'static Entry>, usize) {
    let has = |entry: &Entry, word: &String| entry.lower.contains(word) || entry.heading.contains(word);
    let is_found = |entry: &&Entry| !words.is_empty() && words.iter().all(|word| has(entry, word));
    let mut found: Vec<&Entry> = ENTRIES.iter().filter(is_found).collect();
    found.sort_by_key(|entry| Reverse(words.iter().filter(|word| entry.heading.contains(*word)).count()));
    let all = found.len();
    found.truncate(FOUND_MAX);
    (found, all)
}

/// The text around the first occurrence of one of the words. If the text contains none of the words, the result is the beginning of the text.
fn excerpt(text: &str, lower: &str, words: &[String]) -> String {
    let at = words.iter().filter_map(|word| lower.find(word.as_str())).min().unwrap_or(0);
    // The position is counted in characters, because the upper-case form and the lower-case form of a letter can have different numbers of bytes.
    let before = lower.get(..at).map_or(0, |before| before.chars().count());
    let from = before.saturating_sub(EXCERPT / 3);
    let shown: String = text.chars().skip(from).take(EXCERPT).collect();
    let is_cut = |is_so: bool| if is_so { "…" } else { "" };
    let is_long = text.chars().nth(from + EXCERPT).is_some();
    format!("{}{}{}", is_cut(from > 0), shown.trim(), is_cut(is_long))
}

fn results(asked: &str) -> Markup {
    let words: Vec<String> =
        asked.to_lowercase().split_whitespace().take(WORDS_MAX).map(str::to_owned).collect();
    let (found, all) = search(&words);
    html! {
        h1 { "Search in the manual" }
        (form(asked))
        @if all > found.len() { p.note.warn { "The first " (found.len()) " of " (all) " results are shown. Add a word to find fewer." } }
        div.card {
            @if found.is_empty() {
                (empty(Icon::Search, "Nothing found", &html! { "No part of a page contains all these words." }))
            } @else {
                ul.results {
                    @for Entry { text, part, lower, .. } in &found {
                        li {
                            a href=(format!("{}#{}", text.url(), part.id)) {
                                (text.title()) @if part.heading != text.title() { " › " (part.heading) }
                            }
                            p.small { (excerpt(&part.text, lower, &words)) }
                        }
                    }
                }
            }
        }
        p { a href="/console/manual" { "All pages of the manual" } }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn ids(html: &str) -> Vec<&str> {
        html.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect()
    }

    #[test]
    fn every_page_of_the_documentation_is_in_the_manual() {
        let root = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        let mut places = vec![root.join("docs")];
        while let Some(place) = places.pop() {
            for entry in std::fs::read_dir(place).unwrap().map(Result::unwrap) {
                let path = entry.path();
                if path.is_dir() {
                    places.push(path);
                } else if path.extension().is_some_and(|end| end == "md") {
                    let file = path.strip_prefix(root).unwrap().to_str().unwrap();
                    assert!(TEXTS.iter().any(|text| text.file == file), "add {file} to manual/texts.rs");
                }
            }
        }
    }

    #[test]
    fn every_link_inside_the_manual_leads_to_a_part_that_exists() {
        let pages: Vec<(String, String)> =
            TEXTS.iter().map(|text| (text.url(), render(text).into_string())).collect();
        let mut links = 0;
        for (url, html) in &pages {
            for target in html.split(" href=\"").skip(1).filter_map(|rest| rest.split('"').next()) {
                if target.starts_with("https://") || target.starts_with("http://") {
                    continue;
                }
                let (path, id) = target.split_once('#').unwrap_or((target, ""));
                let page = pages.iter().find(|(known, _)| known == if path.is_empty() { url } else { path });
                let (_, page) = page.unwrap_or_else(|| panic!("{url}: no page {target}"));
                assert!(id.is_empty() || ids(page).contains(&id), "{url}: no part {target}");
                links += 1;
            }
        }
        assert!(links > 300, "{links}");
    }

    /// The script of the console finds its elements by these identifiers.
    #[test]
    fn no_heading_has_an_identifier_of_the_script() {
        for text in &TEXTS {
            let html = render(text).into_string();
            for id in ["compare", "content", "earlier", "manual-q", "upload", "uploads"] {
                assert!(!ids(&html).contains(&id), "{}: {id}", text.file);
            }
        }
    }

    #[test]
    fn no_page_contains_a_picture_a_script_or_a_comment() {
        for text in &TEXTS {
            let html = render(text).into_string();
            for part in ["<img", "<script", "<!--", "style=", "javascript:"] {
                assert!(!html.contains(part), "{}: {part}", text.file);
            }
        }
    }

    #[test]
    fn a_search_finds_the_parts_that_contain_all_words() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let (found, all) = search(&words("recovery codes"));
        assert!(all >= found.len() && !found.is_empty());
        assert!(found.iter().all(|found| {
            let text = format!("{} {}", found.part.heading, found.part.text).to_lowercase();
            text.contains("recovery") && text.contains("codes")
        }));
        assert_eq!(search(&words("no-such-word-anywhere")).1, 0);
        assert_eq!(search(&[]).1, 0);
        let (found, all) = search(&words("the"));
        assert!(all > FOUND_MAX && found.len() == FOUND_MAX);
    }
}
