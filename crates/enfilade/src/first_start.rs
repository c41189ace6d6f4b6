//! The first start: the records and files that `enfilade serve`, `enfilade init` and `enfilade setup` create in an empty data directory.

use crate::config;
use crate::example;
use crate::home::{Home, make_directory};
use crate::reserved::DATASTORES;
use crate::{clock, output, self_made};
use anyhow::Context;
use enfilade_admin::{ChangeContext, DatastoreEdit, NewUser, PasswordRules, Target};
use enfilade_facts::vocabulary::{DatastoreName, Role, RolePath, Secret, Userid};
use enfilade_sources::files::atomic;
use serde_json::json;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

/// The administrator that the first start created.
pub(crate) struct Settled {
    /// The name of the administrator.
    pub(crate) admin: Userid,
    /// The administrator's password, which is shown once.
    pub(crate) password: String,
}

/// The name of the file with the first password, in the data directory. The file is removed after the password was shown on a terminal or in JSON. If
/// the start fails after the administrator was created, the file still contains the password. The password is not written to the log.
const FIRST_PASSWORD: &str = "initial-password";

/// The administrator that the first start creates.
pub(crate) fn admin() -> anyhow::Result<Userid> {
    Ok("admin@local".parse()?)
}

/// The path of the file with the first password, if the file exists.
pub(crate) fn first_password(data: &Path) -> Option<PathBuf> {
    Some(data.join(FIRST_PASSWORD)).filter(|path| path.exists())
}

/// Removes the file with the first password, if it exists.
pub(crate) fn forget_first_password(data: &Path) {
    let _ = std::fs::remove_file(data.join(FIRST_PASSWORD));
}

/// Makes an administrator, a datastore and a certificate, unless the data directory is in use already. Also completes a first start that failed. If a
/// command created `admin@local` in the meantime, this user gets the new password.
pub(crate) fn settle(home: &Home) -> anyhow::Result<Option<Settled>> {
    self_made::make_own(
        &home.data,
        &home.certificates(),
        home.config.tls.names(),
        clock::now().unix_seconds,
    )?;
    // Users may exist already, for example in a `user.cfg`. The sessions of these users need Fernet keys.
    example::make_first_keys(home)?;
    let source = home.source();
    if enfilade_admin::is_set_up(source)? {
        home.remember_config_file();
        return Ok(None);
    }
    let configuration = config::path(&home.data, home.config_file.as_deref());
    if !configuration.exists() {
        let written =
            atomic::write_shared(&configuration, config::example()?.as_bytes(), home.config.facts.group);
        written.with_context(|| format!("configuration `{}` cannot be written", configuration.display()))?;
    }
    home.remember_config_file();
    let admin = admin()?;
    let password = generated_password()?;
    let name: DatastoreName = "main".parse()?;
    if enfilade_admin::list_datastores(source)?.is_empty() {
        let path = home.data.join(DATASTORES).join(name.as_str());
        let group = home.config.facts.group;
        make_directory(&home.data.join(DATASTORES), group)?;
        // If servers run as several users, the group gives all these users access to the store of facts and to the datastore.
        make_directory(&path, group)?;
        let path = path.to_str().context("the data directory's path is not UTF-8")?.to_owned();
        let edit = DatastoreEdit::Create { path, properties: Vec::new() };
        enfilade_admin::edit_datastore(&home.change_context(), &name, &edit)?;
    }
    let line = format!("{password}\n");
    atomic::write_shared(&home.data.join(FIRST_PASSWORD), line.as_bytes(), home.config.facts.group)
        .context("the file for the first password cannot be written")?;
    // The last two steps create the user and assign the role of the user. If the process ends before both steps are done, the next start does the
    // missing steps. The password is generated, so the rules for passwords do not apply.
    let ctx = ChangeContext { passwords: PasswordRules::NONE, ..home.change_context() };
    let secret = Secret::new(password.as_bytes()).context("the generated password is empty")?;
    let is_there = enfilade_admin::list_users(source)?.iter().any(|user| user.userid == admin.to_string());
    match is_there {
        true => enfilade_admin::set_password(&ctx, &admin, &secret)?,
        false => {
            let new = NewUser {
                password: Some(secret),
                comment: Some("created at the first start".into()),
                ..NewUser::named(admin.clone())
            };
            enfilade_admin::add_user(&ctx, &new)?.1
        }
    };
    let everywhere: RolePath = "/".parse()?;
    enfilade_admin::assign_role(
        &home.change_context(),
        &everywhere,
        &Target::User(admin.clone()),
        Role::Admin,
        true,
    )?;
    Ok(Some(Settled { admin, password }))
}

/// A new random password: 24 of the 27 random characters of a generated secret, without the prefix `enf_` and the check characters.
pub(crate) fn generated_password() -> anyhow::Result<String> {
    Ok(enfilade_identity::generate_secret(random()?).chars().skip(4).take(24).collect())
}

fn random<const N: usize>() -> anyhow::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|why| anyhow::anyhow!("the kernel gives no random bytes: {why}"))?;
    Ok(bytes)
}

impl Settled {
    /// Prints the name of the administrator, and the password or the path of the file with the password.
    pub(crate) fn tell(&self, home: &Home, json: bool) {
        let value = json!({ "data": home.data, "admin": self.admin.to_string(), "password": self.password });
        let text = format!(
            "data           {}\nadministrator  {}\npassword       {}",
            home.data.display(),
            self.admin,
            self.shown(home)
        );
        output::done(json, &value, &text);
        self.was_shown(home, json);
    }

    /// The password if standard output is a terminal. Otherwise the path of the file that contains the password.
    pub(crate) fn shown(&self, home: &Home) -> String {
        match std::io::stdout().is_terminal() {
            true => format!("{}   (shown only once)", self.password),
            false => format!("in {}", home.data.join(FIRST_PASSWORD).display()),
        }
    }

    /// The login in the command that `enfilade serve` prints for an operator to copy.
    pub(crate) fn login(&self, home: &Home) -> String {
        match std::io::stdout().is_terminal() {
            true => format!("'{}:{}'", self.admin, self.password),
            false => format!("\"{}:$(cat '{}')\"", self.admin, home.data.join(FIRST_PASSWORD).display()),
        }
    }

    /// Removes the file with the password if the password itself was printed.
    pub(crate) fn was_shown(&self, home: &Home, json: bool) {
        let out = std::io::stdout();
        if (json || out.is_terminal()) && output::can_be_seen(&out) && output::lost().is_none() {
            forget_first_password(&home.data);
        }
    }
}
