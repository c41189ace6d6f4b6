//! Realms and names of tokens. A name that fits Proxmox's grammar is written as it is.

use super::super::{Malformed, Word, is_safe_id};
use crate::limits;
use std::fmt;
use std::str::FromStr;

/// The realm: the name of the domain of a user or group.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Realm(pub(super) Text);

/// The name of an API token or application credential, unique among the tokens of its owner.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenName(pub(super) Text);

/// A name, and whether it fits Proxmox's grammar for its kind. This is computed once and stored, because every log line of a request needs it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Text {
    pub(super) text: Word,
    pub(super) is_plain: bool,
}

/// Checks a name: 1 to `max` characters, no control character, and at least one character that is not a blank.
fn check_text(what: &'static str, text: &str, max: usize, expected: &'static str) -> Result<(), Malformed> {
    let is_long = text.chars().nth(max).is_some();
    if is_long || text.trim().is_empty() || text.chars().any(char::is_control) {
        return Err(Malformed::new(what, text, expected));
    }
    Ok(())
}

/// Checks a name as [`check_text`] does, and also refuses blanks at its ends, because Keystone removes such blanks.
pub(super) fn check_trimmed(
    what: &'static str,
    text: &str,
    max: usize,
    expected: &'static str,
) -> Result<(), Malformed> {
    match text.trim() == text {
        true => check_text(what, text, max, expected),
        false => Err(Malformed::new(what, text, expected)),
    }
}

macro_rules! text_type {
    ($($name:ident),*) => {$(
        impl $name {
            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0.text
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0.text)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0.text, f)
            }
        }
    )*};
}
text_type!(Realm, TokenName);

impl Realm {
    /// The realm that every server has.
    pub fn local() -> Self {
        Realm(Text { text: "local".into(), is_plain: true })
    }

    /// Whether the realm fits Proxmox's grammar.
    pub(super) fn is_plain(text: &str) -> bool {
        (limits::REALM_BYTES_MIN..=limits::REALM_BYTES_MAX).contains(&text.len()) && is_safe_id(text)
    }
}

impl FromStr for Realm {
    type Err = Malformed;
    fn from_str(text: &str) -> Result<Self, Malformed> {
        let expected =
            "expected 1 to 64 characters, without control characters and without blanks at the ends";
        check_trimmed("realm", text, limits::DOMAIN_NAME_CHARS_MAX, expected)?;
        Ok(Realm(Text { text: text.into(), is_plain: Self::is_plain(text) }))
    }
}

impl FromStr for TokenName {
    type Err = Malformed;
    fn from_str(text: &str) -> Result<Self, Malformed> {
        let expected = "expected 1 to 255 characters, not only blanks, without control characters";
        check_text("token name", text, limits::NAME_CHARS_MAX, expected)?;
        let is_plain = text.len() <= limits::TOKEN_NAME_BYTES_MAX && is_safe_id(text);
        Ok(TokenName(Text { text: text.into(), is_plain }))
    }
}
