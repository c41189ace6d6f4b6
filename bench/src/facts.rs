//! The cost of reading and of changing facts, with few and with many records.

mod commits;
mod seen;
mod starts;

pub(crate) use seen::watch;

use crate::Failure;
use crate::goals::Goal;
use crate::machine::anonymous_bytes;
use crate::report::Report;
use crate::samples::{Estimate, Samples};
use crate::scratch::Scratch;
use crate::served::Server;
use crate::stopwatch::{nanos, now};
use crate::stores::{self, Sequence, Store, TOKENS_EACH, audit, id};
use enfilade_facts::codec;
use enfilade_facts::tables::{Credential, SidSpace, SidSpaceKey, Verifier};
use enfilade_facts::vocabulary::CredentialId;
use enfilade_facts::{Change, Clocks, MirrorHealth, Read, Source, Table};
use enfilade_sources::files::file_set::FileSet;
use enfilade_sources::files::mirror::Mirror;
use enfilade_sources::lmdb::Lmdb;
use std::path::Path;
use std::time::Duration;

const ROUNDS: usize = 21;
const MANY: u64 = 1_000_000;
const LINES: u64 = 100_000;
/// The number of times that one line of `token.shadow` changes.
const CHANGES: u64 = 11;

pub(crate) fn goals() -> Vec<Goal> {
    let users = MANY / TOKENS_EACH;
    let files = format!("`user.cfg` and `token.shadow` have {LINES} tokens, and are mirrored already");
    let look = "a look in process reads the files, and changes the facts to match them. The time of the look is measured";
    vec![
        Goal::new(
            "open",
            500.0,
            "ms",
            "time to open a store",
            format!(
                "The store has {MANY} tokens of {users} users, and is in the page cache. It is opened once, in process"
            ),
        ),
        Goal::new(
            "rss",
            150.0,
            "MiB",
            "anonymous memory of an idle server",
            format!(
                "The server has {MANY} tokens of {users} users, and gets no requests. Its anonymous memory is read once, 2.5 s after its start"
            ),
        ),
        Goal::new(
            "mirror",
            2_000.0,
            "ms",
            "time to mirror `token.shadow` after a change of every line",
            format!("{files}. Every line of `token.shadow` is changed once. Then {look}"),
        ),
        Goal::new(
            "line",
            100.0,
            "ms",
            "time to mirror `token.shadow` after a change of one line",
            format!(
                "{files}. {CHANGES} times, one line of `token.shadow` is changed, and the line that was changed before is restored. Each time, \
                 {look}. The value is the median"
            ),
        ),
        starts::goal(),
    ]
}

pub(crate) fn run(report: &mut Report, small: bool) -> Result<(), Failure> {
    let (few, many, lines) = if small { (100, 10_000, 1_000) } else { (1_000, MANY, LINES) };
    let scratch = Scratch::new("facts")?;
    let mut random_at = Vec::new();
    let many_tokens = many;
    for tokens in [few, many] {
        let place = scratch.path().join(tokens.to_string());
        drop(Store::of(&place, tokens, |n, _| Verifier::Keyed([n as u8; 32]))?);
        let began = now();
        let lmdb = Lmdb::open(&place)?;
        let open = began.elapsed().as_secs_f64() * 1e3;
        report.once("open a store", tokens, open, "ms");
        if tokens == many {
            report.goal("open", Estimate::once(open));
        }
        random_at.push(look(report, &lmdb, tokens)?);
    }
    if let [few, many] = random_at.as_slice() {
        report.once("random record, many to few", many_tokens, many / few, "times");
    }
    let lmdb = Lmdb::open(&scratch.path().join(many.to_string()))?;
    let rate = commits::run(report, &lmdb, many)?;
    seen::run(report, &lmdb, &scratch.path().join(many.to_string()), rate)?;
    drop(lmdb);
    idle_server(report, scratch.path(), many)?;
    files(report, scratch.path(), lines)?;
    starts::run(report, small)
}

fn token(n: u64) -> (CredentialId, Credential) {
    stores::token(n, Verifier::Keyed([n as u8; 32]))
}

/// Measures reads. Returns the cost to read a random record, in nanoseconds.
fn look(report: &mut Report, lmdb: &Lmdb, tokens: u64) -> Result<f64, Failure> {
    let mut last = lmdb.at();
    let revision = nanos(ROUNDS, || last = std::hint::black_box(lmdb.at()));
    report.middle("revision check", tokens, &revision, "ns");
    let view = nanos(ROUNDS, || {
        let _ = lmdb.read(|view| std::hint::black_box(view.at()));
    });
    report.middle("take a view", tokens, &view, "ns");
    let (hot, _) = token(tokens / 2);
    let mut sequence = Sequence(tokens);
    let mut random = || CredentialId::from_bytes(id(2, sequence.next() % tokens));
    let get = |key: &CredentialId| {
        let found = lmdb.read(|view| view.get::<Credential>(key));
        assert!(matches!(found, Ok(Ok(Some(_)))), "{found:?}");
    };
    let hot_samples = nanos(ROUNDS, || get(&hot));
    report.middle("record, hot", tokens, &hot_samples, "ns");
    let samples = nanos(ROUNDS, || get(&random()));
    let value = report.middle("record, random", tokens, &samples, "ns").value;
    // For comparison: a read by LMDB, with the check of the record's checksum, but without the decoding of the record.
    let raw = nanos(ROUNDS, || {
        let key = random().bytes().to_vec();
        let found = lmdb.snapshot(|snapshot| {
            let stored = snapshot.get(Table::Credentials, &key).ok().flatten()?;
            codec::open(Table::Credentials, &key, stored).ok().map(|(_, value)| value.len())
        });
        assert!(matches!(found, Ok(Some(_))));
    });
    report.middle("the same by LMDB alone", tokens, &raw, "ns");
    Ok(value)
}

