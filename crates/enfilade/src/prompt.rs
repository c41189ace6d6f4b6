//! Reads secrets from the terminal, which does not show them, or from standard input.

use anyhow::{Context, bail};
use enfilade_facts::vocabulary::Secret;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use std::io::{BufRead as _, IsTerminal as _, Read as _, Write as _, stdin};

/// A new password: from the first line of standard input with `--password-stdin`, else from the terminal, typed twice.
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

/// A secret from the first line of standard input.
pub(crate) fn from_stdin() -> anyhow::Result<Secret> {
    let mut line = String::new();
    // The limit is above the longest secret, so that a longer line is refused and not truncated to a valid secret.
    stdin()
        .lock()
        .take(1024)
        .read_line(&mut line)
        .context("the password or passphrase cannot be read from standard input")?;
    let password = line.strip_suffix('\n').unwrap_or(&line);
    let password = password.strip_suffix('\r').unwrap_or(password);
    Secret::new(password.as_bytes())
        .context("the password or passphrase is empty, longer than 511 bytes, or contains a NUL byte")
}

/// The former settings of the terminal. They are restored when this value is dropped.
struct Hidden(Termios);

impl Drop for Hidden {
    fn drop(&mut self) {
        let _ = tcsetattr(stdin(), OptionalActions::Flush, &self.0);
    }
}

/// Asks on standard error, and reads a line from the terminal at standard input, which does not show the typed text.
pub(crate) fn hidden(question: &str) -> anyhow::Result<Secret> {
    let before = tcgetattr(stdin()).context(
        "standard input is not a terminal; --passphrase-stdin reads the passphrase from the first line of standard input",
    )?;
    let mut silent = before.clone();
    silent.local_modes.remove(LocalModes::ECHO);
    let _before = Hidden(before);
    tcsetattr(stdin(), OptionalActions::Flush, &silent)
        .context("the terminal cannot be set to hide what is typed")?;
    let mut stderr = std::io::stderr();
    let _ = write!(stderr, "{question}").and_then(|()| stderr.flush());
    let read = from_stdin();
    let _ = writeln!(stderr);
    read
}
