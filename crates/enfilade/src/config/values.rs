//! Values of keys that have a form of their own.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A number that is of no use beyond this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "u64", into = "u64")]
pub(crate) struct AtMost<const MOST: u64>(u64);

impl<const MOST: u64> AtMost<MOST> {
    pub(super) fn get(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }

    pub(crate) fn seconds(self) -> i64 {
        i64::try_from(self.0).unwrap_or(i64::MAX)
    }
}

impl<const MOST: u64> TryFrom<u64> for AtMost<MOST> {
    type Error = String;
    fn try_from(number: u64) -> Result<Self, String> {
        if number <= MOST {
            Ok(AtMost(number))
        } else {
            Err(format!("{number} is too much; expected 0 to {MOST}"))
        }
    }
}

impl<const MOST: u64> From<AtMost<MOST>> for u64 {
    fn from(number: AtMost<MOST>) -> u64 {
        number.0
    }
}

/// A time as people write it: `90s`, `15m`, `24h`, `7d`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Duration {
    text: String,
    pub(crate) seconds: i64,
}

impl TryFrom<String> for Duration {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        let seconds = crate::cli::seconds(&text).map_err(|why| format!("`{text}`: {why}"))?;
        match seconds {
            0 => Err("a time of 0 is none; leave the key out".into()),
            seconds => Ok(Duration { text, seconds }),
        }
    }
}

impl From<Duration> for String {
    fn from(duration: Duration) -> Self {
        duration.text
    }
}

/// Directories, as a list, or in one text with `:` between them.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "Spelled", into = "Vec<PathBuf>")]
pub(crate) struct Roots(pub(crate) Vec<PathBuf>);

#[derive(Deserialize)]
#[serde(untagged)]
enum Spelled {
    Text(String),
    List(Vec<PathBuf>),
}

impl TryFrom<Spelled> for Roots {
    type Error = String;
    fn try_from(spelled: Spelled) -> Result<Self, String> {
        let roots = match spelled {
            Spelled::Text(text) => {
                text.split(':').filter(|part| !part.is_empty()).map(PathBuf::from).collect()
            }
            Spelled::List(roots) => roots,
        };
        match roots.iter().find(|root| !root.is_absolute()) {
            Some(root) => Err(format!("the directory `{}` is not absolute", root.display())),
            None => Ok(Roots(roots)),
        }
    }
}

impl From<Roots> for Vec<PathBuf> {
    fn from(Roots(roots): Roots) -> Self {
        roots
    }
}
