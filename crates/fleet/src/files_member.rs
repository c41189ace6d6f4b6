//! The name of the files member: the member with the edited files that the fleet follows. etcd returns the name in each answer that can be a proof.

use std::sync::{Mutex, PoisonError};

/// A function that is called with the name of the files member, or with `None` if there is no files member.
pub type TellFiles = Box<dyn Fn(Option<&str>) + Send>;

/// The name of the files member, and the function that is called when another member becomes the files member.
#[derive(Default)]
pub(crate) struct FilesMember(Mutex<(Option<String>, Option<TellFiles>)>);

impl FilesMember {
    /// Calls `tell` now, and whenever another member becomes the files member.
    pub(crate) fn on_change(&self, tell: TellFiles) {
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tell(files.0.as_deref());
        files.1 = Some(tell);
    }

    /// Stores the files member that etcd named. If it is another one than before, calls the function of [`FilesMember::on_change`].
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
