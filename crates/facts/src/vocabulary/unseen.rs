//! Characters that are not visible, and how texts that contain them are shown.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use std::borrow::Cow;

/// Unicode's format characters (general category Cf, version 16), the characters that a renderer does not show (`Default_Ignorable_Code_Point`), and
/// the separators of lines and paragraphs. Two names that differ only in these characters look alike, and some of these characters reverse the
/// direction of text.
const UNSEEN: [(u32, u32); 25] = [
    (0x00AD, 0x00AD),
    (0x034F, 0x034F),
    (0x0600, 0x0605),
    (0x061C, 0x061C),
    (0x06DD, 0x06DD),
    (0x070F, 0x070F),
    (0x0890, 0x0891),
    (0x08E2, 0x08E2),
    (0x115F, 0x1160),
    (0x17B4, 0x17B5),
    (0x180B, 0x180F),
    (0x200B, 0x200F),
    (0x2028, 0x202E),
    (0x2060, 0x206F),
    (0x3164, 0x3164),
    (0xFE00, 0xFE0F),
    (0xFEFF, 0xFEFF),
    (0xFFA0, 0xFFA0),
    (0xFFF0, 0xFFFB),
    (0x110BD, 0x110BD),
    (0x110CD, 0x110CD),
    (0x13430, 0x1343F),
    (0x1BCA0, 0x1BCA3),
    (0x1D173, 0x1D17A),
    (0xE0000, 0xE0FFF),
];

/// Whether a character is a control character, or is not visible. The spelling of a name never contains such a character as it is
/// ([`crate::vocabulary::Authid`]).
pub fn is_unseen(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_control();
    }
    c.is_control() || UNSEEN.iter().any(|(first, last)| (*first..=*last).contains(&u32::from(c)))
}

/// The text on one line for a person, with an escape such as `\u{202e}` for each control character and each invisible character. Without these
/// escapes, a name could look like another name. Backslashes directly before an escape, or before a `u{` in the text, are doubled, so that different
/// texts are always shown in different forms. Call this function only once, where the text is printed, because a second call doubles the backslashes
/// again.
pub fn visible(text: &str) -> Cow<'_, str> {
    escaped(text, is_unseen)
}

/// Shows a text as [`visible`] does, but for a text of several lines: line feeds and tabs stay unchanged.
pub fn visible_lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c| is_unseen(c) && !"\n\t".contains(c))
}

fn escaped(text: &str, is_hidden: impl Fn(char) -> bool + Copy) -> Cow<'_, str> {
    if !text.contains(is_hidden) && !text.contains("\\u{") {
        return Cow::Borrowed(text);
    }
    let (mut shown, mut backslashes) = (String::with_capacity(text.len() + 16), 0);
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        if c == '\\' {
            backslashes += 1;
            continue;
        }
        let is_escape = is_hidden(c) || (c == 'u' && rest.as_str().starts_with('{'));
        shown.extend(std::iter::repeat_n('\\', if is_escape { 2 * backslashes } else { backslashes }));
        backslashes = 0;
        match is_hidden(c) {
            true => shown.extend(c.escape_unicode()),
            false => shown.push(c),
        }
    }
    shown.extend(std::iter::repeat_n('\\', backslashes));
    Cow::Owned(shown)
}

/// The text, or its beginning and `…` if it is longer than `max` bytes. `…` marks the cut, because the beginning of a name can be another name. No
/// spelling of a user, group or token ends with `…`.
pub fn shortened(text: &str, max: usize) -> Cow<'_, str> {
    match text.floor_char_boundary(max) {
        end if end < text.len() => Cow::Owned(format!("{}…", text.get(..end).unwrap_or_default())),
        _ => Cow::Borrowed(text),
    }
}

/// The longest part of a text that an error quotes, in characters.
const EXCERPT_CHARS_MAX: usize = 80;

/// The beginning of a text for an error. Control characters and invisible characters are percent-encoded, as in the spelling of a name. If the text
/// is longer than `EXCERPT_CHARS_MAX`, the result ends with `…`. The result contains no escape, so it may be part of a text that [`visible`] escapes
/// later.
pub fn excerpt(text: &str) -> String {
    let mut shown = String::new();
    for c in text.chars().take(EXCERPT_CHARS_MAX) {
        match is_unseen(c) {
            true => shown.extend(utf8_percent_encode(c.encode_utf8(&mut [0; 4]), NON_ALPHANUMERIC)),
            false => shown.push(c),
        }
    }
    if text.chars().nth(EXCERPT_CHARS_MAX).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn hidden_characters_are_shown() {
        for (text, shown) in [
            ("Jürgen Groß 名", "Jürgen Groß 名"),
            ("a\u{202e}b\u{1b}[2J\n", r"a\u{202e}b\u{1b}[2J\u{a}"),
            (r"CORP\svc", r"CORP\svc"),
            // If a text looks like an escape, it is shown in another form than the character that the escape stands for.
            (r"a\u{202e}b", r"a\\u{202e}b"),
            ("a\\\u{202e}b", r"a\\\u{202e}b"),
            (r"it\'s\", r"it\'s\"),
        ] {
            assert_eq!(visible(text), shown);
        }
        assert_eq!(visible_lines("a\n\tb\u{200b}"), "a\n\tb\\u{200b}");
        assert_eq!(excerpt("a\n\u{202e}\"'\\b"), "a%0A%E2%80%AE\"'\\b");
        assert_eq!((shortened("éé", 3).as_ref(), shortened("éé", 4).as_ref()), ("é…", "éé"));
        assert_eq!(excerpt(&"é".repeat(81)), format!("{}…", "é".repeat(80)));
    }

    /// The inverse of [`visible`]: returns the text that [`visible`] shows as `shown`.
    fn read(shown: &str) -> String {
        let Some(at) = shown.find("\\u{") else { return shown.to_owned() };
        let start = shown[..at].trim_end_matches('\\').len();
        let count = at + 1 - start;
        let literal = format!("{}{}", &shown[..start], "\\".repeat(count / 2));
        let rest = &shown[at + 3..];
        match count % 2 {
            0 => format!("{literal}u{{{}", read(rest)),
            _ => {
                let (digits, rest) = rest.split_once('}').unwrap();
                let c = char::from_u32(u32::from_str_radix(digits, 16).unwrap()).unwrap();
                format!("{literal}{c}{}", read(rest))
            }
        }
    }

    proptest! {
        #[test]
        fn each_text_is_shown_in_a_form_of_its_own(letters in proptest::collection::vec(proptest::sample::select(vec!['\\', 'u', '{', '}', '2', 'a', '\u{200b}', '\n']), 0..12)) {
            let text = String::from_iter(letters);
            prop_assert_eq!(read(&visible(&text)), text);
        }
    }

    #[test]
    fn what_is_seen_and_what_is_not() {
        for c in ['a', ' ', 'ß', 'é', '名', '\u{00a0}', '😀', 'א', '_'] {
            assert!(!is_unseen(c), "{c:?}");
        }
        for c in [
            '\0',
            '\n',
            '\u{7f}',
            '\u{ad}',
            '\u{200b}',
            '\u{200d}',
            '\u{202e}',
            '\u{2066}',
            '\u{feff}',
            '\u{e0041}',
        ] {
            assert!(is_unseen(c), "{c:?}");
        }
    }
}
