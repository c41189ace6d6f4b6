//! The steps for the operator after an import.

use super::super::dump;
use super::super::report::{Report, Step};
use super::Terms;
use crate::home::Home;
use crate::output::{self, counted, some};
use crate::{example, operations};
use enfilade_admin::Imported;
use enfilade_admin::keystone::{CloudRecord, list_catalog};
use enfilade_facts::tables::Endpoint;

/// The steps that the operator has to do after the import.
pub(super) fn steps(
    home: &Home,
    name: &str,
    terms: &Terms<'_>,
    things: &[CloudRecord],
    report: &Report,
) -> Vec<Step> {
    let command = |rest: &str| example::command(home, rest);
    let import = format!("import keystone --os-cloud {}", output::word(name));
    let dump = terms.passwords;
    if report.pretend {
        let dump = dump.map(|file| format!(" --passwords {}", output::word(&file.display().to_string())));
        let taken = if terms.leave_out_taken { " --leave-out-taken" } else { "" };
        let deleted = if terms.restore_deleted { " --restore-deleted" } else { "" };
        let commands = vec![command(&format!("{import}{}{taken}{deleted}", dump.unwrap_or_default()))];
        return vec![Step { why: "nothing was changed; to import".to_owned(), commands }];
    }
    let dumped = |words: &str| {
        vec![
            format!(
                "mysqldump keystone {} > keystone.sql      # on the database server of Keystone",
                dump::names_of_tables()
            ),
            command(&format!("{import} --passwords keystone.sql")),
            command(words),
        ]
    };
    let mut next = Vec::new();
    let without = report.names("user", Imported::lacks_secret);
    if let Some(first) = without.first() {
        let why = format!(
            "{}: {}{}",
            counted(without.len(), "user has no password", "users have no password"),
            some(&without),
            of_directories(things)
        );
        let one = format!("user passwd {}", output::word(first));
        let commands = if dump.is_some() { vec![command(&one)] } else { dumped(&one) };
        next.push(Step { why, commands });
    }
    let credentials = report.names("application credential", Imported::lacks_secret);
    if let Some(first) = credentials.first() {
        let count = counted(
            credentials.len(),
            "application credential needs a secret before it works",
            "application credentials need a secret each before they work",
        );
        let why = format!("{count}: {}", some(&credentials));
        let one = format!("token regenerate {}", output::word(first));
        let commands = if dump.is_some() { vec![command(&one)] } else { dumped(&one) };
        next.push(Step { why, commands });
    }
    let now = if operations::is_served(&home.data) { " (a server runs now: stop it first)" } else { "" };
    let why = format!(
        "tokens that Keystone issued stay valid only if this server has the keys of Keystone: copy /etc/keystone/fernet-keys of the server of \
         Keystone to `{}` while no server uses this data directory{now}, then check the keys",
        home.fernet_keys().directory().display()
    );
    let commands = vec![command("keys check")];
    next.push(Step { why, commands });
    next
}

/// A text about the users of the source that have long ids. These users come from LDAP directories or identity providers. Only the directory or the
/// provider has the passwords of these users. This server does not use the directory or the provider.
fn of_directories(things: &[CloudRecord]) -> String {
    let is_of_directory = |thing: &&CloudRecord| matches!(thing, CloudRecord::User(id, _) if id.is_long());
    match things.iter().filter(is_of_directory).count() {
        0 => String::new(),
        count => format!(
            "; {} from LDAP directories or identity providers: set their passwords on this server, because no dump contains the passwords",
            counted(count, "of the source's users comes", "of the source's users come")
        ),
    }
}

/// The next step if endpoints of the identity service still have the URL of the source: the operator has to change these endpoints.
pub(super) fn identity_endpoints(home: &Home, things: &[CloudRecord]) -> anyhow::Result<Option<Step>> {
    let is_of_source = |url: &str| {
        things.iter().any(|thing| matches!(thing, CloudRecord::Endpoint(_, row) if row.url == url))
    };
    let (mut urls, mut commands) = (Vec::new(), Vec::new());
    for found in list_catalog(home.source())?.iter().filter(|found| found.service.kind == "identity") {
        for entry in found.endpoints.iter().filter(|entry| is_of_source(&entry.endpoint.url)) {
            let Endpoint { interface, region, url, .. } = &entry.endpoint;
            let region = region.as_ref().map(|region| format!(" --region {}", output::word(region)));
            let change = format!(
                "catalog endpoint {} {interface} https://HOST:PORT/v3{}",
                found.id,
                region.unwrap_or_default()
            );
            commands.push(example::command(home, &change));
            urls.push(url.clone());
        }
    }
    urls.sort();
    urls.dedup();
    let why = format!(
        "the catalog still contains the URLs of the identity service of the source ({}); if clients are to use this server at another address, \
         change these URLs",
        urls.join(", ")
    );
    Ok((!commands.is_empty()).then_some(Step { why, commands }))
}
