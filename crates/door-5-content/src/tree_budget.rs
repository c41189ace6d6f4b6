//! Limits the work of a request on directory trees: the number of entries, and the time. The work also ends when the client has disconnected.

use crate::refuse::Refusal;
use std::cell::Cell;
use std::fmt;

/// The maximum number of entries of directory trees that a request may process, and the maximum time for this work.
pub struct TreeBudget<'b> {
    entries: u64,
    entries_left: Cell<u64>,
    until_millis: u64,
    tick_millis: Box<dyn Fn() -> u64 + 'b>,
    keep_going: &'b dyn Fn() -> bool,
}

impl<'b> TreeBudget<'b> {
    /// A budget of `entries` entries, and of `seconds` seconds from now on. `tick_millis` is a clock in milliseconds. `keep_going` says whether a
    /// client still waits for the result.
    pub fn new(
        entries: u64,
        seconds: u64,
        tick_millis: impl Fn() -> u64 + 'b,
        keep_going: &'b dyn Fn() -> bool,
    ) -> Self {
        let until_millis = tick_millis().saturating_add(seconds.saturating_mul(1000));
        let (entries_left, tick_millis) = (Cell::new(entries), Box::new(tick_millis));
        TreeBudget { entries, entries_left, until_millis, tick_millis, keep_going }
    }

    /// A budget without limits, for the operator and for the server's own tasks.
    pub fn unlimited() -> Self {
        TreeBudget::new(u64::MAX, 0, || 0, &|| true)
    }

    /// Allows the same number of entries again, for a second pass over the same members. The time limit does not change.
    pub fn renew(&self) {
        self.entries_left.set(self.entries);
    }

    /// Counts a member that the caller may see. Hidden members are not counted, because their count would reveal them. Only the time limit bounds how
    /// many hidden members are examined.
    ///
    /// # Refuses
    /// [`Refusal::TooMuch`].
    pub fn count(&self) -> Result<(), Refusal> {
        let too_many = Refusal::TooMuch("the tree has more entries than the limit `tree_entries`");
        self.entries_left.set(self.entries_left.get().checked_sub(1).ok_or(too_many)?);
        Ok(())
    }

    /// Checks that time is left, and that the client still waits for the result.
    ///
    /// # Refuses
    /// [`Refusal::TooMuch`].
    pub fn check(&self) -> Result<(), Refusal> {
        if !(self.keep_going)() {
            return Err(Refusal::TooMuch("the client disconnected"));
        }
        if (self.tick_millis)() > self.until_millis {
            return Err(Refusal::TooMuch("the request takes longer than the limit `tree_seconds`"));
        }
        Ok(())
    }
}

impl fmt::Debug for TreeBudget<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TreeBudget").field("entries_left", &self.entries_left).finish_non_exhaustive()
    }
}
