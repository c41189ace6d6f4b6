//! Certificates that Enfilade makes itself: the certificate of the local CA, and certificates for servers. The local CA signs the certificates for
//! servers. Without a local CA, the certificates for servers are self-signed.

use crate::home::{Home, make_directory};
use anyhow::{Context, bail};
use enfilade_admin::CertificatePlace;
use enfilade_sources::files::lock::FileLock;
use enfilade_sources::files::{atomic, owner};
use enfilade_tls::Leaf;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SerialNumber,
};
use std::io::ErrorKind;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

const DAY: i64 = 24 * 3600;
/// The number of days from now for which a certificate for a server is valid. Apple's clients refuse certificates that are valid for more than 825
/// days in all.
const SERVER_DAYS: i64 = 824;
/// The number of days for which the local CA is valid: ten years, because people install its certificate in clients by hand.
const AUTHORITY_DAYS: i64 = 3652;
/// The validity of a new certificate begins this number of seconds before now, because clocks of clients may be slow.
const EARLIER: i64 = 3600;
/// The server renews a certificate made by Enfilade when the certificate expires in fewer than this number of days.
const RENEW_DAYS: i64 = 30;
/// The maximum length of a common name (X.520's ub-common-name).
const COMMON_NAME_MAX: usize = 64;

/// The file of the certificate that the first start makes.
pub(crate) const OWN: &str = "localhost.pem";

/// A host name, a wildcard name or an IP address, in the form in which certificates contain it.
///
/// # Errors
/// Fails if the text is neither a host name, nor a wildcard name, nor an IP address.
pub(crate) fn name(text: &str) -> Result<String, String> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok(address.to_string());
    }
    let text = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let is_label = |label: &str| {
        (1..=63).contains(&label.len()) && !label.starts_with('-') && label.bytes().all(is_letter)
    };
    let is_name = text.len() <= 253 && text.strip_prefix("*.").unwrap_or(&text).split('.').all(is_label);
    // If the last label contains only digits, the text is a mistyped IP address.
    let ends_in_digits =
        text.rsplit('.').next().is_some_and(|last| last.bytes().all(|byte| byte.is_ascii_digit()));
    match is_name && !ends_in_digits {
        true => Ok(text),
        false => Err(format!(
            "`{text}` is not a host name or IP address; expected for example nas.lan or 192.168.1.2"
        )),
    }
}

/// A certificate with its key.
pub(crate) struct Made {
    /// The bundle that a server uses: certificate and key.
    pub(crate) bundle: String,
    /// The certificate that clients have to trust: the certificate of the local CA, or the certificate itself if it is self-signed.
    pub(crate) trusted: String,
    /// The parsed certificate.
    pub(crate) leaf: Leaf,
}

/// Makes a certificate for these names, signed by the local CA if there is one.
pub(crate) fn make(names: &[String], authority: Option<&Authority>, now: i64) -> anyhow::Result<Made> {
    let failed = || format!("the certificate for {} cannot be made", names.join(" "));
    let mut params = terms(names, SERVER_DAYS, now).with_context(failed)?;
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    if let Some(first) = names.first().filter(|name| name.len() <= COMMON_NAME_MAX) {
        params.distinguished_name.push(DnType::CommonName, first.as_str());
    }
    let key = KeyPair::generate().with_context(failed)?;
    let certificate = match authority {
        Some(authority) => {
            params.use_authority_key_identifier_extension = true;
            params.signed_by(&key, &authority.issuer()?)
        }
        None => params.self_signed(&key),
    };
    let certificate = certificate.with_context(failed)?;
    let pem = certificate.pem();
    Ok(Made {
        bundle: format!("{pem}{}", key.serialize_pem()),
        trusted: authority.map_or(pem, |authority| authority.certificate.clone()),
        leaf: Leaf::of_der(certificate.der()).map_err(anyhow::Error::msg)?,
    })
}

