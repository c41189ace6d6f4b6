//! API tokens: the cost of recognising a token that was verified before, compared with the cost in another server. It is measured with few and with
//! many tokens.

mod contended;
mod contention;
mod maps;
mod work;

use crate::Failure;
use crate::goals::Goal;
use crate::machine::anonymous_bytes;
use crate::peers::{self, libxcrypt};
use crate::report::{Paired, Report};
use crate::samples::Samples;
use crate::scratch::Scratch;
use crate::stopwatch::{nanos, now, shared};
use crate::stores::{self, Sequence, Store, secret_of, tokenid_of};
use enfilade_identity::Ask;
use enfilade_passage::House;
use enfilade_peers::libxcrypt::{SETTING, is_installed};
use enfilade_peers::token_cache::TokenCache;
use enfilade_peers::token_shadow::{Shadow, Tokenid};
use std::path::Path;

/// The number of pairs of rounds. Each pair has a round of Enfilade and then a round of the compared program.
const PAIRS: usize = 15;
/// The number of tokens that are verified again and again.
const HOT: u64 = 100;
const UUID: &str = "550e8400-e29b-41d4-a716-446655440000";

/// The numbers of tokens in the store for which the cost is measured.
const SIZES: [u64; 3] = [100, 100_000, 1_000_000];
/// The number of verifications of a thread in a turn.
const EACH: usize = 200_000;

pub(crate) fn goals() -> Vec<Goal> {
    let [few, middle, most] = SIZES;
    let hot = format!(
        "In process, door 2. Three cases: a store with {few} tokens, with {middle} and with {most}. The verifications use {HOT} of the tokens, one \
         after the other, again and again. Enfilade remembers them, and so does the rebuilt token cache of Proxmox Backup Server 4.1.6. Both are \
         measured alternately, {PAIRS} times each"
    );
    let mean = format!("The value of a case is the mean of the {PAIRS} ratios");
    let mut goals = vec![
        Goal::new(
            "hot",
            0.7,
            "times",
            "time of Enfilade to verify a remembered token, divided by time of the rebuilt cache",
            format!("{hot}. Each time, one thread verifies tokens for 5 ms or longer. {mean}"),
        ),
        Goal::new(
            "hot-2",
            0.7,
            "times",
            "time of Enfilade to verify a remembered token on two threads, divided by time of the rebuilt cache",
            format!("{hot}. Each time, two threads make {EACH} verifications each at the same time. {mean}"),
        ),
        Goal::new(
            "random",
            400.0,
            "ns",
            format!(
                "time to verify a random one of {most} remembered tokens minus time to verify a random one of {HOT} of them"
            ),
            format!(
                "In process, door 2: {PAIRS} rounds with random ones of {HOT} tokens, then {PAIRS} rounds with random ones of all {most} tokens. In \
                 a round one thread verifies tokens for 5 ms or longer. The median of the first rounds is subtracted from the median of the others. \
                 The time to build a request does not count"
            ),
        ),
    ];
    goals.extend(work::goals());
    goals.extend(contention::goals());
    goals
}

pub(crate) use work::part;

pub(crate) fn run(report: &mut Report, small: bool) -> Result<(), Failure> {
    let sizes: &[u64] = if small { &[100, 10_000] } else { &SIZES };
    let scratch = Scratch::new("tokens")?;
    peers::tell_rebuilt(
        report,
        "rebuilt token cache of Proxmox Backup Server",
        "before 4.1.6, and since 4.1.6",
    );
    peers::tell_libraries(report, &["dashmap", "papaya", "quick_cache"]);
    for tokens in sizes {
        hot_and_random(report, &scratch, *tokens)?;
    }
    maps::run(report, if small { 10_000 } else { 100_000 });
    let known = stores::hashed(HOT)?;
    if !is_installed() {
        report.missing(
            "slow hashes of the rebuilt Proxmox Backup Server",
            "perl is not installed (`apt-get install perl`)",
        );
        return Ok(());
    }
    peers::tell_libxcrypt(report);
    times(report, scratch.path(), &known)?;
    work::run(report, &scratch)?;
    contention::counts(report, &scratch, &known)?;
    contended::run(report, &scratch, &known, small)
}

/// Measures hashes of libxcrypt, and verifications without a cache.
fn times(report: &mut Report, place: &Path, known: &[(String, String)]) -> Result<(), Failure> {
    let hashes = [(UUID, "$5$saltsalt$"), (UUID, SETTING)];
    let [sha, yescrypt] = libxcrypt::milliseconds(hashes, 101)?;
    report.middle("one $5$ hash of a UUID by libxcrypt", 1, &sha, "ms");
    report.middle("one $y$ hash of cost 5 by libxcrypt", 1, &yescrypt, "ms");
    let ids: Vec<_> = (0..HOT).map(tokenid_of).collect();
    let (secret, hash) = known.first().ok_or("no hash")?;
    let shadow = Shadow::write(&place.join("times.shadow"), ids.iter(), hash)?;
    let first = ids.first().ok_or("no token")?;
    shadow.libxcrypt.prepare(1)?;
    let (mut looked, mut verified) = (Samples::default(), Samples::default());
    for _ in 0..101 {
        let began = now();
        std::hint::black_box(shadow.hash_of(first)?);
        looked.push(began.elapsed().as_secs_f64() * 1e3);
        let began = now();
        if !shadow.verify(first, secret)? {
            return Err("the right secret was refused".into());
        }
        verified.push(began.elapsed().as_secs_f64() * 1e3);
    }
    report.middle("without a cache: the file read and parsed", HOT, &looked, "ms");
    report.middle("without a cache: the file read and parsed, the secret hashed", HOT, &verified, "ms");
    Ok(())
}

/// Measures frequently used ("hot") tokens on one thread and on two: Enfilade's memo and the rebuilt cache of Proxmox take turns. Measures random
/// tokens only with Enfilade, on one thread.
fn hot_and_random(report: &mut Report, scratch: &Scratch, tokens: u64) -> Result<(), Failure> {
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
    // The first tokens are the oldest, so the memo may have evicted them. They are admitted again.
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
    random(report, &store, &house, tokens);
    two_threads(report, &store, &house, &cache, &asks, &theirs)
}

/// Reports the cost of a verification by Enfilade and by the rebuilt cache.
fn compare(report: &mut Report, goal: &'static str, what: &str, n: u64, ours: &Samples, theirs: &Samples) {
    let what = what.to_owned();
    let paired = Paired { what, n, unit: "ns", ours, peer: "re-created cache", theirs, floor: None };
    report.compare(Some(goal), paired);
}

/// Measures random tokens out of all tokens, and random tokens out of the hundred that are used again and again.
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
    report.estimate("random token, more than a random one of 100", tokens, more, "ns");
    if tokens == 1_000_000 {
        report.goal("random", more);
    }
    crate::memory_reads::tell(report, tokens);
}

fn two_threads(
    report: &mut Report,
    store: &Store,
    house: &House,
    cache: &TokenCache,
    asks: &[enfilade_passage::SecretAsk],
    theirs: &[(Tokenid, String)],
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
    match cache.shadow.work.hashes() {
        0 => Ok(()),
        hashes => {
            Err(format!("the re-created cache computed {hashes} hashes for tokens it should remember").into())
        }
    }
}
