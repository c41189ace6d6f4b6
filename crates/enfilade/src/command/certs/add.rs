//! `enfilade certs add`: joins the files of a certificate into one bundle, and installs the bundle.

use super::{described, directory_of, fleet, is_of_running_server, look, place_of};
use crate::home::{Installation, roots_of};
use crate::reserved::{refuse_exposed, written_to};
use crate::{clock, output, prompt, self_made, shared_certificates};
use anyhow::{Context, bail};
use enfilade_admin::CertificateFiles;
use enfilade_facts::vocabulary::Secret;
use enfilade_sources::files::certificates::key_file_of;
use enfilade_tls::{Algorithm, Ask, Certificates, Joined, Leaf, PieceError, Pieces, Room};
use std::io::{IsTerminal as _, Read as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The maximum size of a file, in bytes.
const BYTES_MAX: u64 = 1024 * 1024;
/// If the directory has at least this many entries, the command does not examine the effect of a new certificate on the other certificates.
const LOOKED_AT_MAX: usize = 10_000;

pub(super) fn run(
    installation: &Installation,
    certificates: &CertificateFiles,
    files: &[PathBuf],
    name: Option<String>,
    passphrase_stdin: bool,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let directory = directory_of(certificates)?;
    let given = passphrase_stdin.then(prompt::from_stdin).transpose()?;
    let (joined, key) = join(files, given)?;
    let name = match name {
        Some(name) => name,
        None => name_of(&joined.file)?,
    };
    let place = place_of(certificates, &name)?;
    let replaces = place.exists();
    let replaced = refuse_others(&place, &joined.leaf)?;
    refuse_exposed(
        written_to(&place),
        &installation.data,
        roots_of(&installation.data, &installation.config),
    )?;
    self_made::make_place(&installation.data, certificates.place().path())?;
    // If there are very many certificates, it takes too long to read all of them only for a warning.
    let is_looked_at =
        std::fs::read_dir(directory).is_ok_and(|all| all.take(LOOKED_AT_MAX).count() < LOOKED_AT_MAX);
    let looked = || is_looked_at.then(|| look(installation, certificates).ok()).flatten();
    let before = looked();
    self_made::write_for_owner(&installation.data, &place, joined.pem.as_bytes(), 0o600)?;
    let mut warnings = joined.warnings;
    warnings.extend(replaced.and_then(|replaced| of_other_key(&replaced, &joined.leaf)));
    if let (Some(before), Some(after)) = (before, looked()) {
        warnings.extend(effects(
            certificates,
            (&place, &joined.leaf),
            [&before.certificates, &after.certificates],
        ));
    }
    for warning in &warnings {
        output::note(&format!("warning: {warning}"));
    }
    let key_file = key.as_ref().map(|key| key.display().to_string());
    let more =
        [("replaced", replaces.into()), ("key_file", key_file.clone().into()), ("warnings", warnings.into())];
    let value = described(&place.to_string_lossy(), &joined.leaf, more);
    let what = if replaces { "renewed" } else { "added" };
    let until = output::time(joined.leaf.not_after);
    let names = told_names(&joined.leaf.names);
    let key = told_key(key_file);
    let served = match is_of_running_server(installation, certificates) {
        true => "; the running server uses the certificate within a few seconds",
        false => "",
    };
    output::done(json, &value, &format!("`{name}` {what}: {names}, valid until {until}{key}{served}"));
    Ok(ExitCode::SUCCESS)
}

/// The names in a certificate, as text.
fn told_names(names: &[String]) -> String {
    match names.is_empty() {
        true => "a certificate without names".to_owned(),
        false => format!("a certificate for {}", names.join(" ")),
    }
}

/// The part of the output that names the file with the key. Empty if the key is in the file with the certificate.
fn told_key(key_file: Option<String>) -> String {
    key_file.map(|key| format!(", with the key in `{key}`")).unwrap_or_default()
}

/// Gives a certificate to all members of the fleet of this machine.
pub(super) fn to_fleet(
    installation: &Installation,
    files: &[PathBuf],
    name: Option<String>,
    passphrase_stdin: bool,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let fleet = fleet::of(installation)?;
    let given = passphrase_stdin.then(prompt::from_stdin).transpose()?;
    let (joined, key) = join(files, given)?;
    let name = match name {
        Some(name) => name,
        None => name_of(&joined.file)?,
    };
    let replaced =
        fleet::add(&fleet, &name, joined.pem.as_bytes(), |place| refuse_others(place, &joined.leaf))?;
    let mut warnings = joined.warnings;
    warnings.extend(replaced.as_ref().and_then(|replaced| of_other_key(replaced, &joined.leaf)));
    for warning in &warnings {
        output::note(&format!("warning: {warning}"));
    }
    let key_file = key.as_ref().map(|key| key.display().to_string());
    let more = [
        ("replaced", replaced.is_some().into()),
        ("key_file", key_file.clone().into()),
        ("warnings", warnings.into()),
        ("shared", true.into()),
    ];
    let place = shared_certificates::directory(&installation.data).join(&name);
    let value = described(&place.to_string_lossy(), &joined.leaf, more);
    let what = if replaced.is_some() { "renewed" } else { "added" };
    let (names, until) = (told_names(&joined.leaf.names), output::time(joined.leaf.not_after));
    let key = told_key(key_file);
    let text = format!(
        "`{name}` {what} for all members of the fleet: {names}, valid until {until}{key}; running servers use the certificate within a few seconds"
    );
    output::done(json, &value, &text);
    Ok(ExitCode::SUCCESS)
}

/// Returns warnings about names of the new certificate for which clients get another certificate. Also returns a warning if the new certificate has
/// no names, or has become the default certificate.
fn effects(
    files: &CertificateFiles,
    (place, new): (&Path, &Leaf),
    [before, after]: [&Certificates; 2],
) -> Vec<String> {
    let own = place.to_string_lossy();
    // The check acts as a client that supports only the kind of key of the new certificate. Other clients may get a certificate with the other kind
    // of key, which is not a problem.
    let (takes_rsa, takes_ecdsa) = (new.algorithm != Algorithm::Ecdsa, new.algorithm != Algorithm::Rsa);
    let served = |name: &String| {
        let ask = match name.parse() {
            Ok(address) => Ask::new(None).at(address),
            Err(_) => Ask::new(Some(&name.replacen('*', "any", 1))),
        };
        let permit = enfilade_tls::open(after, &ask.taking(takes_ecdsa, takes_rsa)).ok()?;
        let other = permit.certificate().to_owned();
        // A server does not send a certificate if the key is missing or wrong.
        if permit.is_default() || other == *own || files.is_usable(Path::new(&other)).is_err() {
            return None;
        }
        let name_of_other = Path::new(&other).file_name().unwrap_or_default().to_string_lossy().into_owned();
        Some(format!(
            "clients that ask for `{name}` get the certificate `{other}`, and not this certificate; if you do not want this, run `enfilade certs \
             remove {}`",
            output::word(&name_of_other)
        ))
    };
    let mut warnings: Vec<String> = new.names.iter().filter_map(served).collect();
    let is_default = |all: &Certificates| all.fallback().is_some_and(|file| *file.path == *own);
    if new.names.is_empty() {
        warnings
            .push("the certificate has no names, so clients refuse it, unless they ignore names".to_owned());
    }
    if before.fallback().is_some() && !is_default(before) && is_default(after) {
        warnings.push(
            "this certificate is now the default certificate, which the server sends for names that no certificate contains. The default is the \
             certificate in the file whose name sorts first. To keep the earlier default, remove this file, and add the certificate again with a \
             --name that sorts later"
                .to_owned(),
        );
    }
    warnings
}

/// A warning if the kind of key changes. A bundle has only one key, so clients no longer get a certificate with the earlier kind of key.
fn of_other_key(replaced: &Leaf, new: &Leaf) -> Option<String> {
    let (before, after) = (replaced.algorithm.name(), new.algorithm.name());
    (before != after).then(|| {
        format!(
            "the kind of key changed from {before} to {after}; to serve both kinds, add each certificate with another --name"
        )
    })
}

/// Joins the files. If only one file is given, and it does not contain the key, takes the key from a key file in the directory of that file. Then
/// also returns the path of the key file.
fn join(files: &[PathBuf], given: Option<Secret>) -> anyhow::Result<(Joined, Option<PathBuf>)> {
    let mut pieces = Pieces::default();
    for file in files {
        add(&mut pieces, file, &read(file)?, given.as_ref())?;
    }
    // The key file of a single certificate file need not be given as an argument, because a server also finds a key file in the directory of the
    // certificate file.
    let key_file = match (files, pieces.has_key()) {
        ([file], false) => key_file_of(file),
        _ => None,
    };
    if let Some(key) = &key_file {
        add(&mut pieces, key, &read(key)?, given.as_ref())?;
    }
    Ok((pieces.join(clock::now().unix_seconds).map_err(anyhow::Error::msg)?, key_file))
}

fn read(file: &Path) -> anyhow::Result<Vec<u8>> {
    let unread = || format!("`{}` cannot be read", file.display());
    let mut bytes = Vec::new();
    let opened = std::fs::File::open(file).with_context(unread)?;
    opened.take(BYTES_MAX + 1).read_to_end(&mut bytes).with_context(unread)?;
    match bytes.len() as u64 > BYTES_MAX {
        true => bail!("`{}` is larger than 1 MiB, so it is not a certificate or key", file.display()),
        false => Ok(bytes),
    }
}

/// Adds the certificates and keys of a file to `pieces`. If the file is encrypted and no passphrase was given, the user is asked for the passphrase
/// on the terminal, up to three times.
fn add(pieces: &mut Pieces, file: &Path, bytes: &[u8], given: Option<&Secret>) -> anyhow::Result<()> {
    let name = file.display().to_string();
    let (mut asked, mut turns) = (None, 0);
    loop {
        let passphrase = asked.as_ref().or(given).map(Secret::reveal).map(std::str::from_utf8).transpose();
        let passphrase = passphrase.context("the passphrase is not UTF-8")?;
        match pieces.add(&name, bytes, passphrase) {
            Ok(()) => return Ok(()),
            Err(PieceError::WrongPassphrase(_)) if (1..3).contains(&turns) => {
                output::note("the passphrase is wrong; try again");
            }
            Err(PieceError::NeedsPassphrase(_)) if std::io::stdin().is_terminal() => {}
            Err(PieceError::NeedsPassphrase(file)) => bail!(
                "`{file}` is encrypted: give its passphrase on a terminal, or on standard input with --passphrase-stdin"
            ),
            Err(why) => return Err(why.into()),
        }
        asked = Some(prompt::hidden(&format!("passphrase of {name}: "))?);
        turns += 1;
    }
}

/// The file name of the bundle: the name of the file with the certificate. An extension such as `.crt` or `.pfx` is replaced by `.pem`.
fn name_of(shown: &str) -> anyhow::Result<String> {
    let file = Path::new(shown);
    // `shown` contains U+FFFD in place of bytes that are not UTF-8.
    let name = file
        .file_name()
        .and_then(|name| name.to_str())
        .filter(|name| !name.contains(char::REPLACEMENT_CHARACTER))
        .with_context(|| format!("the name of `{shown}` is not UTF-8; give the bundle a name with --name"))?;
    let extension =
        file.extension().and_then(|extension| extension.to_str()).unwrap_or_default().to_ascii_lowercase();
    let is_form = matches!(extension.as_str(), "crt" | "cer" | "cert" | "der" | "p12" | "pfx" | "key");
    let stem = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or(name);
    Ok(match is_form {
        true => format!("{stem}.pem"),
        false => name.to_owned(),
    })
}

/// Refuses to replace a certificate that has names, but none in common with the new certificate. The reason: tools use the same file names, such as
/// `fullchain.pem`, for the certificates of all domains. Returns the certificate to replace; `None` if there is no readable certificate.
fn refuse_others(place: &Path, new: &Leaf) -> anyhow::Result<Option<Leaf>> {
    let there = std::fs::read(place).ok().and_then(|pem| Leaf::read(&pem, &mut Room::default()).ok());
    let Some(there) = there else { return Ok(None) };
    let is_renewal = there.names.is_empty() || there.names.iter().any(|name| new.names.contains(name));
    match is_renewal {
        true => Ok(Some(there)),
        false => bail!(
            "`{}` is the certificate of {}, and the new certificate has none of these names: give the new one another file name with --name, such as \
             --name {}",
            place.display(),
            there.names.join(" "),
            // The names are sorted as texts. So IPv4 addresses usually come first, and the last name is usually a host name.
            self_made::file_of(new.names.last().map_or("www.example.com", String::as_str))
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bundles_have_the_name_of_the_certificate() {
        for (file, expected) in [
            ("/x/www.example.com.pem", "www.example.com.pem"),
            ("www.example.com", "www.example.com"),
            ("nas.crt", "nas.pem"),
            ("NAS.PFX", "NAS.pem"),
            ("fullchain.pem", "fullchain.pem"),
            ("nas.cert", "nas.pem"),
        ] {
            assert_eq!(name_of(file).unwrap(), expected, "{file}");
        }
    }
}
