//! Recorded answers: thousands of requests to every face of a server with fixed content, their answers and their lines in the log.
//!
//! `answers/recorded.txt` has a line for each request: status, code of the refusal, and two digests. The digests are computed from the answer and
//! from the line in the log, in the canonical form that `answers/masks.txt` defines. A commit that should not change answers leaves every line
//! unchanged. If an answer differs, `cargo xtask answers --keep DIRECTORY` writes all answers in full. Run this command with the old and the new
//! code, and compare the directories with `diff -r`. `cargo xtask answers --accept` records the present answers.

mod client;
mod credentials;
mod heads;
mod house;
mod keystone;
mod keystone_bodies;
mod keystone_calls;
mod mask;
mod proxmox;
mod webdav;
mod webdav_changes;
mod webdav_values;
mod world;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use world::{Canonical, World};

/// The smallest number of requests. If there are fewer, the test skipped something.
const REQUESTS_MIN: usize = 5_000;
/// The maximum number of different answers that the test shows.
const SHOWN: usize = 5;

#[test]
fn every_answer_is_as_it_was_recorded() {
    let mut world = World::new();
    // Requests that change nothing come first, because they expect the initial content.
    heads::ask(&mut world);
    credentials::ask(&mut world);
    webdav::ask(&mut world);
    keystone::ask(&mut world);
    proxmox::ask(&mut world);
    keystone::change(&mut world);
    proxmox::change(&mut world);
    webdav_changes::ask(&mut world);
    heads::metrics(&mut world);
    keystone::covers_the_document(&world.asked);
    let answers = world.canonical();
    assert!(answers.len() >= REQUESTS_MIN, "{} requests, expected {REQUESTS_MIN}", answers.len());

    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../interop/answers/recorded.txt");
    let own = Path::new(env!("CARGO_TARGET_TMPDIR")).join("answers");
    let kept = match std::env::var_os("ENFILADE_ANSWERS_KEEP").map(PathBuf::from) {
        Some(directory) => directory,
        None => {
            let _ = std::fs::remove_dir_all(&own);
            own
        }
    };
    keep(&answers, &kept);
    if std::env::var_os("ENFILADE_ANSWERS_ACCEPT").is_some() {
        std::fs::write(recorded, lines(&answers)).unwrap();
        return;
    }
    let differences = differences(&std::fs::read_to_string(recorded).unwrap(), &answers);
    let kept = kept.display();
    assert!(
        differences.is_empty(),
        "{} answers are not as they were recorded:\n\n{}\n\nAll answers are in {kept}. `cargo xtask answers --keep DIRECTORY` writes them \
         for a commit, so that `diff -r` tells what changed. If the change is meant, `cargo xtask answers --accept` records it.",
        differences.len(),
        differences.iter().take(SHOWN).cloned().collect::<Vec<_>>().join("\n")
    );
}

/// The answers of each group, in the order of the groups' first requests.
fn groups(answers: &[Canonical]) -> Vec<(&str, Vec<&Canonical>)> {
    let mut groups: Vec<(&str, Vec<&Canonical>)> = Vec::new();
    for answer in answers {
        match groups.iter_mut().find(|(group, _)| *group == answer.group) {
            Some((_, of_group)) => of_group.push(answer),
            None => groups.push((&answer.group, vec![answer])),
        }
    }
    groups
}

/// The text of `recorded.txt`: the groups with their names, and a line for each request.
fn lines(answers: &[Canonical]) -> String {
    let mut text = String::new();
    for (group, answers) in groups(answers) {
        let _ = writeln!(text, "== {group}");
        for answer in answers {
            let _ = writeln!(text, "{} | {}", answer.what, answer.digests());
        }
    }
    text
}

/// Writes all answers in full, a file for each group.
fn keep(answers: &[Canonical], to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    let is_empty = std::fs::read_dir(to).unwrap().next().is_none();
    assert!(is_empty, "`{}` is not empty: name a new directory", to.display());
    for (group, answers) in groups(answers) {
        let text: String = answers.iter().map(|answer| full(answer)).collect();
        std::fs::write(to.join(format!("{}.txt", group.replace(['/', ' '], "-"))), text).unwrap();
    }
}

fn full(answer: &Canonical) -> String {
    let Canonical { what, asked, answer, log, .. } = answer;
    format!("#### {what}\n{asked}\n{answer}\n\nlog:\n{log}\n")
}

/// The differences from the recorded answers, each as a text.
fn differences(recorded: &str, answers: &[Canonical]) -> Vec<String> {
    let (mut before, mut group) = (BTreeMap::new(), "");
    for line in recorded.lines() {
        match line.strip_prefix("== ") {
            Some(name) => group = name,
            None => {
                let (what, digests) = line.rsplit_once(" | ").unwrap();
                before.insert((group, what), digests);
            }
        }
    }
    let mut found = Vec::new();
    for answer in answers {
        let now = answer.digests();
        let was = before.remove(&(answer.group.as_str(), answer.what.as_str()));
        if was != Some(&now) {
            let was = was.unwrap_or("nothing");
            let Canonical { group, .. } = answer;
            found.push(format!("== {group}: recorded {was}, now {now}\n{}", full(answer)));
        }
    }
    let gone = before
        .keys()
        .map(|(group, what)| format!("== {group}: `{what}` is recorded, but no request has this name"));
    found.extend(gone);
    found
}
