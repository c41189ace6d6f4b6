//! The clocks that the benchmarks read: of time, and of the CPU of processes and threads. `facts/seen.rs` reads a clock that two processes share.

use crate::Failure;
use crate::samples::Samples;
use nix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

/// The present moment.
#[expect(clippy::disallowed_methods, reason = "this is the stopwatch")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Sleeps for at least the time `at_least`, even if the thread wakes up early.
pub(crate) fn pause(at_least: Duration) {
    let began = now();
    while began.elapsed() < at_least {
        std::thread::park_timeout(at_least);
    }
}

/// The CPU that this thread has used so far, in nanoseconds.
pub(crate) fn thread_nanos() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    now.tv_sec as f64 * 1e9 + now.tv_nsec as f64
}

/// The largest possible process id on Linux.
const PROCESS_MAX: i32 = 1 << 22;

/// The CPU that a process has used so far, in nanoseconds. The clock of the process includes the CPU of threads that have ended.
pub(crate) fn cpu_nanos(process: u32) -> Result<f64, Failure> {
    // The clock id is computed as clock_getcpuclockid(3) does. If there is no such process, the kernel refuses the id. If the process id is out of
    // range, the computed id would be the id of another kind of clock.
    let process = i32::try_from(process).ok().filter(|process| (1..=PROCESS_MAX).contains(process));
    let process = process.ok_or("expected a process id")?;
    let spent = clock_gettime(ClockId::from_raw(!process << 3 | 2))
        .map_err(|why| format!("the CPU of process {process}: {why}"))?;
    Ok(spent.tv_sec() as f64 * 1e9 + spent.tv_nsec() as f64)
}

/// The CPU that the ended and reaped children of a process have used, in nanoseconds. The kernel reports this time in hundredths of a second.
pub(crate) fn cpu_nanos_of_ended_children(process: u32) -> Result<f64, Failure> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The process name in the line may contain any bytes, and ends with the last `)`. User and system time are fields 16 and 17 of the line.
    let (_, fields) = stat.rsplit_once(')').ok_or("`/proc/PID/stat` has no fields")?;
    let ticks: Vec<f64> =
        fields.split_whitespace().skip(13).take(2).map(str::parse).collect::<Result<_, _>>()?;
    Ok(ticks.iter().sum::<f64>() * 1e7)
}

/// The children of a process.
pub(crate) fn children(parent: u32) -> Vec<u32> {
    let path = format!("/proc/{parent}/task/{parent}/children");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().filter_map(|child| child.parse().ok()).collect()
}

/// The CPU that the living threads with this name in a process have used so far, in nanoseconds. The CPU of threads that have ended is not included.
pub(crate) fn cpu_nanos_of_threads(process: u32, name: &str) -> Result<f64, Failure> {
    let mut spent = 0.0;
    for task in std::fs::read_dir(format!("/proc/{process}/task"))?.flatten() {
        let read = |file: &str| std::fs::read_to_string(task.path().join(file)).unwrap_or_default();
        if read("comm").trim() == name {
            spent += read("schedstat").split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0.0);
        }
    }
    Ok(spent)
}

/// Another process, ended when dropped.
pub(crate) struct Child(pub(crate) std::process::Child);

impl Child {
    pub(crate) fn start(command: &mut std::process::Command) -> std::io::Result<Self> {
        command.spawn().map(Child)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Calls `once` on several threads at the same time. Returns the elapsed nanoseconds divided by the number of calls of all threads.
pub(crate) fn shared(threads: usize, each: usize, once: impl Fn(usize) + Sync) -> f64 {
    let began = now();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let once = &once;
            scope.spawn(move || (0..each).for_each(|n| once(n + thread * 37)));
        }
    });
    began.elapsed().as_nanos() as f64 / (threads * each) as f64
}

/// The nanoseconds that one call of `once` takes. Each sample is the mean of a round of some milliseconds.
pub(crate) fn nanos(rounds: usize, mut once: impl FnMut()) -> Samples {
    let mut times = 1_u32;
    while elapsed(times, &mut once) < Duration::from_millis(5) {
        times = times.saturating_mul(2);
    }
    let mut samples = Samples::default();
    for _ in 0..rounds {
        samples.push(elapsed(times, &mut once).as_nanos() as f64 / f64::from(times));
    }
    samples
}

fn elapsed(times: u32, once: &mut impl FnMut()) -> Duration {
    let began = now();
    (0..times).for_each(|_| once());
    began.elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn busy(at_least: Duration) {
        let began = now();
        while began.elapsed() < at_least {
            std::hint::black_box((0..1_000_u64).fold(0, |sum: u64, n| sum ^ n));
        }
    }

    #[test]
    fn the_cpu_of_a_thread_that_ended_is_counted() {
        let own = std::process::id();
        let before = cpu_nanos(own).unwrap();
        std::thread::Builder::new()
            .name("ends".to_owned())
            .spawn(|| busy(Duration::from_millis(60)))
            .unwrap()
            .join()
            .unwrap();
        let spent = cpu_nanos(own).unwrap() - before;
        assert!(spent > 20e6, "{spent} ns");
        assert_eq!(cpu_nanos_of_threads(own, "ends").unwrap(), 0.0);
    }

    #[test]
    fn a_process_that_is_not_there_has_no_cpu() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        assert!(cpu_nanos(child.id()).is_err());
        assert!(cpu_nanos(u32::MAX).is_err() && cpu_nanos(i32::MAX as u32).is_err() && cpu_nanos(0).is_err());
        assert!(cpu_nanos_of_ended_children(std::process::id()).is_ok());
    }
}
