//! `enfilade certs`: what a server would answer with, looked at without one.

use crate::cli::certs::Certs;
use crate::home::{Place, seed};
use crate::progress::Progress;
use crate::{clock, output};
use anyhow::{Context, bail};
use enfilade_admin::{BadCertificate, CertificateDirectory};
use enfilade_sources::files::atomic;
use enfilade_sources::files::certificates::{is_certificate, list, read_whole};
use enfilade_tls::{Algorithm, Ask, Bundle, Digest, Leaf};
use serde_json::json;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
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
        Certs::Add { file, name, directory } => add(&of(directory)?, &file, name, json),
        Certs::Remove { name, directory } => remove(&of(directory)?, &name, json),
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

/// Where a bundle of this name is; the name is one the directory's rules take for a bundle's.
fn place_of(directory: &CertificateDirectory, name: &str) -> anyhow::Result<PathBuf> {
    let is_plain = !name.is_empty() && !name.contains(['/', '\0']) && name != "." && name != "..";
    if !is_plain || !is_certificate(directory.path(), OsStr::new(name)) {
        bail!("`{name}` would not be read as a bundle: choose a name such as `www.example.com.pem`");
    }
    Ok(directory.path().join(name))
}

fn add(
    directory: &CertificateDirectory,
    file: &Path,
    name: Option<String>,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let name = match name {
        Some(name) => name,
        None => file
            .file_name()
            .and_then(OsStr::to_str)
            .context("the file's name is not UTF-8; give --name")?
            .to_owned(),
    };
    let place = place_of(directory, &name)?;
    let whole = read_whole(file).with_context(|| format!("`{}` cannot be read", file.display()))?;
    let bundle = Bundle::read(&whole.pem, whole.key.as_deref());
    let leaf = bundle.map_err(|why| anyhow::anyhow!("`{}` is not taken: {why}", file.display()))?.leaf;
    // With the key in it, wherever that was: one file is replaced in one step.
    let key = whole.key.filter(|_| Bundle::read(&whole.pem, None).is_err()).unwrap_or_default();
    let replaces = place.exists();
    let joined = [whole.pem.as_slice(), b"\n", key.as_slice()].concat();
    let bytes = if key.is_empty() { &whole.pem } else { &joined };
    atomic::write(&place, bytes, 0o600)
        .with_context(|| format!("`{}` cannot be written", place.display()))?;
    let mut value = described(&place.to_string_lossy(), &leaf);
    value.as_object_mut().into_iter().for_each(|map| drop(map.insert("replaced".into(), replaces.into())));
    let what = if replaces { "is renewed" } else { "is there" };
    let until = output::time(leaf.not_after);
    output::done(json, &value, &format!("`{name}` {what}: {}, valid until {until}", leaf.names.join(" ")));
    Ok(ExitCode::SUCCESS)
}

fn remove(directory: &CertificateDirectory, name: &str, json: bool) -> anyhow::Result<ExitCode> {
    let place = place_of(directory, name)?;
    std::fs::remove_file(&place)
        .with_context(|| format!("`{}` cannot be removed; see `enfilade certs list`", place.display()))?;
    output::done(json, &json!({ "removed": place.display().to_string() }), &format!("`{name}` is gone"));
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
    for BadCertificate { file, why } in &verified.warnings {
        match json {
            true => output::json_line(&json!({ "file": file, "warning": why })),
            false => output::note(&format!("warning: {file}: {why}")),
        }
    }
    tell_bad(&bad, json);
    let good = all - bad.len().min(all);
    if !json {
        let noun = if good == 1 { "certificate" } else { "certificates" };
        output::line(&format!("{good} {noun} can be used, {} cannot", bad.len()));
    }
    Ok(if bad.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
