//! `enfilade reference`: prints tables about this program, such as its configuration keys, limits, metrics and commands.

use crate::cli::Subject;
use crate::output;
use crate::reference::{Table, table};
use anyhow::bail;
use clap::ValueEnum as _;
use serde_json::{Map, Value};
use std::process::ExitCode;

/// Prints tables. If a word is given, prints only the rows that have this word in their names.
pub(super) fn run(subjects: &[Subject], word: Option<&str>, json: bool) -> anyhow::Result<ExitCode> {
    let word = word.map(str::to_lowercase);
    let (mut all, mut found) = (Map::new(), 0);
    for subject in subjects {
        let mut table = table(*subject)?;
        let is_meant = |row: &Vec<Value>| match (&word, row.first()) {
            (Some(word), Some(name)) => text(name).to_lowercase().contains(word),
            _ => true,
        };
        table.rows.retain(is_meant);
        found += table.rows.len();
        if json {
            let name = subject.to_possible_value().map(|name| name.get_name().to_owned());
            all.insert(name.unwrap_or_default(), table.json());
        } else {
            print(&table);
        }
    }
    if let (Some(word), 0) = (word, found) {
        bail!("no row of the chosen tables has `{word}` in its name: `enfilade reference` prints all tables");
    }
    if json {
        output::json_line(&Value::Object(all));
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints each row as a block of lines, because sentences are too long for columns.
fn print(table: &Table) {
    for row in &table.rows {
        let Some((name, cells)) = row.split_first() else { continue };
        output::line(&text(name));
        let columns = table.columns.iter().skip(1);
        let cells = columns.zip(cells.iter().map(text)).filter(|(_, cell)| !cell.is_empty());
        cells.for_each(|(column, cell)| output::line(&format!("    {column}: {cell}")));
    }
}

fn text(cell: &Value) -> String {
    cell.as_str().map_or_else(|| cell.to_string(), str::to_owned)
}
