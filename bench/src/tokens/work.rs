//! Checks whether the rebuilt programs do the same work as Proxmox Backup Server. The work is counted, because counts are the same on each processor.

use super::contention::at_once;
use super::{HOT, UUID};
use crate::Failure;
use crate::goals::Goal;
use crate::report::Report;
use crate::samples::Estimate;
use crate::scratch::Scratch;
use crate::system_calls::{self, Kind};
use enfilade_peers::libxcrypt::{Libxcrypt, SETTING};
use enfilade_peers::token_cache::TokenCache;
use enfilade_peers::token_shadow::{Shadow, Tokenid};
use std::path::Path;

/// The slow hashes of a verification before 4.1.6. In the measurement of the original, a right secret and a wrong secret each took 16.76 ms, of which
/// the hash took 15.5 ms. An unknown token took 49.4 µs.
const BEFORE: [(&str, f64); 3] =
    [("a right secret", 1.0), ("a wrong secret", 1.0), ("an unknown token", 0.0)];
/// The length of `token.shadow` with 100 tokens in the measurement of the original: 11.4 kB. Each verification reads and parses all of it.
const BYTES: f64 = 11_400.0;
/// The system calls on `token.shadow` of a verification before 4.1.6. The original reads the file by `std::fs::read`
/// (`pbs-config/src/token_shadow.rs`, `proxmox-sys/src/fs/file.rs`): open, stat, two reads (the second read finds the end of the
/// file), and close.
const FILE_CALLS: f64 = 5.0;
/// The number of verifications of a case.
const TIMES: u64 = 10;
/// The slow hashes of verifications with the cache, in the measurement of the original. A known token took 0.146 µs, which is too short for any hash.
/// A wrong secret took 16.36 ms every time. After a change by another process, 16 threads computed exactly 16 hashes (80 hashes after 5 changes). In
/// this case, 2 threads computed 2 hashes (10 hashes after 5 changes). A change by the same process sets or removes only the entry of the changed
/// token in the cache.
const AFTER: [(&str, f64); 5] = [
    ("1,000 of a known token", 0.0),
    ("10 with a wrong secret", 10.0),
    ("16 threads after a change by another process", 16.0),
    ("2 threads after a change by another process", 2.0),
    ("100 after a token was set and deleted by the same process", 0.0),
];

pub(super) fn goals() -> Vec<Goal> {
    let before = format!(
        "`token.shadow` has {HOT} tokens. The rebuilt Proxmox Backup Server of a version before 4.1.6 verifies secrets without a cache"
    );
    let [right, wrong, unknown] = BEFORE.map(|(case, hashes)| format!("{case} ({hashes})"));
    let difference = "The value is the sum of the absolute differences";
    let after = AFTER.map(|(case, hashes)| format!("{case} ({hashes})")).join(", ");
    vec![
        Goal::new(
            "before-work",
            0.0,
            "hashes",
            "difference between the rebuilt verification without a cache and the original: slow hashes",
            format!(
                "{before}, {TIMES} times each: {right}, {wrong}, {unknown}. In parentheses: the slow hashes of the original for one verification. \
                 {difference}"
            ),
        ),
        Goal::new(
            "before-file",
            0.0,
            "system calls",
            "difference between the rebuilt verification without a cache and the original: system calls on `token.shadow`",
            format!(
                "{before}. strace counts the system calls on the file in a process with 20 verifications of a right secret and in a process with 10. \
                 The difference of both counts is divided by 10, and compared with the {FILE_CALLS} system calls of the original"
            ),
        ),
        Goal::new(
            "before-bytes",
            0.01,
            "times",
            "bytes that the rebuilt verification without a cache reads, divided by bytes that the original reads: difference from 1",
            format!(
                "{before}, {TIMES} times each: a right secret, a wrong secret, an unknown token. The mean of the bytes that a verification reads and \
                 parses is divided by {BYTES}, the bytes of the original. The value is the absolute difference between this ratio and 1"
            ),
        ),
        Goal::new(
            "after-work",
            0.0,
            "hashes",
            "difference between the rebuilt cache and the original: slow hashes",
            format!(
                "There are {HOT} tokens, all of them in the rebuilt token cache of Proxmox Backup Server 4.1.6. The verifications (in \
                 parentheses: their slow hashes in the original): {after}. {difference}"
            ),
        ),
        Goal::new(
            "after-calls",
            0.0,
            "system calls",
            "system calls of the rebuilt cache to verify a token that it has",
            format!(
                "There are {HOT} tokens. strace counts the system calls of a process with 110 verifications of a token that is in the cache, and of \
                 a process with 10. Each of these processes is counted five times, and the smallest count is used. The difference of both counts is \
                 divided by 100"
            ),
        ),
    ]
}

pub(super) fn run(report: &mut Report, scratch: &Scratch) -> Result<(), Failure> {
    before(report, scratch.path())?;
    after(report, scratch.path())?;
    if !system_calls::can_count() {
        report.missing("system calls of the re-creations", system_calls::MISSING);
        return Ok(());
    }
    let of_file = [Kind { name: "", with: "before.shadow" }];
    let calls = system_calls::of_kinds(["tokens-part", "before"], 10, &of_file, scratch.path())?;
    let calls = calls.first().copied().ok_or("no count")?;
    let differ = differs(report, "without a cache: system calls on the file", calls, FILE_CALLS, "calls");
    report.goal("before-file", Estimate::once(differ));
    let calls = system_calls::of_one(["tokens-part", "after"])?;
    report.once("re-created, with the cache: system calls of a known token", HOT, calls, "calls");
    report.goal("after-calls", Estimate::once(calls));
    Ok(())
}