fn terms(names: &[String], days: i64, now: i64) -> anyhow::Result<CertificateParams> {
    let at = |seconds: i64| {
        rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs(u64::try_from(seconds).unwrap_or_default())
    };
    let mut params = CertificateParams::new(names)?;
    (params.not_before, params.not_after) = (at(now - EARLIER), at(now + days * DAY));
    params.distinguished_name = rcgen::DistinguishedName::new();
    let mut serial = [0; 16];
    getrandom::fill(&mut serial).map_err(|why| anyhow::anyhow!("the kernel gives no random bytes: {why}"))?;
    // The first bit is cleared, because the number must be positive. The second bit is set, because all numbers must have the same length.
    serial[0] = serial[0] & 0x7f | 0x40;
    params.serial_number = Some(SerialNumber::from_slice(&serial));
    Ok(params)
}

/// The local CA of a data directory.
pub(crate) struct Authority {
    /// The certificate of the CA, in PEM.
    pub(crate) certificate: String,
    /// The file of the certificate.
    pub(crate) path: PathBuf,
    key: KeyPair,
}

impl Authority {
    /// The directory of the CA, in the data directory. The data directory is reserved, so no datastore contains the key of the CA.
    fn directory(data: &Path) -> PathBuf {
        data.join("ca")
    }

    /// Reads the local CA; `None` if no local CA was made.
    pub(crate) fn open(data: &Path) -> anyhow::Result<Option<Authority>> {
        let (path, key) = (Self::directory(data).join("ca.crt"), Self::directory(data).join("ca.key"));
        let read = |path: &Path| match std::fs::read_to_string(path) {
            Err(why) if why.kind() == ErrorKind::NotFound => Ok(None),
            read => read.map(Some).with_context(|| format!("`{}` cannot be read", path.display())),
        };
        let Some(certificate) = read(&path)? else { return Ok(None) };
        let text = read(&key)?.with_context(|| {
            format!(
                "the key of the local CA, `{}`, is missing: restore it, or remove `{}` and make a new CA with `enfilade certs ca`",
                key.display(),
                path.display()
            )
        })?;
        let key =
            KeyPair::from_pem(&text).with_context(|| format!("`{}` is not a private key", key.display()))?;
        Ok(Some(Authority { certificate, path, key }))
    }

    /// Makes the local CA with the common name `name`. If an interrupted command left a key without a certificate, the new CA uses this key.
    pub(crate) fn make(data: &Path, name: &str, now: i64) -> anyhow::Result<Authority> {
        let directory = Self::directory(data);
        make_place(data, &directory)?;
        let (path, key_path) = (directory.join("ca.crt"), directory.join("ca.key"));
        let _lock = lock(data, &directory)?;
        let key = match std::fs::read_to_string(&key_path) {
            Ok(text) => KeyPair::from_pem(&text)
                .with_context(|| format!("`{}` is not a private key", key_path.display()))?,
            Err(why) if why.kind() == ErrorKind::NotFound => {
                let key = KeyPair::generate()?;
                write_for_owner(data, &key_path, key.serialize_pem().as_bytes(), 0o600)?;
                key
            }
            Err(why) => return Err(why).with_context(|| format!("`{}` cannot be read", key_path.display())),
        };
        let mut params = terms(&[], AUTHORITY_DAYS, now)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.distinguished_name.push(DnType::CommonName, name);
        let certificate = params.self_signed(&key).context("the local CA cannot be made")?.pem();
        write_for_owner(data, &path, certificate.as_bytes(), 0o644)?;
        Ok(Authority { certificate, path, key })
    }

    fn issuer(&self) -> anyhow::Result<Issuer<'_, &KeyPair>> {
        Issuer::from_ca_cert_pem(&self.certificate, &self.key)
            .with_context(|| format!("`{}` is not a certificate", self.path.display()))
    }

    /// The parsed certificate of the CA.
    pub(crate) fn leaf(&self) -> anyhow::Result<Leaf> {
        Leaf::read(self.certificate.as_bytes(), &mut enfilade_tls::Room::default())
            .map_err(|why| anyhow::anyhow!("`{}`: {why}", self.path.display()))
    }
}

