//! The crypt(3) of this machine: what ratios of other machines are compared by.

use crate::Failure;
use crate::stopwatch::Samples;
use std::process::Command;

/// How long one hash takes, in milliseconds, by the library that the originals use (perl's `crypt` is crypt(3)).
pub(crate) fn milliseconds(setting: &str, times: usize) -> Result<Samples, Failure> {
    let program = "use Time::HiRes 'time'; for (1..$ARGV[1]) { my $t = time; \
                   crypt('550e8400-e29b-41d4-a716-446655440000', $ARGV[0]); printf qq(%.9f\\n), (time - $t) * 1e3 }";
    let output = Command::new("perl").args(["-e", program, setting, &times.to_string()]).output()?;
    let mut samples = Samples::default();
    for line in String::from_utf8(output.stdout)?.lines() {
        samples.push(line.parse()?);
    }
    match samples.len() == times {
        true => Ok(samples),
        false => Err("perl did not compute the hashes".into()),
    }
}
