//! The first start: what `enfilade serve` and `enfilade init` create in an empty data directory.

use crate::example;
use crate::home::{Home, make_directory};
use crate::output;
use crate::reserved::DATASTORES;
use anyhow::Context;
use enfilade_admin::{CertificatePlace, ChangeContext, DatastoreEdit, NewUser, PasswordRules, Target};
use enfilade_facts::vocabulary::{DatastoreName, Role, RolePath, Secret, Userid};
use enfilade_sources::files::atomic;
use serde_json::json;

/// The administrator that the first start created.
pub(crate) struct Settled {
    /// The administrator.
    pub(crate) admin: Userid,
    /// The administrator's password; shown once.
    pub(crate) password: String,
}

const CERTIFICATE: &str = "localhost.pem";

/// Makes an administrator, a datastore and a certificate, unless the data directory is in use already.
pub(crate) fn settle(home: &Home) -> anyhow::Result<Option<Settled>> {
    make_certificate(home)?;
    // Users may exist already, for example in a `user.cfg`: their logins need keys, too.
    example::make_first_keys(home)?;
    let source = home.source();
    if !enfilade_admin::is_empty(source)? {
        return Ok(None);
    }
    let admin: Userid = "admin@local".parse()?;
    // The random part of a generated secret is used as the password.
    let password: String = enfilade_identity::generate_secret(random()?).chars().skip(4).take(24).collect();
    let name: DatastoreName = "main".parse()?;
    if enfilade_admin::list_datastores(source)?.is_empty() {
        let path = home.data.join(DATASTORES).join(name.as_str());
        let group = home.config.facts.group;
        make_directory(&home.data.join(DATASTORES), group)?;
        // Servers of several users share the datastore like the facts.
        make_directory(&path, group)?;
        let path = path.to_str().context("the data directory's path is not UTF-8")?.to_owned();
        let edit = DatastoreEdit::Create { path, properties: Vec::new() };
        enfilade_admin::edit_datastore(&home.change_context(), &name, &edit)?;
    }
    // The user comes last but for its role: if the process ends before the user is made, the next start begins again.
    // The password is generated, so the rules for passwords do not apply.
    enfilade_admin::add_user(
        &ChangeContext { passwords: PasswordRules::NONE, ..home.change_context() },
        &NewUser {
            password: Secret::new(password.as_bytes()),
            comment: Some("created at the first start".into()),
            ..NewUser::named(admin.clone())
        },
    )?;
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

/// Makes a self-signed certificate for localhost if the certificate directory does not exist. The directory is renamed into place when it is
/// complete: an empty one would stop the next start.
fn make_certificate(home: &Home) -> anyhow::Result<()> {
    let CertificatePlace::Directory(directory) = home.certificates() else { return Ok(()) };
    if directory.exists() {
        return Ok(());
    }
    let named = || format!("certificate directory `{}` cannot be made", directory.display());
    let name = directory.file_name().with_context(named)?.to_string_lossy();
    let new = directory.with_file_name(format!("{name}.new"));
    make_directory(&new, None)?;
    let names = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
    let made =
        rcgen::generate_simple_self_signed(names).context("the certificate for localhost cannot be made")?;
    let bundle = format!("{}{}", made.cert.pem(), made.signing_key.serialize_pem());
    atomic::write(&new.join(CERTIFICATE), bundle.as_bytes(), 0o600).with_context(named)?;
    // The certificate without its key, for clients that verify the server.
    atomic::write(&new.join("localhost.crt"), made.cert.pem().as_bytes(), 0o644).with_context(named)?;
    match std::fs::rename(&new, &directory) {
        // Another starting server has made the directory first.
        Err(_) if directory.exists() => Ok(()),
        renamed => renamed.and_then(|()| atomic::sync_directory(&directory)).with_context(named),
    }
}

fn random<const N: usize>() -> anyhow::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|why| anyhow::anyhow!("the kernel gives no random bytes: {why}"))?;
    Ok(bytes)
}

impl Settled {
    /// Prints the password, which cannot be shown again.
    pub(crate) fn tell(&self, home: &Home, json: bool) {
        let value = json!({ "data": home.data, "admin": self.admin.to_string(), "password": self.password });
        let text = format!(
            "data           {}\nadministrator  {}\npassword       {}   (shown this once)",
            home.data.display(),
            self.admin,
            self.password
        );
        output::done(json, &value, &text);
    }
}
