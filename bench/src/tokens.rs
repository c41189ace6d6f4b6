//! API tokens: the cost of recognising a token that was verified before, compared with another server, and with few and many tokens.

mod contention;
mod maps;

use crate::Failure;
use crate::goals::Goal;
use crate::machine::anonymous_bytes;
use crate::peers::token_cache::{Shadow, TokenCache};
use crate::peers::{self, libxcrypt};
use crate::report::{Paired, Report};
use crate::samples::{Estimate, Samples};
use crate::scratch::Scratch;
use crate::stopwatch::{nanos, now, shared};
use crate::stores::{self, Sequence, Store, secret_of, tokenid_of};
use enfilade_identity::Ask;
use enfilade_passage::House;
use std::sync::atomic::Ordering;

/// The number of pairs of rounds: in each pair one round of ours, then one of the compared program.
const PAIRS: usize = 15;
/// The time of a verification in Proxmox Backup Server without its cache (`BEFORE`) and with it (`AFTER`), divided by the time of a `$5$` hash of a
/// short secret on the same machine. (The secret was probably short: there a `$y$` hash took as long as 7.8 `$5$` hashes. Here it takes as long as 8
/// `$5$` hashes of a secret of six bytes, but only 4 to 5 of a UUID, because SHA-crypt is slower for longer secrets.)
const BEFORE_TO_CRYPT: f64 = 16.76 / 1.99;
const AFTER_TO_CRYPT: f64 = 0.000_146 / 1.99;
/// The number of tokens that are verified again and again.
const HOT: u64 = 100;
const UUID: &str = "550e8400-e29b-41d4-a716-446655440000";

/// The numbers of tokens.
const SIZES: [u64; 3] = [100, 100_000, 1_000_000];
/// The number of verifications of a thread in a turn.
const EACH: usize = 200_000;

pub(crate) fn goals() -> Vec<Goal> {
    let hot = format!(
        "In process, door 2, with each of {SIZES:?} tokens, {HOT} of them in turn, all remembered. {PAIRS} pairs of turns with the re-created cache"
    );
    let [.., most] = SIZES;
    let original = "the original's time in units of a `$5$` hash of this machine";
    let mut goals = vec![
        Goal::new(
            "before",
            0.25,
            "times",
            "the re-created verification without a cache: its time differs from the original's",
            format!(
                "{HOT} tokens in `token.shadow`, 201 times read and parsed, and one hash by libxcrypt; divided by {original}"
            ),
        ),
        Goal::new(
            "after",
            0.25,
            "times",
            "the re-created cache: its time differs from the original's",
            format!("{hot}; divided by {original}"),
        ),
        Goal::new(
            "hot",
            0.7,
            "times",
            "a known token, divided by the re-created cache",
            format!("{hot}, each of 5 ms or longer, one thread"),
        ),
        Goal::new(
            "hot-2",
            0.7,
            "times",
            "a known token on two threads, divided by the re-created cache",
            format!("{hot}, each of {EACH} verifications on each of two threads"),
        ),
        Goal::new(
            "random",
            400.0,
            "ns",
            "a random known token: the time that it takes more than one of the same hundred",
            format!(
                "In process, door 2: {PAIRS} rounds of 5 ms or longer with random ones of {most} tokens, and as many with random ones of {HOT}"
            ),
        ),
    ];
    goals.extend(contention::goals());
    goals
}

