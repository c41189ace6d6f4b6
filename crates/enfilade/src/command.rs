//! The commands. Each command reads its arguments, calls functions of the crate `enfilade-admin`, and prints the result.

mod access;
mod acls;
mod applications;
mod backup;
mod certs;
mod client_certificates;
mod config;
mod datastores;
mod decide;
mod doctor;
mod explain;
mod manual;
mod penalties;
mod ready;
mod reference;
mod facts;
mod fleet;
mod groups;
mod imports;
mod integrate;
mod judge;
mod keys;
mod keystone;
mod links;
mod revoke;
mod roles;
mod sessions;
mod setup;
mod support_bundle;
mod tokens;
mod users;

use crate::cli::{Cli, Command, Facts, Fleet, Subject};
use crate::config::{distance, refuse_lost};
use crate::fleet::Use;
use crate::home::{self, Home, IfMissing, Installation};
use crate::{clock, example, first_start, notes, output, serve, start};
use anyhow::bail;
use clap::ValueEnum as _;
use enfilade_admin::{Administers, ChangeContext, Error, keystone as admin};
use enfilade_facts::Source;
use std::process::ExitCode;

pub(crate) fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    let json = cli.json;
    let cli = match cli {
        // Penalties are only in the memory of running servers. So the command opens neither the configuration nor the facts.
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
        Command::Reference { subject, word } => {
            let subjects = subject.as_ref().map_or(Subject::value_variants(), std::slice::from_ref);
            return reference::run(subjects, word.as_deref(), json);
        }
        // `support-bundle` must work even if the configuration or the facts cannot be read.
        Command::SupportBundle { file, log_lines } => {
            let asked = (file.as_path(), *log_lines);
            support_bundle::run(cli.data, cli.config.as_deref(), asked, json)?;
            return Ok(ExitCode::SUCCESS);
        }
        // A restore writes to a new directory, which becomes the data directory only when the restore is complete.
        Command::Restore(command) => {
            return backup::restore(cli.data, command, json).map(|()| ExitCode::SUCCESS);
        }
        Command::Config(command) => {
            return config::run(command.clone(), cli.data, cli.config.as_deref(), json);
        }
        Command::Ready => {
            return ready::run(&home::config_of(cli.data, cli.config.as_deref())?, json);
        }
        // `bootstrap` checks the new password before it creates a data directory.
        Command::Bootstrap(new) => {
            return keystone::bootstrap(new.clone(), cli.data, cli.config.as_deref(), json);
        }
        // `setup` asks the user its questions before it creates a data directory.
        Command::Setup(options) => {
            return setup::run(options, cli.data, cli.config.as_deref(), json).map(|()| ExitCode::SUCCESS);
        }
        // `fleet join` makes the data directory from an invitation. So the program must not look for a data directory first.
        Command::Fleet(Fleet::Join { file }) => {
            return fleet::join(cli.data, cli.config.as_deref(), file, json).map(|()| ExitCode::SUCCESS);
        }
        // An import reads its source before the import creates a data directory.
        Command::Import(command) => return imports::run(command, cli.data, cli.config.as_deref(), json),
        _ => {}
    }
    if let Command::Serve(arguments) = &cli.command {
        notes::hand_over();
        let data = home::data_directory(cli.data.clone())?;
        refuse_lost(&data, cli.config.as_deref())?;
        let config = home::config_of(Some(data.clone()), cli.config.as_deref())?;
        config.privileges.use_helper();
        serve::try_to_listen(&data, config, arguments)?;
    }
    let installation = Installation::find(cli.data, cli.config.as_deref(), if_missing(&cli.command))?;
    installation.config.privileges.use_helper();
    let command = match cli.command {
        // These commands open the store themselves, or do not need it. `facts`, `backup`, `doctor` and `certs` must run even if the store cannot be
        // opened, because users need these commands to examine or restore the installation.
        Command::Facts(command) => return facts::run(&installation, command, json),
        Command::Backup(command) => {
            return backup::run(&installation, &command, json).map(|()| ExitCode::SUCCESS);
        }
        Command::Fleet(command) => {
            return fleet::run(&installation, command, json).map(|()| ExitCode::SUCCESS);
        }
        Command::Doctor => return doctor::run(&installation, json),
        Command::Certs(command) => return certs::run(&installation, command, json),
        command => command,
    };
    if let Command::Serve(arguments) = &command {
        let config = serve::with_addresses(&installation.config, arguments);
        let (home, prepared) = start::open_home(&installation, &config)?;
        return serve::run(home, arguments, prepared, json);
    }
    let home = Home::open(installation, Use::Command)?;
    act(&home, command, json).map_err(|why| with_similar(home.source(), why))
}

