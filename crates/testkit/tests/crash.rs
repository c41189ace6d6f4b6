//! Tests every kind of change to files. The process is killed at the first, second, third … system call, or this call fails. Afterwards every
//! acknowledged change exists, and each change is done completely or not at all. `check` allows exceptions only for changes of trees: a DELETE may
//! stop in the middle, a COPY onto a tree may be incomplete if that is reported, and a MOVE onto a tree may end before the old tree is deleted.
//!
//! A worker, which is a second process of this program, prepares a server and stops itself. `strace` is attached and lets the worker continue until
//! the fault. The usual test run kills a worker at every second system call, and the campaign kills a worker at every system call. Each kill has its
//! own worker. The campaign also makes every call that reaches files fail with EIO and with ENOSPC.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
#![allow(clippy::print_stdout, reason = "a campaign says how far it is")]
#![allow(clippy::disallowed_methods, reason = "tests that wait for another process read the clock and sleep")]

use enfilade_admin::DatastoreEdit;
use enfilade_content::{ReservedPaths, Root};
use enfilade_facts::Refuse as _;
use enfilade_facts::vocabulary::{AclDialect, Authid, DatastoreName, OperationKind, StorePath};
use enfilade_passage::{Blocking, Discarded, ItemId, LockTerms, Placing, Refusal, Stay, TrashTerms};
use enfilade_sources::locks::LmdbLocks;
use enfilade_testkit::{Remembering, TestHouse};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

const VERB: &str = "ENFILADE_CRASH_VERB";
const PLACE: &str = "ENFILADE_CRASH_PLACE";
const VERBS: [&str; 12] = [
    "put-new",
    "put-over",
    "move-file-over-file",
    "move-tree",
    "move-tree-over-tree",
    "copy-file-over-file",
    "copy-tree-over-tree",
    "delete-tree",
    "lock-new",
    "trash-file",
    "trash-tree",
    "restore-tree",
];
/// The system calls that reach files. Other calls cannot fail with an error of the file system.
const OF_FILES: [&str; 24] = [
    "openat2",
    "openat",
    "mkdirat",
    "unlinkat",
    "renameat",
    "renameat2",
    "linkat",
    "write",
    "pwrite64",
    "pread64",
    "fsync",
    "fdatasync",
    "fsetxattr",
    "fgetxattr",
    "fremovexattr",
    "flistxattr",
    "fchmod",
    "fchown",
    "copy_file_range",
    "flock",
    "statx",
    "getdents64",
    "fadvise64",
    "fstatfs",
];

/// The names below a directory with their contents. For a directory, the content is `/`. Reserved names are left out.
type Tree = BTreeMap<String, String>;

fn tree(directory: &Path) -> Tree {
    let (mut tree, mut paths) = (Tree::new(), vec![PathBuf::new()]);
    while let Some(path) = paths.pop() {
        for entry in std::fs::read_dir(directory.join(&path)).unwrap() {
            let path = path.join(entry.unwrap().file_name());
            let name = path.to_str().unwrap().to_owned();
            if path.file_name().unwrap().to_str().unwrap().starts_with(".enfilade-") {
                continue;
            }
            let whole = directory.join(&path);
            let content =
                if whole.is_dir() { "/".to_owned() } else { std::fs::read_to_string(&whole).unwrap() };
            if whole.is_dir() {
                paths.push(path);
            }
            tree.insert(name, content);
        }
    }
    tree
}

fn plant(directory: &Path) {
    let _ = std::fs::remove_dir_all(directory);
    for path in ["from/deep", "to/old"] {
        std::fs::create_dir_all(directory.join(path)).unwrap();
    }
    let files = [
        ("from/a", "new a"),
        ("from/deep/b", "new b"),
        ("to/a", "old a"),
        ("to/old/c", "old c"),
        ("file", "old"),
        ("other", "other"),
    ];
    for (path, content) in files {
        std::fs::write(directory.join(path), content).unwrap();
    }
}

