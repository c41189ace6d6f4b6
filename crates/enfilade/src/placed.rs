//! The files of a Proxmox Backup Server that contain passwords, realms and second factors. This server mirrors no records from these files, although
//! they are in the directory of `user.cfg`. Each start and `enfilade doctor` say which of these files are not in use. Otherwise an operator could
//! think that this server checks the second factors of Proxmox.

use crate::home::server_change_context;
use crate::{clock, example, output};
use anyhow::Context as _;
use enfilade_admin::{Imported, ProxmoxFiles, ProxmoxTerms, ReservedPaths, import_proxmox};
use enfilade_facts::Source;
use enfilade_facts::tables::FileName;
use enfilade_sources::files::file_set::FileSet;
use enfilade_sources::files::proxmox_logins::{DOMAINS, SECOND_FACTORS, SHADOW};
use std::collections::BTreeSet;
use std::path::Path;

/// The file in the data directory in which earlier versions listed the records that imports added. Imports now keep this list in the facts, and move
/// the content of the file there.
pub(crate) const IMPORTED: &str = "imported.json";

/// Reads the file in which an earlier version listed the records that imports from a Proxmox Backup Server added. Returns the kind and name of each
/// record.
pub(crate) fn imported_before(data: &Path) -> anyhow::Result<BTreeSet<String>> {
    let path = data.join(IMPORTED);
    let text = match std::fs::read(&path) {
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
        text => text.with_context(|| format!("`{}` cannot be read", path.display()))?,
    };
    serde_json::from_slice(&text).with_context(|| {
        format!(
            "`{}` is damaged, so an import could bring back records that were removed from this server: restore the file from a backup",
            path.display()
        )
    })
}

/// Removes the file [`IMPORTED`] of an earlier version, after an import has written the names in the file to the facts. If the file cannot be
/// removed, the next import reads it again, and the result is the same.
pub(crate) fn forget_imported(data: &Path) {
    let _ = std::fs::remove_file(data.join(IMPORTED));
}

/// A file that is not in use.
pub(crate) struct Unused {
    pub(crate) file: &'static str,
    pub(crate) says: String,
}

/// Each file that is not in use, or is only partly in use, with the command that imports it.
pub(crate) fn unused(
    data: &Path,
    source: &dyn Source,
    files: &FileSet,
    reserved: &ReservedPaths,
) -> Vec<Unused> {
    let has = |name: &str| files.directory().join(name).exists();
    let placed: Vec<&'static str> =
        [SECOND_FACTORS, SHADOW, DOMAINS].into_iter().filter(|name| has(name)).collect();
    let Some(first) = placed.first().copied() else { return Vec::new() };
    if !has(FileName::Users.as_str()) {
        return Vec::new();
    }
    let directory = output::word(&files.directory().display().to_string());
    let command = example::command_of(data, &format!("import proxmox {directory}"));
    let terms = ProxmoxTerms { pretend: true, ..ProxmoxTerms::default() };
    let earlier = match imported_before(data) {
        Ok(earlier) => earlier,
        Err(why) => return vec![Unused { file: first, says: not_compared(&placed, &format!("{why:#}")) }],
    };
    let read = ProxmoxFiles::read(files, terms).and_then(|read| {
        let read = read.after(earlier);
        let ctx = server_change_context(source, files, reserved, clock::now());
        let (items, _) = import_proxmox(&ctx, &read, terms)?;
        let here = enfilade_admin::keystone::list_domains(source)?;
        Ok((read, items, here))
    });
    let (read, items, here) = match read {
        Ok(read) => read,
        Err(why) => {
            return vec![Unused { file: first, says: not_compared(&placed, &why) }];
        }
    };
    let mut unused = Vec::new();
    let is_new = |item: &&Imported| item.kind == "password" && item.left_out.is_none();
    let says = match items.iter().filter(is_new).count() {
        0 => None,
        1 => Some(format!("{SHADOW} has 1 password that is not in use: run `{command}`")),
        count => Some(format!("{SHADOW} has {count} passwords that are not in use: run `{command}`")),
    };
    unused.extend(says.map(|says| Unused { file: SHADOW, says }));
    let is_unknown = |(realm, comment): &(&_, Option<&str>)| {
        let known = here.iter().find(|row| row.name == **realm);
        known.is_none_or(|known| comment.is_some() && known.description.is_none())
    };
    let realms: Vec<&str> = read.realms().filter(is_unknown).map(|(realm, _)| realm.as_str()).collect();
    if !realms.is_empty() {
        let says = format!(
            "{DOMAINS} has realms that do not exist on this server, or that have a comment only in this file: {}; run `{command}`",
            output::some(&realms)
        );
        unused.push(Unused { file: DOMAINS, says });
    }
    let users: Vec<String> = read.with_second_factor().map(ToString::to_string).collect();
    unused.extend(without_factor(&users, &items, &command).map(|says| Unused { file: SECOND_FACTORS, says }));
    unused
}

