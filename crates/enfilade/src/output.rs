//! The output of commands: aligned tables, or JSON.

#![expect(clippy::print_stderr, reason = "this module prints the messages of commands")]

use enfilade_facts::vocabulary::visible_lines;
use rustix::fd::AsFd;
use rustix::fs::{FileType, OFlags, fcntl_getfl, fstat, major, minor};
use serde_json::{Value, json};
use std::io::{ErrorKind, Write};
use std::sync::OnceLock;

/// The first error of a write to standard output.
static LOST: OnceLock<String> = OnceLock::new();

/// Prints a line to standard output. Control characters and invisible characters of names are escaped.
pub(crate) fn line(text: &str) {
    raw_line(&visible_lines(text));
}

fn raw_line(text: &str) {
    if let Some(why) = write_to(&mut std::io::stdout(), text) {
        let _ = LOST.set(why);
    }
}

/// Writes a line. Returns the reason if the write failed. A closed pipe (`| head`) is not an error.
fn write_to(out: &mut impl Write, text: &str) -> Option<String> {
    let why = writeln!(out, "{text}").and_then(|()| out.flush()).err()?;
    (why.kind() != ErrorKind::BrokenPipe).then(|| why.to_string())
}

/// The error that a write to standard output failed, if a line of the output was lost.
pub(crate) fn lost() -> Option<anyhow::Error> {
    LOST.get().map(|why| {
        anyhow::anyhow!(
            "standard output cannot be written, so the output is not complete: {why}. The changes that the command made stay in effect (see `enfilade \
             facts log`). A secret that was not shown is lost: make another secret"
        )
    })
}

/// Prints a help text, the version or a usage error, and ends the process. It is an error if a help text cannot be written, unless the reader has
/// closed the pipe (`| head`).
pub(crate) fn end(said: &clap::Error) -> ! {
    let printed = said.print().and_then(|()| std::io::stdout().flush());
    match printed {
        Err(why) if !said.use_stderr() && why.kind() != ErrorKind::BrokenPipe => {
            let why =
                anyhow::anyhow!("standard output cannot be written, so the text is not complete: {why}");
            error(false, &why);
            std::process::exit(1)
        }
        _ => std::process::exit(said.exit_code()),
    }
}

/// The reason why text that is written to standard output would be lost.
pub(crate) const UNSEEN: &str =
    "standard output is closed, or it is connected to /dev/null both for reading and for writing";

/// Refuses to make a secret if text on standard output is lost. The reason: the secret would be lost at once.
pub(crate) fn require_for_secret() -> anyhow::Result<()> {
    anyhow::ensure!(
        can_be_seen(std::io::stdout()),
        "{UNSEEN}, so nobody would see the new secret; nothing was changed; run the command again with standard output open, for example redirected to a file"
    );
    Ok(())
}

/// Whether somebody can see text that is written to standard output. If standard output is closed, Rust opens `/dev/null` for reading and writing in
/// its place. With `> /dev/null`, a shell opens `/dev/null` only for writing. Then the caller chose to discard the output, and the result is `true`.
pub(crate) fn can_be_seen(out: impl AsFd) -> bool {
    const NULL: (u32, u32) = (1, 3);
    let Ok(flags) = fcntl_getfl(&out) else { return false };
    match flags & OFlags::RWMODE {
        OFlags::WRONLY => true,
        OFlags::RDWR => fstat(&out).is_ok_and(|stat| {
            let is_device = FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice;
            !is_device || (major(stat.st_rdev), minor(stat.st_rdev)) != NULL
        }),
        _ => false,
    }
}

pub(crate) use crate::notes::{is_for_people, note};

/// Whether standard output and standard error are the same file, pipe or socket.
pub(crate) fn is_one_stream() -> bool {
    let identity = |stat: rustix::fs::Stat| (stat.st_dev, stat.st_ino);
    let [out, err] = [rustix::fs::fstat(std::io::stdout()), rustix::fs::fstat(std::io::stderr())];
    matches!((out, err), (Ok(out), Ok(err)) if identity(out) == identity(err))
}

