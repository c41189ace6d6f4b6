//! Programs with which Enfilade is compared. The programs that were rebuilt from descriptions are in the crate `bench/peers`.

pub(crate) mod keystone;
pub(crate) mod libxcrypt;

use crate::Failure;
use crate::report::Report;
use std::path::Path;
use std::process::{Command, Stdio};

/// Adds a program that was rebuilt from descriptions to the report.
pub(crate) fn tell_rebuilt(report: &mut Report, what: &str, versions: &str) {
    report.peer(what, versions, "rebuilt in `bench/peers`");
}

/// Adds the library that computes the hashes of a rebuilt program to the report.
pub(crate) fn tell_libxcrypt(report: &mut Report) {
    report.peer(
        "libxcrypt",
        libxcrypt::version(),
        "called by perl's `crypt`; each thread that computes a hash uses a separate process of perl",
    );
}

/// Adds the versions of libraries with which Enfilade is compared to the report.
pub(crate) fn tell_libraries(report: &mut Report, names: &[&str]) {
    for name in names {
        let after = include_str!("../../Cargo.lock").split_once(&format!("name = \"{name}\"\nversion = \""));
        let version =
            after.and_then(|(_, after)| after.split_once('"')).map_or("unknown", |(version, _)| version);
        report.peer(*name, version, "the default features");
    }
}

/// Makes a self-signed certificate for `localhost`, by OpenSSL.
pub(crate) fn self_signed(key: &Path, certificate: &Path) -> Result<(), Failure> {
    let mut openssl = Command::new("openssl");
    openssl.args([
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "7",
    ]);
    openssl.args(["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]);
    openssl
        .args(["-addext", "basicConstraints=critical,CA:FALSE", "-keyout"])
        .arg(key)
        .arg("-out")
        .arg(certificate);
    match openssl.stderr(Stdio::null()).status()?.success() {
        true => Ok(()),
        false => Err("openssl makes no certificate".into()),
    }
}
