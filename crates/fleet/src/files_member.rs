//! The member whose edited files are followed, as the last proof said.

use std::sync::{Mutex, PoisonError};

/// Is told which member's edited files are followed; `None` if there is none.
pub type TellFiles = Box<dyn Fn(Option<&str>) + Send>;

/// The member whose edited files are followed, and who is told when it is another one.
#[derive(Default)]
pub(crate) struct FilesMember(Mutex<(Option<String>, Option<TellFiles>)>);

impl FilesMember {
    /// From now on, `tell` is told: now, and when it is another member.
    pub(crate) fn on_change(&self, tell: TellFiles) {
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tell(files.0.as_deref());
        files.1 = Some(tell);
    }

    /// Notes what a proof says.
    pub(crate) fn set(&self, member: Option<String>) {
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if files.0 != member {
            files.0 = member;
            if let (member, Some(tell)) = &*files {
                tell(member.as_deref());
            }
        }
    }
}