/// Makes the change `verb`. Before that, the worker is stopped and continued.
fn act(verb: &str, mut stay: Stay, item: Option<ItemId>) -> Result<(), Refusal> {
    let path = |text: &str| StorePath::from_plain(text).unwrap();
    let placing = Placing { overwrite: true, is_deep: true, tokens: &[], keep_going: &|| true };
    let put = |stay: Stay, at: &str| {
        let mut upload = stay.upload(path(at), Some(3))?;
        upload.write(b"new")?;
        upload.finish().map(drop)
    };
    match verb {
        "put-new" => put(stay, "fresh"),
        "put-over" => put(stay, "file"),
        "move-file-over-file" => stay.relocate(&path("other"), &path("file"), placing).map(drop),
        "move-tree" => stay.relocate(&path("from"), &path("fresh"), placing).map(drop),
        "move-tree-over-tree" => stay.relocate(&path("from"), &path("to"), placing).map(drop),
        "copy-file-over-file" => stay.copy(&path("other"), &path("file"), placing).map(drop),
        "copy-tree-over-tree" => match stay.copy(&path("from"), &path("to"), placing)?.failed.pop() {
            // The client gets a report of each member that was not copied.
            Some(left) => Err(left.why),
            None => Ok(()),
        },
        "delete-tree" => match stay.delete(&path("to"), &[], &|| true)?.pop() {
            Some(left) => Err(left.why),
            None => Ok(()),
        },
        "lock-new" => {
            let terms = LockTerms { is_deep: false, is_exclusive: true, said: String::new(), seconds: 600 };
            stay.lock(&path("fresh"), terms, &[]).map(drop)
        }
        "trash-file" => stay.discard(&path("file"), &|| true).map(drop),
        "trash-tree" => stay.discard(&path("from"), &|| true).map(drop),
        "restore-tree" => stay.restore(item.unwrap(), None, &|| true).map(drop),
        other => panic!("no verb `{other}`"),
    }
}

/// The worker process runs this function with an environment variable that names a change. In a usual test run, this function does nothing.
#[test]
fn worker() {
    let (Ok(verb), Some(place)) = (std::env::var(VERB), std::env::var_os(PLACE)) else { return };
    let place = PathBuf::from(place);
    let locks = Arc::new(LmdbLocks::open(&place.join("locks"), None).unwrap());
    let mut house = TestHouse::changed(Remembering::AsServed, |parts| {
        (parts.locks, parts.trash) = (locks, TrashTerms { days: 30, ..TrashTerms::default() });
    });
    let name: DatastoreName = "main".parse().unwrap();
    let edit = DatastoreEdit::Create {
        path: place.join("main").to_str().unwrap().to_owned(),
        properties: Vec::new(),
    };
    enfilade_admin::edit_datastore(&house.change_context(), &name, &edit).unwrap();
    let root: Authid = "root@local".parse().unwrap();
    house.add_user(&root.user, None);
    house.assign("/datastore/main", &root, "DatastoreAdmin");
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let visit = runtime.block_on(house.admit(&root)).unwrap();
    let mut stay = visit.enter(&name, OperationKind::Write, Blocking).unwrap();
    let item = (verb == "restore-tree").then(|| {
        match stay.discard(&StorePath::from_plain("from").unwrap(), &|| true) {
            Ok(Discarded::Trashed(id)) => id,
            other => panic!("{other:?}"),
        }
    });
    // The kernel delivers a signal to the named thread. If the process were named instead, its first thread would get the signal, and this thread
    // would continue until the first thread runs.
    let own = std::fs::read_link("/proc/thread-self").unwrap();
    Command::new("kill").arg("-STOP").arg(own.file_name().unwrap()).status().unwrap();
    let done = act(&verb, stay, item);
    let said = done.map_or_else(|refusal| refusal.code().to_owned(), |()| "done".to_owned());
    // The rename makes the whole answer visible at once.
    std::fs::write(place.join("said-now"), said).unwrap();
    std::fs::rename(place.join("said-now"), place.join("said")).unwrap();
    // Removes the other files of the server.
    drop(house);
}

/// Waits until `is_true` returns true. Panics if `process` ends first or five minutes pass, and shows the content of the file `messages`.
fn until(is_true: impl Fn() -> bool, process: &mut Child, messages: &Path) {
    // A loaded machine may need minutes.
    for _ in 0..150_000 {
        if is_true() {
            return;
        }
        if let Some(status) = process.try_wait().unwrap() {
            panic!(
                "the process ended with {status} before the awaited state; its messages: {}",
                std::fs::read_to_string(messages).unwrap()
            );
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    panic!(
        "the process runs, but the awaited state did not come within five minutes; its messages: {}",
        std::fs::read_to_string(messages).unwrap()
    );
}

fn status(pid: u32, field: &str) -> String {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    line.unwrap_or_default().trim().to_owned()
}

fn start(verb: &str, place: &Path) -> Child {
    let _ = std::fs::remove_file(place.join("said"));
    for name in ["locks", "tmp"] {
        // A killed worker leaves files in these directories. The next worker may have the same process id, and would use the same names.
        let _ = std::fs::remove_dir_all(place.join(name));
        std::fs::create_dir_all(place.join(name)).unwrap();
    }
    plant(&place.join("main"));
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "worker", "--nocapture", "--test-threads", "1"])
        .env(VERB, verb)
        .env(PLACE, place);
    command.env("TMPDIR", place.join("tmp"));
    let messages = place.join("worker-messages");
    let mut worker = command.stdout(Stdio::null()).stderr(File::create(&messages).unwrap()).spawn().unwrap();
    let pid = worker.id();
    until(|| status(pid, "State:").starts_with('T'), &mut worker, &messages);
    worker
}