/// Takes the lock of a directory of certificates. So only one process at a time makes a certificate.
fn lock(data: &Path, place: &Path) -> anyhow::Result<FileLock> {
    let path = place.join(".making.lock");
    let lock = FileLock::take(&path, Duration::from_secs(10))?;
    owner::give(&path, data)?;
    Ok(lock)
}

/// Writes a file. The file belongs to the owner of the data directory, even if this process runs as root.
pub(crate) fn write_for_owner(data: &Path, path: &Path, bytes: &[u8], mode: u32) -> anyhow::Result<()> {
    let written = std::fs::metadata(data).and_then(|owner| atomic::replace(path, bytes, mode, Some(&owner)));
    written.with_context(|| format!("`{}` cannot be written", path.display()))
}

/// Makes a directory of certificates or keys, if it does not exist. The new directory belongs to the owner of the data directory.
pub(crate) fn make_place(data: &Path, place: &Path) -> anyhow::Result<()> {
    if place.exists() {
        return Ok(());
    }
    make_directory(place, None)?;
    let given = owner::give(place, data);
    given.with_context(|| {
        format!("the owner of `{}` cannot be changed to the owner of the data directory", place.display())
    })
}

/// Writes a bundle. Also writes the certificate that clients have to trust into the same directory, under the same name with the extension `.crt`.
pub(crate) fn install(data: &Path, place: &Path, made: &Made) -> anyhow::Result<()> {
    write_for_owner(data, place, made.bundle.as_bytes(), 0o600)?;
    write_for_owner(data, &place.with_extension("crt"), made.trusted.as_bytes(), 0o644)
}

/// The names in the certificate of the first start: the names in the configuration, and localhost with its addresses.
fn own_names(named: &[String]) -> Vec<String> {
    let own = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
    let new: Vec<String> = own.into_iter().filter(|own| !named.contains(own)).collect();
    [named, &new].concat()
}

/// Makes the first certificate, if the directory of certificates does not exist. The directory is created under another name, and renamed when it is
/// complete. Otherwise an interruption could leave an empty directory, and the next start would fail. If the directory exists, makes the certificate
/// again if needed.
pub(crate) fn make_own(
    data: &Path,
    place: &CertificatePlace,
    named: &[String],
    now: i64,
) -> anyhow::Result<()> {
    let CertificatePlace::Directory(directory) = place else { return Ok(()) };
    if directory.exists() {
        // A failure is only a warning, because the present certificate is served as long as it is valid.
        if let Err(why) = make_own_again(data, directory, named, now) {
            crate::output::note(&format!(
                "warning: certificate `{}`, which this server made, cannot be made again: {why:#}; the old certificate is served as long as it is \
                 valid",
                directory.join(OWN).display()
            ));
        }
        return Ok(());
    }
    is_made_at_start(data, place)?;
    let named_directory = || format!("certificate directory `{}` cannot be made", directory.display());
    let file = directory.file_name().with_context(named_directory)?.to_string_lossy();
    let new = directory.with_file_name(format!("{file}.new"));
    make_place(data, &new)?;
    let made = make(&own_names(named), Authority::open(data)?.as_ref(), now)?;
    install(data, &new.join(OWN), &made)?;
    match std::fs::rename(&new, directory) {
        // Another starting server has made the directory first.
        Err(_) if directory.exists() => Ok(()),
        renamed => renamed.and_then(|()| atomic::sync_directory(directory)).with_context(named_directory),
    }
}

