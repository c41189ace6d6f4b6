//! `enfilade setup`: makes a server ready for its first client. No step changes existing records. So the command can be repeated.

mod plan;
mod service;
mod told;

use crate::cli::Setup;
use crate::fleet::Use;
use crate::home::{self, Home, IfMissing, Installation, make_directory};
use crate::reserved::DATASTORES;
use crate::{example, first_start, output, owner};
use anyhow::{Context, bail, ensure};
use enfilade_admin::{
    ChangeContext, DatastoreEdit, NewUser, PasswordRules, Target, TokenTerms, list_datastores, list_roles,
    list_tokens, list_users,
};
use enfilade_facts::vocabulary::{Authid, Role, RolePath, Secret, visible_lines};
use enfilade_sources::files::atomic;
use enfilade_sources::files::owner::give;
use plan::Plan;
use service::Service;
use std::io::IsTerminal as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use told::{Made, tell};

/// The role of the user in the datastore. With this role, the user can read and write everything.
const ROLE: Role = Role::DatastorePowerUser;

/// The default file for a copy of the certificate that clients have to trust, in the current directory.
const CERTIFICATE: &str = "enfilade.crt";

pub(super) fn run(
    options: &Setup,
    data: Option<PathBuf>,
    config: Option<&Path>,
    json: bool,
) -> anyhow::Result<()> {
    output::require_for_secret()?;
    let place = home::data_directory(data.clone())?;
    let rules = home::config_of(Some(place.clone()), config)?.password_rules();
    let open = |if_missing| Home::open(Installation::find(data.clone(), config, if_missing)?, Use::Command);
    let known = home::is_house(&place).then(|| open(IfMissing::Refuse)).transpose()?;
    let service = Service::find(&place);
    let asks = std::io::stdin().is_terminal() && !json && !options.yes;
    let plan = Plan::make(options, known.as_ref(), &service, asks)?;
    if let Some(password) = &plan.password {
        rules.check_form(password)?;
    }
    let home = known.map_or_else(|| open(IfMissing::Create), Ok)?;
    let (path, new_path) = make_datastore(&home, &plan)?;
    let settled = first_start::settle(&home)?;
    let is_new = list_users(home.source())?.iter().all(|row| row.userid != plan.user.to_string());
    let password = if is_new { make_user(&home, &plan)? } else { None };
    let roles = assign_role(&home, &plan)?;
    let token = Authid { user: plan.user.clone(), token: Some(plan.token.clone()) };
    let secret = make_token(&home, &token)?;
    let certificate = publish_certificate(&home, options.certificate.as_deref());
    let running = service.start(&home, &path, plan.starts);
    let made = Made { settled, is_new, password, roles, path, new_path, token, secret, certificate, running };
    tell(&home, &plan, &made, json);
    // This must be the last step, because it changes the user of this process.
    owner::warning_of(Path::new(&made.path), &home.data).inspect(|says| output::note(says));
    made.running.map(drop)
}

/// Makes the datastore, unless it exists. Returns the directory with its content, and whether the datastore is new.
fn make_datastore(home: &Home, plan: &Plan) -> anyhow::Result<(String, bool)> {
    let name = &plan.datastore;
    let wanted = plan.path.as_deref().map(std::path::absolute).transpose()?;
    if let Some(row) = list_datastores(home.source())?.into_iter().find(|row| row.name == *name) {
        let is_other = wanted.as_deref().is_some_and(|wanted| !is_same(wanted, Path::new(&row.path)));
        ensure!(
            !is_other,
            "datastore `{name}` exists already, and its content is in `{}`; nothing was changed; give the new datastore another name with --datastore",
            row.path
        );
        return Ok((row.path, false));
    }
    let path = match wanted {
        None => {
            let (group, all) = (home.config.facts.group, home.data.join(DATASTORES));
            make_directory(&all, group)?;
            make_directory(&all.join(name.as_str()), group)?;
            all.join(name.as_str())
        }
        Some(path) => {
            make_for_server(&path, &home.data)?;
            path
        }
    };
    let path = path.to_str().context("the path of the datastore is not UTF-8")?.to_owned();
    let edit = DatastoreEdit::Create { path: path.clone(), properties: Vec::new() };
    enfilade_admin::edit_datastore(&home.change_context(), name, &edit)?;
    Ok((path, true))
}

fn is_same(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    real(one) == real(other)
}

