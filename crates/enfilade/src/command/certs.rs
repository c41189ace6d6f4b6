//! `enfilade certs`. The commands read the certificates in the same way as a server.

mod add;
mod fleet;
mod made;

use crate::certificates::{self, Watched};
use crate::cli::certs::Certs;
use crate::config::Check;
use crate::home::{Installation, seed};
use crate::self_made::is_self_made;
use crate::{clock, operations, output, owner, progress, shared_certificates};
use anyhow::{Context, bail};
use enfilade_admin::{BadCertificate, CertificateFiles, CertificatePlace, Looked};
use enfilade_sources::files::certificates::{Changed, companions_of, is_certificate};
use enfilade_tls::{
    Ask, CertificateFile, Certificates, CrtList, Digest, FileChange, Leaf, Tickets, TlsPermit,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

const DAY: i64 = 24 * 3600;
/// The maximum time of a single wait for a change. After this time, the next wait begins.
const TURN: Duration = Duration::from_secs(3600);
const QUIET: Duration = Duration::from_millis(100);
/// The maximum number of names of a certificate that a table shows.
const NAMES_SHOWN: usize = 3;

pub(super) fn run(installation: &Installation, command: Certs, json: bool) -> anyhow::Result<ExitCode> {
    // Root can read files that the server cannot read. So commands that only examine the certificates of the server run as the server's user.
    if let Certs::List { directory: None, .. }
    | Certs::Show { directory: None, .. }
    | Certs::Check { directory: None }
    | Certs::Watch { directory: None } = &command
    {
        owner::become_owner(&installation.data)?;
    }
    let of = |directory: Option<PathBuf>| {
        let (there, data) = match directory {
            Some(directory) => (CertificatePlace::Directory(directory), None),
            None => (installation.config.tls.place(&installation.data), Some(installation.data.as_path())),
        };
        certificates::files(there, &installation.config.tls, data, Digest::new(&seed()?), Tickets::default())
    };
    match command {
        Certs::List { expiring, directory } => list_all(installation, &of(directory)?, expiring, json),
        Certs::Show { name, rsa_only, pem, directory } => {
            show(installation, &of(directory)?, (&name, rsa_only, pem), json)
        }
        Certs::Add { files, name, passphrase_stdin, fleet: true, .. } => {
            add::to_fleet(installation, &files, name, passphrase_stdin, json)
        }
        Certs::Add { files, name, passphrase_stdin, fleet: false, directory } => {
            let place = of(directory)?;
            add::run(installation, &place, &files, name, passphrase_stdin, json)
        }
        Certs::SelfSigned { names, name, directory } => {
            made::self_signed(installation, &of(directory)?, names, name, json)
        }
        Certs::Ca { show, name } => made::ca(installation, show, name, json),
        Certs::Remove { name, fleet: true, .. } => fleet::remove(installation, &name, json),
        Certs::Remove { name, fleet: false, directory } => remove(installation, &of(directory)?, &name, json),
        Certs::Check { directory } => check(installation, &of(directory)?, json),
        Certs::Watch { directory } => watch(installation, &of(directory)?, json),
    }
}

fn look(installation: &Installation, files: &CertificateFiles) -> anyhow::Result<Looked> {
    files.look(installation.config.tls.rules(), None, clock::nanos()).with_context(|| unread(files))
}

/// Like [`look`]. But if lines of a crt-list cannot be applied, prints the error as a warning, and reads the other lines. Also returns whether there
/// was such a warning.
fn look_past(installation: &Installation, files: &CertificateFiles) -> anyhow::Result<(Looked, bool)> {
    let why = match look(installation, files) {
        Err(why) if matches!(files.place(), CertificatePlace::List(_)) => why,
        looked => return Ok((looked?, false)),
    };
    let Ok(looked) = files.look_past(installation.config.tls.rules(), clock::nanos()) else {
        return Err(why);
    };
    output::note(&format!(
        "warning: {why:#}; no server starts with this crt-list, and a running server keeps the earlier list"
    ));
    Ok((looked, true))
}

/// Whether a running server serves these certificates.
fn is_of_running_server(installation: &Installation, files: &CertificateFiles) -> bool {
    let Installation { data, config, .. } = installation;
    *files.place() == config.tls.place(data) && operations::is_served(data)
}

fn unread(files: &CertificateFiles) -> String {
    format!("the certificates of `{}` cannot be read", files.place().path().display())
}

/// The time until a certificate expires, in hours or days.
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

fn list_all(
    installation: &Installation,
    files: &CertificateFiles,
    expiring: Option<i64>,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let found = files.leaves(|path, leaf| (path.to_owned(), leaf)).with_context(|| unread(files))?;
    let now = clock::now().unix_seconds;
    let shared = shared_certificates::directory(&installation.data);
    let is_shared = |file: &str| Path::new(file).parent() == Some(&shared);
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
        rows.iter().for_each(|(file, leaf)| {
            output::json_line(&described(file, leaf, [("shared", is_shared(file).into())]))
        });
    } else {
        let row = |(file, leaf): &(String, Leaf)| {
            let shown: Vec<&str> = leaf.names.iter().take(NAMES_SHOWN).map(String::as_str).collect();
            let more = leaf.names.len().saturating_sub(NAMES_SHOWN);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let (names, until) = (format!("{}{more}", shown.join(" ")), output::time(leaf.not_after));
            let shared = if is_shared(file) { "yes" } else { "-" };
            let kind = leaf.algorithm.name().to_owned();
            vec![left(leaf.not_after, now), until, kind, shared.to_owned(), names, file.clone()]
        };
        output::table(
            &["LEFT", "VALID UNTIL", "KEY", "SHARED", "NAMES", "FILE"],
            &rows.iter().map(row).collect::<Vec<_>>(),
        );
    }
    tell_bad(&bad, json);
    Ok(if bad.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A certificate in JSON, with further fields.
fn described<const N: usize>(file: &str, leaf: &Leaf, more: [(&str, Value); N]) -> Value {
    let mut value = json!({
        "file": file, "names": leaf.names, "key": leaf.algorithm.name(), "not_before": leaf.not_before,
        "not_after": leaf.not_after,
    });
    if let Some(fields) = value.as_object_mut() {
        fields.extend(more.map(|(key, value)| (key.to_owned(), value)));
    }
    value
}

fn show(
    installation: &Installation,
    files: &CertificateFiles,
    (name, rsa_only, pem): (&str, bool, bool),
    json: bool,
) -> anyhow::Result<ExitCode> {
    let (mut looked, is_refused) = look_past(installation, files)?;
    let ask = Ask::new(Some(name)).taking(!rsa_only, true);
    // A client that connects to an IP address sends no server name.
    let ask = match name.parse() {
        Ok(address) => Ask::new(None).taking(!rsa_only, true).at(address),
        Err(_) => ask,
    };
    let permit = serves(installation, files, &mut looked, &ask)?;
    // Perhaps the server chooses this certificate only because another file cannot be used now. So the command also prints the bad files. If the
    // crt-list was refused, the warning about the list already contained the bad files.
    for BadCertificate { file, why } in looked.bad.iter().filter(|_| !is_refused) {
        output::note(&format!(
            "warning: `{file}` cannot be used: {why}; a running server that loaded this file earlier may still send the earlier certificate"
        ));
    }
    if pem {
        let file = Path::new(permit.certificate());
        if permit.is_default() {
            let names = leaf_of(files, file)?.names;
            // The names are sorted as texts. So IPv4 addresses usually come first, and the last name is usually a host name.
            let how = match names.last() {
                Some(name) => format!("`enfilade certs show {} --pem`", output::word(name)),
                None => format!("`openssl x509 -in {}`", output::word(permit.certificate())),
            };
            bail!(
                "no certificate has the name `{name}`, so nothing was printed. Clients that ask for this name get the default certificate, which \
                 {how} prints"
            );
        }
        let bytes = std::fs::read(file).with_context(|| format!("`{}` cannot be read", file.display()))?;
        let text = certificates_in(&String::from_utf8_lossy(&bytes));
        let value = json!({ "file": permit.certificate(), "certificate": text });
        output::done(json, &value, text.trim_end());
        return Ok(ExitCode::SUCCESS);
    }
    let leaf = leaf_of(files, Path::new(permit.certificate()))?;
    let is_default = permit.is_default();
    let at = permit.line().map(|number| format!("{}:{number}", files.place().path().display()));
    let of_line = || looked.bad.iter().find(|bad| Some(&bad.file) == at.as_ref()).map(|bad| bad.why.clone());
    let unusable = files.is_usable(Path::new(permit.certificate())).err().or_else(of_line);
    let ended = if unusable.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS };
    let OfLines { line, has_names, excluding } = lines_of(files, permit.line(), name)?;
    if json {
        let more = [
            ("default", is_default.into()),
            ("error", unusable.into()),
            ("line", line.into()),
            ("excluded_by", excluding.into()),
        ];
        output::json_line(&described(permit.certificate(), &leaf, more));
        return Ok(ended);
    }
    let now = clock::now().unix_seconds;
    let mut because = match (is_default, has_names) {
        (true, _) => "default: no certificate has the name",
        (false, true) => "the line of the crt-list has the name",
        (false, false) => "the certificate has the name",
    }
    .to_owned();
    if let Some(lines) = excluding {
        because.push_str(&format!(" (lines of the crt-list exclude the name: {lines})"));
    }
    let mut rows = vec![
        ["file".to_owned(), permit.certificate().to_owned()],
        ["served because".to_owned(), because],
        ["key".to_owned(), leaf.algorithm.name().to_owned()],
        ["valid from".to_owned(), output::time(leaf.not_before)],
        [
            "valid until".to_owned(),
            format!("{} ({})", output::time(leaf.not_after), left(leaf.not_after, now)),
        ],
    ];
    rows.extend(line.map(|line| ["crt-list".to_owned(), line]));
    rows.extend(unusable.map(|why| ["cannot be used".to_owned(), why]));
    rows.extend(leaf.names.into_iter().map(|name| ["name".to_owned(), name]));
    output::table(&["CERTIFICATE", name], &rows.into_iter().map(Vec::from).collect::<Vec<_>>());
    Ok(ended)
}

/// The certificate that a client gets. If a server cannot use the key of a certificate, the server no longer serves this certificate, and the client
/// gets another certificate. Three exceptions: a server with `[tls] check = "lazy"` removes no certificate, a certificate stays if its line of the
/// crt-list has options of its own, and the last certificate stays. This function removes certificates by the same rules, and adds the removed
/// certificates to `looked.bad`.
fn serves(
    installation: &Installation,
    files: &CertificateFiles,
    looked: &mut Looked,
    ask: &Ask,
) -> anyhow::Result<TlsPermit> {
    loop {
        let permit = match enfilade_tls::open(&looked.certificates, ask) {
            Ok(permit) => permit,
            Err(refusal) => bail!("{refusal}"),
        };
        let path = Path::new(permit.certificate());
        let stays = installation.config.tls.check == Check::Lazy || files.is_bound(path);
        let Err(why) = files.is_usable(path) else { return Ok(permit) };
        let next = looked.certificates.after([FileChange::Remove(permit.certificate().into())]);
        if stays || next.is_empty() {
            return Ok(permit);
        }
        looked.bad.push(BadCertificate { file: permit.certificate().to_owned(), why });
        looked.certificates = next;
    }
}

/// The leaf certificate of a file.
fn leaf_of(files: &CertificateFiles, file: &Path) -> anyhow::Result<Leaf> {
    let only = [OsString::from(file)];
    let leaf = files.leaves_of(Path::new("/"), &only, |_, leaf| leaf)?.pop();
    Ok(leaf
        .context("the certificate file was removed while the command was running; run the command again")??)
}

/// The path of the bundle with this file name. Refuses a name if a server would not read a file with this name in the directory of certificates.
fn place_of(files: &CertificateFiles, name: &str) -> anyhow::Result<PathBuf> {
    let is_plain = !name.is_empty() && !name.contains(['/', '\0']) && name != "." && name != "..";
    let directory = directory_of(files)?;
    if !is_plain || !is_certificate(directory, OsStr::new(name)) {
        bail!("`{name}` is not a valid file name of a bundle: choose a name such as `www.example.com.pem`");
    }
    Ok(directory.join(name))
}

/// The directory of certificates, for commands that change it. A crt-list is refused, because people write a crt-list by hand.
fn directory_of(files: &CertificateFiles) -> anyhow::Result<&Path> {
    match files.place() {
        CertificatePlace::Directory(directory) => Ok(directory),
        CertificatePlace::List(list) => bail!(
            "this command does not change certificates of the crt-list `{}`: first write the new certificate files by hand, then edit the list; a running server loads the changes",
            list.display()
        ),
    }
}

/// The lines of a crt-list about a name; empty if there is no crt-list.
#[derive(Default)]
struct OfLines {
    /// The line of the crt-list that makes the server serve this name: the name of the list, the number of the line, and the text of the line.
    line: Option<String>,
    /// Whether this line contains names. These names replace the names of the certificate.
    has_names: bool,
    /// The lines that exclude the name.
    excluding: Option<String>,
}

fn lines_of(files: &CertificateFiles, line: Option<u32>, name: &str) -> anyhow::Result<OfLines> {
    let (CertificatePlace::List(list), Some(number)) = (files.place(), line) else {
        return Ok(OfLines::default());
    };
    let text = std::fs::read_to_string(list).with_context(|| unread(files))?;
    let file = list.file_name().unwrap_or_default().to_string_lossy();
    let at = |number: u32| format!("{file}:{number}");
    let written = text.lines().nth(number.saturating_sub(1) as usize).unwrap_or_default().trim();
    let name = name.to_ascii_lowercase();
    let lines = CrtList::parse(&text).lines;
    let excluding: Vec<String> =
        lines.iter().filter(|line| line.excluded.contains(&name)).map(|line| at(line.number)).collect();
    Ok(OfLines {
        line: Some(format!("{}: {written}", at(number))),
        has_names: lines.iter().any(|line| line.number == number && line.names.is_some()),
        excluding: Some(excluding.join(", ")).filter(|lines| !lines.is_empty()),
    })
}

/// The certificates in a PEM file, without the key.
fn certificates_in(pem: &str) -> String {
    let mut is_inside = false;
    let of_certificates = pem.lines().filter(|line| {
        is_inside |= line.starts_with("-----BEGIN CERTIFICATE-----");
        let is_taken = is_inside;
        is_inside &= !line.starts_with("-----END ");
        is_taken
    });
    of_certificates.map(|line| format!("{line}\n")).collect()
}

fn remove(
    installation: &Installation,
    files: &CertificateFiles,
    name: &str,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let place = place_of(files, name)?;
    let bundle = format!("{name}.pem");
    if !place.exists() && fleet::has(installation, name) {
        bail!(
            "`{name}` is a certificate of the fleet, so nothing was removed: to remove it from all members, run `enfilade certs remove --fleet {}`",
            output::word(name)
        );
    }
    if !place.exists() && place.with_file_name(&bundle).exists() {
        bail!("`{}` does not exist, so nothing was removed; did you mean `{bundle}`?", place.display());
    }
    let pem = std::fs::read(&place).unwrap_or_default();
    let mut also = companions_of(&place);
    // The certificate that clients have to trust. Enfilade writes this file into the directory of the bundle.
    also.extend(Some(place.with_extension("crt")).filter(|crt| *crt != place && is_self_made(&place, &pem)));
    match std::fs::remove_file(&place) {
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => bail!(
            "`{}` does not exist, so nothing was removed: give the file name without the directory; `enfilade certs list` shows all certificates",
            place.display()
        ),
        removed => removed.with_context(|| format!("`{}` cannot be removed", place.display()))?,
    }
    for file in &also {
        std::fs::remove_file(file).with_context(|| {
            format!("`{name}` was removed, but `{}` cannot be removed: remove it by hand", file.display())
        })?;
    }
    let names: Vec<String> =
        also.iter().filter_map(|file| Some(format!("`{}`", file.file_name()?.to_string_lossy()))).collect();
    let with = if names.is_empty() { String::new() } else { format!(", and with it {}", names.join(", ")) };
    let is_left = files.leaves(|_, _| ()).is_ok_and(|left| left.iter().any(Result::is_ok));
    let (dropped, kept) = match is_of_running_server(installation, files) {
        true => (
            "; the running server stops using the certificate within a few seconds",
            "; the running server uses the removed certificate until another certificate exists",
        ),
        false => ("", ""),
    };
    let dropped = if is_left { dropped } else { "" };
    let value = json!({ "removed": place.display().to_string(), "also": also });
    output::done(json, &value, &format!("`{name}` removed{with}{dropped}"));
    if !is_left {
        output::note(&format!(
            "warning: no certificate is left{kept}. Without a certificate, the server cannot start. To make a certificate: enfilade certs \
             self-signed NAME; to add an existing certificate: enfilade certs add FILE"
        ));
    }
    Ok(ExitCode::SUCCESS)
}

fn check(installation: &Installation, files: &CertificateFiles, json: bool) -> anyhow::Result<ExitCode> {
    let looked = look(installation, files)?;
    let all = looked.certificates.count();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let verified = progress::shown("verifying certificates", all, |done| {
        files.verify(&looked.certificates, cores, done)
    });
    let good = all - verified.bad.len().min(all);
    let bad = [looked.bad, verified.bad].concat();
    for BadCertificate { file, why } in looked.warnings.iter().chain(&verified.warnings) {
        match json {
            true => output::json_line(&json!({ "file": file, "warning": why })),
            false => output::note(&format!("warning: {file}: {why}")),
        }
    }
    tell_bad(&bad, json);
    if all == 0 && bad.is_empty() {
        bail!(
            "there is no certificate in {}, and without a certificate the server does not start: {}",
            certificates::described(files.place()),
            certificates::how_to_add(files.place())
        );
    }
    if !json {
        let good = output::counted(good, "certificate", "certificates");
        output::line(&format!("{good} can be used, {} cannot", bad.len()));
    }
    Ok(if bad.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Reports each change of the certificates in one line, as a running server sees the change. The command runs until it is stopped.
fn watch(installation: &Installation, files: &CertificateFiles, json: bool) -> anyhow::Result<ExitCode> {
    let rules = installation.config.tls.rules();
    let mut now = look(installation, files)?;
    tell_bad(&now.bad, json);
    if !json {
        let count = output::counted(now.certificates.count(), "certificate", "certificates");
        output::note(&format!("watching {count}; end with Ctrl-C"));
    }
    loop {
        let changes = Watched::new(files).with_context(|| unread(files))?;
        // The first iteration examines everything, because files may have changed before the watch began.
        let mut changed = Changed::Everything;
        loop {
            let looked = match changed {
                Changed::Files(changed) => {
                    files.look_at(&now.certificates, &changed.all, rules, clock::nanos())
                }
                Changed::Everything => files.look_again(&now.certificates, rules, clock::nanos()),
            };
            match looked {
                Ok(looked) => {
                    tell_changes(&now.certificates, &looked.certificates, json);
                    tell_bad(&looked.bad, json);
                    now = looked;
                }
                Err(why) => output::note(&format!(
                    "warning: the certificates cannot be read, so their changes are not reported until they can be read again: {why}"
                )),
            }
            changed = loop {
                let first = changes.wait(TURN);
                if !first.is_nothing() {
                    // The command waits for further changes, because several files are often written one after the other.
                    break first.and(changes.wait(QUIET));
                }
            };
            if changed == Changed::Everything || !changes.is_of(files) {
                break;
            }
        }
    }
}

fn tell_changes(before: &Certificates, after: &Certificates, json: bool) {
    let by_path = |certificates: &Certificates| -> BTreeMap<Box<str>, (u64, i64)> {
        let row = |file: &CertificateFile| (file.path.clone(), (file.version, file.not_after));
        certificates.files().map(|file| row(file)).collect()
    };
    let (before, after) = (by_path(before), by_path(after));
    let tell = |what: &str, file: &str, until: Option<i64>| match json {
        true => output::json_line(&json!({ "event": what, "file": file, "not_after": until })),
        false => {
            let until = until.map(|until| format!(", valid until {}", output::time(until)));
            output::line(&format!("{what}  {file}{}", until.unwrap_or_default()));
        }
    };
    for (file, (version, until)) in &after {
        match before.get(file) {
            None => tell("added", file, Some(*until)),
            Some((known, _)) if known != version => tell("renewed", file, Some(*until)),
            Some(_) => {}
        }
    }
    before.keys().filter(|file| !after.contains_key(*file)).for_each(|file| tell("removed", file, None));
}
