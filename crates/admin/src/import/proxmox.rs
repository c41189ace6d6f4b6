//! Imports the content of the files of a Proxmox Backup Server once, and does not follow later edits of the files. To keep editing the files, put
//! them into the data directory instead. An import from the data directory adds only realms and the passwords of `shadow.json`.

use super::Imported;
use super::accounts::Import;
use super::comparison::would_return;
use super::earlier::Earlier;
use super::source::{ProxmoxFiles, ProxmoxTerms};
use super::stores::Stores;
use crate::change_context::ChangeContext;
use crate::error::Error;
use enfilade_facts::tables::FileName;
use enfilade_facts::{At, Change, Read, View};
use std::path::Path;

/// Other files of a Proxmox Backup Server, and why they are left out.
const OTHERS: [(&str, &str); 14] = [
    ("remote.cfg", "remotes: this server does not pull data from other servers"),
    ("sync.cfg", "sync jobs: this server runs none"),
    ("prune.cfg", "prune jobs: this server runs none"),
    ("verification.cfg", "verification jobs: this server runs none"),
    ("tape.cfg", "tape drives: this server uses none"),
    ("tape-job.cfg", "tape jobs: this server runs none"),
    ("media-pool.cfg", "tape media: this server uses none"),
    ("notifications.cfg", "notifications: use the metrics and logs of this server"),
    ("metricserver.cfg", "metric servers: let Prometheus read the metrics of this server"),
    ("traffic-control.cfg", "limits of traffic: this server does not limit bandwidth"),
    ("s3.cfg", "S3 endpoints: this server stores content only in directories"),
    (
        "ldap_passwords.json",
        "passwords of directory servers: this server does not use LDAP or Active Directory",
    ),
    ("authkey.key", "the key of login tickets: this server has its own keys, so clients log in again"),
    (
        "proxy.pem",
        "the certificate: if clients have to trust the same certificate, add the file with `enfilade certs add`",
    ),
];

/// Imports realms, users with their passwords, tokens with their hashes, roles and datastores from the files in a directory. Existing records do not
/// change, with two exceptions. An existing user without a password gets the password in `shadow.json`, if the user is certainly the same as in the
/// source. If the server follows the files, an existing realm without a description gets the comment of the source. A user with a second factor gets
/// a password only if `terms.without_second_factor` is set. A datastore that may be a live chunk store becomes read-only. Roles are left out if they
/// could give rights that they do not give in the source. Such roles are: roles of a user or token that is possibly not the same as in the source,
/// roles on a datastore that is possibly not the same as in the source, and roles that would also give rights on users or datastores that are only on
/// this server.
///
/// # Errors
/// When a file cannot be read, the facts cannot be changed, or this server already uses a `user.cfg` or `acl.cfg` from another directory. Accounts
/// and roles are imported in one change: after an error in this change, nothing was imported. The datastores are imported in a second step. If the
/// second step fails, the error says that everything else was imported, and whether the datastores are in `datastore.cfg`. The next import completes
/// the second step.
pub fn import_proxmox(
    ctx: &ChangeContext<'_>,
    files: &ProxmoxFiles,
    terms: ProxmoxTerms,
) -> Result<(Vec<Imported>, At), Error> {
    let from = &files.from;
    let stores = match is_followed(ctx, files, terms)? {
        true => None,
        false => {
            let earlier = ctx.facts.read(|view| Earlier::read(view, files.earlier()))??;
            Some(Stores::judge(ctx, &files.datastores, &earlier)?)
        }
    };
    let what = format!("import proxmox {}", from.directory().display());
    let build = |view: &View<'_>, change: &mut Change| {
        Import::new(view, change, files, stores.as_ref(), terms, ctx.now.unix_seconds)?.run()
    };
    let mut rehearsed = Change::requested_by(ctx.requester, ctx.audit(&what));
    let (mut report, mut at) = (ctx.facts.read(|view| build(view, &mut rehearsed))??, ctx.facts.at());
    if !terms.pretend {
        (report, at) = ctx.commit(&what, build)?;
        // The file is written after the facts, because nothing undoes the change of the file if the facts cannot be changed.
        if let Some(stores) = &stores {
            at = stores.add(ctx, &what, files.earlier())?.unwrap_or(at);
        }
    }
    report.extend(stores.into_iter().flat_map(|stores| stores.report));
    let others = OTHERS.into_iter().filter(|(name, _)| from.directory().join(name).exists());
    report.extend(others.map(|(name, why)| Imported::left("file", name, why)));
    Ok((report, at))
}

/// Whether the server follows the files of this directory.
fn is_followed(ctx: &ChangeContext<'_>, files: &ProxmoxFiles, terms: ProxmoxTerms) -> Result<bool, Error> {
    let mut in_use = Vec::new();
    for file in [FileName::Users, FileName::Acl] {
        if ctx.uses(file)? {
            in_use.push(file);
        }
    }
    let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let is_same = real(files.directory()) == real(ctx.files.directory());
    match in_use.first() {
        None => Ok(false),
        Some(_) if is_same => Ok(true),
        Some(file) => {
            let (here, there) = (ctx.files.directory().display(), files.directory().display());
            Err(Error::Invalid(format!(
                "nothing was imported: this server follows its own {file} in `{here}`. The copy in `{there}` can make entries valid again that were removed, revoked or restricted on this server after the copy was made ({}). To use the copy, compare each of its files with the file in `{here}` (for example `diff {here}/user.cfg {there}/user.cfg`), delete the unwanted entries from the copy, copy its files to `{here}`, then run `enfilade import proxmox {here}`",
                would_return(ctx, files, terms)
            )))
        }
    }
}