/// A warning about users with a second factor in Proxmox. This server does not check the second factors of Proxmox. `items` contains the users that
/// have a password on this server.
fn without_factor(users: &[String], items: &[Imported], command: &str) -> Option<String> {
    let has_password = |name: &str| {
        items.iter().any(|item| item.kind == "password" && item.name == name && item.has_password_here())
    };
    let names: Vec<&str> = users.iter().map(String::as_str).collect();
    if names.is_empty() {
        return None;
    }
    let (alone, others): (Vec<&str>, Vec<&str>) = names.iter().partition(|name| has_password(name));
    let alone = (!alone.is_empty())
        .then(|| format!("{} can log in without the second factor of Proxmox", output::some(&alone)));
    let others = match (others.is_empty(), &alone) {
        (true, _) => None,
        (false, None) => {
            Some(format!("`{command}` imports no password for these users, and shows the next step"))
        }
        (false, Some(_)) => {
            Some(format!("`{command}` imports no password for the other users, and shows the next step"))
        }
    };
    let then: Vec<String> = alone.into_iter().chain(others).collect();
    Some(format!(
        "{SECOND_FACTORS} is not in use: this server imports no second factors, but Proxmox has second factors of {}; {}",
        output::some(&names),
        then.join("; ")
    ))
}

fn not_compared(placed: &[&str], why: &dyn std::fmt::Display) -> String {
    format!("{} cannot be compared with the records of this server: {why}", placed.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_who_has_a_password_is_not_said_to_get_none() {
        let users = ["ann@pbs".to_owned(), "bob@pbs".to_owned()];
        let here =
            |name: &str| Imported::left("password", name, "the user already has a password on this server");
        let says = |items: &[Imported]| without_factor(&users, items, "import").unwrap();
        let begin = "tfa.json is not in use: this server imports no second factors, but Proxmox has second factors of ann@pbs, bob@pbs; ";
        assert_eq!(
            says(&[]),
            format!("{begin}`import` imports no password for these users, and shows the next step")
        );
        let one = "bob@pbs can log in without the second factor of Proxmox; `import` imports no password for the other users, and shows the next step";
        assert_eq!(says(&[here("bob@pbs")]), format!("{begin}{one}"));
        let both = says(&[here("ann@pbs"), here("bob@pbs")]);
        assert_eq!(both, format!("{begin}ann@pbs, bob@pbs can log in without the second factor of Proxmox"));
        assert_eq!(without_factor(&[], &[], "import"), None);
    }

    #[test]
    fn the_list_of_an_earlier_version_is_read_and_a_damaged_one_is_an_error() {
        let scratch = enfilade_testkit::Scratch::new();
        let data = scratch.path();
        assert!(imported_before(data).unwrap().is_empty());
        std::fs::write(data.join(IMPORTED), "[\"user ann@pbs\"]").unwrap();
        assert_eq!(imported_before(data).unwrap(), BTreeSet::from(["user ann@pbs".to_owned()]));
        std::fs::write(data.join(IMPORTED), "[").unwrap();
        assert!(imported_before(data).unwrap_err().to_string().contains("is damaged"));
        forget_imported(data);
        assert!(imported_before(data).unwrap().is_empty());
    }

    #[test]
    fn only_files_that_exist_are_named() {
        let says = not_compared(&[SECOND_FACTORS, DOMAINS], &"why");
        assert_eq!(says, "tfa.json, domains.cfg cannot be compared with the records of this server: why");
    }
}
