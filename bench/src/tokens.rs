//! API tokens: the cost of recognising a token that was verified before, compared with another server, and with few and many tokens.

mod contention;
mod maps;

use crate::Failure;
use crate::machine::anonymous_bytes;
use crate::peers::libxcrypt;
use crate::peers::token_cache::{Shadow, TokenCache};
use crate::report::Report;
use crate::scratch::Scratch;
use crate::stopwatch::{Samples, nanos, now, shared};
use crate::stores::{self, Sequence, Store, secret_of, tokenid_of};
use enfilade_identity::Ask;
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

pub(crate) fn run(report: &mut Report, small: bool) -> Result<(), Failure> {
    let sizes: &[u64] = if small { &[100, 10_000] } else { &[100, 100_000, 1_000_000] };
    let scratch = Scratch::new("tokens")?;
    let hashes =
        [(UUID, "$5$saltsalt$"), ("secret", "$5$saltsalt$"), (UUID, "$y$j9T$LdJMENpBABJJ3hIHjB1Bi.$")];
    let [long, short, slow] = libxcrypt::milliseconds(hashes, 101)?;
    report.middle("one $5$ hash of a UUID by libxcrypt", 1, &long, "ms");
    let sha = report.middle("one $5$ hash of six bytes by libxcrypt", 1, &short, "ms");
    let yescrypt = report.middle("one $y$ hash of cost 5 by libxcrypt", 1, &slow, "ms");
    report.once(
        "the same in $5$ hashes of six bytes (7.8 where the original was measured)",
        1,
        yescrypt / sha,
        "times",
    );
    let known = stores::hashed(HOT)?;
    before(report, scratch.path(), &known, sha, yescrypt)?;
    let mut random = Vec::new();
    for tokens in sizes {
        random.push(hot_and_random(report, &scratch, *tokens, sha)?);
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
    sha: f64,
    yescrypt: f64,
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
    let value = looked + yescrypt;
    report.once("file read, parsed and crypted by libxcrypt each time", HOT, value, "ms");
    let ratio = value / sha / BEFORE_TO_CRYPT;
    report.faithful("before", "the same in $5$ hashes, to the original's", HOT, ratio);
    Ok(())
}

/// Measures frequently used ("hot") and random tokens on one thread and on two. Our memo and the rebuilt cache of Proxmox take turns.
fn hot_and_random(report: &mut Report, scratch: &Scratch, tokens: u64, sha: f64) -> Result<(), Failure> {
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
    let (mut ours, mut peers, mut ratios) = (Samples::default(), Samples::default(), Samples::default());
    for _ in 0..PAIRS {
        let mut turn = asks.iter().cycle();
        let one =
            nanos(1, || assert!(turn.next().is_some_and(|ask| house.identify(Ask::Secret(ask)).is_ok())))
                .at(50);
        let mut turn = theirs.iter().cycle();
        let other = nanos(1, || {
            assert!(turn.next().is_some_and(|(id, secret)| cache.verify(id, secret).is_ok_and(|yes| yes)));
        });
        let other = other.at(50);
        ours.push(one);
        peers.push(other);
        ratios.push(one / other);
    }
    report.middle("hot token", tokens, &ours, "ns");
    let peer = report.middle("hot token, re-created cache", tokens, &peers, "ns");
    let ratio = report.middle("hot token, ours to the re-created cache", tokens, &ratios, "times");
    let faithful = peer / 1e6 / sha / AFTER_TO_CRYPT;
    report.faithful("after", "the re-created cache in $5$ hashes, to the original's", tokens, faithful);
    let name = format!("hot token of {tokens}, to the re-created cache, 1 thread");
    report.goal("hot", &name, ratio, 0.7, "times");
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
        known.at(50) - made.at(50)
    };
    let (near, far) = (known(HOT.min(tokens)), known(tokens));
    report.once("random token", tokens, far, "ns");
    let missed = missed as f64 / asked as f64 * 1e6;
    report.once("random token, not remembered (its set was full)", tokens, missed, "of a million");
    report.once("random token, more than a hot one", tokens, far - near, "ns");
    if tokens == 1_000_000 {
        report.goal("random", "random token of 1,000,000, more than a hot one", far - near, 400.0, "ns");
    }
    two_threads(report, &store, &house, &cache, &asks, &theirs)
}

fn two_threads(
    report: &mut Report,
    store: &Store,
    house: &std::sync::Arc<enfilade_passage::House>,
    cache: &TokenCache,
    asks: &[enfilade_passage::SecretAsk],
    theirs: &[(crate::peers::token_cache::Tokenid, String)],
) -> Result<(), Failure> {
    let (mut ours, mut peers, mut ratios) = (Samples::default(), Samples::default(), Samples::default());
    for _ in 0..PAIRS {
        let one = shared(2, 200_000, |n| {
            assert!(asks.get(n % asks.len()).is_some_and(|ask| house.identify(Ask::Secret(ask)).is_ok()))
        });
        let other = shared(2, 200_000, |n| {
            let found = theirs.get(n % theirs.len());
            assert!(found.is_some_and(|(id, secret)| cache.verify(id, secret).is_ok_and(|yes| yes)));
        });
        ours.push(one);
        peers.push(other);
        ratios.push(one / other);
    }
    report.middle("hot token, 2 threads", store.tokens, &ours, "ns");
    report.middle("hot token, 2 threads, re-created cache", store.tokens, &peers, "ns");
    let ratio =
        report.middle("hot token, 2 threads, ours to the re-created cache", store.tokens, &ratios, "times");
    let name = format!("hot token of {}, to the re-created cache, 2 threads", store.tokens);
    report.goal("hot-2", &name, ratio, 0.7, "times");
    match cache.hashes.load(Ordering::Relaxed) {
        0 => Ok(()),
        hashes => {
            Err(format!("the re-created cache computed {hashes} hashes where it should have known").into())
        }
    }
}