/// Runs a command that needs the facts.
fn act(home: &Home, command: Command, json: bool) -> anyhow::Result<ExitCode> {
    match command {
        Command::Serve(_)
        | Command::Facts(_)
        | Command::Backup(_)
        | Command::Fleet(_)
        | Command::Restore(_)
        | Command::Doctor
        | Command::SupportBundle { .. }
        | Command::Ready
        | Command::Bootstrap(_)
        | Command::Setup(_)
        | Command::Import(_)
        | Command::Penalties(_)
        | Command::Certs(_)
        | Command::Config(_)
        | Command::Reference { .. }
        | Command::Completions { .. }
        | Command::Man { .. } => {}
        Command::Init => match first_start::settle(home)? {
            Some(settled) => settled.tell(home, json),
            None => bail!(
                "`{}` is already set up, so nothing was changed. Start the server with `enfilade serve`{}",
                home.data.display(),
                lost_password(home)?
            ),
        },
        Command::Domain(command) => keystone::domain(home, command, json)?,
        Command::Project(command) => keystone::project(home, command, json)?,
        Command::Catalog(command) => keystone::catalog(home, command, json)?,
        Command::Revoke(command) => revoke::run(home, command, json)?,
        Command::Session(command) => sessions::run(home, command, json)?,
        Command::User(command) => users::run(home, command, json)?,
        Command::Group(command) => groups::run(home, command, json)?,
        Command::Role(command) => roles::run(home, command, json)?,
        Command::Token(command) => tokens::run(home, command, json)?,
        Command::Link(command) => links::run(home, command, json)?,
        Command::Keys(command) => return keys::run(home, command, json),
        Command::Datastore(command) => datastores::run(home, command, json)?,
        Command::Application(command) => applications::run(home, command, json)?,
        Command::Integrate(arguments) => integrate::run(home, &arguments, json)?,
        Command::Decide(_) if decide::run(home)? => {}
        Command::Decide(_) => return Ok(ExitCode::FAILURE),
        Command::Acl(command) => {
            command.datastore().map_or(Ok(()), |name| home.refuse_elsewhere(name))?;
            acls::run(home, command, json)?;
        }
        Command::Explain(arguments) => return explain::run(home, &arguments, json),
    }
    Ok(ExitCode::SUCCESS)
}

/// Whether a command creates the data directory if there is none. A command that only shows or changes something must not create an empty data
/// directory, because the name may be mistyped.
fn if_missing(command: &Command) -> IfMissing {
    match command {
        Command::Serve(_) | Command::Init => IfMissing::Create,
        Command::Facts(Facts::Restore { .. } | Facts::Load { .. }) => IfMissing::Refill,
        _ => IfMissing::Refuse,
    }
}

/// A hint for the error that `name` does not exist: the most similar existing name. The hint is empty if no name is similar enough.
fn similar<'n>(names: impl Iterator<Item = &'n str>, name: &str) -> String {
    let similar = names.map(|known| (distance(known, name), known)).min();
    let similar = similar.filter(|(distance, _)| *distance <= 2);
    similar.map(|(_, similar)| format!(" (did you mean `{similar}`?)")).unwrap_or_default()
}

