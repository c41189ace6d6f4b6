//! Every text that the product can show to a person: errors, refusals, warnings, log lines, hints, help.

use crate::tidy::source::{self, Source};
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use serde_json::{Value, json};
use std::collections::HashSet;

/// Words before the name of an item.
const ITEMS: [&str; 8] = ["const", "enum", "fn", "macro_rules", "mod", "static", "struct", "trait"];
/// Attributes with texts for readers of the source only.
const FOR_READERS: [&str; 5] = ["allow", "deny", "doc", "expect", "warn"];
/// How texts for programs begin: header fields, SQL, metrics.
const FORMATS: [&str; 6] =
    ["# HELP", "Basic realm=", "IF NOT EXISTS", "OPTIONS, ", "default-src", "text/plain;"];

/// A literal: its line, the innermost function or other item around it, and the text.
type Literal = (usize, String, String);

/// The texts as a table, or as a list of JSON objects.
///
/// # Errors
/// If a file is not Rust.
pub fn list(root: &std::path::Path, as_json: bool) -> Result<String, String> {
    let mut rows = Vec::new();
    for source in source::read(root).iter().filter(|source| source.is_rust()) {
        if source.path.starts_with("crates/") && !source.path.contains("testkit") {
            let found = literals(source)?.into_iter();
            rows.extend(found.map(|(line, item, text)| (format!("{}:{line}", source.path), item, text)));
        }
    }
    if as_json {
        let objects =
            rows.iter().map(|(place, item, text)| json!({ "place": place, "item": item, "text": text }));
        return Ok(format!("{:#}\n", objects.collect::<Value>()));
    }
    let places = rows.iter().map(|(place, ..)| place.len()).max().unwrap_or(0);
    let items = rows.iter().map(|(_, item, _)| item.len()).max().unwrap_or(0);
    // Control characters are escaped, so that each row is one line.
    let shown = |c: char| if c.is_control() { c.escape_debug().to_string() } else { c.to_string() };
    let row = |(place, item, text): &(String, String, String)| {
        format!("{place:places$}  {item:items$}  {}\n", text.chars().map(shown).collect::<String>())
    };
    Ok(rows.iter().map(row).collect())
}

fn literals(source: &Source) -> Result<Vec<Literal>, String> {
    // The tokens are searched, not the syntax tree, because most texts are in arguments of macros, which have no syntax tree.
    let tokens = syn::parse_str(&source.text).map_err(|why| format!("`{}`: {why}", source.path))?;
    let mut found = Vec::new();
    collect(tokens, "", &mut found);
    let lines: HashSet<usize> = source.code_lines().map(|(line, _)| line).collect();
    found.retain(|(line, _, text)| lines.contains(line) && is_for_people(text));
    Ok(found)
}

/// Adds the literals. `outer` is the name of the item around the tokens.
fn collect(tokens: TokenStream, outer: &str, found: &mut Vec<Literal>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let (mut item, mut rest) = (outer.to_owned(), tokens.as_slice());
    while let [first, after @ ..] = rest {
        rest = after;
        match (first, after) {
            (sign, [TokenTree::Group(group), after @ ..] | [_, TokenTree::Group(group), after @ ..])
                if is(sign, &["#"]) =>
            {
                if !group.stream().into_iter().next().is_some_and(|name| is(&name, &FOR_READERS)) {
                    // An attribute belongs to the item after it.
                    let next = after.windows(2).find_map(|pair| named(pair, outer));
                    collect(group.stream(), &next.unwrap_or_else(|| item.clone()), found);
                }
                rest = after;
            }
            (TokenTree::Punct(_), _) if is(first, &[";"]) => outer.clone_into(&mut item),
            // In `'static`, `*const` and `<const`, the word does not begin an item.
            (TokenTree::Punct(_), [word, after @ ..]) if is(word, &ITEMS) => rest = after,
            (word, [TokenTree::Group(_), after @ ..]) if is(word, &["expect"]) => rest = after,
            (word, [sign, TokenTree::Group(parts), after @ ..])
                if is(word, &["concat"]) && is(sign, &["!"]) =>
            {
                let text = parts.stream().into_iter().filter_map(|part| part_of_text(&part)).collect();
                found.push((word.span().start().line, item.clone(), text));
                rest = after;
            }
            (TokenTree::Group(group), _) => {
                collect(group.stream(), &item, found);
                if group.delimiter() == Delimiter::Brace {
                    outer.clone_into(&mut item);
                }
            }
            (TokenTree::Ident(_), [second, ..]) => {
                item = named(&[first.clone(), second.clone()], outer).unwrap_or(item)
            }
            _ => found.extend(text_of(first).map(|text| (first.span().start().line, item.clone(), text))),
        }
    }
}

