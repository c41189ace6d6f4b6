//! Slow hashes by libxcrypt, the library that Proxmox Backup Server calls. A call from Rust would need `unsafe`, so perl calls it: perl's `crypt` is
//! crypt(3). A process of perl answers over a pipe, which takes some microseconds of the milliseconds of a hash.

use crate::Failure;
use crate::samples::Samples;
use crate::stopwatch::{Child, cpu_nanos};
use parking_lot::Mutex;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

/// A setting with the method and the cost of new hashes in Proxmox Backup Server (`proxmox-sys/src/crypt.rs`: `$y$`, 5).
pub(crate) const SETTING: &str = "$y$j9T$LdJMENpBABJJ3hIHjB1Bi.$";

/// Whether perl is installed.
pub(crate) fn is_installed() -> bool {
    Command::new("perl").arg("-v").output().is_ok_and(|output| output.status.success())
}

/// Hashes for many threads at once. Each has a process for the time of its hash, as each thread of the original hashes by itself.
#[derive(Default)]
pub(crate) struct Libxcrypt {
    idle: Mutex<Vec<Worker>>,
    started: Mutex<Vec<u32>>,
}

struct Worker {
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    _perl: Child,
}

impl Libxcrypt {
    /// The hash of a secret, as crypt(3) gives it.
    pub(crate) fn hash(&self, secret: &str, setting: &str) -> Result<String, Failure> {
        if secret.contains('\n') || setting.contains('\n') {
            return Err("libxcrypt: expected a secret and a setting of one line".into());
        }
        let idle = self.idle.lock().pop();
        let mut worker = idle.map_or_else(|| self.start(), Ok)?;
        let hash = worker.hash(secret, setting)?;
        self.idle.lock().push(worker);
        // A shorter answer, or one that begins with `*`, is an error of crypt(3).
        match hash.starts_with('*') || hash.len() < 13 {
            true => Err(format!("libxcrypt: no hash for the setting `{setting}`: `{hash}`").into()),
            false => Ok(hash),
        }
    }

    /// Starts processes, so that this many threads can hash at once without waiting for a start.
    pub(crate) fn prepare(&self, threads: usize) -> Result<(), Failure> {
        let missing = threads.saturating_sub(self.idle.lock().len());
        for _ in 0..missing {
            let mut worker = self.start()?;
            worker.hash("a", "$5$rounds=1000$a$")?;
            self.idle.lock().push(worker);
        }
        Ok(())
    }

    /// The CPU that the processes have used so far, in nanoseconds.
    pub(crate) fn cpu_nanos(&self) -> Result<f64, Failure> {
        self.started.lock().iter().map(|process| cpu_nanos(*process)).sum()
    }

    fn start(&self) -> Result<Worker, Failure> {
        let program = "$| = 1; while (defined(my $secret = <STDIN>)) { my $setting = <STDIN>; chomp($secret, $setting); \
                       print(crypt($secret, $setting) // '*', qq(\\n)) }";
        let mut perl = Command::new("perl");
        perl.args(["-e", program]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut perl = Child::start(&mut perl).map_err(|why| format!("perl, which hashes: {why}"))?;
        let pipes = perl.0.stdin.take().zip(perl.0.stdout.take());
        let (input, output) = pipes.ok_or("perl has no pipes")?;
        self.started.lock().push(perl.0.id());
        Ok(Worker { input, output: BufReader::new(output), _perl: perl })
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

/// The time of each of these hashes, in milliseconds. The hashes are measured in turns, so that noise of the machine affects all of them.
pub(crate) fn milliseconds<const N: usize>(
    hashes: [(&str, &str); N],
    times: usize,
) -> Result<[Samples; N], Failure> {
    let program = "use Time::HiRes 'time'; my $times = shift; for (1..$times) { for (my $i = 0; $i < @ARGV; $i += 2) { \
                   my $t = time; crypt($ARGV[$i], $ARGV[$i + 1]); printf qq(%.9f\n), (time - $t) * 1e3 } }";
    let arguments = hashes.iter().flat_map(|(secret, setting)| [*secret, *setting]);
    let output = Command::new("perl").args(["-e", program, &times.to_string()]).args(arguments).output()?;
    let mut samples = std::array::from_fn(|_| Samples::default());
    let text = String::from_utf8(output.stdout)?;
    for (line, turn) in text.lines().zip((0..N).cycle()) {
        samples.get_mut(turn).ok_or("no such hash")?.push(line.parse()?);
    }
    match samples.iter().all(|of_one| of_one.len() == times) {
        true => Ok(samples),
        false => Err("perl did not compute the hashes".into()),
    }
}

/// The version of the library, from the name of its file that perl loads.
pub(crate) fn version() -> String {
    let program = "crypt('a', 'ab'); open(my $maps, '<', '/proc/self/maps'); while (<$maps>) { print(\"$1\\n\"), exit if m{(libcrypt[^/ ]*)$} }";
    crate::machine::said(Command::new("perl").args(["-e", program])).unwrap_or_else(|| "unknown".to_owned())
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
        // The same hash as by `openssl passwd -5`.
        let (setting, hash) = ("$5$saltstring", "$5$saltstring$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| assert_eq!(library.hash("Hello world!", setting).unwrap(), hash));
            }
        });
        assert!(library.hash("a", "$no$").unwrap_err().to_string().contains("no hash"));
        assert!(library.hash("a\nb", setting).is_err());
        assert!(library.cpu_nanos().unwrap() > 0.0);
    }
}
