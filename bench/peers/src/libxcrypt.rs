//! Slow hashes by libxcrypt, the library that Proxmox Backup Server calls. A call from Rust would need `unsafe`, so a process of perl calls the
//! library: perl's `crypt` is crypt(3). A process of perl answers over a pipe. The pipe costs some microseconds, and a hash takes milliseconds.

use crate::Failure;
use parking_lot::Mutex;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A setting with the method and the cost of new hashes in Proxmox Backup Server (`proxmox-sys/src/crypt.rs`: `$y$`, 5).
pub const SETTING: &str = "$y$j9T$LdJMENpBABJJ3hIHjB1Bi.$";

/// Whether perl is installed.
pub fn is_installed() -> bool {
    Command::new("perl").arg("-v").output().is_ok_and(|output| output.status.success())
}

/// Computes hashes for many threads at the same time. Each thread that computes a hash uses a separate process of perl, because in the original each
/// thread computes its hashes itself.
#[derive(Default)]
pub struct Libxcrypt {
    idle: Mutex<Vec<Worker>>,
    started: Mutex<Vec<u32>>,
}

struct Worker {
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    perl: Child,
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.perl.kill();
        let _ = self.perl.wait();
    }
}

impl Libxcrypt {
    /// The hash of a secret, as crypt(3) computes it.
    pub fn hash(&self, secret: &str, setting: &str) -> Result<String, Failure> {
        if secret.contains('\n') || setting.contains('\n') {
            return Err("libxcrypt: expected a secret and a setting of one line".into());
        }
        let idle = self.idle.lock().pop();
        let mut worker = idle.map_or_else(|| self.start(), Ok)?;
        let hash = worker.hash(secret, setting)?;
        self.idle.lock().push(worker);
        // A hash has at least 13 characters. A shorter answer, or an answer that begins with `*`, is an error of crypt(3).
        match hash.starts_with('*') || hash.len() < 13 {
            true => Err(format!("libxcrypt: no hash for the setting `{setting}`: `{hash}`").into()),
            false => Ok(hash),
        }
    }

    /// Starts processes, so that `threads` threads can hash at the same time without waiting for the start of a process.
    pub fn prepare(&self, threads: usize) -> Result<(), Failure> {
        let missing = threads.saturating_sub(self.idle.lock().len());
        for _ in 0..missing {
            let mut worker = self.start()?;
            worker.hash("a", "$5$rounds=1000$a$")?;
            self.idle.lock().push(worker);
        }
        Ok(())
    }

    /// The ids of all processes that were started. The CPU time of these processes is the CPU time of the hashes.
    pub fn processes(&self) -> Vec<u32> {
        self.started.lock().clone()
    }

    fn start(&self) -> Result<Worker, Failure> {
        let program = "$| = 1; while (defined(my $secret = <STDIN>)) { my $setting = <STDIN>; chomp($secret, $setting); \
                       print(crypt($secret, $setting) // '*', qq(\\n)) }";
        let mut perl = Command::new("perl");
        perl.args(["-e", program]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut perl = perl.spawn().map_err(|why| format!("perl, which hashes: {why}"))?;
        let pipes = perl.stdin.take().zip(perl.stdout.take());
        let (input, output) = pipes.ok_or("perl has no pipes")?;
        self.started.lock().push(perl.id());
        Ok(Worker { input, output: BufReader::new(output), perl })
    }
}

impl Worker {
    fn hash(&mut self, secret: &str, setting: &str) -> Result<String, Failure> {
        self.input.write_all(format!("{secret}\n{setting}\n").as_bytes())?;
        let mut line = String::new();
        match self.output.read_line(&mut line)? {
            0 => Err("libxcrypt: perl ended".into()),
            _ => Ok(line.trim_end().to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_of_threads_at_once_are_those_of_crypt() {
        if !is_installed() {
            return;
        }
        let library = Libxcrypt::default();
        library.prepare(2).unwrap();
        // `openssl passwd -5` computes the same hash.
        let (setting, hash) = ("$5$saltstring", "$5$saltstring$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| assert_eq!(library.hash("Hello world!", setting).unwrap(), hash));
            }
        });
        assert!(library.hash("a", "$no$").unwrap_err().to_string().contains("no hash"));
        assert!(library.hash("a\nb", setting).is_err());
        assert!(library.processes().len() >= 2);
    }
}
