//! The commands. Each command reads its arguments, calls functions of the crate `enfilade-admin`, and prints the result.

mod access;
mod acls;
mod backup;
mod certs;
mod config;
mod datastores;
mod doctor;
mod explain;
mod manual;
mod penalties;
mod reference;
mod facts;
mod groups;
mod imports;
mod judge;
mod keys;
mod keystone;
mod revoke;
mod roles;
mod sessions;
mod tokens;
mod users;

use crate::cli::{Cli, Command, Facts};
use crate::config::distance;
use crate::home::{self, Home, IfMissing, Installation};
use crate::{clock, first_start, notes, output, serve, start};
use anyhow::bail;
use enfilade_admin::ExampleLogin;
use std::process::ExitCode;

pub(crate) fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    let json = cli.json;
    let cli = match cli {
        // Penalties are only in the memory of running servers, so neither the configuration nor the facts are opened.
        Cli { command: Command::Penalties(command), data, .. } => {
            penalties::run(&home::data_directory(data)?, command, json)?;
            return Ok(ExitCode::SUCCESS);
        }
        cli => cli,
    };
    match &cli.command {
        // The commands for completions, man pages and the reference need no data directory, and must not create one.
        Command::Completions { shell } => return Ok(manual::completions(*shell)),
        Command::Man { directory } => return manual::pages(directory),
        Command::Reference { subject, word } => return reference::run(*subject, word.as_deref(), json),
        // A restore gives its directory the name of the data directory only when the restore is complete.
        Command::Restore(command) => {
            return backup::restore(cli.data, command, json).map(|()| ExitCode::SUCCESS);
        }
        Command::Config(command) => {
            return config::run(command.clone(), cli.data, cli.config.as_deref(), json);
        }
        // `bootstrap` checks the new password before it creates a data directory. A pretended import creates no data directory.
        Command::Bootstrap(new) => {
            return keystone::bootstrap(new.clone(), cli.data, cli.config.as_deref(), json);
        }
        Command::Import(command) if imports::has_no_house(command, cli.data.as_deref())? => {
            return imports::pretend(command.clone(), cli.data, cli.config.as_deref(), json);
        }
        _ => {}
    }
    let installation = Installation::find(cli.data, cli.config.as_deref(), if_missing(&cli.command))?;
    let command = match cli.command {
        // `facts`, `backup`, `doctor` and `certs` must run even if the store cannot be opened, because users need these commands to examine or
        // restore the store.
        Command::Facts(command) => return facts::run(&installation, command, json),
        Command::Backup(command) => {
            return backup::run(&installation, &command, json).map(|()| ExitCode::SUCCESS);
        }
        Command::Doctor => return doctor::run(&installation, json),
        Command::Certs(command) => return certs::run(&installation, command, json),
        command => command,
    };
    let home = match &command {
        Command::Serve(arguments) => {
            notes::hand_over()?;
            serve::try_to_listen(&installation, arguments)?;
            start::open_home(&installation)?
        }
        _ => Home::open(installation)?,
    };
    match command {
        Command::Facts(_)
        | Command::Backup(_)
        | Command::Restore(_)
        | Command::Doctor
        | Command::Bootstrap(_)
        | Command::Penalties(_)
        | Command::Certs(_)
        | Command::Config(_)
        | Command::Reference { .. }
        | Command::Completions { .. }
        | Command::Man { .. } => {}
        Command::Serve(arguments) => return serve::run(home, &arguments, json),
        Command::Init => match first_start::settle(&home)? {
            Some(settled) => settled.tell(&home, json),
            None => bail!(
                "`{}` is already set up, nothing was changed: start the server with `enfilade serve`{}",
                home.data.display(),
                lost_password(&home)?
            ),
        },
        Command::Domain(command) => keystone::domain(&home, command, json)?,
        Command::Project(command) => keystone::project(&home, command, json)?,
        Command::Catalog(command) => keystone::catalog(&home, command, json)?,
        Command::Revoke(command) => revoke::run(&home, command, json)?,
        Command::Session(command) => sessions::run(&home, command, json)?,
        Command::User(command) => users::run(&home, command, json)?,
        Command::Group(command) => groups::run(&home, command, json)?,
        Command::Role(command) => roles::run(&home, command, json)?,
        Command::Token(command) => tokens::run(&home, command, json)?,
        Command::Keys(command) => return keys::run(&home, command, json),
        Command::Datastore(command) => datastores::run(&home, command, json)?,
        Command::Import(command) => imports::run(&home, command, json)?,
        Command::Acl(command) => acls::run(&home, command, json)?,
        Command::Explain(arguments) => return explain::run(&home, &arguments, json),
    }
    Ok(ExitCode::SUCCESS)
}

/// What a command does if there is no data directory. A command that only shows or changes something must not create an empty data directory for a
/// mistyped name.
fn if_missing(command: &Command) -> IfMissing {
    match command {
        Command::Serve(_) | Command::Init | Command::Import(_) => IfMissing::Create,
        Command::Facts(Facts::Restore { .. } | Facts::Load { .. }) => IfMissing::Create,
        _ => IfMissing::Refuse,
    }
}

/// A hint with the most similar existing name, for the error that `name` does not exist.
fn similar<'n>(names: impl Iterator<Item = &'n str>, name: &str) -> String {
    let similar = names.map(|known| (distance(known, name), known)).min();
    let similar = similar.filter(|(distance, _)| *distance <= 2);
    similar.map(|(_, similar)| format!(" (is `{similar}` meant?)")).unwrap_or_default()
}

/// How an administrator is made.
const NEW_ADMINISTRATOR: &str = "run `enfilade user add NAME@local --password`, then `enfilade role assign --path / --auth-id NAME@local Admin`";

/// Warns if a change removed the last administrator.
fn warn_without_administrator(home: &Home, had_one: bool) -> anyhow::Result<()> {
    if had_one && !has_administrator(home)? {
        output::note(&format!(
            "warning: no enabled user has the role Admin on / any more: {NEW_ADMINISTRATOR}, or undo this change"
        ));
    }
    Ok(())
}

fn has_administrator(home: &Home) -> anyhow::Result<bool> {
    Ok(enfilade_admin::has_administrator(home.source(), clock::now().unix_seconds)?)
}

/// Advice for a lost password, with the name of an existing user. The text is empty if the server has no user to name.
fn lost_password(home: &Home) -> anyhow::Result<String> {
    let login = enfilade_admin::example_login(home.source(), clock::now().unix_seconds)?;
    Ok(login.map_or_else(String::new, |(ExampleLogin::Secret(login) | ExampleLogin::NoSecret(login))| {
        format!("; for a lost password run `enfilade user passwd {}`", output::word(&login.user.to_string()))
    }))
}

fn enabled(yes: bool) -> String {
    if yes { "yes" } else { "no" }.to_owned()
}

/// The file in which people define a record, and the fault of the record's definition in the file.
fn defined_in(is_mirrored: bool, fault: Option<&str>, file: &str) -> String {
    match (is_mirrored, fault) {
        (false, _) => "-".to_owned(),
        (true, None) => file.to_owned(),
        (true, Some(fault)) => format!("{file}: {fault}"),
    }
}

fn or_dash(text: Option<impl ToString>) -> String {
    text.map_or_else(|| "-".to_owned(), |text| text.to_string())
}

fn until(expires: i64) -> String {
    if expires == 0 { "never".to_owned() } else { crate::output::time(expires) }
}
