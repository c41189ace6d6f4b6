//! Digests of source files, mutants and test programs.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::iter::Peekable;

/// A digest that is the same in each build and on each machine (FNV-1a of 64 bits).
pub(super) fn digest(content: &[u8]) -> u64 {
    content
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |state, byte| (state ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// A digest of the code of a file: comments, documentation, the words of messages, layout and modules of tests do not count.
///
/// # Errors
/// If the text is not Rust.
pub(super) fn of_code(text: &str) -> Result<String, String> {
    let tokens: TokenStream = text.parse().map_err(|why| format!("{why}"))?;
    let mut code = String::new();
    write_code(tokens, &mut code);
    Ok(format!("{:016x}", digest(code.as_bytes())))
}

fn write_code(tokens: TokenStream, code: &mut String) {
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        if let TokenTree::Punct(sign) = &token
            && sign.as_char() == '#'
        {
            match attribute(&mut tokens).as_deref() {
                Some(text) if text.starts_with("doc =") => continue,
                Some("cfg (test)") if leave_out_module(&mut tokens) => continue,
                Some(text) => {
                    code.push_str(&format!("#[{text}]\n"));
                    continue;
                }
                None => {}
            }
        }
        match token {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                code.push_str(open);
                write_code(group.stream(), code);
                code.push_str(close);
            }
            other => code.push_str(&without_words(&other)),
        }
        code.push('\n');
    }
}

/// A token as text. Of a string of four or more words, only the placeholders are left: such a string is a message for people.
fn without_words(token: &TokenTree) -> String {
    let text = token.to_string();
    if !text.starts_with('"') || text.split(' ').count() < 4 {
        return text;
    }
    let placeholders = text.split('{').skip(1).filter_map(|rest| rest.split_once('}'));
    placeholders.map(|(placeholder, _)| format!("{{{placeholder}}}")).collect()
}

/// Consumes the rest of an attribute after its `#`. Returns the tokens in its brackets, separated by one space. Returns `None`, and consumes nothing,
/// if the `#` does not begin an attribute.
fn attribute(tokens: &mut Peekable<impl Iterator<Item = TokenTree> + Clone>) -> Option<String> {
    let mut ahead = tokens.clone();
    let mut taken = 1;
    if matches!(ahead.peek(), Some(TokenTree::Punct(sign)) if sign.as_char() == '!') {
        (taken, _) = (2, ahead.next());
    }
    let Some(TokenTree::Group(group)) = ahead.next() else { return None };
    if group.delimiter() != Delimiter::Bracket {
        return None;
    }
    tokens.by_ref().take(taken).for_each(drop);
    let word = |token: TokenTree| match token {
        TokenTree::Group(inside) if inside.delimiter() == Delimiter::Parenthesis => {
            let words: Vec<String> = inside.stream().into_iter().map(|token| without_words(&token)).collect();
            format!("({})", words.join(" "))
        }
        other => without_words(&other),
    };
    let words: Vec<String> = group.stream().into_iter().map(word).collect();
    Some(words.join(" "))
}

/// Consumes a module with its other attributes. Returns false, and consumes nothing, if the next item is no module.
fn leave_out_module(tokens: &mut Peekable<impl Iterator<Item = TokenTree> + Clone>) -> bool {
    let mut ahead = tokens.clone();
    let is_module = loop {
        match ahead.next() {
            Some(TokenTree::Punct(sign)) if sign.as_char() == '#' => _ = attribute(&mut ahead),
            Some(TokenTree::Ident(word)) if word == "pub" => {}
            Some(TokenTree::Ident(word)) => break word == "mod",
            _ => break false,
        }
    };
    if is_module {
        for token in tokens.by_ref() {
            let ends = match token {
                TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
                TokenTree::Punct(sign) => sign.as_char() == ';',
                _ => false,
            };
            if ends {
                break;
            }
        }
    }
    is_module
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_of_the_code() {
        let code = "#[must_use] fn f(a: u8) -> bool { a == 1 }";
        for (other, is_same) in [
            (
                "//! A module.\n/// A function.\n#[must_use]\nfn f(a: u8) -> bool {\n    a == 1 // one\n}\n",
                true,
            ),
            ("#[must_use] fn f(a: u8) -> bool { a == 1 } #[cfg(test)] mod tests { fn g() {} }", true),
            ("#[must_use] fn f(a: u8) -> bool { a == 1 } #[cfg(test)] #[path = \"x.rs\"] mod tests;", true),
            ("#[must_use] fn f(a: u8) -> bool { #[doc = \"said\"] a == 1 }", true),
            ("#[must_use] fn f(a: u8) -> bool { a == 2 }", false),
            ("#[must_use] fn f(a: u8) -> bool { a != 1 }", false),
            ("fn f(a: u8) -> bool { a == 1 }", false),
            ("#[must_use] fn f(a: u8) -> bool { a == 1 } #[cfg(test)] fn g() {}", false),
            ("#[must_use] fn f(a: u8) -> bool { a == 1 } #[cfg(unix)] mod tests {}", false),
        ] {
            assert_eq!(of_code(code).unwrap() == of_code(other).unwrap(), is_same, "{other}");
        }
        for (one, other, is_same) in [
            ("the file {x} is absent now", "there is no file {x} at all", true),
            ("the file {x} is absent now", "the file {y} is absent now", false),
            ("no file at {}", "nothing is at {}", true),
            ("not here", "not there", false),
        ] {
            for around in [
                "fn f() { say(\"TEXT\") }",
                "#[error(\"TEXT\")] struct A;",
                "#[expect(a, reason = \"TEXT\")] fn f() {}",
            ] {
                let of = |text: &str| of_code(&around.replace("TEXT", text)).unwrap();
                assert_eq!(of(one) == of(other), is_same, "{around}: {one}");
            }
        }
        assert!(of_code("fn f( {").is_err());
        // Digests are stored in the repository, so every later build must compute the same digests.
        assert_eq!(digest(b"a"), 0xaf63_dc4c_8601_ec8c);
    }
}
