//! A session of Samba's client that stays open between two commands. Samba has a process for each session, and the CPU time of this process is read
//! while the process runs. So the cost of each command is measured. This measurement is more exact than the CPU time of ended processes, which the
//! kernel reports in hundredths of a second.

use super::User;
use super::samba::TIMEOUT_SECONDS;
use super::sides::Side;
use crate::Failure;
use crate::stopwatch::{Child, children, cpu_nanos, pause};
use enfilade_testkit::Samba;
use std::io::{Read as _, Write as _};
use std::process::Stdio;
use std::time::Duration;

/// The pause in which the process of an earlier session ends.
const BEFORE: Duration = Duration::from_millis(200);

/// A client in a directory of a share, logged in.
pub(super) struct Session {
    client: Child,
    /// Samba's first process, which accepts connections.
    first: u32,
    /// The CPU of the first process before the session, in nanoseconds.
    before: f64,
    /// The processes that Samba started for the session.
    serving: Vec<u32>,
}

impl Session {
    /// Connects and logs in, and waits until the client takes commands.
    pub(super) fn begin(
        samba: &Samba,
        (share, directory): (&str, &str),
        user: &User,
    ) -> Result<Self, Failure> {
        pause(BEFORE);
        let first = samba.process();
        let (known, before) = (children(first), cpu_nanos(first)?);
        let mut command = samba.client(&user.name);
        command.arg(format!("//127.0.0.1/{share}")).args(["-t", TIMEOUT_SECONDS, "-D", directory]);
        // Without these variables the client shows a prompt only on a terminal. The prompt shows that the answer is complete.
        command.env("CLI_FORCE_INTERACTIVE", "1").env("CLI_NO_READLINE", "1");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let client = Child::start(&mut command)?;
        let mut session = Session { client, first, before, serving: Vec::new() };
        session.answer()?;
        session.serving = children(first).into_iter().filter(|child| !known.contains(child)).collect();
        match session.serving.is_empty() {
            true => {
                Err("Samba started no process for the session; use a kernel with CONFIG_PROC_CHILDREN".into())
            }
            false => Ok(session),
        }
    }

    /// Runs a command of the client. Returns its output, with the prompt at the end.
    fn ask(&mut self, command: &str) -> Result<String, Failure> {
        let input = self.client.0.stdin.as_mut().ok_or("smbclient has no input")?;
        input.write_all(format!("{command}\n").as_bytes())?;
        input.flush()?;
        self.answer()
    }

    /// Reads until the prompt.
    fn answer(&mut self) -> Result<String, Failure> {
        let output = self.client.0.stdout.as_mut().ok_or("smbclient has no output")?;
        let (mut said, mut piece) = (Vec::new(), vec![0; 64 << 10]);
        loop {
            let count = output.read(&mut piece)?;
            said.extend_from_slice(piece.get(..count).unwrap_or_default());
            if ends_with_prompt(&said) {
                return Ok(String::from_utf8_lossy(&said).into_owned());
            }
            if count == 0 {
                return Err(format!("smbclient ended: {}", String::from_utf8_lossy(&said).trim_end()).into());
            }
        }
    }
}

impl Side for Session {
    fn list(&mut self) -> Result<u64, Failure> {
        let said = self.ask("ls")?;
        // The names of all directories of the trees begin with `d`.
        Ok(said.lines().filter(|line| line.starts_with("  d")).count() as u64)
    }

    fn cpu_millis(&self) -> Result<f64, Failure> {
        let mut spent = cpu_nanos(self.first)? - self.before;
        for process in &self.serving {
            spent += cpu_nanos(*process)?;
        }
        Ok(spent / 1e6)
    }
}

/// Whether the last line is the prompt of smbclient, such as `smb: \directory\> `.
fn ends_with_prompt(said: &[u8]) -> bool {
    let last = said.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
    last.starts_with(b"smb: \\") && last.ends_with(b"> ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prompt_is_the_last_line() {
        for said in ["smb: \\> ", "  d00000  D  0  Thu\n\t\t9 blocks\nsmb: \\largedir_1000\\> "] {
            assert!(ends_with_prompt(said.as_bytes()), "{said}");
        }
        for said in ["", "smb: \\> \n", "smb: \\large", "  d> ", "Try \"help\" to get a list\n"] {
            assert!(!ends_with_prompt(said.as_bytes()), "{said}");
        }
    }
}
