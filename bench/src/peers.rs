//! Programs with which Enfilade is compared. If a program was rebuilt from descriptions, its module contains the measurements of the original.

pub(crate) mod datastore_cfg;
pub(crate) mod keystone;
pub(crate) mod libxcrypt;
pub(crate) mod token_cache;

use crate::Failure;
use std::path::Path;
use std::process::{Command, Stdio};

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
