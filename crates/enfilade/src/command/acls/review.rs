//! `enfilade acl review` and `enfilade acl changes`.

use crate::home::Home;
use crate::output;
use crate::progress::Progress;
use anyhow::Context;
use enfilade_facts::vocabulary::{AccessMask, Authid, DatastoreName, StorePath, csv_field};
use enfilade_passage::NodeKind;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::BufRead as _;
use std::ops::ControlFlow;
use std::path::Path;

/// The output format.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Text,
    Json,
    Csv,
}

impl Form {
    pub(super) fn of(json: bool) -> Self {
        if json { Form::Json } else { Form::Text }
    }
}

pub(super) fn run(
    home: &Home,
    datastore: &DatastoreName,
    path: &str,
    people: Vec<Authid>,
    right: AccessMask,
    form: Form,
) -> anyhow::Result<()> {
    let path = StorePath::from_plain(path)?;
    let house = home.house_to_ask()?;
    let people = match people.is_empty() {
        false => people,
        true => house.who_can_log_in(everybody(home)?)?,
    };
    let all = enfilade_admin::count_beneath(&home.change_context(), datastore, &path)? + 1;
    let (mut progress, mut done, mut bad) = (Progress::start("reviewing"), 0, 0);
    if form == Form::Csv {
        output::line("path,kind,who,rights");
    }
    let names: Vec<String> = people.iter().map(Authid::to_string).collect();
    let width = names.iter().map(String::len).max().unwrap_or(0);
    house.review(&people, datastore, &path, &mut |object| {
        done += 1;
        progress.at(done, all);
        let (path, kind) = (object.path.to_string(), kind(object.kind));
        if let Some(why) = object.trouble {
            bad += 1;
            output::note(&format!("warning: {path}: {why}"));
        }
        for (who, rights) in names.iter().zip(object.rights) {
            if rights.is_empty() || !rights.covers(right) {
                continue;
            }
            match form {
                Form::Text => output::line(&format!("{who:<width$}  {kind:<9}  {path}  {rights}")),
                Form::Csv => {
                    let fields = [&path, kind, who, &rights.to_string()].map(csv_field);
                    output::line(&fields.join(","));
                }
                Form::Json => output::json_line(
                    &json!({ "path": path, "kind": kind, "who": who, "rights": rights.to_string() }),
                ),
            }
        }
        ControlFlow::Continue(())
    })?;
    anyhow::ensure!(
        bad == 0,
        "{bad} ACLs are invalid: only users with a role that ACLs do not limit have access to the files and directories with these ACLs; see the \
         warnings above"
    );
    Ok(())
}

/// Every user.
fn everybody(home: &Home) -> anyhow::Result<Vec<Authid>> {
    let users = enfilade_admin::list_users(home.source())?;
    users.into_iter().map(|user| Ok(user.userid.parse()?)).collect()
}

fn kind(kind: NodeKind) -> &'static str {
    match kind {
        NodeKind::File => "file",
        NodeKind::Directory => "directory",
    }
}

type Review = BTreeMap<(String, String), String>;

fn read(file: &Path) -> anyhow::Result<Review> {
    let said = || format!("`{}`", file.display());
    let lines = std::io::BufReader::new(std::fs::File::open(file).with_context(said)?).lines();
    let mut review = Review::new();
    for (number, line) in (1..).zip(lines) {
        let line = line.with_context(said)?;
        let row: Value = serde_json::from_str(&line).unwrap_or_default();
        let text = |key: &str| row.get(key).and_then(Value::as_str).map(str::to_owned);
        let (Some(path), Some(who), Some(rights)) = (text("path"), text("who"), text("rights")) else {
            anyhow::bail!(
                "{}: line {number} is not a line of a review; expected the output of `acl review --json`",
                said()
            );
        };
        review.insert((path, who), rights);
    }
    Ok(review)
}

pub(super) fn changes(before: &Path, after: &Path, json: bool) -> anyhow::Result<()> {
    let (before, after) = (read(before)?, read(after)?);
    let (mut gained, mut lost, mut other) = (0, 0, 0);
    let keys: std::collections::BTreeSet<_> = before.keys().chain(after.keys()).collect();
    for key in keys {
        let (was, is) = (before.get(key), after.get(key));
        let (path, who) = key;
        let text = match (was, is) {
            (None, Some(rights)) => {
                gained += 1;
                format!("+ {who}  {path}  {rights}")
            }
            (Some(rights), None) => {
                lost += 1;
                format!("- {who}  {path}  {rights}")
            }
            (Some(was), Some(is)) if was != is => {
                other += 1;
                format!("~ {who}  {path}  {was} -> {is}")
            }
            _ => continue,
        };
        match json {
            true => output::json_line(&json!({ "path": path, "who": who, "before": was, "after": is })),
            false => output::line(&text),
        }
    }
    if !json {
        output::note(&format!("access of users to paths: {gained} gained, {lost} lost, {other} changed"));
    }
    Ok(())
}
