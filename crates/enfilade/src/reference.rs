//! The tables of the program. `enfilade reference` prints them, and `cargo xtask pages` writes them to `docs/`.

use crate::cli::{Cli, Subject};
use crate::config::{Config, KEYS, Key};
use crate::protocols;
use clap::{Arg, Command, CommandFactory as _};
use enfilade_faces::{METRICS, Metric, Route};
use enfilade_facts::limits::{FIXED, LIMITS};
use enfilade_facts::tables::ENDINGS;
use enfilade_facts::{Door, RefusalRow};
use enfilade_keystone::V3;
use enfilade_passage::rule_named;
use enfilade_proxmox::PROXMOX;
use serde_json::{Map, Value, json};

/// A table: the names of its columns, and its rows. The first column contains the name of the row.
pub(crate) struct Table {
    pub(crate) columns: &'static [&'static str],
    pub(crate) rows: Vec<Vec<Value>>,
}

impl Table {
    /// The rows as JSON objects.
    pub(crate) fn json(&self) -> Value {
        let object = |row: &Vec<Value>| {
            let cells = self.columns.iter().zip(row).map(|(name, cell)| ((*name).to_owned(), cell.clone()));
            Value::Object(cells.collect::<Map<_, _>>())
        };
        self.rows.iter().map(object).collect()
    }
}

/// The table about a subject.
pub(crate) fn table(subject: Subject) -> anyhow::Result<Table> {
    Ok(match subject {
        Subject::Configuration => configuration()?,
        Subject::Limits => limits(),
        Subject::Fixed => fixed(),
        Subject::Refusals => refusals(),
        Subject::Metrics => metrics(),
        Subject::Routes => routes(),
        Subject::Commands => commands(),
        Subject::Endings => endings(),
    })
}

fn configuration() -> anyhow::Result<Table> {
    let defaults = toml::Table::try_from(Config::default())?;
    let row = |key: &Key| {
        let default = match value_of(&defaults, key) {
            Some(toml::Value::String(text)) => text.clone(),
            Some(value) => value.to_string(),
            None => key.unset.to_owned(),
        };
        let (name, values) = (format!("{}.{}", key.section, key.name()), (key.expected)());
        vec![
            json!(name),
            json!(values),
            json!(default),
            json!(key.effect.name()),
            json!(key.what()),
            json!(key.page),
        ]
    };
    let columns = &["key", "values", "default", "change needs", "meaning", "page"];
    Ok(Table { columns, rows: KEYS.iter().map(row).collect() })
}

/// The default value of a key in TOML; `None` if the key has no default.
pub(crate) fn default_of(key: &Key) -> anyhow::Result<Option<String>> {
    let defaults = toml::Table::try_from(Config::default())?;
    Ok(value_of(&defaults, key).map(ToString::to_string))
}

fn value_of<'t>(table: &'t toml::Table, key: &Key) -> Option<&'t toml::Value> {
    let value = table.get(key.section)?.get(key.name())?;
    Some(value).filter(|value| value.as_str() != Some(""))
}

fn limits() -> Table {
    let row = |row: &enfilade_facts::limits::LimitRow| {
        let (least, most) = row.range;
        vec![
            json!(row.key),
            json!(row.usual),
            json!(least),
            json!(most),
            json!(row.unit),
            json!(row.what.trim()),
            json!(row.beyond),
        ]
    };
    let columns = &["key", "default", "least", "most", "unit", "meaning", "beyond"];
    Table { columns, rows: LIMITS.iter().map(row).collect() }
}

fn fixed() -> Table {
    let rows =
        FIXED.iter().map(|limit| vec![json!(limit.name), json!(limit.value), json!(limit.what.trim())]);
    Table { columns: &["limit", "value", "meaning"], rows: rows.collect() }
}

/// The refusals of each door, and of the faces (the code of the protocols).
fn tables_of_refusals() -> [(&'static str, &'static [RefusalRow]); 6] {
    [
        (Door::Tls.name(), &enfilade_tls::CODES),
        (Door::Identity.name(), &enfilade_identity::CODES),
        (Door::Datastore.name(), &enfilade_datastore::CODES),
        (Door::Access.name(), &enfilade_access::CODES),
        (Door::Content.name(), &enfilade_content::CODES),
        ("face", &enfilade_faces::CODES),
    ]
}

/// The advice for a refusal with this code.
pub(crate) fn action_of(code: &str) -> Option<&'static str> {
    let mut rows = tables_of_refusals().into_iter().flat_map(|(_, rows)| rows);
    rows.find(|row| row.code == code).map(|row| row.action)
}