/// Whether the next start creates the directory of certificates, with a certificate in it.
///
/// # Errors
/// Fails if the directory does not exist, and is not the default directory. The reason: a mistyped name in the configuration must not become a
/// directory with an unwanted certificate.
pub(crate) fn is_made_at_start(data: &Path, place: &CertificatePlace) -> anyhow::Result<bool> {
    let CertificatePlace::Directory(directory) = place else { return Ok(false) };
    if directory.exists() {
        return Ok(false);
    }
    anyhow::ensure!(
        *directory == data.join("tls"),
        "certificate directory `{}` (`[tls] certificates`) does not exist: correct the name, or create the directory and add a certificate \
         with `enfilade certs add`",
        directory.display()
    );
    Ok(true)
}

/// Makes the certificate of the first start again, if this certificate does not contain a configured name, or expires soon. Does nothing if
/// Enfilade did not make the certificate in the file.
fn make_own_again(data: &Path, directory: &Path, named: &[String], now: i64) -> anyhow::Result<()> {
    let place = directory.join(OWN);
    let is_due = || {
        let pem = std::fs::read(&place).ok()?;
        let leaf = Leaf::read(&pem, &mut enfilade_tls::Room::default()).ok()?;
        let lacks = named.iter().any(|name| !leaf.names.contains(name));
        Some(is_self_made(&place, &pem) && (lacks || leaf.not_after < now + RENEW_DAYS * DAY))
    };
    if is_due() != Some(true) {
        return Ok(());
    }
    // If several servers start together, only one of them makes the certificate.
    let _lock = lock(data, directory)?;
    if is_due() != Some(true) {
        return Ok(());
    }
    let made = make(&own_names(named), Authority::open(data)?.as_ref(), now)?;
    install(data, &place, &made)?;
    crate::output::note(&format!(
        "certificate `{}` was made again for the names {}, valid until {}; clients that verify this certificate need the new `{}`",
        place.display(),
        made.leaf.names.join(" "),
        crate::output::time(made.leaf.not_after),
        place.with_extension("crt").display()
    ));
    Ok(())
}

/// Renews the certificate of the first start, and the certificates that the local CA signed, if they expire soon. Clients that trust the CA also
/// trust a renewed certificate.
fn renew(data: &Path, place: &CertificatePlace, named: &[String], now: i64) -> anyhow::Result<()> {
    let CertificatePlace::Directory(directory) = place else { return Ok(()) };
    make_own_again(data, directory, named, now)?;
    let Some(authority) = Authority::open(data)? else { return Ok(()) };
    let listed =
        std::fs::read_dir(directory).with_context(|| format!("`{}` cannot be read", directory.display()))?;
    let trusted = listed.filter_map(|entry| Some(entry.ok()?.path()));
    for trusted in trusted.filter(|path| path.extension().is_some_and(|extension| extension == "crt")) {
        let place = trusted.with_extension("pem");
        let Ok(pem) = std::fs::read(&place) else { continue };
        let Ok(leaf) = Leaf::read(&pem, &mut enfilade_tls::Room::default()) else { continue };
        let is_ours = enfilade_tls::is_issued_by(&pem, authority.certificate.as_bytes());
        if !is_ours || leaf.not_after >= now + RENEW_DAYS * DAY {
            continue;
        }
        let _lock = lock(data, directory)?;
        let mut names = leaf.names;
        // The first name becomes the common name. So host names are sorted before addresses.
        names.sort_by_key(|name| name.parse::<IpAddr>().is_ok());
        install(data, &place, &make(&names, Some(&authority), now)?)?;
        crate::output::note(&format!("`{}` was renewed with the local CA", place.display()));
    }
    Ok(())
}

/// Starts a thread that renews the certificates once a day.
pub(crate) fn follow(home: &Home) -> anyhow::Result<()> {
    let (data, place, named) = (home.data.clone(), home.certificates(), home.config.tls.names().to_vec());
    std::thread::Builder::new().name("own certificates".into()).spawn(move || {
        loop {
            if let Err(why) = renew(&data, &place, &named, crate::clock::now().unix_seconds) {
                crate::output::note(&format!(
                    "warning: certificates that the server makes cannot be renewed: {why:#}"
                ));
            }
            std::thread::park_timeout(Duration::from_secs(DAY.unsigned_abs()));
        }
    })?;
    Ok(())
}

