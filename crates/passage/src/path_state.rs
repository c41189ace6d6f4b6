//! The state of a path, which is needed for the conditions of a request. The state says whether the path leads to an object. It also contains the
//! entity tag of the object, and the locks that cover the path.

use crate::refuse::Refusal;
use crate::walk::Stay;
use enfilade_access::NodeKind;
use enfilade_content::{Blocking, Lock, LockToken};
use enfilade_facts::vocabulary::{AccessMask, StorePath};

/// The state of a path. The conditions of a request are checked against the state of its path.
#[derive(Clone, Debug, Default)]
pub struct PathState {
    /// Whether the path leads to an object that the visitor may see.
    pub is_there: bool,
    /// The state of a file, for entity tags. `None` for a directory: the state of a directory also changes when a member that the visitor may not see
    /// changes.
    pub validator: Option<String>,
    /// When the content of a file was written, in seconds since the epoch.
    pub modified: Option<i64>,
    /// The tokens of the locks that cover the path.
    pub tokens: Vec<LockToken>,
}

impl Stay {
    /// The state of a path. The conditions of a request are checked against this state.
    ///
    /// # Errors
    /// When the locks cannot be read, or door 2 or 3 no longer admits the visitor.
    pub fn state_of(&mut self, path: &StorePath) -> Result<PathState, Refusal> {
        let found = match self.find(path, AccessMask::NONE, Blocking) {
            Ok(found) => Some(found),
            // A hidden object looks absent: the state of its path says only that there is no object.
            Err(Refusal::Content(_) | Refusal::Access(_)) => None,
            Err(why) => return Err(why),
        };
        // If the visitor sees no object at the path, only the tokens of locks on directories above it are returned.
        let is_known = |lock: &Lock| found.is_some() || lock.path != *path;
        let tokens = self.locks_on(path)?.into_iter().filter(is_known).map(|lock| lock.token).collect();
        let is_there = found.is_some();
        let file = found.filter(|found| found.kind() == NodeKind::File);
        let state = file.map(|file| (file.node.meta().validator(), file.node.meta().modified.0));
        let (validator, modified) = state.unzip();
        Ok(PathState { is_there, validator, modified, tokens })
    }
}
