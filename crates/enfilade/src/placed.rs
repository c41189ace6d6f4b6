//! Files of a Proxmox Backup Server next to `user.cfg` that this server does not follow: passwords, realms and second factors. What is not in use is
//! said at each start and by `enfilade doctor`, so that nobody believes that a second factor is checked here.

use crate::home::server_change_context;
use crate::{clock, example, output};
use enfilade_admin::{Imported, ProxmoxFiles, ProxmoxTerms, ReservedPaths, import_proxmox};
use enfilade_facts::Source;
use enfilade_facts::tables::FileName;
use enfilade_sources::files::file_set::FileSet;
use enfilade_sources::files::proxmox_logins::{DOMAINS, SECOND_FACTORS, SHADOW};
use std::path::Path;

/// A file that is not in use.
pub(crate) struct Unused {
    pub(crate) file: &'static str,
    pub(crate) says: String,
}

/// Each file that is not in use, or only in part, with the command that imports it.
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
    let directory = example::quoted(&files.directory().display().to_string());
    let command = example::command_of(data, &format!("import proxmox {directory}"));
    let terms = ProxmoxTerms { pretend: true, ..ProxmoxTerms::default() };
    let read = ProxmoxFiles::read(files, terms).and_then(|read| {
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
            "{DOMAINS} has realms that are not in use, or without their comments: {}; run `{command}`",
            output::some(&realms)
        );
        unused.push(Unused { file: DOMAINS, says });
    }
    let users: Vec<String> = read.with_second_factor().map(ToString::to_string).collect();
    if !users.is_empty() {
        let names: Vec<&str> = users.iter().map(String::as_str).collect();
        let says = format!(
            "{SECOND_FACTORS} is not in use: this server checks no second factor, also not of {}; `{command}` gives them no password, and says what to \
             do",
            output::some(&names)
        );
        unused.push(Unused { file: SECOND_FACTORS, says });
    }
    unused
}

fn not_compared(placed: &[&str], why: &dyn std::fmt::Display) -> String {
    format!("{} cannot be compared with this server: {why}", placed.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_that_exist_are_named() {
        let says = not_compared(&[SECOND_FACTORS, DOMAINS], &"why");
        assert_eq!(says, "tfa.json, domains.cfg cannot be compared with this server: why");
    }
}