pub(crate) fn run(report: &mut Report, small: bool) -> Result<(), Failure> {
    let sizes: &[u64] = if small { &[100, 10_000] } else { &SIZES };
    let scratch = Scratch::new("tokens")?;
    peers::tell_rebuilt(report, "token cache of Proxmox Backup Server", "before 4.1.6, and since 4.1.6");
    peers::tell_libraries(report, &["yescrypt", "dashmap", "papaya", "quick_cache"]);
    let hashes =
        [(UUID, "$5$saltsalt$"), ("secret", "$5$saltsalt$"), (UUID, "$y$j9T$LdJMENpBABJJ3hIHjB1Bi.$")];
    let [long, short, slow] = libxcrypt::milliseconds(hashes, 101)?;
    report.middle("one $5$ hash of a UUID by libxcrypt", 1, &long, "ms");
    let sha = report.middle("one $5$ hash of six bytes by libxcrypt", 1, &short, "ms");
    let yescrypt = report.middle("one $y$ hash of cost 5 by libxcrypt", 1, &slow, "ms");
    report.once(
        "the same in $5$ hashes of six bytes (7.8 where the original was measured)",
        1,
        yescrypt.value / sha.value,
        "times",
    );
    let known = stores::hashed(HOT)?;
    before(report, scratch.path(), &known, sha, yescrypt)?;
    for tokens in sizes {
        hot_and_random(report, &scratch, *tokens, sha)?;
    }
    contention::counts(report, &scratch, &known)?;
    contention::run(report, &scratch, &known, small)?;
    maps::run(report, if small { 10_000 } else { 100_000 });
    Ok(())
}

fn before(
    report: &mut Report,
    scratch: &std::path::Path,
    known: &[(String, String)],
    sha: Estimate,
    yescrypt: Estimate,
) -> Result<(), Failure> {
    let ids: Vec<_> = (0..HOT).map(tokenid_of).collect();
    let (secret, hash) = known.first().ok_or("no hash")?;
    let shadow = Shadow::write(&scratch.join("before.shadow"), ids.iter(), hash)?;
    let first = ids.first().ok_or("no token")?;
    if !shadow.verify(first, secret)? {
        return Err("the right secret was refused".into());
    }
    let mut samples = Samples::default();
    for _ in 0..201 {
        let began = now();
        std::hint::black_box(shadow.hash_of(first)?);
        samples.push(began.elapsed().as_secs_f64() * 1e3);
    }
    let looked = report.middle("file read and parsed", HOT, &samples, "ms");
    // Proxmox hashes with libxcrypt, so the time of libxcrypt's hash is added.
    let value = looked.plus(yescrypt);
    report.estimate("file read, parsed and crypted by libxcrypt each time", HOT, value, "ms");
    let ratio = value.over(sha).times(1.0 / BEFORE_TO_CRYPT);
    report.faithful("before", "the same in $5$ hashes, to the original's", HOT, ratio);
    Ok(())
}

/// Measures frequently used ("hot") and random tokens on one thread and on two. Our memo and the rebuilt cache of Proxmox take turns.
fn hot_and_random(report: &mut Report, scratch: &Scratch, tokens: u64, sha: Estimate) -> Result<(), Failure> {
    let store = Store::generated(&scratch.path().join(format!("store-{tokens}")), tokens)?;
    let began = now();
    let ids: Vec<_> = (0..tokens).map(tokenid_of).collect();
    let path = scratch.path().join(format!("{tokens}.shadow"));
    let cache = TokenCache::new(Shadow::write(&path, ids.iter().take(100), "*")?);
    (0..tokens).zip(&ids).for_each(|(n, id)| cache.warm(id, &secret_of(n)));
    drop(ids);
    let asks: Vec<_> = (0..HOT.min(tokens)).map(|n| store.ask(n)).collect::<Result<_, _>>()?;
    let theirs: Vec<_> = (0..HOT.min(tokens)).map(|n| (tokenid_of(n), secret_of(n))).collect();
    let (house, before) = (store.house(2 << 30), anonymous_bytes("self").unwrap_or(0));
    let cold = now();
    for n in 0..tokens {
        stores::admit(&house, &store.ask(n)?)?;
    }
    let cold = cold.elapsed().as_secs_f64() * 1e6 / tokens as f64;
    report.once("first use of a generated secret", tokens, cold, "µs");
    // The first tokens are the oldest, so they were evicted from full sets of the memo; admit them again.
    asks.iter().try_for_each(|ask| stores::admit(&house, ask))?;
    let memory = anonymous_bytes("self").unwrap_or(0).saturating_sub(before) as f64 / tokens as f64;
    report.once("memory for each one remembered", tokens, memory, "bytes");
    eprintln!("{tokens} tokens: ready after {:.0} s", began.elapsed().as_secs_f64());
    let (mut ours, mut peers) = (Samples::default(), Samples::default());
    for _ in 0..PAIRS {
        let mut turn = asks.iter().cycle();
        let one =
            nanos(1, || assert!(turn.next().is_some_and(|ask| house.identify(Ask::Secret(ask)).is_ok())))
                .median();
        let mut turn = theirs.iter().cycle();
        let other = nanos(1, || {
            assert!(turn.next().is_some_and(|(id, secret)| cache.verify(id, secret).is_ok_and(|yes| yes)));
        });
        let other = other.median();
        ours.push(one);
        peers.push(other);
    }
    compare(report, "hot", "hot token", tokens, &ours, &peers);
    let faithful = peers.middle().over(sha).times(1e-6 / AFTER_TO_CRYPT);
    report.faithful("after", "the re-created cache in $5$ hashes, to the original's", tokens, faithful);
    random(report, &store, &house, tokens);
    two_threads(report, &store, &house, &cache, &asks, &theirs)
}

