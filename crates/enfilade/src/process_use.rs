//! Reads from the kernel which resources this process uses: processor time, memory, descriptors.

use crate::clock;
use enfilade_faces::{Faces, ProcessUse};
use rustix::process::{Resource, getrlimit};
use std::fs::read_to_string;
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

/// The number of ticks in a second, in `/proc/self/stat`. Linux reports 100 ticks per second to all programs.
const TICKS: u64 = 100;

/// Starts a thread that keeps the main figures of each minute, for the page "Health" of the console. `connections` returns the number of open
/// connections.
pub(crate) fn follow(faces: &Faces, connections: impl Fn() -> u64 + Send + 'static) -> anyhow::Result<()> {
    let faces = faces.clone();
    std::thread::Builder::new().name("minutes".into()).spawn(move || {
        loop {
            faces.metrics().set_process(read());
            faces.metrics().set_connections(connections());
            faces.metrics().end_minute(clock::now().unix_seconds);
            std::thread::park_timeout(MINUTE);
        }
    })?;
    Ok(())
}

/// Reads `/proc`. A value that cannot be read is 0.
pub(crate) fn read() -> ProcessUse {
    let stat = read_to_string("/proc/self/stat").unwrap_or_default();
    // The name of the program, in brackets, may contain blanks.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let millis = |at: usize| {
        let ticks = fields.split_ascii_whitespace().nth(at).and_then(|ticks| ticks.parse::<u64>().ok());
        ticks.unwrap_or(0).saturating_mul(1_000 / TICKS)
    };
    let resident = number("/proc/self/status", "VmRSS:").saturating_mul(1_024);
    let booted = number("/proc/stat", "btime").saturating_mul(1_000);
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    ProcessUse {
        // The fields 14, 15 and 22 of proc_pid_stat(5) are read. `fields` begins with field 3, so their indexes are 11, 12 and 19.
        cpu_millis: millis(11).saturating_add(millis(12)),
        resident_bytes: resident,
        open_fds: u64::try_from(open).unwrap_or(0),
        max_fds: getrlimit(Resource::Nofile).current.unwrap_or(0),
        started_millis: booted.saturating_add(millis(19)),
    }
}

/// The number after `word`. `word` must be at the beginning of a line.
fn number(file: &str, word: &str) -> u64 {
    let text = read_to_string(file).unwrap_or_default();
    let rest = text.lines().find_map(|line| line.strip_prefix(word));
    rest.and_then(|rest| rest.split_ascii_whitespace().next()?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_knows_this_process() {
        let ProcessUse { resident_bytes, open_fds, max_fds, started_millis, .. } = read();
        assert!((1 << 20..1 << 40).contains(&resident_bytes), "{resident_bytes}");
        assert!((3..=max_fds).contains(&open_fds), "{open_fds} of {max_fds}");
        let now = u64::try_from(crate::clock::now().unix_seconds).unwrap() * 1_000;
        assert!((now - 3_600_000..=now + 2_000).contains(&started_millis), "{started_millis}");
    }
}
