//! Decides which of two threads continues. Each thread stops at every system call. At a call that reaches files, the scheduler may switch to the
//! other thread.

use crate::world::Dice;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::time::{Duration, Instant};

/// Statistics of the runs.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    pub(crate) runs: u64,
    /// The number of system calls that reach files.
    pub(crate) of_files: u64,
    /// How often the scheduler switched to the other actor at one of these calls.
    pub(crate) switches: u64,
    /// Whether the worker ended with the exit status 0.
    pub(crate) is_well: bool,
}

#[cfg(target_arch = "x86_64")]
mod calls {
    pub(super) const FUTEX: u64 = 202;
    /// renameat and renameat2.
    pub(super) const RENAMES: [u64; 2] = [264, 316];
    /// getppid: an actor calls it between two acts.
    pub(super) const BETWEEN_ACTS: u64 = 110;
    /// Every system call by which the server reaches files: openat2, statx, getdents64, mkdirat, unlinkat, linkat, renameat, renameat2,
    /// fsync, fdatasync, write, pwrite64, copy_file_range, fsetxattr, fremovexattr, fchmod, fchown.
    pub(super) const OF_FILES: [u64; 17] =
        [437, 332, 217, 258, 263, 265, 264, 316, 74, 75, 1, 18, 326, 190, 199, 91, 93];
}
#[cfg(target_arch = "aarch64")]
mod calls {
    pub(super) const FUTEX: u64 = 98;
    pub(super) const RENAMES: [u64; 2] = [38, 276];
    pub(super) const BETWEEN_ACTS: u64 = 173;
    pub(super) const OF_FILES: [u64; 17] =
        [437, 291, 61, 34, 35, 37, 38, 276, 82, 83, 64, 68, 285, 7, 16, 52, 55];
}

/// The number of a system call that begins, and its second argument; `None` at the end of a call.
#[cfg(target_arch = "x86_64")]
fn beginning(thread: Pid) -> Option<(u64, u64)> {
    let registers = ptrace::getregs(thread).ok()?;
    // Before a call is executed, the register for the result of the call contains -ENOSYS.
    let begins = registers.rax.cast_signed() == -38;
    begins.then_some((registers.orig_rax, registers.rsi))
}

#[cfg(target_arch = "aarch64")]
fn beginning(thread: Pid) -> Option<(u64, u64)> {
    let registers = ptrace::getregset::<ptrace::regset::NT_PRSTATUS>(thread).ok()?;
    (registers.regs[7] == 0).then_some((registers.regs[8], registers.regs[1]))
}

/// The state of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The thread is stopped, and may continue.
    Ready,
    /// The thread is stopped at a call that waits for another thread.
    Waits,
    /// The thread is blocked in the kernel.
    Away,
    Ended,
}

/// When the scheduler switches to the other thread in one run.
enum Plan {
    /// After `count` steps of thread `first`, the other thread runs to its end.
    WholeAfter { first: usize, count: usize },
    /// At each step, the scheduler switches with the probability 1/N. The value is N.
    OneOf(usize),
    /// Thread `of` runs to its first step after a rename; then the other thread runs to its end. If `other_first` is a number, the other thread runs
    /// its first act earlier: before the rename, after this number of steps of thread `of`.
    AfterRename { of: usize, other_first: Option<usize> },
}

struct Run {
    threads: [(Pid, State); 2],
    plan: Plan,
    turn: usize,
    done: usize,
    /// For [`Plan::AfterRename`]: whether thread `of` has begun a rename.
    has_renamed: bool,
}

/// Waits until the worker has stopped itself, and schedules all of its runs.
pub(crate) fn run(worker: u32, seed: u64, runs: u64) -> Steps {
    let worker = Pid::from_raw(worker.cast_signed());
    until_stopped(worker);
    let options = Options::PTRACE_O_TRACECLONE | Options::PTRACE_O_TRACESYSGOOD | Options::PTRACE_O_EXITKILL;
    let own: Vec<Pid> = std::fs::read_dir(format!("/proc/{worker}/task"))
        .unwrap()
        .map(|entry| Pid::from_raw(entry.unwrap().file_name().to_str().unwrap().parse().unwrap()))
        .collect();
    own.iter().for_each(|thread| ptrace::seize(*thread, options).unwrap());
    nix::sys::signal::kill(worker, Signal::SIGCONT).unwrap();
    let mut steps = Steps::default();
    let mut met: Vec<Pid> = Vec::new();
    loop {
        let Ok(status) = waitpid(None::<Pid>, Some(WaitPidFlag::__WALL)) else { return steps };
        match status {
            WaitStatus::Exited(thread, code) if thread == worker => {
                steps.is_well = code == 0;
                return steps;
            }
            WaitStatus::Signaled(thread, ..) if thread == worker => return steps,
            WaitStatus::PtraceEvent(thread, _, event) => {
                let is_new = event == ptrace::Event::PTRACE_EVENT_STOP as i32 && !own.contains(&thread);
                if !is_new {
                    // A stop of another thread of the worker does not matter.
                    let _ = ptrace::cont(thread, None);
                    continue;
                }
                met.push(thread);
                if met.len() == 2 {
                    let mut dice = Dice::new(seed ^ 0x5eed, steps.runs);
                    let plan = match dice.below(5) {
                        0 => Plan::OneOf([2, 5, 20][dice.below(3)]),
                        1 => Plan::WholeAfter { first: dice.below(2), count: dice.below(20) },
                        2 => Plan::AfterRename { of: dice.below(2), other_first: None },
                        3 => Plan::AfterRename { of: 0, other_first: Some(dice.below(60)) },
                        _ => Plan::WholeAfter { first: 0, count: dice.below(120) },
                    };
                    let turn = match plan {
                        Plan::WholeAfter { first, .. } => first,
                        Plan::AfterRename { of, .. } => of,
                        Plan::OneOf(_) => 0,
                    };
                    let threads = [(met[0], State::Ready), (met[1], State::Ready)];
                    Run { threads, plan, turn, done: 0, has_renamed: false }.go(&mut dice, &mut steps);
                    met.clear();
                    steps.runs += 1;
                    let is_shown = steps.runs % 10_000 == 0;
                    if is_shown {
                        println!("{} of {runs} runs", steps.runs);
                    }
                }
            }
            WaitStatus::Stopped(thread, signal) => {
                let signal =
                    Some(signal).filter(|signal| !matches!(signal, Signal::SIGSTOP | Signal::SIGTRAP));
                let _ = ptrace::cont(thread, signal);
            }
            WaitStatus::PtraceSyscall(thread) => {
                let _ = ptrace::cont(thread, None);
            }
            _ => {}
        }
    }
}

