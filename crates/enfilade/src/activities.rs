//! Locks users after failed logins, and records when users log in.

use crate::home::{Home, server_change_context};
use crate::{clock, output};
use enfilade_admin::{ChangeContext, PasswordRules, lock_user, note_logins, settle_activities};
use enfilade_facts::Clocks;
use enfilade_facts::Source;
use enfilade_facts::vocabulary::UserId;
use enfilade_passage::{Accounts, ReservedPaths};
use enfilade_sources::files::file_set::FileSet;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

/// The interval at which the records of last logins and locks are adapted to the configuration. In the same step, if users can become inactive, each
/// user without such a record gets one.
const EVERY: Duration = Duration::from_secs(3_600);
/// The maximum number of logins that wait in the queue to be recorded.
const QUEUE: usize = 1_024;

/// The state that is needed to lock users and to record logins: the facts, and the rules for passwords.
#[derive(Clone)]
struct Activities {
    source: Arc<dyn Source>,
    files: FileSet,
    reserved: Arc<ReservedPaths>,
    rules: PasswordRules,
}

/// Starts the thread that records logins. Returns the [`Accounts`] with which the server counts failed logins, and with which it reports successful
/// logins to the thread.
pub(crate) fn follow(home: &Home) -> anyhow::Result<Accounts> {
    let activities = Activities {
        source: Arc::clone(&home.facts.source),
        files: home.files.clone(),
        reserved: Arc::clone(&home.reserved),
        rules: home.passwords.clone(),
    };
    let (logins, queue) = sync_channel(QUEUE);
    // If users do not become inactive, no login needs to be recorded, so the sender of the queue is dropped. Then the thread adapts the records once
    // and ends.
    let logins = (home.passwords.inactive_days != 0).then_some(logins);
    let writer = activities.clone();
    std::thread::Builder::new().name("logins".into()).spawn(move || writer.write(&queue))?;
    let failures_max = home.passwords.lockout_failures;
    let lock = move |now, user: &UserId| {
        let locked = activities.at(now, |ctx| lock_user(ctx, user));
        locked
            .inspect_err(|why| {
                output::note(&format!(
                    "warning: after too many failed logins, the user with id {user} could not be locked: {why}"
                ));
            })
            .is_ok()
    };
    Ok(Accounts::new(failures_max, Arc::new(lock), logins))
}

impl Activities {
    fn at<R>(&self, now: Clocks, change: impl FnOnce(&ChangeContext<'_>) -> R) -> R {
        let server = server_change_context(&*self.source, &self.files, &self.reserved, now);
        change(&ChangeContext { passwords: &self.rules, ..server })
    }

    /// Now and every hour, adapts the records of the users' activity to the configuration. Between these times, writes the logins of the users in the
    /// queue to these records.
    fn write(&self, queue: &Receiver<UserId>) {
        loop {
            let began = clock::now();
            // Only the first failure of each hour is logged, because a warning for every login would fill the log.
            let mut is_told = false;
            let mut told = |done: Result<(), enfilade_admin::Error>| {
                if let Err(why) = done
                    && !std::mem::replace(&mut is_told, true)
                {
                    output::note(&format!(
                        "warning: the times of logins, which decide when a user becomes inactive, cannot be recorded: {why}"
                    ));
                }
            };
            told(self.at(began, settle_activities));
            loop {
                let passed = clock::now().tick_millis.saturating_sub(began.tick_millis);
                let left = EVERY.saturating_sub(Duration::from_millis(passed));
                match queue.recv_timeout(left) {
                    Ok(first) => {
                        let users: Vec<UserId> =
                            std::iter::once(first).chain(queue.try_iter().take(QUEUE)).collect();
                        told(self.at(clock::now(), |ctx| note_logins(ctx, &users)));
                    }
                    Err(RecvTimeoutError::Timeout) => break,
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
        }
    }
}
