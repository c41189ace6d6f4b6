//! Reserves names while a thread has the turn: the mutex for changes of names (`tree.rs`). Before the thread changes a name, it checks that no other
//! thread has reserved this name. A reserved name stays reserved after the turn.

use crate::node::Node;
use crate::refuse::Refusal;
use crate::tree::{MyTurn, Name, ReservedNames};
use std::sync::Arc;

impl MyTurn<'_> {
    /// Whether a name may change. A reserved name may not change. After an object was moved, its old and new names stay reserved until it is certain
    /// that the move need not be undone.
    ///
    /// # Refuses
    /// [`Refusal::ChangedMeanwhile`].
    pub(crate) fn may_change(&self, directory: &Node, name: &str) -> Result<(), Refusal> {
        let is_reserved = |(of, reserved): &Name| *of == directory.object() && reserved == name;
        match self.0.iter().any(is_reserved) {
            true => Err(Refusal::ChangedMeanwhile(name.to_owned())),
            false => Ok(()),
        }
    }

    /// Reserves two names. Until the result is dropped, no other thread of this process changes the names, even after this turn has ended. `self`
    /// must be the turn of the tree that contains `target`.
    pub(crate) fn reserve(&mut self, target: &Node, from: (&Node, &str), to: (&Node, &str)) -> ReservedNames {
        let state = Arc::clone(target.tree_state());
        let names = [from, to].map(|(directory, name)| (directory.object(), name.to_owned()));
        self.0.extend(names.clone());
        ReservedNames { state, names }
    }
}
