//! Measures restarts with an index, and reloads of ten changed files, in this process. Each round has one restart and one reload, after the starts of
//! Enfilade and HAProxy.

use super::inside::{files_of, is_answered};
use super::{CHANGED, COLD_ROUNDS, Case, ROUNDS, drop_caches};
use crate::Failure;
use crate::report::Report;
use crate::samples::Samples;
use crate::stopwatch::{now, pause};
use enfilade_admin::{CertificateFiles, IndexUse, LeafIndex};
use enfilade_facts::MemoSeed;
use enfilade_tls::{Certificates, Rules};
use std::path::PathBuf;
use std::time::Duration;

/// Restarts with the index of an earlier start. The measured time begins when the index is read, and ends when every name can be answered.
pub(super) struct Restarts<'c> {
    case: &'c Case<'c>,
    index: PathBuf,
    /// The milliseconds of restarts that check every file, with a warm page cache.
    checked: Samples,
}

impl<'c> Restarts<'c> {
    /// Writes the index of verified certificates. From now on the files must not change. A new hard link to a file counts as a change of the file.
    pub(super) fn new(case: &'c Case<'c>, certificates: &Certificates) -> Result<Self, Failure> {
        let index = case.scratch.path().join("index");
        let written = LeafIndex::write(&index, case.directory, &MemoSeed([9; 16]), certificates)?;
        if written != case.count {
            return Err(format!("the index has {written} of {} certificates", case.count).into());
        }
        Ok(Restarts { case, index, checked: Samples::default() })
    }

    /// The milliseconds of the restarts in the rounds.
    pub(super) fn times(&self) -> &Samples {
        &self.checked
    }

    /// Measures the restart of one round.
    pub(super) fn turn(&mut self) -> Result<(), Failure> {
        let millis = self.once(IndexUse::Checked)?;
        self.checked.push(millis);
        Ok(())
    }

    /// Measures the restarts that are not compared with HAProxy: with a cold page cache, and without a check of the files.
    pub(super) fn others(&self, report: &mut Report) -> Result<(), Failure> {
        let mut warm = Samples::default();
        for _ in 0..ROUNDS {
            warm.push(self.once(IndexUse::Trusted)?);
        }
        report.middle("ours, restart with an index, believed, warm", self.case.n(), &warm, "ms");
        for (how, what) in [(IndexUse::Checked, "every file asked"), (IndexUse::Trusted, "believed")] {
            let mut cold = Samples::default();
            while self.case.is_cold_possible && cold.len() < COLD_ROUNDS {
                drop_caches();
                cold.push(self.once(how)?);
            }
            if cold.len() > 0 {
                report.middle(
                    &format!("ours, restart with an index, {what}, cold"),
                    self.case.n(),
                    &cold,
                    "ms",
                );
            }
        }
        Ok(())
    }

    fn once(&self, how: IndexUse) -> Result<f64, Failure> {
        let shelf = files_of(self.case.directory)?;
        let began = now();
        let known =
            LeafIndex::read(&self.index, self.case.directory, how).ok_or("the index was not accepted")?;
        let looked = shelf.look(Rules::default(), Some(&known), crate::clock::nanos())?;
        is_answered(&looked.certificates, self.case)?;
        let millis = began.elapsed().as_secs_f64() * 1e3;
        match looked.read {
            0 => Ok(millis),
            read => Err(format!("the restart read {read} files in spite of the index").into()),
        }
    }
}

/// Reloads after ten files were replaced.
pub(super) struct Reloads<'c> {
    case: &'c Case<'c>,
    /// The directory in which files are replaced.
    place: PathBuf,
    shelf: CertificateFiles,
    certificates: Certificates,
    /// The milliseconds of each reload.
    samples: Samples,
}

impl<'c> Reloads<'c> {
    pub(super) fn new(case: &'c Case<'c>) -> Result<Self, Failure> {
        let place = case.copy("reloaded", CHANGED * ROUNDS)?;
        let shelf = files_of(&place)?;
        let first = shelf.look(Rules::default(), None, crate::clock::nanos())?.certificates;
        // The copies and links were made just before the first look, so their time stamps were too new to prove that a file is unchanged. This second
        // look, after a pause, reads all files once more. So later looks read only new files.
        pause(Duration::from_millis(100));
        let certificates = shelf.look_again(&first, Rules::default(), crate::clock::nanos())?.certificates;
        Ok(Reloads { case, place, shelf, certificates, samples: Samples::default() })
    }

    /// The milliseconds of the reloads in the rounds.
    pub(super) fn times(&self) -> &Samples {
        &self.samples
    }

    /// Measures the reload of one round.
    pub(super) fn turn(&mut self) -> Result<(), Failure> {
        self.replace()?;
        let began = now();
        let looked = self.shelf.look_again(&self.certificates, Rules::default(), crate::clock::nanos())?;
        self.samples.push(began.elapsed().as_secs_f64() * 1e3);
        let is_expected = (CHANGED..=CHANGED * (ROUNDS + 1)).contains(&looked.read);
        if !is_expected || looked.certificates.count() != self.case.count {
            return Err(format!("{} files were read for {CHANGED} that changed", looked.read).into());
        }
        self.certificates = looked.certificates;
        Ok(())
    }

    /// Replaces ten files that were not replaced before.
    fn replace(&self) -> Result<(), Failure> {
        for at in 0..CHANGED {
            let n = self.samples.len() * CHANGED + at;
            let file = |n: usize| format!("{:07}.pem", n % self.case.count);
            let to = self.place.join(file(n));
            std::fs::remove_file(&to)?;
            std::fs::copy(self.case.directory.join(file(n + 100)), to)?;
        }
        Ok(())
    }
}