/// Adds the most similar existing name to an error which says that a name does not exist.
fn with_similar(source: &dyn Source, why: anyhow::Error) -> anyhow::Error {
    let Some(Error::Missing { what, name, .. }) = why.downcast_ref::<Error>() else { return why };
    let known = match *what {
        "realm" => enfilade_admin::list_realms(source),
        "user" => {
            enfilade_admin::list_users(source).map(|all| all.into_iter().map(|row| row.userid).collect())
        }
        "group" => {
            enfilade_admin::list_groups(source).map(|all| all.into_iter().map(|row| row.group).collect())
        }
        "token" => enfilade_admin::list_tokens(source, None)
            .map(|all| all.into_iter().map(|row| row.tokenid).collect()),
        "role" => {
            admin::list_named_roles(source).map(|all| all.into_iter().map(|(_, row)| row.name).collect())
        }
        // If `name` contains no domain, the plain names are compared.
        "project" => admin::list_projects(source).map(|all| {
            let known = |row: admin::ProjectSummary| match name.contains('@') {
                true => row.whole().to_string(),
                false => row.name,
            };
            all.into_iter().map(known).collect()
        }),
        "service" => {
            admin::list_catalog(source).map(|all| all.into_iter().map(|row| row.service.name).collect())
        }
        "application" => enfilade_admin::list_applications(source)
            .map(|all| all.into_iter().map(|(name, _)| name.to_string()).collect()),
        "datastore" => enfilade_admin::list_datastores(source)
            .map(|all| all.iter().map(|row| row.name.to_string()).collect()),
        _ => return why,
    };
    let known: Vec<String> = known.unwrap_or_default();
    let similar = similar(known.iter().map(String::as_str), name);
    if similar.is_empty() { why } else { anyhow::anyhow!("{why:#}{similar}") }
}

/// Describes the changes that a command made, such as `user ann@local: comment removed, uid 1000`.
fn changes(subject: &str, parts: impl IntoIterator<Item = Option<String>>) -> String {
    format!("{subject}: {}", parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
}

/// Describes a change of a property: the property was set, or it was removed because the given text is empty.
fn set_or_removed(what: &str, text: Option<&str>) -> Option<String> {
    text.map(|text| if text.is_empty() { format!("{what} removed") } else { format!("{what} {text}") })
}

/// Makes a change that may take rights away. Refuses a change that would leave no administrator who can log in. With `force` the change is made, with
/// one warning if the server has no administrator any more, and one if the cloud has none any more.
fn keeping_administrators<T>(
    home: &Home,
    force: bool,
    make: impl FnOnce(&ChangeContext<'_>) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let ctx = ChangeContext { keeps_administrators: !force, ..home.change_context() };
    let is_there = |of| enfilade_admin::has_administrator(ctx.facts, of, ctx.now.unix_seconds);
    let before = [is_there(Administers::Server)?, is_there(Administers::Cloud)?];
    let made = make(&ctx)?;
    for (of, _) in Administers::ALL.into_iter().zip(before).filter(|(_, had_one)| *had_one) {
        if !is_there(of)? {
            let (role, new_one) = (of.role(), of.new_one());
            output::note(&format!(
                "warning: no user who can log in has {role} any more; to make another administrator: {new_one}"
            ));
        }
    }
    Ok(made)
}

/// Advice for a lost password, with the name of an administrator. If there is no administrator, the advice says how to create an administrator.
fn lost_password(home: &Home) -> anyhow::Result<String> {
    let now = clock::now().unix_seconds;
    for (of, whose) in
        [(Administers::Server, "administrator"), (Administers::Cloud, "administrator of the cloud")]
    {
        let administrators = enfilade_admin::administrators(home.source(), of, now)?;
        let found = administrators.iter().find(|found| found.can_log_in()).or(administrators.first());
        if let Some(found) = found {
            let passwd = format!("user passwd {}", output::word(&found.name.to_string()));
            return Ok(format!(
                "; to set a password of the {whose}, run `{}`",
                example::command(home, &passwd)
            ));
        }
    }
    let of = Administers::Server;
    Ok(format!("; no enabled user has {}: {}", of.role(), of.new_one()))
}

fn enabled(yes: bool) -> String {
    if yes { "yes" } else { "no" }.to_owned()
}

/// The file in which people define a record, and the problem with this definition, if there is one.
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
