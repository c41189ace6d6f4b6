//! Secrets from the terminal or from standard input.

use anyhow::{Context, bail};
use enfilade_facts::vocabulary::Secret;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use std::io::{BufRead as _, IsTerminal as _, Read as _, Stdin, Write as _, stdin};

/// A new password: from the first line of standard input with `--password-stdin`, else from the terminal, typed twice.
pub(crate) fn new_password(is_stdin: bool, option: &str) -> anyhow::Result<Secret> {
    if is_stdin {
        return from_stdin();
    }
    if !stdin().is_terminal() {
        bail!("standard input is not a terminal; to read the password from its first line give {option}");
    }
    let first = ask("new password: ")?;
    let second = ask("the same password again: ")?;
    if first.reveal() != second.reveal() {
        bail!("the two passwords differ; nothing was changed, run the command again");
    }
    Ok(first)
}

/// A secret from the first line of standard input.
pub(crate) fn from_stdin() -> anyhow::Result<Secret> {
    let mut line = String::new();
    // The limit is above the longest secret, so that a longer line is refused and not truncated to a valid secret.
    stdin().lock().take(1024).read_line(&mut line).context("the password cannot be read")?;
    secret(&line)
}

/// Asks on the terminal, which does not show the answer.
fn ask(question: &str) -> anyhow::Result<Secret> {
    let failed = "the password cannot be read from the terminal";
    let stdin = stdin();
    let mut error = std::io::stderr();
    write!(error, "{question}").and_then(|()| error.flush()).context(failed)?;
    let hidden = Hidden::start(&stdin).context(failed)?;
    let mut line = String::new();
    let read = stdin.lock().take(1024).read_line(&mut line);
    drop(hidden);
    let _ = writeln!(error);
    read.context(failed)?;
    secret(&line)
}

fn secret(line: &str) -> anyhow::Result<Secret> {
    let password = line.strip_suffix('\n').unwrap_or(line);
    let password = password.strip_suffix('\r').unwrap_or(password);
    Secret::new(password.as_bytes())
        .context("the password is empty, longer than 511 bytes or holds a NUL byte")
}

/// While it lives the terminal does not show what is typed (termios(3), ECHO).
struct Hidden<'s> {
    stdin: &'s Stdin,
    before: Termios,
}

impl<'s> Hidden<'s> {
    fn start(stdin: &'s Stdin) -> rustix::io::Result<Self> {
        let before = tcgetattr(stdin)?;
        let mut hidden = before.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        tcsetattr(stdin, OptionalActions::Flush, &hidden)?;
        Ok(Hidden { stdin, before })
    }
}

impl Drop for Hidden<'_> {
    fn drop(&mut self) {
        let _ = tcsetattr(self.stdin, OptionalActions::Flush, &self.before);
    }
}