fn is(token: &TokenTree, words: &[&str]) -> bool {
    !matches!(token, TokenTree::Group(_)) && words.contains(&token.to_string().as_str())
}

/// The name of the item that begins with these two tokens. A macro outside of other items counts as an item.
fn named(pair: &[TokenTree], outer: &str) -> Option<String> {
    match pair {
        [word, TokenTree::Ident(name)] if is(word, &ITEMS) && !ITEMS.iter().any(|item| name == item) => {
            Some(name.to_string())
        }
        [TokenTree::Ident(word), sign] if outer.is_empty() && is(sign, &["!"]) => Some(format!("{word}!")),
        _ => None,
    }
}

fn text_of(token: &TokenTree) -> Option<String> {
    let TokenTree::Literal(literal) = token else { return None };
    match syn::Lit::new(literal.clone()) {
        syn::Lit::Str(text) => Some(text.value()),
        syn::Lit::ByteStr(bytes) => String::from_utf8(bytes.value()).ok(),
        _ => None,
    }
}

/// An argument of `concat!`: a literal, or a placeholder in braces for another argument.
fn part_of_text(part: &TokenTree) -> Option<String> {
    let is_sign = matches!(part, TokenTree::Punct(_));
    text_of(part).or_else(|| (!is_sign).then(|| format!("{{{part}}}")))
}

/// Whether the text, without its tags, has three words or more, and at least one word that does not consist of placeholders. Texts for programs
/// (`FORMATS`) are not for people.
fn is_for_people(text: &str) -> bool {
    let outside = |text: &str, open: char, close: char| -> String {
        let (before, rest) = text.split_once(open).unwrap_or((text, ""));
        let after = rest.split(open).map(|part| part.split_once(close).map_or("", |(_, after)| after));
        std::iter::once(before).chain(after).collect()
    };
    let is_markup = text.starts_with('<') || text.contains("</");
    let text = if is_markup { outside(text, '<', '>') } else { text.to_owned() };
    let has_word = outside(&text, '{', '}').split(|c: char| !c.is_alphabetic()).any(|word| 1 < word.len());
    let is_format = text.contains(['\r', '\0']) || FORMATS.iter().any(|begin| text.starts_with(begin));
    2 < text.split_whitespace().count() && has_word && !is_format
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_with_line_and_item() {
        let text = r##"//! A module with a comment.
/// A comment on an error.
#[error("the file {0} is missing")]
struct Missing(&'static str);
#[expect(dead_code, reason = "only the tests need it")]
fn load<const N: usize>() {
    bail!("the line {line} of {path:?} \
           is empty");
    warn(concat!("one and ", NAME, " too"), "{a} {b} {c}", "two words");
    read().expect("it was read before");
}
table! { A = "what a metric counts" }
#[cfg(test)]
mod tests {
    const TEXT: &str = "a text of tests";
}
"##;
        let found = literals(&Source::new("crates/a/src/lib.rs", text)).unwrap();
        let found: Vec<_> =
            found.iter().map(|(line, item, text)| (*line, item.as_str(), text.as_str())).collect();
        let expected = [
            (3, "Missing", "the file {0} is missing"),
            (7, "load", "the line {line} of {path:?} is empty"),
            (9, "load", "one and {NAME} too"),
            (12, "table!", "what a metric counts"),
        ];
        assert_eq!(found, expected);
    }
}
