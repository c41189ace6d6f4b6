//! The plan of `enfilade setup`. It comes from the options, and from answers on the terminal.

use super::service::Service;
use crate::cli::Setup;
use crate::home::Home;
use crate::{first_start, output, owner, prompt};
use anyhow::{Context, bail};
use enfilade_admin::{list_datastores, list_users};
use enfilade_facts::vocabulary::{DatastoreName, Realm, Secret, TokenName, Userid};
use std::path::PathBuf;

pub(super) struct Plan {
    pub(super) user: Userid,
    /// The password of a new user; `None` if the command makes a random password.
    pub(super) password: Option<Secret>,
    pub(super) datastore: DatastoreName,
    pub(super) path: Option<PathBuf>,
    pub(super) token: TokenName,
    /// Whether the operator agrees that the service is started.
    pub(super) starts: bool,
}

impl Plan {
    /// Reads the options. If `asks` is set, asks for the values that the options do not contain. This
    /// function changes nothing.
    pub(super) fn make(
        options: &Setup,
        home: Option<&Home>,
        service: &Service,
        asks: bool,
    ) -> anyhow::Result<Self> {
        if home.is_some_and(|home| home.store.is_replica()) {
            bail!(
                "this machine is a member of a fleet, so nothing was changed: its users and datastores exist already, or are created with `enfilade user add`, \
                 `enfilade datastore create`, `enfilade role assign` and `enfilade token create`"
            );
        }
        let user = user(options, asks)?;
        let is_there = |home: &Home| {
            list_users(home.source()).map(|all| all.iter().any(|row| row.userid == user.to_string()))
        };
        let is_new = !home.map(is_there).transpose()?.unwrap_or(false);
        let password = match (options.password_stdin, is_new, asks) {
            (true, ..) => Some(prompt::from_stdin()?),
            (false, true, true) => {
                prompt::new_password_or_none(&format!("new password of {user} (Enter: make a random one): "))?
            }
            _ => None,
        };
        if !is_new && password.is_some() {
            output::note(&format!(
                "note: {user} exists already and keeps the password; to change it: enfilade user passwd {}",
                output::word(&user.to_string())
            ));
        }
        let datastore = datastore(options, asks)?;
        let known = home.map(|home| list_datastores(home.source())).transpose()?.unwrap_or_default();
        let is_new = known.iter().all(|row| row.name != datastore);
        let path = match (&options.path, asks && is_new) {
            (Some(path), _) => Some(path.clone()),
            (None, true) => path(&datastore)?,
            (None, false) => None,
        };
        service.refuse_unreachable(path.as_deref())?;
        let starts = match (options.no_start, options.yes, asks && service.can_start()) {
            (true, ..) => false,
            (false, true, _) => true,
            (false, false, true) => yes("start the service now, and at each boot?")?,
            (false, false, false) => false,
        };
        Ok(Plan { user, password, datastore, path, token: options.token.clone(), starts })
    }
}

/// The Linux user of the operator who runs the command. `None` if this user is root, or if [`user_of`] refuses the name.
fn caller() -> Option<String> {
    let named = std::env::var("SUDO_USER").ok().filter(|name| !name.is_empty());
    let name = named.unwrap_or_else(|| owner::name_of(rustix::process::getuid().as_raw()));
    (name != "root" && user_of(&name).is_ok()).then_some(name)
}

/// The user that the text names. The text may contain a realm.
fn user_of(text: &str) -> anyhow::Result<Userid> {
    let user = match text.contains('@') {
        true => text.parse()?,
        false => Userid::new(text, Realm::local())?,
    };
    if user == first_start::admin()? {
        bail!(
            "`{user}` is the administrator, which is made in any case: give the user of the datastore another name"
        );
    }
    Ok(user)
}

fn user(options: &Setup, asks: bool) -> anyhow::Result<Userid> {
    let usual = caller();
    match (&options.user, &usual) {
        (Some(user), _) => user_of(user),
        (None, _) if asks => asked("name of the user", usual.as_deref(), user_of),
        (None, Some(usual)) => user_of(usual),
        (None, None) => bail!(
            "add --user NAME, the name of the user of the datastore. The default is the name of the Linux user that runs this command, but this name cannot be used: it is root, the name of the administrator, or not a valid name"
        ),
    }
}

fn datastore(options: &Setup, asks: bool) -> anyhow::Result<DatastoreName> {
    match &options.datastore {
        Some(name) => Ok(name.clone()),
        None if asks => asked("name of the datastore", Some("main"), |text| Ok(text.parse()?)),
        None => Ok("main".parse()?),
    }
}

/// The directory of a new datastore; `None` for the usual directory in the data directory.
fn path(name: &DatastoreName) -> anyhow::Result<Option<PathBuf>> {
    const USUAL: &str = "a new one in the data directory";
    let said = prompt::answer(&format!("directory with the content of {name}"), Some(USUAL))?;
    Ok((said != USUAL).then(|| PathBuf::from(said)))
}

/// Asks until the answer has the right form.
fn asked<T>(
    question: &str,
    default: Option<&str>,
    read: impl Fn(&str) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    loop {
        match read(&prompt::answer(question, default)?) {
            Ok(answer) => return Ok(answer),
            Err(why) => output::note(&format!("{why:#}")),
        }
    }
}

fn yes(question: &str) -> anyhow::Result<bool> {
    let read = |text: &str| match text {
        "y" | "yes" => Some(true),
        "n" | "no" => Some(false),
        _ => None,
    };
    asked(question, Some("yes"), |text| read(text).context("answer yes or no"))
}