/// Makes one run with a fault. Returns the answer of the worker, if the worker gave an answer, and whether the fault happened.
fn run(verb: &str, place: &Path, fault: &str) -> (Option<String>, bool) {
    let mut worker = start(verb, place);
    let pid = worker.id();
    let (trace, messages) = (place.join("trace"), place.join("strace-messages"));
    let mut strace = Command::new("strace")
        .args(["-f", "-e", "signal=none", "-e", fault, "-o"])
        .arg(&trace)
        .args(["-p", &pid.to_string()])
        .stderr(File::create(&messages).unwrap())
        .spawn()
        .expect("strace is needed");
    // strace may be attached to a thread that still runs for a moment. strace writes this line when it has stopped every thread.
    let is_attached = || std::fs::read_to_string(&messages).is_ok_and(|text| text.contains("attached"));
    until(is_attached, &mut strace, &messages);
    Command::new("kill").args(["-CONT", &pid.to_string()]).status().unwrap();
    let ended = worker.wait().unwrap();
    strace.wait().unwrap();
    let is_injected = std::fs::read_to_string(&trace).is_ok_and(|trace| trace.contains("(INJECTED)"));
    let happened = ended.signal().is_some() || is_injected;
    (std::fs::read_to_string(place.join("said")).ok(), happened)
}

/// The system calls of the thread that made the change, in order, including the calls after its answer. Each element is the name of a call, and the
/// number of calls with this name so far.
fn calls(trace: &str) -> Vec<(String, u32)> {
    let line = |line: &str| {
        let (thread, rest) = line.trim_start().split_once(char::is_whitespace)?;
        let (name, _) = rest.trim_start().split_once('(')?;
        let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        is_name.then(|| (thread.to_owned(), name.to_owned(), rest.contains("said-now")))
    };
    let lines: Vec<(String, String, bool)> = trace.lines().filter_map(line).collect();
    let who = lines.iter().find(|(.., says)| *says).map(|(thread, ..)| thread.clone()).unwrap();
    let mut counts = BTreeMap::<String, u32>::new();
    let own = lines.into_iter().filter(|(thread, ..)| *thread == who);
    own.map(|(_, name, _)| {
        let count = counts.entry(name.clone()).or_default();
        *count += 1;
        (name, *count)
    })
    .collect()
}

fn scratch() -> PathBuf {
    let place = std::env::temp_dir().join(format!("enfilade-crash-{}", std::process::id()));
    std::fs::create_dir_all(&place).unwrap();
    place
}

fn is_locked(place: &Path) -> bool {
    let locks = LmdbLocks::open(&place.join("locks"), None).unwrap();
    let now = enfilade_testkit::FixedClock::default().now().unix_seconds;
    let found = enfilade_content::Locks::new(&locks, now, enfilade_facts::limits::Limits::default())
        .covering(&"main".parse().unwrap(), &StorePath::from_plain("fresh").unwrap());
    !found.unwrap().is_empty()
}

/// Whether the trash contains a complete object that was at this path, and the record of the object.
fn in_trash(place: &Path, path: &str) -> bool {
    let main = place.join("main");
    let root = Root::open(main.to_str().unwrap(), AclDialect::Ntacl, &ReservedPaths::default()).unwrap();
    let (ids, _) = root.trash_ids(None, 10).unwrap();
    let found = ids.into_iter().filter_map(|id| root.trashed(id).ok());
    let mut found = found.filter(|item| item.record.path.as_str() == path && !item.record.who.is_empty());
    if found.next().is_none() {
        return false;
    }
    assert!(found.next().is_none());
    // Each tree contains 10 bytes, and the file contains 3 bytes.
    let trash = place.join("main/.enfilade-trash");
    let below = |path: PathBuf| std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    let objects = below(trash).flat_map(below).map(|item| item.join("item"));
    let bytes_of = |object: PathBuf| match object.is_dir() {
        true => tree(&object).values().filter(|content| *content != "/").map(String::len).sum(),
        false => std::fs::read(object).map_or(0, |content| content.len()),
    };
    objects.map(bytes_of).sum::<usize>() == if path == "file" { 3 } else { 10 }
}