fn change_of(n: u64) -> Change {
    let (key, mut row) = token(n);
    row.comment = Some(format!("changed {n}"));
    let mut change = Change::new(audit("token set"));
    change.put(&key, &row);
    change
}

/// Measures the real server on a large store, without requests.
fn idle_server(report: &mut Report, scratch: &Path, tokens: u64) -> Result<(), Failure> {
    let data = scratch.join("data");
    // A server does not start if it has no key for the hashes of its tokens.
    stores::data_directory(&data, &scratch.join(tokens.to_string()))?;
    let began = now();
    let server = Server::start(&data, &[])?;
    report.once(
        "from the start of the server to its listening",
        tokens,
        began.elapsed().as_secs_f64() * 1e3,
        "ms",
    );
    // During this pause the server finishes the work of its start.
    std::thread::park_timeout(Duration::from_millis(2_500));
    let bytes = anonymous_bytes(&server.child.0.id().to_string()).ok_or("the server has ended")?;
    let mebibytes = bytes as f64 / f64::from(1 << 20);
    report.once("memory of its own of an idle server", tokens, mebibytes, "MiB");
    report.goal("rss", Estimate::once(mebibytes));
    Ok(())
}

/// Measures mirroring of `user.cfg` and `token.shadow` with many tokens, and of one changed line.
fn files(report: &mut Report, scratch: &Path, lines: u64) -> Result<(), Failure> {
    let place = scratch.join("files");
    std::fs::create_dir(&place)?;
    let lmdb = Lmdb::open(&place.join("facts"))?;
    let mut change = Change::new(audit("begin"));
    change.put(&SidSpaceKey, &SidSpace { words: [1, 2, 3], next_rid: SidSpace::FIRST_RID, token_key: None });
    lmdb.commit(&change)?;
    let users: String = (0..lines)
        .map(|n| match n % TOKENS_EACH {
            0 => format!("user: u{n}@pbs\n\ntoken: u{n}@pbs!t0\n\n"),
            which => format!("token: u{}@pbs!t{which}\n\n", n - which),
        })
        .collect();
    let secrets = |changed: u64| -> String {
        let entry = |n: u64| {
            let (user, salt) = (n - n % TOKENS_EACH, if n == changed { "other" } else { "salt0" });
            format!(
                "\"u{user}@pbs!t{}\":\"$5${salt}{n:011}$WL4Xv1eB7Xy0t6cXQyDgGf6bT7vZb3h0Q4QyS1kYxJ9\"",
                n % TOKENS_EACH
            )
        };
        format!("{{{}}}", (0..lines).map(entry).collect::<Vec<_>>().join(","))
    };
    std::fs::write(place.join("user.cfg"), users)?;
    let set = FileSet::new(&place);
    let shadow = place.join("token.shadow");
    let mut mirror = Mirror::new(set);
    std::fs::write(&shadow, secrets(lines))?;
    // A late clock: the last change of the files seems to be long ago, so that each look reads the files only once.
    let late = Clocks { unix_seconds: 4_000_000_000, tick_millis: 0, mirror: MirrorHealth::Current };
    let began = now();
    let outcome = mirror.look(&lmdb, late)?;
    let first = began.elapsed().as_secs_f64() * 1e3;
    if outcome.added as u64 <= lines || !outcome.problems.is_empty() {
        return Err(format!("the files were not mirrored: {outcome:?}").into());
    }
    report.once("user.cfg and token.shadow mirrored for the first time", lines, first, "ms");
    std::fs::write(&shadow, secrets(lines).replace("$5$salt0", "$5$salt1"))?;
    let began = now();
    let outcome = mirror.look(&lmdb, late)?;
    let all = began.elapsed().as_secs_f64() * 1e3;
    if outcome.changed as u64 != lines {
        return Err(format!("not every line was taken: {outcome:?}").into());
    }
    report.once("token.shadow mirrored, every line another", lines, all, "ms");
    report.goal("mirror", Estimate::once(all));
    std::fs::write(&shadow, secrets(lines))?;
    mirror.look(&lmdb, late)?;
    let mut samples = Samples::default();
    for n in 0..CHANGES {
        std::fs::write(&shadow, secrets(n * 7))?;
        let began = now();
        let outcome = mirror.look(&lmdb, late)?;
        samples.push(began.elapsed().as_secs_f64() * 1e3);
        // Two lines differ: the changed line, and the line of the last round, which is restored.
        if outcome.changed > 2 {
            return Err(format!("too much was changed: {outcome:?}").into());
        }
    }
    let changed = report.middle("one changed line of it", lines, &samples, "ms");
    report.goal("line", changed);
    let unchanged = nanos(ROUNDS, || drop(mirror.look(&lmdb, late)));
    report.middle("a look that finds nothing new", lines, &unchanged, "ns");
    Ok(())
}
