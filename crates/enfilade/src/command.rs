//! The commands. Each reads its arguments, calls functions of `admin`, and prints the result.

mod access;
mod acls;
mod certs;
mod datastores;
mod doctor;
mod explain;
mod manual;
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

use crate::cli::{Cli, Command};
use crate::home::{Home, Installation};
use crate::{first_start, serve, start};
use anyhow::{Context, bail};
use enfilade_facts::vocabulary::Secret;
use std::io::{BufRead, Read as _};
use std::process::ExitCode;

pub(crate) fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    let json = cli.json;
    match &cli.command {
        // These commands need no data directory, and must not create one.
        Command::Completions { shell } => return Ok(manual::completions(*shell)),
        Command::Man { directory } => return manual::pages(directory),
        Command::Reference { subject, word } => return reference::run(*subject, word.as_deref(), json),
        _ => {}
    }
    let installation = Installation::find(cli.data, cli.config.as_deref())?;
    let command = match cli.command {
        // These commands must also run if the store cannot be opened: they examine or restore it.
        Command::Facts(command) => return facts::run(&installation, command, json),
        Command::Doctor => return doctor::run(&installation, json),
        Command::Certs(command) => return certs::run(&installation, command, json),
        command => command,
    };
    let home = match command {
        Command::Serve(_) => start::open_home(&installation)?,
        _ => Home::open(installation)?,
    };
    match command {
        Command::Facts(_)
        | Command::Doctor
        | Command::Certs(_)
        | Command::Reference { .. }
        | Command::Completions { .. }
        | Command::Man { .. } => {}
        Command::Serve(arguments) => return serve::run(home, &arguments, json),
        Command::Init => match first_start::settle(&home)? {
            Some(settled) => settled.tell(&home, json),
            None => bail!(
                "data directory `{}` already has an administrator; nothing was changed",
                home.data.display()
            ),
        },
        Command::Bootstrap(arguments) => keystone::bootstrap(&home, arguments, json)?,
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

/// A password from the first line of standard input.
fn password_from_stdin() -> anyhow::Result<Secret> {
    let mut line = String::new();
    // The limit is above the longest password, so that a longer line is refused and not truncated to a valid password.
    std::io::stdin().lock().take(1024).read_line(&mut line).context("the password cannot be read")?;
    let password = line.strip_suffix('\n').unwrap_or(&line);
    let password = password.strip_suffix('\r').unwrap_or(password);
    Secret::new(password.as_bytes())
        .context("the password is empty, longer than 511 bytes or holds a NUL byte")
}

fn enabled(yes: bool) -> String {
    if yes { "yes" } else { "no" }.to_owned()
}

/// The file that defines a record, and what is wrong with that part of the file.
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