/// Checks that the files are as before the change, or as intended after it.
fn check(verb: &str, place: &Path, before: &Tree, after: &Tree, said: Option<&str>, fault: &str) {
    let now = tree(&place.join("main"));
    let told = format!("{verb}, {fault}, said {said:?}: {now:#?}");
    match (verb, said) {
        (_, Some("done")) => assert_eq!(&now, after, "{told}"),
        ("delete-tree", _) => {
            let rest: Tree = before
                .iter()
                .filter(|(name, _)| now.contains_key(*name))
                .map(|(n, c)| (n.clone(), c.clone()))
                .collect();
            assert!(now == rest && now.len() >= after.len(), "{told}");
        }
        // The two trees were exchanged, and the old tree was not deleted yet.
        ("move-tree-over-tree", _) if now.contains_key("to/deep/b") => {
            assert!(now["to/a"] == "new a" && now["to/deep/b"] == "new b", "{told}");
            assert!(!now.contains_key("from") || now["from/old/c"] == "old c", "{told}");
        }
        // The copy is incomplete, and the answer reported this.
        ("copy-tree-over-tree", Some(code)) if code != "done" && now != *before && now != *after => {
            let has_sources = before
                .iter()
                .filter(|(name, _)| name.starts_with("from"))
                .all(|(name, content)| now.get(name) == Some(content));
            assert!(
                has_sources && now.iter().all(|(name, content)| after.get(name) == Some(content)),
                "{told}"
            );
        }
        _ => assert!(now == *before || now == *after, "{told}"),
    }
    // An object is in its place, or in the trash with its record, and never in both.
    for (path, of) in [("file", &["trash-file"][..]), ("from", &["trash-tree", "restore-tree"])] {
        let is_there = now.contains_key(path);
        assert_eq!(in_trash(place, path), of.contains(&verb) && !is_there, "{told}");
    }
    if verb == "lock-new" && said == Some("done") {
        assert!(is_locked(place), "{told}");
    }
}

#[test]
fn whatever_call_is_the_last_or_fails_nothing_is_there_by_half() {
    let is_campaign = std::env::var_os("ENFILADE_CAMPAIGN_N").is_some();
    let place = scratch();
    let faults: &[&str] = match is_campaign {
        true => &["signal=KILL", "error=EIO", "error=ENOSPC"],
        false => &["signal=KILL"],
    };
    let (mut runs, mut done) = (0, 0);
    for verb in VERBS {
        let before = {
            plant(&place.join("main"));
            let mut before = tree(&place.join("main"));
            // For `restore-tree`, the worker moves the tree `from` to the trash before it stops itself.
            before.retain(|name, _| verb != "restore-tree" || !name.starts_with("from"));
            before
        };
        let (said, _) = run(verb, &place, "trace=all");
        assert_eq!(said.as_deref(), Some("done"), "{verb}");
        let after = tree(&place.join("main"));
        assert_ne!(before, after, "{verb}");
        let calls = calls(&std::fs::read_to_string(place.join("trace")).unwrap());
        assert!(calls.len() > 10, "{verb}: {calls:?}");
        // Without the campaign, every second call is tried.
        for (name, nth) in calls.iter().step_by(if is_campaign { 1 } else { 2 }) {
            for fault in faults {
                if *fault != "signal=KILL" && !OF_FILES.contains(&name.as_str()) {
                    continue;
                }
                let fault = format!("inject={name}:{fault}:when={nth}");
                let (said, happened) = run(verb, &place, &fault);
                // The number of calls that wait for another thread can vary, so a fault at the last calls may not happen.
                if !happened {
                    assert_eq!(said.as_deref(), Some("done"), "{verb} {fault}");
                    continue;
                }
                check(verb, &place, &before, &after, said.as_deref(), &fault);
                runs += 1;
                done += u32::from(said.as_deref() == Some("done"));
            }
        }
    }
    println!(
        "{runs} runs with a fault; the change was acknowledged in {done} of them; all runs passed the check"
    );
    assert!(runs > 100);
    std::fs::remove_dir_all(place).unwrap();
}
