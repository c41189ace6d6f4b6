//! Measurements in this process, without a server: reading all certificates, and verifying their keys.

use super::{COLD_ROUNDS, Case, ROUNDS, drop_caches, make};
use crate::Failure;
use crate::report::Report;
use crate::samples::Samples;
use crate::stopwatch::now;
use enfilade_admin::{CertificateFiles, CertificatePlace, CertificateTerms};
use enfilade_facts::MemoSeed;
use enfilade_tls::{Ask, Certificates, Digest, Rules, Tickets};
use std::path::Path;
use std::sync::atomic::AtomicUsize;

/// Returns the time to verify all keys, in milliseconds, and the verified certificates.
pub(super) fn run(report: &mut Report, case: &Case<'_>) -> Result<(Samples, Certificates), Failure> {
    let shelf = files_of(case.directory)?;
    let what = format!("ours, every name answerable, in the process, {}, warm", shelf.engine());
    let mut warm = Samples::default();
    for _ in 0..ROUNDS {
        warm.push(look(&shelf, case)?.0);
    }
    report.middle(&what, case.n(), &warm, "ms");
    if case.is_cold_possible {
        let mut cold = Samples::default();
        for _ in 0..COLD_ROUNDS {
            drop_caches();
            cold.push(look(&shelf, case)?.0);
        }
        report.middle("the same, cold", case.n(), &cold, "ms");
    }
    let (_, certificates) = look(&shelf, case)?;
    let verifying = verify(&shelf, &certificates)?;
    report.once("ours, all keys verified", case.n(), verifying, "ms");
    Ok((Samples::from_iter([verifying]), certificates))
}

/// Reads all certificates. Also returns the milliseconds until every name can be answered.
fn look(shelf: &CertificateFiles, case: &Case<'_>) -> Result<(f64, Certificates), Failure> {
    let began = now();
    let looked = shelf.look(Rules::default(), None, crate::clock::nanos())?;
    is_answered(&looked.certificates, case)?;
    if !looked.bad.is_empty() {
        return Err(format!("{} files are bad", looked.bad.len()).into());
    }
    Ok((began.elapsed().as_secs_f64() * 1e3, looked.certificates))
}

/// Verifies all keys on all cores. Returns the milliseconds.
fn verify(shelf: &CertificateFiles, certificates: &Certificates) -> Result<f64, Failure> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let began = now();
    let verified = shelf.verify(certificates, cores, &AtomicUsize::new(0));
    let verifying = began.elapsed().as_secs_f64() * 1e3;
    if !verified.bad.is_empty() || !verified.changed.is_empty() {
        return Err(format!("{} bad files, {} changed", verified.bad.len(), verified.changed.len()).into());
    }
    Ok(verifying)
}

pub(super) fn files_of(directory: &Path) -> Result<CertificateFiles, Failure> {
    let terms = CertificateTerms::new(Tickets::default(), None)?;
    let place = CertificatePlace::Directory(directory.to_owned());
    Ok(CertificateFiles::new(place, Digest::new(&MemoSeed([9; 16])), terms))
}

/// Checks that the last name gets its certificate, and that no certificate is missing.
pub(super) fn is_answered(certificates: &Certificates, case: &Case<'_>) -> Result<(), Failure> {
    let last = make::names_of(case.count - 1).pop().ok_or("no name")?;
    let permit = enfilade_tls::open(certificates, &Ask::new(Some(&last)))?;
    let path = case.directory.join(format!("{:07}.pem", case.count - 1));
    match permit.certificate() == path.to_string_lossy() && certificates.count() == case.count {
        true => Ok(()),
        false => Err(format!("`{last}` is answered with `{}`", permit.certificate()).into()),
    }
}
