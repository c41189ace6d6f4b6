//! The rule for comments and descriptions.

use crate::error::Error;
use enfilade_facts::limits::COMMENT_BYTES_MAX;

pub(crate) fn check_comment(comment: Option<&str>) -> Result<(), Error> {
    match comment {
        Some(text) if text.len() > COMMENT_BYTES_MAX || text.chars().any(char::is_control) => {
            Err(Error::Invalid(format!(
                "the comment is longer than {COMMENT_BYTES_MAX} bytes or contains control characters"
            )))
        }
        _ => Ok(()),
    }
}
