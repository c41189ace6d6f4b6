//! `enfilade config`. The command works without a data directory, and changes nothing.

use super::reference;
use crate::cli::{self, Subject};
use crate::config::{self, example, settings, without_effect};
use crate::home::{data_directory, roots_of};
use crate::reserved::{exposed_warnings, refuse_exposed_backups, reserved};
use crate::{certificates, output, owner};
use anyhow::{Context as _, bail};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub(super) fn run(
    command: cli::Config,
    data: Option<PathBuf>,
    file: Option<&Path>,
    json: bool,
) -> anyhow::Result<ExitCode> {
    match command {
        cli::Config::Check { file: named } => {
            let (file, is_named) = (named.as_deref().or(file), data.is_some());
            let directory = data_directory(data)?;
            check(&directory, is_named, file, json)?;
        }
        cli::Config::Show { changed } => {
            let is_named = data.is_some();
            let directory = data_directory(data)?;
            refuse_mistyped(&directory, is_named, file, "shown")?;
            show(&directory, file, changed, json)?;
        }
        cli::Config::Reference { word } => {
            reference::run(&[Subject::Configuration, Subject::Limits], word.as_deref(), json)?;
        }
        cli::Config::Example => output::line(example()?.trim_end()),
    }
    Ok(ExitCode::SUCCESS)
}

/// Refuses a data directory that the operator named, if it does not exist. Such a directory has no configuration file, and the name is probably
/// mistyped.
fn refuse_mistyped(data: &Path, is_named: bool, file: Option<&Path>, done: &str) -> anyhow::Result<()> {
    if is_named && file.is_none() && !data.exists() {
        bail!(
            "`{}` does not exist, so no configuration was {done}: give the data directory with --data, or the file with --config, or as `enfilade config \
             check FILE`",
            data.display()
        );
    }
    Ok(())
}

fn check(data: &Path, is_named: bool, file: Option<&Path>, json: bool) -> anyhow::Result<()> {
    let config = config::read(data, file)?;
    refuse_mistyped(data, is_named, file, "checked")?;
    config::refuse_lost(data, file)?;
    let path = config::path(data, file);
    // Root could read certificates that the server cannot read.
    owner::become_owner(data)?;
    certificates::examine(&config.tls, data)
        .with_context(|| format!("configuration `{}`: the server cannot start", path.display()))?;
    config
        .decisions
        .uids()
        .with_context(|| format!("configuration `{}`: the server cannot start", path.display()))?;
    let roots = roots_of(data, &config);
    refuse_exposed_backups(data, &config, roots.clone())?;
    let mut warnings = without_effect(&config);
    warnings.extend(certificates::unused_names(&config.tls, data));
    warnings.extend(exposed_warnings(reserved(data, &config, file), roots));
    warnings.extend(config::unread_variables(config::variables()));
    let text = match path.exists() {
        true => format!("configuration `{}` is valid", path.display()),
        false => format!(
            "there is no configuration `{}`: every key has its default, or the value of an environment variable",
            path.display()
        ),
    };
    output::done(json, &json!({ "file": path, "exists": path.exists(), "warnings": warnings }), &text);
    if !json {
        warnings.iter().for_each(|warning| output::line(&format!("warning: {warning}")));
    }
    Ok(())
}

fn show(data: &Path, file: Option<&Path>, changed: bool, json: bool) -> anyhow::Result<()> {
    let mut settings = settings(data, file)?;
    settings.retain(|setting| !changed || setting.origin != config::Origin::Default);
    if json {
        for setting in &settings {
            let value = serde_json::to_value(&setting.value)?;
            output::json_line(&json!({ "key": setting.key, "value": value, "from": setting.origin.name() }));
        }
        return Ok(());
    }
    let row = |setting: config::Setting| {
        let value = setting.value.map_or_else(|| "-".to_owned(), |value| value.to_string());
        vec![setting.key, value, setting.origin.name().to_owned()]
    };
    output::table(&["KEY", "VALUE", "FROM"], &settings.into_iter().map(row).collect::<Vec<_>>());
    Ok(())
}
