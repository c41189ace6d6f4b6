//! The file `lookout`, which all processes of the machine share. The file identifies the mirror leader: the process that reads the mirrored files.
//! The file also contains the time of the leader's last look.
//!
//! The file contains these fields. Times are in milliseconds since the machine started:
//!
//! ```text
//! magic 8 | random number of the leader u64 | time of the last look u64 | time at which the process became the leader u64
//! ```
//! Only one process is the leader. If the leader has not made a look for three seconds, because it ended or was stopped, another process becomes the
//! leader. If the stopped process continues later, it finds the new leader in the file `lookout` before its next look. If the process was stopped
//! during a look, the new leader may have changed the record of the same file since then. In this case the commit of the stopped process is refused.

use crate::shared_words::SharedWords;
use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;

const MAGIC: [u8; 8] = *b"enflook1";
const WHO: usize = 1;
const WHEN: usize = 2;
const SINCE: usize = 3;

/// If the leader has made no look for this number of milliseconds, another process can become the leader.
const SILENCE_MILLIS: u64 = 3_000;

/// A time in the file may be later than the current time of the caller, by at most this number of milliseconds. A small difference is possible
/// because another process may write the file after the caller has read the clock. A greater difference means that the time in the file is from
/// before the last start of the machine.
const LATE_MILLIS: u64 = 1_000;

/// The file `lookout`, as opened by one process.
pub struct MirrorLeader {
    words: SharedWords,
    me: u64,
}

impl MirrorLeader {
    /// Opens the file, or creates it.
    ///
    /// # Errors
    /// When the file cannot be opened or created.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut me = [0; 8];
        getrandom::fill(&mut me).map_err(|why| io::Error::other(why.to_string()))?;
        Ok(MirrorLeader { words: SharedWords::open(path, MAGIC)?, me: u64::from_ne_bytes(me).max(1) })
    }

    /// Whether this process is the mirror leader. If there is no leader, or the leader has made no look for three seconds, this process becomes the
    /// leader.
    pub fn is_mine(&self, tick_millis: u64) -> bool {
        let who = self.words.word(WHO).load(Ordering::Acquire);
        if who == self.me {
            return true;
        }
        let is_silent = |age: Option<u64>| age.is_none_or(|age| SILENCE_MILLIS < age);
        let since = self.age_of(SINCE, tick_millis);
        if who != 0 && !(is_silent(self.age_millis(tick_millis)) && is_silent(since)) {
            return false;
        }
        let place = self.words.word(WHO);
        let is_mine = place.compare_exchange(who, self.me, Ordering::AcqRel, Ordering::Acquire).is_ok();
        if is_mine {
            self.words.word(SINCE).store(tick_millis, Ordering::Release);
        }
        is_mine
    }

    /// Writes the start time of a completed look into the file, unless the file contains the later start time of another look. The arguments are the
    /// start time and the end time of the look, in milliseconds since the machine started.
    pub fn looked(&self, began_tick_millis: u64, ended_tick_millis: u64) {
        let when = self.words.word(WHEN);
        // The times are counted from the start of the machine. If the time in the file is later than now, it was written before the last start.
        let newer = |before: u64| {
            let is_newer = before < began_tick_millis || ended_tick_millis + LATE_MILLIS < before;
            is_newer.then_some(began_tick_millis)
        };
        let _ = when.fetch_update(Ordering::AcqRel, Ordering::Acquire, newer);
    }

    /// The time since the start of the last completed look, in milliseconds. `None` if no look was completed since the machine started.
    pub fn age_millis(&self, tick_millis: u64) -> Option<u64> {
        self.age_of(WHEN, tick_millis)
    }

    fn age_of(&self, word: usize, tick_millis: u64) -> Option<u64> {
        let when = self.words.word(word).load(Ordering::Acquire);
        let age = tick_millis.checked_sub(when).or((when <= tick_millis + LATE_MILLIS).then_some(0));
        age.filter(|_| when != 0)
    }
}

impl Drop for MirrorLeader {
    fn drop(&mut self) {
        let _ = self.words.word(WHO).compare_exchange(self.me, 0, Ordering::AcqRel, Ordering::Acquire);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn one_looks_and_another_takes_over_from_who_is_silent() {
        let scratch = Scratch::new();
        let open = || MirrorLeader::open(&scratch.path().join("lookout")).unwrap();
        let (one, other) = (open(), open());
        assert_eq!(one.age_millis(10), None);
        assert!(one.is_mine(10) && !other.is_mine(10));
        one.looked(10, 10);
        assert!(!other.is_mine(3_010));
        assert_eq!((other.age_millis(3_010), one.age_millis(5)), (Some(3_000), Some(0)));
        assert!(other.is_mine(3_011) && !one.is_mine(3_011));
        // When a slow look ends, its start time does not replace the later time of another look.
        other.looked(3_011, 3_011);
        one.looked(2_000, 3_012);
        assert_eq!(one.age_millis(3_012), Some(1));
        drop(other);
        assert!(one.is_mine(3_012));
    }

    #[test]
    fn what_an_earlier_run_of_the_machine_left_is_no_look() {
        let scratch = Scratch::new();
        let leader = MirrorLeader::open(&scratch.path().join("lookout")).unwrap();
        leader.looked(1_000_000, 1_000_000);
        assert_eq!(leader.age_millis(5_000), None);
        leader.looked(5_000, 5_000);
        assert_eq!(leader.age_millis(5_001), Some(1));
    }
}
