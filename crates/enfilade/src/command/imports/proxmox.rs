//! `enfilade import proxmox`, and the steps for the operator after the import.

use super::report::{Report, Step};
use crate::home::Home;
use crate::output::{self, counted, some};
use crate::{example, placed};
use anyhow::Context as _;
use enfilade_admin::{Imported, ProxmoxFiles, ProxmoxTerms, import_proxmox, writable_chunk_stores};
use enfilade_facts::vocabulary::Userid;
use enfilade_sources::files::proxmox_logins::{SECOND_FACTORS, SHADOW};
use std::path::Path;

pub(super) fn run(home: &Home, files: &ProxmoxFiles, terms: ProxmoxTerms) -> anyhow::Result<Report> {
    let directory = files.directory();
    let (items, at) = import_proxmox(&home.change_context(), files, terms)?;
    let mut report = Report { items, at, pretend: terms.pretend, notes: notes(directory), next: Vec::new() };
    if !terms.pretend {
        placed::forget_imported(&home.data);
        let made = example::make_first_keys(home).with_context(|| {
            format!(
                "the records were imported, but login tickets need Fernet keys, and these are missing: correct the cause, then run `{}`, or the same \
                 import again",
                example::command(home, "keys init")
            )
        });
        if made? {
            report.notes.push("Fernet keys were created: logins with `access/ticket` need them.".to_owned());
        }
    }
    report.next = next(home, directory, &report, terms)?;
    Ok(report)
}

/// A note for each missing file that the operator may have forgotten to copy.
fn notes(directory: &Path) -> Vec<String> {
    let is_absent = |name: &&str| !directory.join(name).exists();
    let told = [
        (SHADOW, "no password can be imported"),
        (SECOND_FACTORS, "this import assumes that no user of the old server has a second factor"),
    ];
    let absent = told.into_iter().filter(|(name, _)| is_absent(name));
    absent.map(|(name, then)| format!("{name} is not in `{}`: {then}.", directory.display())).collect()
}

fn next(home: &Home, directory: &Path, report: &Report, terms: ProxmoxTerms) -> anyhow::Result<Vec<Step>> {
    let command = |rest: &str| example::command(home, rest);
    let directory = output::word(&directory.display().to_string());
    if terms.pretend {
        let flag = |is_set: bool, flag: &'static str| if is_set { flag } else { "" };
        let without = flag(terms.without_second_factor, " --without-second-factor");
        let same = flag(terms.same_source, " --same-source");
        let commands = vec![command(&format!("import proxmox {directory}{without}{same}"))];
        return Ok(vec![Step { why: "nothing was changed; to import".to_owned(), commands }]);
    }
    let passwd = |name: &str| command(&format!("user passwd {}", output::word(name)));
    let root = Userid::root_pam().to_string();
    let without = report.names("user", |item| item.differs.is_some());
    // If an operator removed the password of a user on this server, no step is needed for the user.
    let passwords = |is_so: fn(&Imported) -> bool| report.names("password", is_so);
    let taken_away = passwords(Imported::was_taken_away);
    let left_out =
        passwords(|item| item.left_out.is_some() && !item.has_password_here() && !item.was_taken_away());
    let factors = report.names("second factor", |item| left_out.contains(&item.name.as_str()));
    let is_other = |name: &&str| *name != root && !factors.contains(name) && !taken_away.contains(name);
    let others: Vec<&str> = without.iter().copied().filter(is_other).collect();
    let mut next = Vec::new();
    if without.contains(&root.as_str()) {
        let why = format!("{root} has all rights but no password on this server: set a password");
        next.push(Step { why, commands: vec![passwd(&root)] });
    }
    if let Some(first) = factors.first() {
        let mut why = format!(
            "{} of the users had a second factor and cannot log in with a password: {}; set a new password for each",
            factors.len(),
            some(&factors)
        );
        let mut commands = vec![passwd(first)];
        // A record of this server may differ from the record with the same name in the source. If this is possible, the report does not propose an
        // import with `--same-source`, because it would give the passwords, roles and tokens of the source to records of this server.
        if !report.has_doubts() && !passwords(Imported::needs_second_factor).is_empty() {
            why.push_str(", or import their old passwords, which are then enough without a second factor");
            let all = format!("import proxmox {directory} --without-second-factor --same-source");
            commands.push(command(&all));
        }
        next.push(Step { why, commands });
    }
    if let Some(first) = others.first() {
        let why = format!(
            "{} of the users cannot log in with a password until a password is set on this server: {}",
            others.len(),
            some(&others)
        );
        next.push(Step { why, commands: vec![passwd(first)] });
    }
    let roles = report.names("roles", |item| item.left_out.is_some() && !item.exists_here());
    if !roles.is_empty() {
        let why = format!(
            "{}: {}. The table shows the reason. To assign the roles on this server",
            counted(roles.len(), "entry with roles was left out", "entries with roles were left out"),
            some(&roles)
        );
        next.push(Step { why, commands: vec![command("role assign --path PATH --auth-id USER@REALM ROLE")] });
    }
    let open = writable_chunk_stores(home.source())?;
    if !open.is_empty() {
        let why = "the datastores below are chunk stores of Proxmox Backup Server, and writable on this server: a client with a write role can \
                   damage their backups; make them read-only as long as a Proxmox Backup Server uses them";
        let shut = |name: &_| command(&format!("datastore maintenance {name} read-only"));
        next.push(Step { why: why.to_owned(), commands: open.iter().take(5).map(shut).collect() });
    }
    let shut = report.names("datastore", |item| item.differs.is_some());
    if !shut.is_empty() {
        let why = "the datastores below are read-only, because a client that writes into a chunk store damages its backups; open one \
                   only when no Proxmox Backup Server uses it any more";
        let open = |name: &&str| command(&format!("datastore maintenance {name} none"));
        next.push(Step { why: why.to_owned(), commands: shut.iter().take(5).map(open).collect() });
    }
    if let Some(first) = report.names("datastore", |item| item.left_out.is_none()).first() {
        let why = "an imported datastore has no ACL, so the mode bits of its files also decide who has access. An imported user without a uid \
                   counts as \"other\", and usually cannot write; give rights with an ACL";
        let acl = format!("acl set {first} / 'allow USER@REALM modify inherit=files,dirs' --recursive");
        next.push(Step { why: why.to_owned(), commands: vec![command(&acl)] });
    }
    if !report.names("file", |item| item.name == "proxy.pem").is_empty() {
        let why = "clients trust the certificate of the old server: add this certificate if the new server has the same host name";
        let join = format!("cat {directory}/proxy.pem {directory}/proxy.key > proxmox.pem");
        next.push(Step { why: why.to_owned(), commands: vec![join, command("certs add proxmox.pem")] });
    }
    next.extend(example::try_it(home).map(|(why, commands)| Step { why, commands }));
    Ok(next)
}
