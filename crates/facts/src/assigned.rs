//! The role assignments of a user, group or token.

use crate::error::SourceError;
use crate::tables::{AssignmentKey, Reverse, ReverseKey, Who};
use crate::view::View;

impl AssignmentKey {
    /// All assignments of one user, group or token, on every path. The list is empty for a [`Who::Named`].
    ///
    /// # Errors
    /// The errors of [`View::get`].
    pub fn all_of(view: &View<'_>, who: &Who) -> Result<Vec<AssignmentKey>, SourceError> {
        let Some(prefix) = ReverseKey::assigned_to(who) else { return Ok(Vec::new()) };
        let key = |(key, _)| match key {
            ReverseKey::Assigned(who, path) => Some(AssignmentKey { path, who }),
            _ => None,
        };
        Ok(view.list::<Reverse>(&prefix)?.into_iter().filter_map(key).collect())
    }
}
