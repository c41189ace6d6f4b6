//! Watches the files that people edit, and does other periodic work of a server. The interval is about one second.

use crate::home::Home;
use crate::look::look;
use crate::{clock, example, output, placed};
use enfilade_admin::{Administers, Administrator};
use enfilade_faces::{Faces, FileLook};
use enfilade_facts::Source;
use enfilade_identity::Refusal;
use enfilade_passage::PenaltyCounts;
use enfilade_sources::files::attempts::{Attempted, Attempts};
use enfilade_sources::files::file_set::FileSet;
use enfilade_sources::files::mirror::Mirror;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The maximum age of the last reading of the files, in milliseconds. If the last reading is older, this server reports to the fleet that it does not
/// follow the files. The files are read about once a second.
const FOLLOWED_MILLIS: u64 = 5_000;

/// Starts a thread that follows the files, clears the reader slots of ended processes in the store, and records failed logins. The thread never waits
/// for the program that reads the server's standard error.
pub(crate) fn follow(home: &Home, faces: Faces) -> anyhow::Result<()> {
    let (store, source) = (Arc::clone(&home.store), Arc::clone(&home.facts.source));
    let (server, reads) = (home.facts.server.clone(), Arc::clone(&home.reads_files));
    let mut mirror = Mirror::new(home.files.clone());
    let set = home.files.clone();
    let path = home.data.join("attempts");
    let attempts = home
        .shared(&path, Attempts::open)
        .inspect_err(|why| {
            output::note(&format!(
                "warning: failed logins are not recorded for `enfilade doctor`: {why:#}; correct \
                the cause, then restart this server"
            ));
        })
        .ok();
    std::thread::Builder::new().name("files".into()).spawn(move || {
        let mut told = Vec::new();
        let mut added = PenaltyCounts::default();
        loop {
            let began = clock::now();
            let mut problems = Vec::new();
            let is_followed = set.is_followed();
            if is_followed && !reads.load(Ordering::Relaxed) {
                // This machine has become the files member, and none of its servers has read the files since that change. The previous mirror may
                // contain an old state of the files.
                mirror = Mirror::new(set.clone());
            }
            // If there are several servers, only the mirror leader reads the files. The other servers read the updated facts from the store. In a
            // fleet, only the files of one member are read.
            if is_followed && store.mirror_leader().is_mine(began.tick_millis) {
                problems.extend(look(&store, &*source, &mut mirror).err().map(|why| format!("{why:#}")));
            }
            let age = is_followed.then(|| store.mirror_leader().age_millis(clock::now().tick_millis));
            let is_read = age.flatten().is_some_and(|age| age <= FOLLOWED_MILLIS);
            if is_read || !is_followed {
                reads.store(is_read, Ordering::Relaxed);
            }
            // Each other member asks etcd whether the files are followed, and counts the stale limit from its last question that etcd answered with
            // yes.
            server.iter().for_each(|server| server.follow_files(is_read));
            problems.extend(tell(&*source, age, &set, &faces));
            problems.extend(store.follow_mark().err().map(|why| {
                format!("`facts/high-water` cannot be opened, or belongs to another store: {why}; changes by other \
                    processes take effect up to one second late; correct the cause before you start a server again")
            }));
            if problems != told {
                problems.iter().for_each(|problem| output::note(&format!("warning: {problem}")));
                told = problems;
            }
            store.clear_stale_readers();
            let counts = faces.house().penalties().counts();
            if counts != added {
                let more =
                    Attempted { failed: counts.failed - added.failed, barred: counts.barred - added.barred };
                attempts.iter().for_each(|attempts| attempts.add(more, clock::now().unix_seconds));
                added = counts;
            }
            mirror.wait(Duration::from_secs(1));
        }
    })?;
    Ok(())
}

/// Logs which files of a Proxmox server in the directory of `user.cfg` are not in use. If no administrator can log in, also logs the reason.
pub(crate) fn tell_unused(home: &Home) {
    let unused = placed::unused(&home.data, home.source(), &home.files, &home.reserved);
    unused.iter().for_each(|unused| output::note(&format!("warning: {}", unused.says)));
    let administrators =
        enfilade_admin::administrators(home.source(), Administers::Server, clock::now().unix_seconds);
    let without = administrators.ok().and_then(|all| without_login(&all, &home.data));
    without.iter().for_each(|says| output::note(&format!("warning: {says}")));
}

