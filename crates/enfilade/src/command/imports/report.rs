//! The report of an import. The report contains the records of the source, the imported records, the records that were left out (with the reasons),
//! and the next steps.

use crate::output;
use enfilade_admin::Imported;
use enfilade_facts::At;
use serde_json::{Value, json};

/// The maximum number of records of one kind in a table for people. With `--json`, all records are listed.
const LISTED_MAX: usize = 20;

/// A step for the operator after the import.
pub(super) struct Step {
    pub(super) why: String,
    pub(super) commands: Vec<String>,
}

/// The result of an import.
pub(super) struct Report {
    pub(super) items: Vec<Imported>,
    pub(super) at: At,
    pub(super) pretend: bool,
    /// Notes for the operator about the source or the result. Each note is one sentence.
    pub(super) notes: Vec<String>,
    pub(super) next: Vec<Step>,
}

/// The number of records of one kind in the source, and the number of imported records of this kind.
struct Count {
    kind: &'static str,
    there: usize,
    taken: usize,
}

impl Report {
    /// Prints the report. In JSON, each record is one line. The last line contains the numbers of records and the next steps.
    pub(super) fn tell(&self, json: bool) {
        match json {
            true => self.tell_json(),
            false => self.tell_people(),
        }
    }

    fn counts(&self) -> Vec<Count> {
        let mut counts: Vec<Count> = Vec::new();
        for item in self.items.iter().filter(|item| !item.is_remark) {
            let taken = usize::from(item.left_out.is_none());
            match counts.iter_mut().find(|count| count.kind == item.kind) {
                Some(count) => {
                    count.there += 1;
                    count.taken += taken;
                }
                None => counts.push(Count { kind: item.kind, there: 1, taken }),
            }
        }
        counts
    }

    fn tell_json(&self) {
        for item in &self.items {
            output::json_line(&json!({
                "what": item.what(), "kind": item.kind, "name": item.name, "left_out": item.left_out,
                "differs": item.differs, "remark": item.is_remark,
            }));
        }
        let counts = self.counts();
        let taken: usize = counts.iter().map(|count| count.taken).sum();
        let there: usize = counts.iter().map(|count| count.there).sum();
        let kind = |count: &Count| {
            json!({
                "kind": count.kind, "there": count.there, "taken": count.taken,
                "left_out": count.there - count.taken,
            })
        };
        let next = |step: &Step| json!({ "why": step.why, "commands": step.commands });
        output::json_line(&json!({
            "taken": taken, "left_out": there - taken, "revision": self.at.revision.0,
            "pretended": self.pretend, "kinds": counts.iter().map(kind).collect::<Vec<Value>>(),
            "notes": self.notes, "next": self.next.iter().map(next).collect::<Vec<Value>>(),
        }));
    }

    fn tell_people(&self) {
        let verb = if self.pretend { "WOULD BE IMPORTED" } else { "IMPORTED" };
        let counts = self.counts();
        let row = |count: &Count| {
            let [there, taken, left] =
                [count.there, count.taken, count.there - count.taken].map(|count| count.to_string());
            vec![count.kind.to_owned(), there, taken, left]
        };
        output::table(&["KIND", "IN SOURCE", verb, "LEFT OUT"], &counts.iter().map(row).collect::<Vec<_>>());
        if self.pretend {
            let taken = |item: &Imported| item.left_out.is_none() && !item.is_remark;
            self.list(&[verb], |item| taken(item).then(Vec::new));
        }
        self.list(&["LEFT OUT", "WHY"], |item| Some(vec![item.left_out.clone()?]));
        self.list(&["DIFFERENT HERE", "WHY"], |item| {
            item.differs.clone().filter(|_| item.left_out.is_none()).map(|why| vec![why])
        });
        if !self.notes.is_empty() {
            output::line("");
            self.notes.iter().for_each(|note| output::line(note));
        }
        if !self.next.is_empty() {
            output::line("\nnext:");
        }
        for Step { why, commands } in &self.next {
            output::line(&format!("  {why}"));
            commands.iter().for_each(|command| output::line(&format!("    {command}")));
        }
    }

    /// Prints a table with a row for each record for which `rest` returns `Some`. The function `rest` returns the columns after the name. At most
    /// [`LISTED_MAX`] records of each kind are printed.
    fn list(&self, headings: &[&str], rest: impl Fn(&Imported) -> Option<Vec<String>>) {
        let mut kinds: Vec<&str> = Vec::new();
        for item in &self.items {
            if !kinds.contains(&item.kind) {
                kinds.push(item.kind);
            }
        }
        let mut rows = Vec::new();
        for kind in kinds {
            let of_kind = self.items.iter().filter(|item| item.kind == kind);
            let all = of_kind.filter_map(|item| Some((item.what(), rest(item)?)));
            let mut all: Vec<(String, Vec<String>)> = all.collect();
            let more = all.split_off(all.len().min(LISTED_MAX));
            rows.extend(all.into_iter().map(|(what, rest)| [vec![what], rest].concat()));
            let others = summed(more.into_iter().map(|(_, rest)| rest), headings.len() - 1);
            rows.extend(others.into_iter().map(|(rest, count)| {
                [vec![format!("and {count} more of kind {kind}: --json lists all")], rest].concat()
            }));
        }
        if !rows.is_empty() {
            output::line("");
            output::table(headings, &rows);
        }
    }

    /// The names of the records of this kind for which `is_so` returns true.
    pub(super) fn names(&self, kind: &str, is_so: impl Fn(&Imported) -> bool) -> Vec<&str> {
        let found = self.items.iter().filter(|item| item.kind == kind && is_so(item));
        found.map(|item| item.name.as_str()).collect()
    }

    /// Whether users, tokens or datastores existed on this server before the import. These records may differ from the records with the same names in
    /// the source.
    pub(super) fn has_doubts(&self) -> bool {
        let kinds = ["user", "token", "datastore"];
        self.items.iter().any(|item| kinds.contains(&item.kind) && item.exists_here())
    }
}

/// Each row consists of the columns after the name. Returns each different row once, with the number of its occurrences. If there are more than
/// [`LISTED_MAX`] different rows, for example because the reasons contain names of other records, returns only the total, with empty columns.
fn summed(all: impl Iterator<Item = Vec<String>>, columns: usize) -> Vec<(Vec<String>, usize)> {
    let mut sums: Vec<(Vec<String>, usize)> = Vec::new();
    let mut count = 0;
    for rest in all {
        count += 1;
        let has_place = sums.len() <= LISTED_MAX;
        match sums.iter_mut().find(|(known, _)| *known == rest) {
            Some((_, count)) => *count += 1,
            None if has_place => sums.push((rest, 1)),
            None => {}
        }
    }
    if LISTED_MAX < sums.len() { vec![(vec![String::new(); columns], count)] } else { sums }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_with_the_same_reason_are_counted() {
        let row = |why: &str| vec![why.to_owned()];
        let rows = ["a", "b", "a", "a"].map(row);
        assert_eq!(summed(rows.into_iter(), 1), [(row("a"), 3), (row("b"), 1)]);
        let rows = (0..LISTED_MAX + 5).map(|n| row(&n.to_string()));
        assert_eq!(summed(rows, 1), [(row(""), LISTED_MAX + 5)]);
        assert!(summed(std::iter::empty(), 1).is_empty());
    }
}