fn refusals() -> Table {
    let row = |door: &str, row: &RefusalRow| {
        let RefusalRow { code, fault, meaning, action } = row;
        let statuses = enfilade_faces::statuses_of_code(code);
        let statuses: Vec<String> = statuses.iter().map(ToString::to_string).collect();
        let (status, fault) = (statuses.join(", "), fault.name());
        vec![json!(code), json!(door), json!(status), json!(fault), json!(meaning), json!(action)]
    };
    let tables = tables_of_refusals();
    let rows = tables.iter().flat_map(|(door, codes)| codes.iter().map(move |code| row(door, code)));
    Table { columns: &["code", "door", "status", "fault", "meaning", "action"], rows: rows.collect() }
}

fn metrics() -> Table {
    let row = |metric: &Metric| {
        let labels = metric.labels.join(", ");
        vec![json!(metric.name), json!(metric.kind), json!(labels), json!(metric.help)]
    };
    Table { columns: &["metric", "type", "labels", "meaning"], rows: METRICS.iter().map(row).collect() }
}

/// The routes of all listeners, followed by the calls of the APIs that have separate tables.
fn routes() -> Table {
    let of_listener = |of: &'static str, tables: Vec<&'static [Route]>| {
        tables.into_iter().flatten().map(move |route| {
            let [path, methods, needs, what] = route.described();
            vec![json!(path), json!(of), json!(methods), json!(needs), json!(""), json!(what)]
        })
    };
    let mut rows: Vec<_> = of_listener("main listener", protocols::main(true)).collect();
    rows.extend(of_listener("operations listener", protocols::OPERATIONS.to_vec()));
    rows.extend(of_listener("decision listener", protocols::DECISIONS.to_vec()));
    rows.extend(PROXMOX.iter().map(|call| {
        let (path, delegated) = (format!("/api2/json/{}", call.path), call.lending.says());
        vec![
            json!(path),
            json!("proxmox"),
            json!(call.method),
            json!(call.needs),
            json!(delegated),
            json!(call.says),
        ]
    }));
    rows.extend(V3.iter().map(|call| {
        let rule = rule_named(call.rule);
        let who: Vec<_> = rule.iter().flat_map(|rule| rule.who).map(|who| who.says()).collect();
        let needs = if rule.is_some() { who.join(", ") } else { "nothing".to_owned() };
        let delegated = rule.map_or("", |rule| rule.lending.says());
        let path = format!("/v3{}", call.path);
        vec![
            json!(path),
            json!("identity v3"),
            json!(call.method),
            json!(needs),
            json!(delegated),
            json!(call.says),
        ]
    }));
    Table { columns: &["path", "of", "methods", "needs", "delegated", "meaning"], rows }
}

fn endings() -> Table {
    let row =
        |(change, ends, keystone): &(&str, &str, &str)| vec![json!(change), json!(ends), json!(keystone)];
    Table { columns: &["change", "ends", "keystone"], rows: ENDINGS.iter().map(row).collect() }
}

/// One row for each command, and one row for each argument of a command.
fn commands() -> Table {
    let mut root = Cli::command();
    root.build();
    let mut rows = Vec::new();
    add_command(&root, "", &mut rows);
    Table { columns: &["command", "argument", "values", "default", "meaning"], rows }
}

fn add_command(command: &Command, before: &str, rows: &mut Vec<Vec<Value>>) {
    let name = format!("{before}{}", command.get_name());
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    rows.push(vec![json!(name), json!(""), json!(""), json!(""), json!(about)]);
    let is_root = before.is_empty();
    // Global arguments are shown only once, at the top. Every command has `--help` and `--version`, so these two are not shown.
    let own = |arg: &&Arg| {
        (is_root || !arg.is_global_set()) && !matches!(arg.get_id().as_str(), "help" | "version")
    };
    for arg in command.get_arguments().filter(own) {
        let takes_value = arg.get_action().takes_values();
        let values = arg.get_possible_values().into_iter().filter(|_| takes_value);
        let values: Vec<String> = values.map(|value| value.get_name().to_owned()).collect();
        let default = arg.get_default_values().iter().filter(|_| takes_value);
        let default: Vec<_> = default.map(|value| value.to_string_lossy()).collect();
        let what = arg.get_help().map(ToString::to_string).unwrap_or_default();
        let (values, default) = (values.join(", "), default.join(" "));
        rows.push(vec![json!(name), json!(arg.to_string()), json!(values), json!(default), json!(what)]);
    }
    let below = command.get_subcommands().filter(|below| below.get_name() != "help");
    below.for_each(|below| add_command(below, &format!("{name} "), rows));
}