/// Reports a verification by Enfilade and by the re-created cache.
fn compare(report: &mut Report, goal: &'static str, what: &str, n: u64, ours: &Samples, theirs: &Samples) {
    let what = what.to_owned();
    let paired = Paired { what, n, unit: "ns", ours, peer: "re-created cache", theirs, floor: None };
    report.compare(Some(goal), paired);
}

/// Measures random tokens of all, and random ones of the hundred that are used again and again.
fn random(report: &mut Report, store: &Store, house: &House, tokens: u64) {
    // The time to build a request is measured separately and subtracted.
    let (mut missed, mut asked) = (0_u64, 0_u64);
    let mut known = |most: u64| {
        let mut sequence = Sequence(tokens);
        let made = nanos(PAIRS, || drop(std::hint::black_box(store.ask(sequence.next() % most))));
        let mut sequence = Sequence(tokens);
        let known = nanos(PAIRS, || {
            let known =
                store.ask(sequence.next() % most).is_ok_and(|ask| house.identify(Ask::Secret(&ask)).is_ok());
            missed += u64::from(!known);
            asked += 1;
        });
        known.middle().minus(made.middle())
    };
    let (near, far) = (known(HOT.min(tokens)), known(tokens));
    report.estimate("random token", tokens, far, "ns");
    let missed = missed as f64 / asked as f64 * 1e6;
    report.once("random token, not remembered (its set was full)", tokens, missed, "of a million");
    let more = far.minus(near);
    report.estimate("random token, more than a hot one", tokens, more, "ns");
    if tokens == 1_000_000 {
        report.goal("random", more);
    }
}

fn two_threads(
    report: &mut Report,
    store: &Store,
    house: &House,
    cache: &TokenCache,
    asks: &[enfilade_passage::SecretAsk],
    theirs: &[(crate::peers::token_cache::Tokenid, String)],
) -> Result<(), Failure> {
    let (mut ours, mut peers) = (Samples::default(), Samples::default());
    for _ in 0..PAIRS {
        let one = shared(2, EACH, |n| {
            assert!(asks.get(n % asks.len()).is_some_and(|ask| house.identify(Ask::Secret(ask)).is_ok()))
        });
        let other = shared(2, EACH, |n| {
            let found = theirs.get(n % theirs.len());
            assert!(found.is_some_and(|(id, secret)| cache.verify(id, secret).is_ok_and(|yes| yes)));
        });
        ours.push(one);
        peers.push(other);
    }
    compare(report, "hot-2", "hot token, 2 threads", store.tokens, &ours, &peers);
    match cache.hashes.load(Ordering::Relaxed) {
        0 => Ok(()),
        hashes => {
            Err(format!("the re-created cache computed {hashes} hashes where it should have known").into())
        }
    }
}
