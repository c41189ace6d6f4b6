//! How long the doors needed for one request. Only requests with an exported trace are timed.

use enfilade_facts::Door;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The work of one door for one request. A request can ask a door several times.
#[derive(Clone, Copy, Debug)]
pub struct DoorTime {
    /// The door.
    pub door: Door,
    /// The time at which the door was asked first.
    pub began: Instant,
    /// The time of the door's last answer.
    pub ended: Instant,
    /// The sum of the times between question and answer.
    pub busy: Duration,
    /// How often the door was asked.
    pub asked: u32,
}

/// The times of all doors that one request has asked so far.
pub struct DoorTimes {
    clock: fn() -> Instant,
    doors: Mutex<Vec<DoorTime>>,
}

impl DoorTimes {
    /// Creates the times of a request that has not asked a door yet. `clock` reads the time.
    pub fn new(clock: fn() -> Instant) -> Self {
        DoorTimes { clock, doors: Mutex::default() }
    }

    /// Records that the request asked a door at the time `began`, and that the door answered at the time `ended`.
    pub fn add(&self, door: Door, began: Instant, ended: Instant) {
        let busy = ended.saturating_duration_since(began);
        let mut doors = self.doors.lock().unwrap_or_else(PoisonError::into_inner);
        match doors.iter_mut().find(|time| time.door == door) {
            Some(time) => {
                // Threads of one request can ask at the same time, so the questions do not arrive in order.
                time.began = time.began.min(began);
                time.ended = time.ended.max(ended);
                time.busy += busy;
                time.asked = time.asked.saturating_add(1);
            }
            None => doors.push(DoorTime { door, began, ended, busy, asked: 1 }),
        }
    }

    /// The doors that were asked, in the order of their first questions.
    pub fn all(&self) -> Vec<DoorTime> {
        self.doors.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Measures how long the doors take for a request, if the request is timed.
#[derive(Clone, Default)]
pub struct DoorTimer(Option<Arc<DoorTimes>>);

impl DoorTimer {
    /// Stores the measured times in `times`.
    pub fn of(times: &Arc<DoorTimes>) -> Self {
        DoorTimer(Some(Arc::clone(times)))
    }

    /// Asks a door, and measures how long the answer takes. If the request is not timed, no clock is read.
    #[inline]
    pub(crate) fn time<T>(&self, door: Door, ask: impl FnOnce() -> T) -> T {
        let Some(times) = &self.0 else { return ask() };
        let began = (times.clock)();
        let answer = ask();
        times.add(door, began, (times.clock)());
        answer
    }
}