/// Prints a JSON value on one line.
pub(crate) fn json_line(value: &Value) {
    raw_line(&value.to_string());
}

/// Prints the reason why the command failed to standard error.
pub(crate) fn error(json: bool, why: &anyhow::Error) {
    if json {
        eprintln!("{}", json!({ "error": { "message": format!("{why:#}") } }));
    } else {
        eprintln!("error: {}", visible_lines(&format!("{why:#}")));
    }
}

pub(crate) use enfilade_facts::vocabulary::{shell_word as word, to_rfc3339 as time};

/// Prints the JSON value or the text.
pub(crate) fn done(json: bool, value: &Value, text: &str) {
    if json { json_line(value) } else { line(text) }
}

/// Prints a table: a heading and rows. All of them have the same number of cells. A column is as wide as its widest cell. Names are escaped as in
/// [`line`].
pub(crate) fn table(heading: &[&str], rows: &[Vec<String>]) {
    let shown = |row: &Vec<String>| row.iter().map(|cell| visible_lines(cell).into_owned()).collect();
    let rows: Vec<Vec<String>> = rows.iter().map(shown).collect();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain(heading.get(column).map(|cell| cell.chars().count())).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..heading.len()).map(width).collect();
    let print = |cells: &mut dyn Iterator<Item = &str>| {
        let padded: Vec<String> = cells.zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        raw_line(padded.join("  ").trim_end());
    };
    print(&mut heading.iter().copied());
    for row in &rows {
        print(&mut row.iter().map(String::as_str));
    }
}

/// The maximum number of names in one sentence.
const NAMED_MAX: usize = 5;

/// A text with some of the names, such as `a, b and 7 more`.
pub(crate) fn some(names: &[&str]) -> String {
    let shown = names.iter().take(NAMED_MAX).copied().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMED_MAX) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// A number with the right form of its noun, such as `1 session` or `2 sessions`.
pub(crate) fn counted(count: usize, one: &str, several: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { several })
}

/// A size in units of 1024.
pub(crate) fn bytes(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["B", "KiB", "MiB", "GiB", "TiB"] {
        if value < 1024.0 {
            return if unit == "B" { format!("{bytes} B") } else { format!("{value:.1} {unit}") };
        }
        value /= 1024.0;
    }
    format!("{value:.1} PiB")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_an_error_and_a_closed_pipe_is_none() {
        let mut full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        assert!(write_to(&mut full, "text").unwrap().contains("No space left"));
        let (reader, mut closed) = std::io::pipe().unwrap();
        drop(reader);
        assert_eq!(write_to(&mut closed, "text"), None);
        assert_eq!(write_to(&mut Vec::new(), "text"), None);
    }

    #[test]
    fn a_closed_standard_output_is_told_from_one_that_nobody_reads() {
        let opened = |path: &str, reads, writes| {
            std::fs::OpenOptions::new().read(reads).write(writes).open(path).unwrap()
        };
        // If standard output is closed, Rust opens `/dev/null` in this way before `main`.
        assert!(!can_be_seen(opened("/dev/null", true, true)));
        assert!(!can_be_seen(opened("/dev/null", true, false)), "it cannot be written");
        assert!(can_be_seen(opened("/dev/null", false, true)), "as after `> /dev/null`");
        assert!(can_be_seen(opened("/dev/full", true, true)));
        assert!(can_be_seen(std::io::pipe().unwrap().1));
    }

    #[test]
    fn a_long_list_of_names_ends_with_a_number() {
        assert_eq!(some(&["a", "b"]), "a, b");
        assert_eq!(some(&["a", "b", "c", "d", "e", "f", "g"]), "a, b, c, d, e and 2 more");
    }
}
