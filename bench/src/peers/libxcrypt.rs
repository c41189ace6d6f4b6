//! Measures libxcrypt: the time and the CPU of its hashes. `bench/peers` makes the hashes of the rebuilt programs.

use crate::Failure;
use crate::machine::said;
use crate::samples::Samples;
use crate::stopwatch;
use enfilade_peers::libxcrypt::Libxcrypt;
use std::process::Command;

/// The CPU that the processes of the library have used so far, in nanoseconds.
pub(crate) fn cpu_nanos(library: &Libxcrypt) -> Result<f64, Failure> {
    library.processes().into_iter().map(stopwatch::cpu_nanos).sum()
}

/// The time of each hash, in milliseconds. `hashes` contains a secret and a setting for each hash. The hashes are measured in turns, so that noise of
/// the machine affects all of them.
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
    said(Command::new("perl").args(["-e", program])).unwrap_or_else(|| "unknown".to_owned())
}