/// Makes a missing directory outside of the data directory, for the user of the server. The parent directory must exist. So a mistyped path causes an
/// error. An existing directory is not changed.
fn make_for_server(path: &Path, data: &Path) -> anyhow::Result<()> {
    if path.exists() {
        ensure!(path.is_dir(), "`{}` is not a directory; nothing was changed", path.display());
        return Ok(());
    }
    let failed = || format!("directory `{}` cannot be made; nothing was changed", path.display());
    std::fs::DirBuilder::new().mode(0o700).create(path).with_context(failed)?;
    give(path, data).with_context(failed)
}

/// Makes the user. Returns the password if it was generated.
fn make_user(home: &Home, plan: &Plan) -> anyhow::Result<Option<String>> {
    let generated = match plan.password {
        Some(_) => None,
        None => Some(first_start::generated_password()?),
    };
    let password = match &generated {
        Some(password) => Secret::new(password.as_bytes()),
        None => plan.password.clone(),
    };
    // The rules for passwords apply only to passwords that people choose.
    let ctx = match &generated {
        Some(_) => ChangeContext { passwords: PasswordRules::NONE, ..home.change_context() },
        None => home.change_context(),
    };
    enfilade_admin::add_user(&ctx, &NewUser { password, ..NewUser::named(plan.user.clone()) })?;
    Ok(generated)
}

/// Assigns the role to the user on the path of the datastore, unless the user has a role on exactly this path. Returns the roles of the user on this
/// path.
fn assign_role(home: &Home, plan: &Plan) -> anyhow::Result<Vec<Role>> {
    let path: RolePath = format!("/datastore/{}", plan.datastore).parse()?;
    let (target, user) = (Target::User(plan.user.clone()), plan.user.to_string());
    // A user who already has a role on the datastore keeps this role, because an administrator has chosen it.
    let assigned = list_roles(home.source())?;
    let of_user = assigned.iter().filter(|row| row.path == path && row.who == user);
    let roles: Vec<Role> = of_user.map(|row| row.role).collect();
    if !roles.is_empty() {
        return Ok(roles);
    }
    enfilade_admin::assign_role(&home.change_context(), &path, &target, ROLE, true)?;
    Ok(vec![ROLE])
}

/// Makes the token, and returns its secret; `None` if the token exists already.
fn make_token(home: &Home, token: &Authid) -> anyhow::Result<Option<String>> {
    let name = token.to_string();
    if list_tokens(home.source(), Some(&token.user))?.iter().any(|row| row.tokenid == name) {
        return Ok(None);
    }
    let Some(token_name) = &token.token else { bail!("`{name}` is not the name of a token") };
    let terms = TokenTerms { expires: 0, comment: Some("made by setup".to_owned()), own_roles: false };
    let (ctx, key) = (home.change_context(), home.hash_key()?);
    Ok(Some(enfilade_admin::create_token(&ctx, &key, &token.user, token_name, &terms)?.value))
}

/// The file with the certificate that clients have to trust, at a path where the user of this command can read it. `None` if there is no such
/// certificate (`localhost.crt`), or if it cannot be copied.
fn publish_certificate(home: &Home, wanted: Option<&Path>) -> Option<PathBuf> {
    let original = example::authority(home).filter(|path| path.exists())?;
    let is_readable = || {
        let owner = std::fs::metadata(&home.data).map(|meta| meta.uid());
        owner.is_ok_and(|owner| owner == rustix::process::geteuid().as_raw())
    };
    let to = match wanted {
        Some(to) => to.to_owned(),
        None if is_readable() => return Some(original),
        None => PathBuf::from(CERTIFICATE),
    };
    match copy_certificate(&original, &to) {
        Ok(to) => Some(to),
        Err(why) => {
            output::note(&format!("warning: {}", visible_lines(&format!("{why:#}"))));
            None
        }
    }
}

fn copy_certificate(original: &Path, to: &Path) -> anyhow::Result<PathBuf> {
    let how = "write the certificate to another file with `enfilade certs show localhost --pem > FILE`";
    let to = std::path::absolute(to).with_context(|| format!("path `{}`", to.display()))?;
    let text = std::fs::read(original).with_context(|| format!("`{}`", original.display()))?;
    let is_other = std::fs::read(&to).is_ok_and(|old| !old.starts_with(b"-----BEGIN CERTIFICATE-----"));
    ensure!(!is_other, "`{}` exists, and is not a certificate, so it was not replaced: {how}", to.display());
    let failed = || format!("the certificate cannot be written to `{}`: {how}", to.display());
    atomic::write(&to, &text, 0o644).with_context(failed)?;
    Ok(to)
}