/// The reason why no administrator can log in, and advice. `None` if an administrator can log in, or if there is no administrator.
pub(crate) fn without_login(administrators: &[Administrator], data: &Path) -> Option<String> {
    let first = administrators.first().filter(|_| !administrators.iter().any(Administrator::can_log_in))?;
    let run = |rest: String| format!(": run `{}`", example::command_of(data, &rest));
    let passwd = || run(format!("user passwd {}", quoted(&first.name)));
    let (why, next) = match first.refused.as_ref()? {
        Refusal::NoPassword(_) => ("has all rights but no password".to_owned(), passwd()),
        Refusal::Disabled { what: "its realm", .. } => (
            format!("has all rights, but its domain {} is disabled", first.name.realm()),
            run(format!("domain enable {}", quoted(first.name.realm()))),
        ),
        Refusal::PasswordExpired { .. } => {
            ("has all rights, but its password has expired".to_owned(), passwd())
        }
        Refusal::BadHash { why, .. } => {
            (format!("has all rights, but the stored hash of its password cannot be used ({why})"), passwd())
        }
        other => (format!("has all rights, but cannot log in ({})", other.reason()), String::new()),
    };
    Some(format!("{} {why}, and no other administrator can log in{next}", first.name))
}

fn quoted(name: &impl ToString) -> String {
    output::word(&name.to_string())
}

/// Sets the metrics about the files that people edit, from the stored facts. Returns the problems as text.
///
/// `age` is the time since the last look at the files, in milliseconds. It is `Some(None)` if there was no look, and `None` if the files of this
/// machine are not followed.
fn tell(source: &dyn Source, age: Option<Option<u64>>, set: &FileSet, faces: &Faces) -> Vec<String> {
    let now = clock::now();
    let is_followed = age.is_some();
    let age = age.flatten().map(|age| i64::try_from(age / 1000).unwrap_or(i64::MAX));
    let mut problems = Vec::new();
    let limit = set.stale_limit();
    if is_followed && age.is_none_or(|age| limit < age) {
        problems.push(format!(
            "no server has been able to read the files in `{}` for {limit} s, so users, tokens, roles and datastores that these files define are \
             refused",
            set.directory().display()
        ));
    }
    let files = match enfilade_admin::list_files(source) {
        Ok(files) => files,
        Err(why) => {
            problems.push(why.to_string());
            return problems;
        }
    };
    let look = |file: &enfilade_admin::FileSummary| FileLook {
        unix_seconds: age.map_or(0, |age| now.unix_seconds.saturating_sub(age)),
        good_revision: file.good.map_or(0, |good| good.0),
        problems: u64::from(file.problem_count),
        lines: file.problems.iter().filter_map(|problem| line_of(problem)).collect(),
        refuses: file.refuses,
    };
    faces.metrics().set_files(files.iter().map(|file| (file.file.as_str(), look(file))).collect());
    for file in &files {
        let path = set.path(file.file);
        problems.extend(file.problems.iter().map(|problem| format!("{}: {problem}", path.display())));
        let untold = (file.problem_count as usize).saturating_sub(file.problems.len());
        if untold > 0 {
            problems.push(format!("{}: and {untold} more problems", path.display()));
        }
    }
    problems
}

/// The line number and the reason of a problem, for metrics. The reason contains neither the effects of the problem nor text from the file, because
/// metrics contain no names.
fn line_of(problem: &str) -> Option<(u32, String)> {
    let (line, reason) = problem.strip_prefix("line ")?.split_once(": ")?;
    let reason = reason.split_once(" (").map_or(reason, |(reason, _)| reason);
    let mut quote = None;
    let mut said = String::new();
    for letter in reason.chars() {
        match quote {
            None if letter == '`' || letter == '\'' => {
                quote = Some(letter);
                said.push('…');
            }
            None => said.push(letter),
            Some(end) if letter == end => quote = None,
            Some(_) => {}
        }
    }
    Some((line.parse().ok()?, said))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn why_no_administrator_can_log_in_and_the_command_that_helps() {
        let name: enfilade_facts::vocabulary::Userid = "ann@staff".parse().unwrap();
        let authid = || name.clone().into();
        let says = |refused| {
            without_login(&[Administrator { name: name.clone(), refused }], Path::new("/d"))
                .unwrap_or_default()
        };
        assert_eq!(says(None), "");
        for (refusal, parts) in [
            (Refusal::NoPassword(authid()), ["but no password", "user passwd ann@staff`"]),
            (
                Refusal::Disabled { authid: authid(), what: "its realm" },
                ["domain staff is disabled", "domain enable staff`"],
            ),
            (
                Refusal::BadHash { authid: authid(), why: "unknown".into() },
                ["the stored hash of its password", "user passwd ann@staff`"],
            ),
        ] {
            let says = says(Some(refusal));
            assert!(parts.iter().all(|part| says.contains(part)), "{says}");
        }
    }

    #[test]
    fn metrics_hold_the_line_and_the_reason_and_no_names() {
        for (problem, line, reason) in [
            (
                "line 3: unknown property 'foo' (datastore aaa: last good facts are kept for 60 s)",
                3,
                "unknown property …",
            ),
            ("line 1: role `Admni`: expected Admin (a@pbs on /: refused)", 1, "role …: expected Admin"),
            ("line 9: syntax error", 9, "syntax error"),
        ] {
            assert_eq!(line_of(problem), Some((line, reason.to_owned())));
        }
        assert_eq!(line_of("a@pbs!t: it is there more than once; refused"), None);
    }
}
