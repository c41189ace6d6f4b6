//! Asks for a secret on the terminal, without showing it.

use anyhow::Context;
use enfilade_facts::vocabulary::Secret;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use std::io::Write as _;

/// The terminal with its former settings, which it gets back when this is dropped.
struct Hidden(Termios);

impl Drop for Hidden {
    fn drop(&mut self) {
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Flush, &self.0);
    }
}

/// Asks on standard error, and reads a line from the terminal at standard input.
pub(crate) fn hidden(question: &str) -> anyhow::Result<Secret> {
    let before = tcgetattr(std::io::stdin()).context("standard input is not a terminal")?;
    let mut silent = before.clone();
    silent.local_modes.remove(LocalModes::ECHO);
    let _before = Hidden(before);
    tcsetattr(std::io::stdin(), OptionalActions::Flush, &silent).context("the terminal cannot be set")?;
    let mut stderr = std::io::stderr();
    let _ = write!(stderr, "{question}").and_then(|()| stderr.flush());
    let read = crate::command::password_from_stdin();
    let _ = writeln!(stderr);
    read
}
