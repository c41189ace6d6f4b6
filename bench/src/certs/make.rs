//! Makes bundles like the bundles of a server with many customers. A bundle is a PEM file with a certificate, an intermediate certificate and a key.
//! The keys are P-256 and RSA-2048. The certificates have two to fifty names, some with wildcards. Each certificate is unique and signed. The keys
//! come from a small pool, because the generation of a key takes long.

use crate::Failure;
use crate::stopwatch::now;
use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_RSA_SHA256, RsaKeySize,
    SerialNumber,
};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const POOL: usize = 32;
/// The approximate size of the signed certificate timestamps (SCTs) in a real certificate, in bytes.
const SCT_BYTES: usize = 240;

struct Authority {
    issuer: Issuer<'static, KeyPair>,
    intermediate: String,
}

impl Authority {
    fn new(name: &str, root: KeyPair, key: KeyPair) -> Result<Self, Failure> {
        let mut root_params = CertificateParams::new(Vec::new())?;
        root_params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        root_params.distinguished_name.push(DnType::CommonName, format!("{name} root"));
        let root = Issuer::new(root_params, root);
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.distinguished_name.push(DnType::CommonName, name);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let intermediate = params.signed_by(&key, &root)?.pem();
        Ok(Authority { issuer: Issuer::new(params, key), intermediate })
    }
}

/// The names in the certificate with the number `n`.
pub(crate) fn names_of(n: usize) -> Vec<String> {
    let base = format!("c{n}.t{}.example", n % 97);
    match n % 20 {
        0..=13 => vec![base.clone(), format!("www.{base}")],
        14..=16 => vec![format!("*.{base}"), base],
        17 | 18 => (0..8).map(|m| format!("s{m}.{base}")).collect(),
        _ => (0..50).map(|m| format!("s{m}.{base}")).collect(),
    }
}

/// The directory with `count` bundles. Makes the bundles if they are missing.
pub(crate) fn directory(count: usize) -> Result<PathBuf, Failure> {
    let base = std::env::current_exe()?
        .parent()
        .and_then(Path::parent)
        .ok_or("the program is in the root directory")?
        .join("bench-certs");
    let (directory, done) = (base.join(count.to_string()), base.join(format!("{count}.done")));
    if done.exists() {
        return Ok(directory);
    }
    make(&directory, count)?;
    std::fs::write(done, "")?;
    Ok(directory)
}

/// Makes `count` bundles in the directory.
pub(crate) fn make(directory: &Path, count: usize) -> Result<(), Failure> {
    std::fs::create_dir_all(directory)?;
    let rsa = || KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048);
    let ec = || KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256);
    let p384 = || KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384);
    let authorities = [
        Authority::new("an EC authority", p384()?, p384()?)?,
        Authority::new("an RSA authority", rsa()?, rsa()?)?,
    ];
    let pools: [Vec<KeyPair>; 2] = [
        (0..POOL).map(|_| ec()).collect::<Result<_, _>>()?,
        (0..POOL).map(|_| rsa()).collect::<Result<_, _>>()?,
    ];
    let next = AtomicUsize::new(0);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let one = |n: usize| -> Result<(), Failure> {
        // Certificates with even numbers have EC keys; all certificates with fifty names have odd numbers.
        let kind = n % 2;
        let (authority, pool) =
            (authorities.get(kind).ok_or("no authority")?, pools.get(kind).ok_or("no keys")?);
        let key = pool.get(n % POOL).ok_or("no key")?;
        let names = names_of(n);
        let common = names.first().cloned().unwrap_or_default();
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name.push(DnType::CommonName, common);
        params.serial_number = Some(SerialNumber::from(n as u64 + 1));
        params.not_before = rcgen::date_time_ymd(2026, 1, 1);
        params.not_after = rcgen::date_time_ymd(2036, 1, 1);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let logged: Vec<u8> = (0..SCT_BYTES).map(|at| (at * 31 + n * 7) as u8).collect();
        params.custom_extensions =
            vec![CustomExtension::from_oid_content(&[1, 3, 6, 1, 4, 1, 11129, 2, 4, 2], logged)];
        let mut text = params.signed_by(key, &authority.issuer)?.pem();
        let _ = write!(text, "{}{}", authority.intermediate, key.serialize_pem());
        Ok(std::fs::write(directory.join(format!("{n:07}.pem")), text)?)
    };
    std::thread::scope(|scope| {
        let run = || -> Result<(), String> {
            let mut shown = now();
            loop {
                let n = next.fetch_add(1, Ordering::Relaxed);
                if n >= count {
                    return Ok(());
                }
                one(n).map_err(|why| why.to_string())?;
                if shown.elapsed() > Duration::from_secs(2) {
                    eprintln!("making certificates: {n} of {count}");
                    shown = now();
                }
            }
        };
        let running: Vec<_> = (0..cores).map(|_| scope.spawn(run)).collect();
        running.into_iter().try_for_each(|one| one.join().map_err(|_| "a thread ended")?)
    })
    .map_err(|why: String| why.into())
}
