//! `enfilade keys`.

use crate::cli::Keys;
use crate::home::{Home, key_terms};
use crate::shared_keys::KeysOfFleet;
use crate::{clock, output, token_key};
use anyhow::{Context, bail, ensure};
use enfilade_admin::{FernetKeys, KeySummary, KeyTerms, KeyUse};
use serde_json::json;
use std::process::ExitCode;

/// The maximum number of token names in a text for people. With `--json`, all names are listed.
const NAMED_MAX: usize = 20;

pub(super) fn run(home: &Home, command: Keys, json: bool) -> anyhow::Result<ExitCode> {
    let (keys, terms) = (home.fernet_keys(), key_terms(&home.config));
    let now = clock::now().unix_seconds;
    match command {
        Keys::List => list(&keys, &terms, now, json)?,
        Keys::Init { accept_loss } => init(home, &keys, accept_loss, json)?,
        Keys::Rotate { force } => {
            let before = enfilade_admin::list_keys(&keys, &terms)?;
            let rotation = match &home.facts.keys {
                Some(fleet) => fleet.change(|keys| enfilade_admin::rotated_keys(keys, &terms, now, force))?,
                None => enfilade_admin::rotate_keys(&keys, &terms, now, force)?,
            };
            let after = enfilade_admin::list_keys(&keys, &terms)?;
            let gone = match rotation.drops.as_slice() {
                [] => String::new(),
                drops => format!("; deleted: {}", numbers(drops)),
            };
            wait_for_fleet(home)?;
            let value = json!({ "primary": rotation.primary, "dropped": rotation.drops });
            let text = format!(
                "before  {}\nafter   {}\nkey 0 became {} and signs from now on{gone}",
                ring(&before),
                ring(&after),
                rotation.primary
            );
            output::done(json, &value, &text);
        }
        Keys::Prune { force } => {
            let dropped = match &home.facts.keys {
                Some(fleet) => fleet.change(|keys| enfilade_admin::pruned_keys(keys, &terms, now, force))?,
                None => enfilade_admin::prune_keys(&keys, &terms, now, force)?,
            };
            wait_for_fleet(home)?;
            let text = match dropped.as_slice() {
                [] => "no keys to delete".to_owned(),
                dropped => format!("deleted: {}", numbers(dropped)),
            };
            output::done(json, &json!({ "dropped": dropped }), &text);
        }
        Keys::Replace { force } => {
            ensure!(
                force,
                "nothing was changed. This command replaces all Fernet keys, which ends every session of the Identity API: users and services have to log in again. The sessions of browsers do not end. To replace the keys, run the command again with --force"
            );
            match &home.facts.keys {
                Some(fleet) => fleet.change(|keys| Ok(((), enfilade_admin::new_keys(keys)?)))?,
                None => enfilade_admin::install_keys(&keys, &enfilade_admin::new_keys(&keys)?)?,
            }
            wait_for_fleet(home)?;
            let text = format!(
                "new keys are in `{}`; every session of the Identity API has ended. Browsers stay signed in: `enfilade revoke domain` ends their sessions",
                keys.directory().display()
            );
            output::done(json, &json!({ "directory": keys.directory() }), &text);
        }
        Keys::Share => {
            let fleet = home.facts.keys.as_ref().context(
                "this machine is not a member of a fleet, so no other machine has its keys; nothing was changed",
            )?;
            fleet.share_own()?;
            wait_for_fleet(home)?;
            let text = "the keys of this machine are the keys of the fleet now";
            output::done(json, &json!({ "directory": keys.directory() }), text);
        }
        Keys::Check => {
            let mut problems = enfilade_admin::check_keys(&keys, &terms)?;
            problems.extend(lost_token_key(home)?);
            if json {
                output::json_line(&json!({ "problems": problems }));
            } else if problems.is_empty() {
                output::line("no problems found");
            } else {
                problems.iter().for_each(|problem| output::line(problem));
            }
            return Ok(if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Waits until the servers of the fleet use the new keys.
fn wait_for_fleet(home: &Home) -> anyhow::Result<()> {
    home.facts.keys.as_ref().map_or(Ok(()), |fleet| fleet.wait_until_used())
}

/// A description of the problem with the key of API tokens; `None` if there is no problem.
fn lost_token_key(home: &Home) -> anyhow::Result<Option<String>> {
    let (judged, key) = token_key::judge(&home.data, home.config.facts.group, home.source())?;
    Ok(token_key::fault(&home.data, judged, key.is_none()))
}

fn init(home: &Home, keys: &FernetKeys, accept_loss: bool, json: bool) -> anyhow::Result<()> {
    let lost_sessions = token_key::lost_session_keys(&home.fernet_keys(), home.source())?;
    let is_made = match &home.facts.keys {
        Some(fleet) => init_in_fleet(fleet, keys)?,
        None => enfilade_admin::init_keys(keys)?,
    };
    let directory = keys.directory().display();
    let lost = if accept_loss { None } else { lost_token_key(home)? };
    if let (false, Some(lost)) = (is_made, &lost) {
        bail!("{directory} has keys already; nothing was changed; {lost}");
    }
    let mut text = match is_made {
        true => format!("keys created in {directory}"),
        // With `--accept-loss`, the key of API tokens may change. If it changes, the next lines of the output say so.
        false if accept_loss => format!("{directory} has keys already, which stay as they are"),
        false => format!("{directory} has keys already; nothing changed"),
    };
    if lost_sessions.is_some() {
        text.push_str(
            "\nevery session that was issued with the former keys has ended: clients have to log in again",
        );
    }
    if let Some(lost) = lost {
        text.push_str(&format!("\nwarning: {lost}"));
    }
    let refused = if accept_loss { Some(home.accept_lost_token_key()?) } else { None };
    match refused.as_deref() {
        Some([]) => text.push_str("\nno API token needs a lost key, so no API token was changed"),
        Some(names) => {
            let count = names.len();
            text.push_str(&format!(
                "\n`{}` is the key of API tokens from now on. {} refused until a new secret is made with `enfilade token regenerate` (`enfilade doctor` also lists these tokens):",
                token_key::path(&home.data).display(),
                output::counted(count, "API token is", "API tokens are")
            ));
            names
                .iter()
                .take(NAMED_MAX)
                .for_each(|name| text.push_str(&format!("\n  {}", output::word(name))));
            if NAMED_MAX < count {
                text.push_str(&format!("\n  and {} more, which --json lists", count - NAMED_MAX));
            }
        }
        None => {}
    }
    let value = json!({
        "directory": keys.directory(), "made": is_made, "tokens_refused": refused.as_ref().map(Vec::len),
        "refused": refused.unwrap_or_default(),
    });
    output::done(json, &value, &text);
    Ok(())
}

/// Gets the keys of the fleet. If the fleet has no keys, makes keys for all members. Returns whether keys were made.
fn init_in_fleet(fleet: &KeysOfFleet, keys: &FernetKeys) -> anyhow::Result<bool> {
    let are_shared = fleet.fetch()?.is_some();
    let is_made = enfilade_admin::init_keys(keys)?;
    if is_made || !are_shared {
        fleet.share_own()?;
        fleet.wait_until_used()?;
    }
    Ok(is_made)
}

fn list(keys: &FernetKeys, terms: &KeyTerms, now: i64, json: bool) -> anyhow::Result<()> {
    let listed = enfilade_admin::list_keys(keys, terms)?;
    if json {
        for key in &listed {
            output::json_line(&json!({
                "key": key.number, "use": key.used_for.name(), "since": key.since, "needed_until": key.needed_until,
            }));
        }
        return Ok(());
    }
    output::line(&format!("{}\n", ring(&listed)));
    let needed = |key: &KeySummary| match (key.used_for, key.needed_until) {
        (KeyUse::Staged, _) => "the key signs after the next rotation".to_owned(),
        (KeyUse::Primary, _) => "the key signs".to_owned(),
        (_, Some(until)) if now < until => format!("tokens need the key until {}", output::time(until)),
        _ => "no unexpired token needs the key".to_owned(),
    };
    let rows: Vec<Vec<String>> = listed
        .iter()
        .map(|key| {
            vec![key.number.to_string(), key.used_for.name().to_owned(), output::time(key.since), needed(key)]
        })
        .collect();
    output::table(&["KEY", "USE", "SINCE", "NEEDED"], &rows);
    Ok(())
}

/// The keys in one line, each key in brackets: the staged key, the secondary keys, the primary key.
fn ring(keys: &[KeySummary]) -> String {
    let boxed = |key: &KeySummary| match key.used_for {
        KeyUse::Staged => format!("[{} next]", key.number),
        KeyUse::Primary => format!("[{} signs]", key.number),
        KeyUse::Secondary => format!("[{}]", key.number),
    };
    keys.iter().map(boxed).collect::<Vec<_>>().join(" ")
}

fn numbers(numbers: &[u32]) -> String {
    numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
