//! `enfilade certs`: what a server would answer with, looked at without one.

use crate::cli::certs::Certs;
use crate::home::{Place, seed};
use crate::progress::Progress;
use crate::{clock, output};
use anyhow::{Context, bail};
use enfilade_admin::{BadCertificate, CertificateDirectory};
use enfilade_sources::files::certificates::list;
use enfilade_tls::{Algorithm, Ask, Digest, Leaf};
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

const DAY: i64 = 24 * 3600;
/// So many names of a certificate are shown in a table.
const NAMES_SHOWN: usize = 3;

pub(super) fn run(place: &Place, command: Certs, json: bool) -> anyhow::Result<ExitCode> {
    let of = |directory: Option<PathBuf>| {
        let configured = || place.config.tls.certificates.clone().unwrap_or_else(|| place.data.join("tls"));
        Ok::<_, anyhow::Error>(CertificateDirectory::new(
            directory.unwrap_or_else(configured),
            Digest::new(&seed()?),
        ))
    };
    match command {
        Certs::List { expiring, directory } => list_all(&of(directory)?, expiring, json),
        Certs::Show { name, rsa_only, directory } => show(place, &of(directory)?, &name, rsa_only, json),
        Certs::Check { directory } => check(place, &of(directory)?, json),
    }
}

fn kind(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::Rsa => "RSA",
        Algorithm::Ecdsa => "ECDSA",
        Algorithm::Other => "other",
    }
}

/// What time is left, in words.
fn left(not_after: i64, now: i64) -> String {
    match not_after - now {
        over if over < 0 => "expired".to_owned(),
        left if left < 2 * DAY => format!("{} h", left / 3600),
        left => format!("{} d", left / DAY),
    }
}

fn tell_bad(bad: &[BadCertificate], json: bool) {
    for BadCertificate { file, why } in bad {
        match json {
            true => output::json_line(&json!({ "file": file, "error": why })),
            false => output::note(&format!("{file}: {why}")),
        }
    }
}

fn list_all(directory: &CertificateDirectory, expiring: Option<i64>, json: bool) -> anyhow::Result<ExitCode> {
    let unread = || format!("certificate directory `{}` cannot be read", directory.path().display());
    let names = list(directory.path()).with_context(unread)?;
    let found = directory.leaves(&names, |path, leaf, _| (path.to_owned(), leaf)).with_context(unread)?;
    let now = clock::now().unix_seconds;
    let (mut rows, mut bad) = (Vec::new(), Vec::new());
    for found in found {
        match found {
            Ok((file, leaf)) if expiring.is_none_or(|within| leaf.not_after - now < within) => {
                rows.push((file, leaf))
            }
            Ok(_) => {}
            Err(why) => bad.push(why),
        }
    }
    rows.sort_by(|(a, one), (b, other)| (one.not_after, a).cmp(&(other.not_after, b)));
    if json {
        rows.iter().for_each(|(file, leaf)| output::json_line(&described(file, leaf)));
    } else {
        let row = |(file, leaf): &(String, Leaf)| {
            let shown: Vec<&str> = leaf.names.iter().take(NAMES_SHOWN).map(String::as_str).collect();
            let more = leaf.names.len().saturating_sub(NAMES_SHOWN);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let (names, until) = (format!("{}{more}", shown.join(" ")), output::time(leaf.not_after));
            vec![left(leaf.not_after, now), until, kind(leaf.algorithm).to_owned(), names, file.clone()]
        };
        output::table(
            &["LEFT", "VALID UNTIL", "KEY", "NAMES", "FILE"],
            &rows.iter().map(row).collect::<Vec<_>>(),
        );
    }
    tell_bad(&bad, json);
    Ok(if bad.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn described(file: &str, leaf: &Leaf) -> serde_json::Value {
    json!({
        "file": file, "names": leaf.names, "key": kind(leaf.algorithm), "not_before": leaf.not_before,
        "not_after": leaf.not_after,
    })
}

fn show(
    place: &Place,
    directory: &CertificateDirectory,
    name: &str,
    rsa_only: bool,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let looked = directory
        .look(place.config.tls.rules(), clock::nanos())
        .with_context(|| format!("certificate directory `{}` cannot be read", directory.path().display()))?;
    let ask = Ask::new(Some(name)).taking(!rsa_only, true);
    let permit = match enfilade_tls::open(&looked.certificates, &ask) {
        Ok(permit) => permit,
        Err(refusal) => bail!("{refusal}"),
    };
    let file = PathBuf::from(permit.certificate());
    let only = [file.file_name().unwrap_or_default().to_owned()];
    let leaf = directory.leaves(&only, |_, leaf, _| leaf)?.pop().context("the file is gone")??;
    let is_default = permit.is_default();
    if json {
        let mut value = described(permit.certificate(), &leaf);
        value
            .as_object_mut()
            .into_iter()
            .for_each(|map| drop(map.insert("default".into(), is_default.into())));
        output::json_line(&value);
        return Ok(ExitCode::SUCCESS);
    }
    let now = clock::now().unix_seconds;
    let because = if is_default { "it is the first: nobody has the name" } else { "it has the name" };
    let mut rows = vec![
        ["file".to_owned(), permit.certificate().to_owned()],
        ["answers because".to_owned(), because.to_owned()],
        ["key".to_owned(), kind(leaf.algorithm).to_owned()],
        ["valid from".to_owned(), output::time(leaf.not_before)],
        [
            "valid until".to_owned(),
            format!("{} ({})", output::time(leaf.not_after), left(leaf.not_after, now)),
        ],
    ];
    rows.extend(leaf.names.into_iter().map(|name| ["name".to_owned(), name]));
    output::table(&["CERTIFICATE", name], &rows.into_iter().map(Vec::from).collect::<Vec<_>>());
    Ok(ExitCode::SUCCESS)
}

fn check(place: &Place, directory: &CertificateDirectory, json: bool) -> anyhow::Result<ExitCode> {
    let looked = directory
        .look(place.config.tls.rules(), clock::nanos())
        .with_context(|| format!("certificate directory `{}` cannot be read", directory.path().display()))?;
    let (done, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let all = looked.certificates.count();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let verified = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut progress = Progress::start("verifying certificates");
            while !is_over.load(Ordering::Relaxed) {
                progress.at(done.load(Ordering::Relaxed) as u64, all as u64);
                std::thread::park_timeout(Duration::from_millis(100));
            }
        });
        let verified = directory.verify(&looked.certificates, cores, &done);
        is_over.store(true, Ordering::Relaxed);
        verified
    });
    let bad = [looked.bad, verified.bad].concat();
    tell_bad(&bad, json);
    let good = all - bad.len().min(all);
    if !json {
        output::line(&format!("{good} certificates can be used, {} cannot", bad.len()));
    }
    Ok(if bad.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
