//! Rust text for the rules of tidy: blanks comments and literals, distinguishes tests from code, and finds the beginning and end of functions. This
//! is not a parser: it relies on the layout of rustfmt, which runs before it.

/// The text with every comment, string and character literal blanked; offsets and lines do not change.
pub(super) fn blanked(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let is_in_word = code.chars().next_back().is_some_and(is_word);
        let literal = literal_length(rest, is_in_word);
        let (head, tail) = rest.split_at_checked(literal.unwrap_or(first.len_utf8())).unwrap_or((rest, ""));
        match literal {
            None => code.push_str(head),
            Some(_) => head.chars().for_each(|c| match c {
                '\n' => code.push('\n'),
                c => code.extend(std::iter::repeat_n(' ', c.len_utf8())),
            }),
        }
        rest = tail;
    }
    code
}

/// The length of the comment or literal at the start of `rest`, if there is one.
fn literal_length(rest: &str, is_in_word: bool) -> Option<usize> {
    if rest.starts_with("//") {
        return Some(rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return Some(comment_length(rest));
    }
    if rest.starts_with('"') {
        return Some(quoted_length(rest, '"'));
    }
    if let Some(after) = rest.strip_prefix('\'') {
        // A lifetime has no closing quote after its first character.
        let mut following = after.chars();
        let is_literal = following.next() == Some('\\') || following.next() == Some('\'');
        return is_literal.then(|| quoted_length(rest, '\''));
    }
    if is_in_word {
        return None;
    }
    let raw = rest.strip_prefix(['b', 'c']).unwrap_or(rest).strip_prefix('r')?;
    let quoted = raw.trim_start_matches('#');
    let end = format!("\"{}", "#".repeat(raw.len() - quoted.len()));
    let inside = quoted.strip_prefix('"')?;
    let length = inside.find(&end).map_or(inside.len(), |at| at + end.len());
    Some(rest.len() - inside.len() + length)
}

fn quoted_length(rest: &str, quote: char) -> usize {
    let mut characters = rest.char_indices().skip(1);
    while let Some((at, c)) = characters.next() {
        if c == '\\' {
            characters.next();
        } else if c == quote {
            return at + 1;
        }
    }
    rest.len()
}

/// The length of a block comment, with the block comments inside it.
fn comment_length(rest: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(here) = rest.get(at..).filter(|here| !here.is_empty()) {
        let step = if here.starts_with("/*") {
            depth += 1;
            2
        } else if here.starts_with("*/") {
            depth -= 1;
            2
        } else {
            here.chars().next().map_or(1, char::len_utf8)
        };
        at += step;
        if depth == 0 {
            break;
        }
    }
    at
}

pub(super) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The offsets of `word` in `text`, if no letter, digit or underscore is next to it.
pub(super) fn words<'t>(text: &'t str, word: &'t str) -> impl Iterator<Item = usize> + 't {
    text.match_indices(word).map(|(at, _)| at).filter(move |at| {
        let before = text.get(..*at).and_then(|before| before.chars().next_back());
        let after = text.get(at + word.len()..).and_then(|after| after.chars().next());
        let is_edge = |inner: Option<char>, outer: Option<char>| {
            !(inner.is_some_and(is_word) && outer.is_some_and(is_word))
        };
        is_edge(word.chars().next(), before) && is_edge(word.chars().next_back(), after)
    })
}

/// The number of the line, from 1, that contains the offset.
pub(super) fn line_at(text: &str, offset: usize) -> usize {
    text.get(..offset).unwrap_or(text).matches('\n').count() + 1
}

/// For each line of blanked text, whether it is in a `#[cfg(test)] mod … { }` block of the file.
pub(super) fn test_lines(code: &str) -> Vec<bool> {
    let mut is_test = false;
    let mut is_marked = false;
    let mut lines = Vec::new();
    for line in code.lines() {
        let module = line.trim_start_matches("pub(crate) ").starts_with("mod ");
        is_test |= is_marked && module && line.ends_with('{');
        lines.push(is_test || line == "#[cfg(test)]");
        is_marked = line == "#[cfg(test)]" || is_marked && line.starts_with("#[");
        is_test &= line != "}";
    }
    lines
}

/// The names of modules that blanked text declares for tests only, and that are in separate files.
pub(super) fn test_modules(code: &str) -> Vec<&str> {
    let declared = code.split("#[cfg(test)]\n").skip(1).filter_map(|after| after.lines().next());
    declared
        .filter_map(|line| line.trim_start_matches("pub(crate) ").strip_prefix("mod ")?.strip_suffix(';'))
        .collect()
}

/// A function with a body.
pub(super) struct Function<'t> {
    pub(super) name: &'t str,
    pub(super) begin: usize,
    pub(super) end: usize,
}

/// The functions in blanked text, in order; a function inside another is listed after it.
pub(super) fn functions(code: &str) -> Vec<Function<'_>> {
    let found = words(code, "fn").filter_map(|begin| {
        let named = code.get(begin..)?.strip_prefix("fn ")?;
        let name = named.split(|c| !is_word(c)).next().filter(|name| !name.is_empty())?;
        Some(Function { name, begin, end: body_end(code, begin)? })
    });
    found.collect()
}

/// The offset of the brace that closes the item at `begin`; `None` if a `;` comes before any body.
pub(super) fn body_end(code: &str, begin: usize) -> Option<usize> {
    let (mut braces, mut brackets) = (0_usize, 0_usize);
    for (at, c) in code.get(begin..)?.char_indices() {
        match c {
            '(' | '[' => brackets += 1,
            ')' | ']' => brackets = brackets.saturating_sub(1),
            '{' => braces += 1,
            '}' if braces < 2 => return Some(begin + at),
            '}' => braces -= 1,
            ';' if braces == 0 && brackets == 0 => return None,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_and_comments_are_blanked() {
        for (text, left) in [
            ("a \"{\\\"}\" b", vec!["a", "b"]),
            ("r#\"}\"\"# + br\"x\" + xr", vec!["+", "+", "xr"]),
            ("'{' + '\\'' + &'a str", vec!["+", "+", "&'a", "str"]),
            ("/* { /* } */ } */x // }\ny", vec!["x", "y"]),
            ("\"one\n}\"é\"ü\"z", vec!["é", "z"]),
            ("b\"{\" c '\\u{7d}' d", vec!["b", "c", "d"]),
            ("never closed \"{ }", vec!["never", "closed"]),
        ] {
            let code = blanked(text);
            assert_eq!(code.split_whitespace().collect::<Vec<_>>(), left, "{text}");
            assert_eq!((code.len(), code.lines().count()), (text.len(), text.lines().count()), "{text}");
        }
    }

    #[test]
    fn tests_are_told_from_code() {
        let code = "a\n#[cfg(test)]\nmod tests {\n    b\n}\nc\nmod tests {\n";
        assert_eq!(test_lines(code), [false, true, true, true, true, false, false]);
        assert_eq!(test_modules("#[cfg(test)]\nmod reference;\nmod real;\n"), ["reference"]);
    }

    #[test]
    fn functions_have_their_extent() {
        let code = "fn a(x: [u8; 3]) {\n  {}\n}\ntrait T { fn b(); }\nlet f: fn(u8);\nconst fn c() {}\n";
        let found: Vec<_> = functions(code).iter().map(|f| (f.name, line_at(code, f.end))).collect();
        assert_eq!(found, [("a", 3), ("c", 6)]);
        assert_eq!(words("a mod b amod mod_ mod", "mod").count(), 2);
    }
}
