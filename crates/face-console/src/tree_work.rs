//! Work on directory trees: the time limit of the work, and the message about files and folders for which the work failed.

use crate::click::{Click, Trouble, said};
use enfilade_passage::{FailedMember, House};
use std::sync::Arc;

/// The house, and the time of its monotonic clock (`tick_millis`) at which the work for a form must end. If a form changes several trees, the time
/// limit for one tree applies to all these trees together.
pub(crate) fn until(click: &Click<'_>) -> (Arc<House>, u64) {
    let house = Arc::clone(click.faces.arc_house());
    let end = house.now().tick_millis.saturating_add(click.visit.limits().tree_seconds.saturating_mul(1_000));
    (house, end)
}

/// The message for the user about files and folders that were not moved, deleted or restored. `done` is the word for the action, such as `deleted`.
pub(crate) fn all_done(done: &str, failed: &[FailedMember]) -> Result<(), Trouble> {
    const NAMED_MAX: usize = 5;
    if failed.is_empty() {
        return Ok(());
    }
    let names: Vec<String> =
        failed.iter().take(NAMED_MAX).map(|member| format!("`{}`", member.path)).collect();
    let more = if failed.len() > NAMED_MAX { " and others" } else { "" };
    Err(said(format!(
        "{}{more} could not be {done}. The rest may be {done} already: look at the folder.",
        names.join(", ")
    )))
}
