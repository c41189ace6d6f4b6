//! Reads secrets and answers to questions from standard input. A terminal does not show a secret while it is typed.

use anyhow::{Context, bail};
use enfilade_facts::vocabulary::Secret;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use std::io::{BufRead as _, IsTerminal as _, Read as _, Write as _, stdin};

/// Reads a new password. With `--password-stdin`, the password is the first line of standard input. Otherwise the user types it twice on the
/// terminal.
pub(crate) fn new_password(is_stdin: bool) -> anyhow::Result<Secret> {
    if is_stdin {
        return from_stdin();
    }
    if !stdin().is_terminal() {
        bail!(
            "standard input is not a terminal; --password-stdin reads the password from the first line of standard input"
        );
    }
    let first = hidden("new password: ")?;
    if first.reveal() != hidden("the same password again: ")?.reveal() {
        bail!("the two passwords differ; nothing was changed; run the command again");
    }
    Ok(first)
}

/// Reads a new password, which the user types twice on the terminal. Returns `None` if the user only presses Enter.
pub(crate) fn new_password_or_none(question: &str) -> anyhow::Result<Option<Secret>> {
    let first = silently(question, typed)?;
    if first.is_empty() {
        return Ok(None);
    }
    if first != silently("the same password again: ", typed)? {
        bail!("the two passwords differ; nothing was changed; run the command again");
    }
    secret(&first).map(Some)
}

/// Asks on standard error for a line from standard input. `default` is the answer if only Enter is typed; without a default, the question is
/// repeated.
pub(crate) fn answer(question: &str, default: Option<&str>) -> anyhow::Result<String> {
    let mut stderr = std::io::stderr();
    loop {
        let shown = default.map(|default| format!(" [{default}]")).unwrap_or_default();
        let _ = write!(stderr, "{question}{shown}: ").and_then(|()| stderr.flush());
        let said = typed()?;
        match (said.trim(), default) {
            ("", Some(default)) => return Ok(default.to_owned()),
            ("", None) => {}
            (said, _) => return Ok(said.to_owned()),
        }
    }
}

/// A secret from the first line of standard input.
pub(crate) fn from_stdin() -> anyhow::Result<Secret> {
    let line = line().context("the password or passphrase cannot be read from standard input")?;
    secret(&line.unwrap_or_default())
}

/// An answer from standard input.
fn typed() -> anyhow::Result<String> {
    let line = line().context("the answer cannot be read from standard input")?;
    line.context("standard input ended before the answer; nothing was changed")
}

/// A line of standard input, without its end; `None` at the end of the input.
fn line() -> std::io::Result<Option<String>> {
    let mut line = String::new();
    // The limit is larger than the longest secret. So a secret that was truncated at the limit is still too long, and is refused.
    let bytes = stdin().lock().take(1024).read_line(&mut line)?;
    let text = line.strip_suffix('\n').unwrap_or(&line);
    Ok((bytes > 0).then(|| text.strip_suffix('\r').unwrap_or(text).to_owned()))
}

fn secret(text: &str) -> anyhow::Result<Secret> {
    Secret::new(text.as_bytes())
        .context("the password or passphrase is empty, longer than 511 bytes, or contains a NUL byte")
}

/// The former settings of the terminal. They are restored when this value is dropped.
struct Hidden(Termios);

impl Drop for Hidden {
    fn drop(&mut self) {
        let _ = tcsetattr(stdin(), OptionalActions::Flush, &self.0);
    }
}

/// Asks on standard error, and reads a line from the terminal at standard input. The terminal does not show the typed text.
pub(crate) fn hidden(question: &str) -> anyhow::Result<Secret> {
    silently(question, from_stdin)
}

/// Asks on standard error, and reads the answer from the terminal. The terminal does not show the typed text.
fn silently<T>(question: &str, read: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    let before = tcgetattr(stdin()).context(
        "standard input is not a terminal; --passphrase-stdin reads the passphrase from the first line of standard input",
    )?;
    let mut silent = before.clone();
    silent.local_modes.remove(LocalModes::ECHO);
    let _before = Hidden(before);
    tcsetattr(stdin(), OptionalActions::Flush, &silent)
        .context("the terminal cannot be set to hide the typed text")?;
    let mut stderr = std::io::stderr();
    let _ = write!(stderr, "{question}").and_then(|()| stderr.flush());
    let read = read();
    let _ = writeln!(stderr);
    read
}
