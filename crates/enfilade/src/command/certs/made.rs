//! `enfilade certs self-signed` and `certs ca`: certificates that Enfilade makes itself.

use super::{described, place_of};
use crate::home::{Installation, roots_of};
use crate::reserved::{refuse_exposed, written_to};
use crate::self_made::{self, Authority};
use crate::{clock, output};
use anyhow::{Context, bail};
use enfilade_admin::CertificateFiles;
use enfilade_tls::{Leaf, Room};
use serde_json::json;
use std::process::ExitCode;

pub(super) fn self_signed(
    installation: &Installation,
    files: &CertificateFiles,
    names: Vec<String>,
    file: Option<String>,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let configured = installation.config.tls.names();
    let mut names = if names.is_empty() { configured.to_vec() } else { names };
    let mut seen = std::collections::BTreeSet::new();
    names.retain(|name| seen.insert(name.clone()));
    let first = names.first().context(
        "no names: give host names and addresses, as in `enfilade certs self-signed nas.lan 192.168.1.2`, or set [tls] names",
    )?;
    let file = file.unwrap_or_else(|| self_made::file_of(first));
    let place = place_of(files, &file)?;
    if place.extension().is_none_or(|extension| extension != "pem") {
        bail!("`{file}` does not end in .pem: choose a name such as `nas.lan.pem`");
    }
    self_made::refuse_to_replace(&place)?;
    refuse_exposed(
        written_to(&place),
        &installation.data,
        roots_of(&installation.data, &installation.config),
    )?;
    let before = std::fs::read(&place).ok().and_then(|pem| Leaf::read(&pem, &mut Room::default()).ok());
    self_made::make_place(&installation.data, files.place().path())?;
    let authority = Authority::open(&installation.data)?;
    let made = self_made::make(&names, authority.as_ref(), clock::now().unix_seconds)?;
    self_made::install(&installation.data, &place, &made)?;
    let trust = place.with_extension("crt").display().to_string();
    let by = if authority.is_some() { "local CA" } else { "itself" };
    let lost: Vec<&String> =
        before.iter().flat_map(|leaf| &leaf.names).filter(|name| !made.leaf.names.contains(name)).collect();
    let more = [
        ("signed_by", by.into()),
        ("trust", trust.clone().into()),
        ("replaced", before.is_some().into()),
        ("names_lost", json!(lost)),
    ];
    let value = described(&place.to_string_lossy(), &made.leaf, more);
    let until = output::time(made.leaf.not_after);
    let mut how = match &authority {
        Some(_) => {
            "signed by the local CA: clients that trust this CA trust the certificate (`enfilade certs ca --show` prints the CA)"
                .to_owned()
        }
        None => format!(
            "self-signed: so that clients trust the certificate, give them `{trust}`, or the output of `enfilade certs show {first} --pem`"
        ),
    };
    if before.is_some() {
        how.push_str("\nthe new certificate replaces an earlier certificate");
        how.push_str(if authority.is_none() {
            ": clients that trusted the earlier certificate must trust the new one"
        } else {
            ""
        });
    }
    if !lost.is_empty() {
        let lost: Vec<&str> = lost.iter().map(|name| name.as_str()).collect();
        how.push_str(&format!("\nthe new certificate no longer contains these names: {}", lost.join(" ")));
    }
    let listen = &installation.config.tls.listen;
    if listen.is_local() {
        how.push_str(&format!(
            "\nother machines cannot connect to the server, because `[tls] listen = \"{listen}\"`. To accept their connections, set \
             `[tls] listen = \":8443\"`, or give `--listen`, and restart the server"
        ));
    }
    output::done(json, &value, &format!("`{file}` made: {}, valid until {until}\n{how}", names.join(" ")));
    Ok(ExitCode::SUCCESS)
}

pub(super) fn ca(
    installation: &Installation,
    show: bool,
    name: Option<String>,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let there = Authority::open(&installation.data)?;
    if show {
        let there = there.context("there is no local CA: make one with `enfilade certs ca`")?;
        let value = json!({ "certificate": there.certificate });
        output::done(json, &value, there.certificate.trim_end());
        return Ok(ExitCode::SUCCESS);
    }
    let is_new = there.is_none();
    if let (Some(_), Some(name)) = (&there, &name) {
        bail!(
            "there is a local CA already, and its name cannot be changed to `{name}`: see `enfilade certs ca`"
        );
    }
    let authority = match there {
        Some(there) => there,
        None => {
            let name = name.unwrap_or_else(usual_name);
            Authority::make(&installation.data, &name, clock::now().unix_seconds)?
        }
    };
    let leaf = authority.leaf()?;
    let value = json!({
        "file": authority.path, "created": is_new, "not_before": leaf.not_before, "not_after": leaf.not_after,
    });
    let what = if is_new { "local CA made" } else { "the local CA was made already; nothing was changed" };
    let text = format!(
        "{what}: `{}`, valid until {}\nto write the CA certificate for clients: `enfilade certs ca --show > enfilade-ca.crt`; to make a certificate \
         for the server: `enfilade certs self-signed NAME`",
        authority.path.display(),
        output::time(leaf.not_after),
    );
    output::done(json, &value, &text);
    Ok(ExitCode::SUCCESS)
}

/// The default name of the CA. It contains the name of the machine, because people must be able to distinguish several CAs.
fn usual_name() -> String {
    let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("Enfilade CA {}", machine.trim()).trim_end().chars().take(64).collect()
}
