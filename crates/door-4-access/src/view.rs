//! The few facts this door may read.

use enfilade_facts::tables::{Assignment, AssignmentKey};
use enfilade_facts::{At, SourceError};
use std::ops::ControlFlow;

/// Role assignments at one revision.
pub(crate) struct View<'a>(pub(crate) &'a enfilade_facts::View<'a>);

impl View<'_> {
    pub(crate) fn at(&self) -> At {
        self.0.at()
    }

    /// Everybody's roles on exactly this node.
    pub(crate) fn assignments(
        &self,
        node: &str,
        mut each: impl FnMut(AssignmentKey, Assignment),
    ) -> Result<(), SourceError> {
        self.0.scan::<Assignment>(&AssignmentKey::node_prefix(node), |key, assignment| {
            each(key, assignment);
            ControlFlow::Continue(())
        })
    }

    /// Everybody's roles strictly below this node.
    pub(crate) fn assignments_below(
        &self,
        node: &str,
        each: impl FnMut(AssignmentKey, Assignment) -> ControlFlow<()>,
    ) -> Result<(), SourceError> {
        self.0.scan::<Assignment>(format!("{node}/").as_bytes(), each)
    }
}