fn until_stopped(worker: Pid) {
    for _ in 0..6000 {
        let stat = std::fs::read_to_string(format!("/proc/{worker}/status")).unwrap_or_default();
        if stat.lines().any(|line| line.starts_with("State:") && line.contains('T')) {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("the worker does not begin");
}

impl Run {
    fn go(mut self, dice: &mut Dice, steps: &mut Steps) {
        while self.threads.iter().any(|(_, state)| *state != State::Ended) {
            let other = 1 - self.turn;
            match (self.threads[self.turn].1, self.threads[other].1) {
                (State::Ready, _) => {}
                (_, State::Ready) => self.turn = other,
                // Neither thread can continue: they wait for each other, or for a third thread. A waiting thread checks again whether it can continue.
                _ => {
                    let waits = (0..2).find(|who| self.threads[*who].1 == State::Waits);
                    let Some(waits) = waits else {
                        self.poll();
                        continue;
                    };
                    self.turn = waits;
                }
            }
            self.step(dice, steps);
        }
    }

    /// Lets the current thread run to its next stop.
    fn step(&mut self, dice: &mut Dice, steps: &mut Steps) {
        let who = self.turn;
        let thread = self.threads[who].0;
        let _ = ptrace::syscall(thread, None);
        let began = Instant::now();
        let mut spins = 0_u32;
        loop {
            match waitpid(thread, Some(WaitPidFlag::__WALL | WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::StillAlive) => {}
                Ok(WaitStatus::Exited(..) | WaitStatus::Signaled(..)) | Err(_) => {
                    self.ended(who);
                    return;
                }
                Ok(WaitStatus::PtraceSyscall(_)) => break,
                // After any other stop or a signal the thread continues.
                Ok(_) => {
                    let _ = ptrace::syscall(thread, None);
                }
            }
            spins += 1;
            if spins > 200 {
                std::thread::yield_now();
            }
            if spins > 200 && began.elapsed() > Duration::from_millis(200) {
                self.threads[who].1 = State::Away;
                return;
            }
        }
        self.threads[who].1 = State::Ready;
        let Some((call, argument)) = beginning(thread) else { return };
        if call == calls::BETWEEN_ACTS {
            if let Plan::AfterRename { of, .. } = self.plan
                && who != of
                && self.threads[of].1 == State::Ready
            {
                self.turn = of;
            }
        } else if call == calls::FUTEX {
            match argument & 0x7f {
                // FUTEX_WAIT and FUTEX_WAIT_BITSET.
                0 | 9 => self.threads[who].1 = State::Waits,
                // FUTEX_WAKE: a waiting thread may check again after this call.
                1 => self.woken(1 - who),
                _ => {}
            }
        } else if calls::OF_FILES.contains(&call) {
            steps.of_files += 1;
            self.done += 1;
            let is_time = match &mut self.plan {
                Plan::AfterRename { of, .. } if who != *of => false,
                Plan::AfterRename { other_first, .. }
                    if other_first.is_some_and(|count| self.done > count) =>
                {
                    *other_first = None;
                    true
                }
                Plan::AfterRename { .. } if self.has_renamed => true,
                Plan::AfterRename { other_first, .. } => {
                    // A rename counts only after the other thread has done its first act.
                    self.has_renamed = other_first.is_none() && calls::RENAMES.contains(&call);
                    false
                }
                Plan::WholeAfter { first, count } => who == *first && self.done > *count,
                Plan::OneOf(n) => dice.below(*n) == 0,
            };
            if is_time && self.threads[1 - who].1 == State::Ready {
                self.turn = 1 - who;
                steps.switches += 1;
            }
        }
    }

    fn ended(&mut self, who: usize) {
        self.threads[who].1 = State::Ended;
        self.woken(1 - who);
    }

    fn woken(&mut self, who: usize) {
        if self.threads[who].1 == State::Waits {
            self.threads[who].1 = State::Ready;
        }
    }

    /// Checks whether a blocked thread has stopped or ended.
    fn poll(&mut self) {
        std::thread::sleep(Duration::from_millis(1));
        for who in 0..2 {
            if self.threads[who].1 != State::Away {
                continue;
            }
            match waitpid(self.threads[who].0, Some(WaitPidFlag::__WALL | WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::StillAlive) => {}
                Ok(WaitStatus::Exited(..) | WaitStatus::Signaled(..)) | Err(_) => self.ended(who),
                Ok(_) => self.threads[who].1 = State::Ready,
            }
        }
    }
}
