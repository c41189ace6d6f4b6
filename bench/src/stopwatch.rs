//! The only module of the benchmarks that reads a clock; and samples of measurements.

use std::time::{Duration, Instant};

/// The present moment.
#[expect(clippy::disallowed_methods, reason = "this is the stopwatch")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Sleeps at least this long, also if the thread wakes up early.
pub(crate) fn pause(at_least: Duration) {
    let began = now();
    while began.elapsed() < at_least {
        std::thread::park_timeout(at_least);
    }
}

/// The CPU that a process has used so far, including ended threads, in seconds.
pub(crate) fn cpu_seconds(process: &str) -> Option<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The process name in the line may contain any bytes, and ends with the last `)`. User and system time are fields 14 and 15 of the line, in
    // hundredths of a second.
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks = fields.split_whitespace().skip(11).take(2).map(|field| field.parse::<f64>().ok());
    Some(ticks.sum::<Option<f64>>()? / 100.0)
}

/// The CPU that the threads of a process have used so far, in nanoseconds; `counts` selects threads by name.
pub(crate) fn thread_nanos(process: u32, counts: impl Fn(&str) -> bool) -> f64 {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{process}/task")) else { return f64::NAN };
    let of_task = |task: &std::path::Path| {
        let name = std::fs::read_to_string(task.join("comm")).ok()?;
        let used = std::fs::read_to_string(task.join("schedstat")).ok()?;
        let used = used.split(' ').next()?.parse::<f64>().ok()?;
        counts(name.trim()).then_some(used)
    };
    tasks.flatten().filter_map(|task| of_task(&task.path())).sum()
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

/// The elapsed nanoseconds divided by the number of calls of all threads.
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

/// Repeated measurements of one quantity.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples(Vec<f64>);

impl Samples {
    pub(crate) fn push(&mut self, value: f64) {
        self.0.push(value);
    }

    pub(crate) fn extend(&mut self, other: &Samples) {
        self.0.extend(&other.0);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// A percentile.
    pub(crate) fn at(&self, hundredths: usize) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let index = (sorted.len().saturating_sub(1)) * hundredths / 100;
        sorted.get(index).copied().unwrap_or(f64::NAN)
    }

    /// The mean, and half of its 95 % confidence interval by Student's t for 15 samples.
    pub(crate) fn mean(&self) -> (f64, f64) {
        const T_14: f64 = 2.145;
        let count = self.0.len() as f64;
        let mean = self.0.iter().sum::<f64>() / count;
        let variance = self.0.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
        (mean, T_14 * (variance / count).sqrt())
    }

    /// Half of the interquartile range, relative to the median.
    pub(crate) fn spread(&self) -> f64 {
        (self.at(75) - self.at(25)) / 2.0 / self.at(50)
    }
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
