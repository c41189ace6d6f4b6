//! The roles of one principal on paths, at one revision and time. The roles on a node are resolved once, and the result is remembered.

use crate::memo::{AccessMemo, Assigned, Question};
use crate::refuse::Refusal;
use crate::roles::{Resolved, resolve, resolve_below};
use crate::view::View;
use enfilade_facts::vocabulary::RolePath;
use enfilade_facts::{Clocks, Held, SourceError};
use enfilade_identity::Principal;

/// Checks the roles of one principal, at one revision and time.
pub(crate) struct RoleCheck<'c> {
    pub(crate) view: View<'c>,
    pub(crate) now: Clocks,
    pub(crate) principal: &'c Principal,
    pub(crate) memo: &'c AccessMemo,
}

/// The node with the deciding role assignments of a path. Every object below that node has the same roles, unless a deeper node on its path has a
/// role assignment. So the roles are resolved once for all these objects, and the result is remembered.
pub(crate) struct EffectiveNode<'p> {
    /// The last node with a role assignment, or the node of the datastore or application. For a guest of a link, the path itself.
    pub(crate) node: &'p str,
    /// Whether there is a role assignment strictly below the path.
    pub(crate) goes_on_below: bool,
}

impl RoleCheck<'_> {
    /// The roles that apply on a path.
    pub(crate) fn roles(&self, path: &RolePath) -> Result<Held<Resolved>, Refusal> {
        let node = self.effective_node(path).node;
        self.remember(if node == path.as_str() { Question::On } else { Question::Below }, node)
    }

    /// The node on a path that has the deciding role assignments.
    pub(crate) fn effective_node<'p>(&self, path: &'p RolePath) -> EffectiveNode<'p> {
        let mut effective_node = EffectiveNode { node: path.as_str(), goes_on_below: false };
        let is_guest = self.principal.link.is_some();
        // The node is never above the node of the datastore or application. The reason: the roles of a session for a project differ between
        // datastores, because the session has roles only in datastores of the project.
        for (depth, node) in path.nodes().skip(2).enumerate() {
            // If an assignment cannot be read, only requests for paths that contain the node of the assignment are refused.
            let assigned = self.assigned(node).unwrap_or(Assigned { on: true, below: true });
            // A guest has different rights above the place of the link, at this place and below it, but no role assignment marks the place. So each
            // path of a guest is judged separately.
            if (assigned.on || depth == 0) && !is_guest {
                effective_node.node = node;
            }
            effective_node.goes_on_below = assigned.below;
            if !assigned.below {
                break;
            }
        }
        effective_node
    }

    /// Whether there are role assignments on a node, and strictly below it.
    fn assigned(&self, node: &str) -> Result<Assigned, SourceError> {
        let key = self.memo.assigned_key(self.view.at(), node);
        if let Some(assigned) = self.memo.assigned.get(key) {
            return Ok(assigned);
        }
        let (on, below) = (self.view.is_assigned(node)?, self.view.is_assigned_below(node)?);
        self.memo.assigned.put(key, Assigned { on, below });
        Ok(Assigned { on, below })
    }

    /// The roles that apply on a node, or on paths below the node.
    pub(crate) fn remember(&self, question: Question, node: &str) -> Result<Held<Resolved>, Refusal> {
        let key = self.memo.roles_key(question, (self.view.at(), self.now), self.principal, node);
        if let Some(resolved) = self.memo.roles.get(key) {
            return Ok(resolved);
        }
        let resolve = if question == Question::On { resolve } else { resolve_below };
        Ok(self.memo.roles.put(key, resolve(&self.view, self.now, self.principal, node)?))
    }
}