/// Adds a count of a rebuilt program to the report, and returns by how much the count differs from the count of the original.
fn differs(report: &mut Report, what: &str, ours: f64, original: f64, unit: &'static str) -> f64 {
    report.once(&format!("re-created, {what} (the original: {original})"), HOT, ours, unit);
    (ours - original).abs()
}

/// Ids of the same length as in the measurement of the original.
fn tokens() -> Vec<Tokenid> {
    let token = |n| Tokenid::new(&format!("customer-{n:04}"), "pbs", &format!("backup-client-{n:03}"));
    (0..HOT).map(token).collect()
}

/// A file with the tokens. Each token has the secret [`UUID`].
fn shadow(place: &Path, name: &str, tokens: &[Tokenid]) -> Result<Shadow, Failure> {
    let library = Libxcrypt::default();
    let hash = library.hash(UUID, SETTING)?;
    Shadow::write(&place.join(format!("{name}.shadow")), tokens.iter(), &hash)
}

fn before(report: &mut Report, place: &Path) -> Result<(), Failure> {
    let tokens = tokens();
    let (shadow, first) = (shadow(place, "before", &tokens)?, tokens.first().ok_or("no token")?);
    let nobody = Tokenid::new("nobody", "pbs", "none");
    let asked = [(first, UUID, Some(true)), (first, "another", Some(false)), (&nobody, UUID, None)];
    let mut differ = 0.0;
    for ((case, original), (token, secret, wanted)) in BEFORE.into_iter().zip(asked) {
        let hashes = shadow.work.hashes();
        for _ in 0..TIMES {
            if shadow.verify(token, secret).ok() != wanted {
                return Err(format!("the re-created verification: {case} got a wrong answer").into());
            }
        }
        let hashes = (shadow.work.hashes() - hashes) as f64 / TIMES as f64;
        differ += TIMES as f64
            * differs(report, &format!("without a cache: hashes of {case}"), hashes, original, "hashes");
    }
    report.goal("before-work", Estimate::once(differ));
    let bytes = shadow.work.bytes() as f64 / (TIMES * BEFORE.len() as u64) as f64;
    report.once("re-created, without a cache: bytes of the file read and parsed", HOT, bytes, "bytes");
    report.faithful("before-bytes", "the same, to the original's", HOT, Estimate::once(bytes / BYTES));
    Ok(())
}

fn after(report: &mut Report, place: &Path) -> Result<(), Failure> {
    let tokens = tokens();
    let cache = TokenCache::new(shadow(place, "after", &tokens)?);
    let first = tokens.first().ok_or("no token")?;
    let warm = || tokens.iter().for_each(|token| cache.warm(token, UUID));
    let all = || tokens.iter().all(|token| cache.verify(token, UUID).is_ok_and(|yes| yes));
    let threads = |count: usize| {
        warm();
        cache.changed_elsewhere();
        let asking: Vec<&Tokenid> = tokens.iter().take(count).collect();
        at_once(&cache, &asking, UUID)
    };
    let changed = || -> Result<bool, Failure> {
        let new = Tokenid::new("customer-0001", "pbs", "coming-and-going");
        warm();
        cache.change(&new, Some(UUID))?;
        cache.change(&new, None)?;
        Ok(all())
    };
    warm();
    let cases: [&dyn Fn() -> Result<bool, Failure>; 5] = [
        &|| Ok((0..1_000).all(|_| cache.verify(first, UUID).is_ok_and(|yes| yes))),
        &|| Ok((0..10).all(|_| cache.verify(first, "another").is_ok_and(|yes| !yes))),
        &|| Ok(threads(16)),
        &|| Ok(threads(2)),
        &changed,
    ];
    let mut differ = 0.0;
    for ((case, original), verified) in AFTER.into_iter().zip(cases) {
        let hashes = cache.shadow.work.hashes();
        if !verified()? {
            return Err(format!("the re-created cache: {case} got a wrong answer").into());
        }
        let hashes = (cache.shadow.work.hashes() - hashes) as f64;
        differ += differs(report, &format!("with the cache: hashes of {case}"), hashes, original, "hashes");
    }
    report.goal("after-work", Estimate::once(differ));
    Ok(())
}

/// Verifies a right secret `times` times, in a separate process under strace.
pub(crate) fn part(part: &str, times: u64) -> Result<(), Failure> {
    let scratch = Scratch::new(&format!("tokens-{part}"))?;
    let tokens = tokens();
    let (shadow, first) = (shadow(scratch.path(), part, &tokens)?, tokens.first().ok_or("no token")?);
    let verified = if part == "after" {
        let cache = TokenCache::new(shadow);
        cache.warm(first, UUID);
        (0..times).all(|_| cache.verify(first, UUID).is_ok_and(|yes| yes))
    } else {
        (0..times).all(|_| shadow.verify(first, UUID).is_ok_and(|yes| yes))
    };
    if verified { Ok(()) } else { Err("the right secret was refused".into()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use enfilade_peers::libxcrypt;

    #[test]
    fn the_re_creations_hash_and_read_as_often_as_the_original() {
        if !libxcrypt::is_installed() {
            return;
        }
        let scratch = Scratch::new("tokens-work").unwrap();
        let mut report = Report::new("tokens", false, goals());
        before(&mut report, scratch.path()).unwrap();
        after(&mut report, scratch.path()).unwrap();
        let judged: Vec<_> = report.judged.iter().map(|judged| judged.id).collect();
        assert_eq!(judged, ["before-work", "before-bytes", "after-work"]);
        for judged in &report.judged {
            let goal = report.goal_of(judged).unwrap();
            assert!(goal.holds(judged.measured), "{}: {:?}", goal.id, judged.measured);
        }
    }
}
