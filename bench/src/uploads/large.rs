//! Measures uploads and downloads of a large file over TLS, with curl as the client.

use super::{Bench, Spent, Target};
use crate::Failure;
use crate::content::client::curl;
use crate::report::Paired;
use crate::samples::Samples;
use crate::stopwatch::{cpu_nanos, now};
use std::fs::File;
use std::path::Path;

/// A way to send the large file.
struct Way {
    what: &'static str,
    send: fn(&Bench<'_>, &Target, &Path) -> Result<Spent, Failure>,
}

const WAYS: [Way; 2] = [
    Way {
        what: "PUT of a large file over TLS, on the disk",
        send: |bench, target, file| bench.up(target, file),
    },
    Way { what: "GET of a large file over TLS", send: |bench, target, _| bench.down(target) },
];

impl Bench<'_> {
    /// Measures uploads and downloads of `file`, with Enfilade and Apache in turns.
    pub(super) fn large(&mut self, file: &Path) -> Result<(), Failure> {
        for way in &WAYS {
            let asked: Vec<&Target> = self.targets.iter().filter(|target| target.https.is_some()).collect();
            let mut spent: Vec<Vec<Spent>> = asked.iter().map(|_| Vec::new()).collect();
            for round in 0..self.size.rounds {
                eprintln!("{}: round {} of {}", way.what, round + 1, self.size.rounds);
                for (target, spent) in asked.iter().zip(&mut spent) {
                    spent.push((way.send)(self, target, file)?);
                }
            }
            self.tell_large(way.what, &spent);
        }
        Ok(())
    }

    fn tell_large(&mut self, what: &str, spent: &[Vec<Spent>]) {
        let n = self.size.large >> 20;
        for cost in ["time", "CPU"] {
            let of = |spent: &Spent| if cost == "time" { spent.seconds } else { spent.cpu / 1e6 };
            let what = format!("{what}, {cost}");
            let samples: Vec<Samples> = spent.iter().map(|turns| turns.iter().map(of).collect()).collect();
            match samples.as_slice() {
                [ours, theirs, ..] => {
                    let paired = Paired { what, n, unit: "s", ours, peer: "Apache", theirs, floor: None };
                    self.report.compare(None, paired);
                }
                others => others.iter().for_each(|samples| {
                    self.report.middle(&format!("{what}, Enfilade"), n, samples, "s");
                }),
            }
        }
    }

    /// Puts the file. For a server that does not sync, the time and the CPU of a sync of the file and its directory are added.
    fn up(&self, target: &Target, file: &Path) -> Result<Spent, Failure> {
        let peer = &target.peer;
        let source = file.to_str().ok_or("the scratch directory has no UTF-8 path")?;
        let arrived = peer.up.join("large");
        rustix::fs::sync();
        let (before, began) = ((peer.cpu)()?, now());
        let path = format!("/{}/large", peer.place());
        curl(peer, &["--upload-file", source, "--header", "Expect:"], &path, "https")?;
        let mut cpu = ((peer.cpu)()? - before) * 1e6;
        if !peer.syncs {
            let own = cpu_nanos(std::process::id())?;
            File::open(&arrived)?.sync_all()?;
            File::open(&peer.up)?.sync_all()?;
            cpu += (cpu_nanos(std::process::id())? - own) / 1e3;
        }
        let seconds = began.elapsed().as_secs_f64();
        if std::fs::metadata(&arrived)?.len() != self.size.large {
            return Err(format!("{}: the uploaded file has another size than its source", peer.name).into());
        }
        std::fs::remove_file(arrived)?;
        Ok(Spent { seconds, cpu })
    }

    fn down(&self, target: &Target) -> Result<Spent, Failure> {
        let (before, began) = ((target.peer.cpu)()?, now());
        curl(&target.peer, &[], "/large", "https")?;
        let seconds = began.elapsed().as_secs_f64();
        Ok(Spent { seconds, cpu: ((target.peer.cpu)()? - before) * 1e6 })
    }
}
