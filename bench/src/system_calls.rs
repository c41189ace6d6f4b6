//! Counts the system calls of a part of a benchmark. The part runs in a separate process under strace.

use crate::Failure;
use std::path::Path;
use std::process::Command;

/// Whether strace is installed.
pub(crate) fn can_count() -> bool {
    Command::new("strace").arg("-V").output().is_ok()
}

/// Why system calls could not be counted.
pub(crate) const MISSING: &str = "strace is not installed (`apt-get install strace`)";

/// A kind of system call: how its name begins, and a text that its arguments contain.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    pub(crate) with: &'static str,
}

/// The number of system calls of one repetition. A short run is subtracted from a long run, so that the system calls at the start and the end of the
/// process do not count. `words` are the arguments of this program, without the number of repetitions.
pub(crate) fn of_one(words: [&str; 2]) -> Result<f64, Failure> {
    // The smallest of five counts, because the number of calls to start and end a process varies.
    let fewest = |times: u64| -> Result<f64, Failure> {
        (0..5).try_fold(f64::INFINITY, |least, _| Ok(least.min(counted(words, times)?)))
    };
    Ok((fewest(110)? - fewest(10)?) / 100.0)
}

/// Like [`of_one`], but counts only the system calls of these kinds. The long run has `more` repetitions more than the short run.
pub(crate) fn of_kinds(
    words: [&str; 2],
    more: u64,
    kinds: &[Kind],
    scratch: &Path,
) -> Result<Vec<f64>, Failure> {
    let (few, many) = (traced(words, 10, scratch)?, traced(words, 10 + more, scratch)?);
    let of = |text: &str, kind: &Kind| text.lines().filter(|line| is_of(kind, line)).count() as f64;
    Ok(kinds.iter().map(|kind| (of(&many, kind) - of(&few, kind)) / more as f64).collect())
}

/// Whether a line of strace is a call of this kind. A line begins with the number of the thread. If another thread makes a call before this call
/// returns, strace writes a second line for this call. The second line does not count.
fn is_of(kind: &Kind, line: &str) -> bool {
    let call = line.split_once(' ').map_or("", |(_, call)| call.trim_start());
    !call.starts_with("<...") && call.starts_with(kind.name) && call.contains(kind.with)
}

fn strace(options: &[&str], words: [&str; 2], times: u64) -> Result<Command, Failure> {
    let mut strace = Command::new("strace");
    strace.arg("-f").args(options).arg(std::env::current_exe()?).args(words).arg(times.to_string());
    Ok(strace)
}

fn counted(words: [&str; 2], times: u64) -> Result<f64, Failure> {
    let output = strace(&["-c", "-U", "calls"], words, times)?.output()?;
    let text = String::from_utf8_lossy(&output.stderr);
    let last = text.lines().rev().find_map(|line| line.split_whitespace().next()?.parse().ok());
    last.filter(|_| output.status.success()).ok_or_else(|| format!("strace counted nothing: {text}").into())
}

/// The lines of strace, with the path of each descriptor.
fn traced(words: [&str; 2], times: u64, scratch: &Path) -> Result<String, Failure> {
    let file = scratch.join("strace.txt");
    let to = file.to_str().ok_or("expected a path in UTF-8")?;
    let output = strace(&["-y", "-o", to], words, times)?.output()?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&std::fs::read(&file)?).into_owned()),
        false => Err(format!("strace: {}", String::from_utf8_lossy(&output.stderr)).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_recognised_by_name_and_arguments() {
        let is = |name, with, line| is_of(&Kind { name, with }, line);
        let open = r#"3650  openat(AT_FDCWD</tmp>, "/etc/passwd", O_RDONLY|O_CLOEXEC) = 3</etc/passwd>"#;
        assert!(is("openat", "/etc/passwd", open) && is("", "passwd", open));
        assert!(!is("openat", "/etc/group", open) && !is("open_tree", "", open));
        assert!(is("flock", "", "12 flock(3</run/lock>, LOCK_EX <unfinished ...>"));
        assert!(!is("flock", "", "12 <... flock resumed>) = 0"));
        assert!(!is("", "passwd", "12 <... openat resumed>) = 3</etc/passwd>"));
    }
}
