//! The context in which tests change facts.

use enfilade_admin::{ChangeContext, LimitModel, PasswordRules, ReservedPaths};
use enfilade_facts::{Clocks, Requester, Source};
use enfilade_sources::files::file_set::FileSet;

/// The context in which an administrator makes changes at the time `now`.
pub fn change_context<'a>(
    facts: &'a dyn Source,
    files: &'a FileSet,
    reserved: &'a ReservedPaths,
    now: Clocks,
) -> ChangeContext<'a> {
    ChangeContext {
        facts,
        files,
        passwords: PasswordRules::NONE,
        limit_model: LimitModel::default(),
        reserved,
        roots: None,
        keeps_administrators: false,
        request: None,
        who: "a test",
        requester: Requester::Administrator,
        now,
    }
}