/// The file name of the bundle for a certificate with this name.
pub(crate) fn file_of(name: &str) -> String {
    format!("{}.pem", name.replacen('*', "_", 1))
}

/// Whether Enfilade made a bundle. If Enfilade made it, the same directory contains a file with the extension `.crt`. This file contains the
/// certificate of the issuer.
pub(crate) fn is_self_made(place: &Path, pem: &[u8]) -> bool {
    let trusted = std::fs::read(place.with_extension("crt")).unwrap_or_default();
    enfilade_tls::is_issued_by(pem, &trusted)
}

/// Refuses to replace a certificate that Enfilade did not make.
pub(crate) fn refuse_to_replace(place: &Path) -> anyhow::Result<()> {
    match std::fs::read(place) {
        Ok(pem) if !is_self_made(place, &pem) => bail!(
            "`{}` was not made by `certs self-signed`, and is not replaced: remove it first, or choose another file with --name",
            place.display()
        ),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_host_names_and_addresses() {
        for (text, expected) in [
            ("NAS.lan.", Some("nas.lan")),
            ("*.nas.lan", Some("*.nas.lan")),
            ("localhost", Some("localhost")),
            ("192.0.2.7", Some("192.0.2.7")),
            ("2001:DB8:0::7", Some("2001:db8::7")),
            ("192.0.2.300", None),
            ("192.0.2", None),
            ("https://nas.lan", None),
            ("nas.lan:8443", None),
            ("bücher.lan", None),
            ("a..b", None),
            ("-a.b", None),
            ("a.*.b", None),
            ("", None),
        ] {
            assert_eq!(name(text).ok().as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn certificates_of_the_ca_and_of_the_first_start_are_renewed_before_they_expire() {
        let scratch = enfilade_testkit::Scratch::new();
        let (data, now) = (scratch.path(), 1_800_000_000);
        let directory = data.join("tls");
        let place = CertificatePlace::Directory(directory.clone());
        let named = ["nas.lan".to_owned()];
        make_own(data, &place, &named, now).unwrap();
        let authority = Authority::make(data, "CA", now).unwrap();
        let names = ["box.lan", "192.0.2.7"].map(str::to_owned);
        install(data, &directory.join("box.lan.pem"), &make(&names, Some(&authority), now).unwrap()).unwrap();
        let own = make(&["self.lan".to_owned()], None, now).unwrap();
        install(data, &directory.join("self.lan.pem"), &own).unwrap();
        let all = || {
            ["localhost.pem", "box.lan.pem", "self.lan.pem"]
                .map(|file| std::fs::read(directory.join(file)).unwrap())
        };
        let [first, of_ca, by_itself] = all();
        renew(data, &place, &named, now + (SERVER_DAYS - RENEW_DAYS) * DAY).unwrap();
        assert_eq!(all(), [first.clone(), of_ca.clone(), by_itself.clone()]);
        let later = now + (SERVER_DAYS - RENEW_DAYS + 1) * DAY;
        renew(data, &place, &named, later).unwrap();
        let [first_then, of_ca_then, by_itself_then] = all();
        assert!(first_then != first && of_ca_then != of_ca);
        assert_eq!(by_itself_then, by_itself, "clients of the old certificate would refuse a new one");
        let leaf = Leaf::read(&of_ca_then, &mut enfilade_tls::Room::default()).unwrap();
        assert_eq!(leaf.names, ["192.0.2.7", "box.lan"]);
        assert_eq!(leaf.not_after, later + SERVER_DAYS * DAY);
        assert!(enfilade_tls::is_issued_by(&of_ca_then, authority.certificate.as_bytes()));
    }
}
