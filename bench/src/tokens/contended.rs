//! Two threads each verify a token, while another token is created or deleted ten times a second. Enfilade is compared with the rebuilt token cache
//! of Proxmox Backup Server. The original Proxmox Backup Server was measured with the same workload.

use super::contention::{all_at_once, cache_of, change};
use crate::Failure;
use crate::arrivals::latencies;
use crate::peers::libxcrypt;
use crate::report::{Paired, Report};
use crate::samples::Samples;
use crate::scratch::Scratch;
use crate::stopwatch::{cpu_nanos, now, pause};
use crate::stores::{self, Store, secret_of, tokenid_of};
use enfilade_peers::token_cache::TokenCache;
use enfilade_peers::token_shadow::Tokenid;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The time between two changes of tokens, as in the measurement of the original.
const EVERY: Duration = Duration::from_millis(100);
/// The number of pairs of turns, and the number of changes in a turn. Every second change deletes the token that the previous change created.
const TURNS: usize = 5;
const CHANGES: u64 = 10;
/// The time between two verifications at planned times.
const PLANNED: Duration = Duration::from_millis(1);

/// A server that verifies while tokens change.
struct Contender<'c> {
    /// Verifies the token with this number.
    verify: &'c (dyn Fn(usize) -> bool + Sync),
    /// Makes the change with this number.
    change: &'c dyn Fn(u64) -> bool,
    /// The slow hashes that verifications computed so far.
    hashes: &'c dyn Fn() -> u64,
    /// The CPU of the processes of the server so far, in nanoseconds.
    cpu: &'c dyn Fn() -> Result<f64, Failure>,
}

/// The samples of the turns of a server.
#[derive(Default)]
struct Sums {
    /// The time of a turn divided by the number of its verifications, in microseconds.
    each: Samples,
    cpu: Samples,
    hashes: f64,
    changes: f64,
    /// The milliseconds from the planned time of a verification to its end.
    latencies: Samples,
}

/// Which process changes the tokens of the rebuilt server. The API of the original changes tokens in a privileged process, and another process
/// verifies most requests. So most changes are made by another process, and a change by another process empties the cache. A change by the same
/// process does not empty the cache.
#[derive(Clone, Copy)]
enum Changer {
    SameProcess,
    OtherProcess,
}

impl Changer {
    fn name(self) -> &'static str {
        match self {
            Changer::SameProcess => "the same process",
            Changer::OtherProcess => "another process",
        }
    }

    /// Sets the secret of the token if `n` is even, and deletes the token if `n` is odd.
    fn change(self, cache: &TokenCache, token: &Tokenid, n: u64) -> Result<(), Failure> {
        let new = secret_of(n);
        let secret = n.is_multiple_of(2).then_some(new.as_str());
        match self {
            Changer::SameProcess => cache.change(token, secret),
            Changer::OtherProcess => cache.change_elsewhere(token, secret),
        }
    }
}

pub(super) fn run(
    report: &mut Report,
    scratch: &Scratch,
    known: &[(String, String)],
    small: bool,
) -> Result<(), Failure> {
    let store = Store::hashed(&scratch.path().join("contended"), known)?;
    let house = store.house(32 << 20);
    all_at_once(&house, &store, 0..2)?;
    let asks = (0..2).map(|n| store.ask(n)).collect::<Result<Vec<_>, _>>()?;
    let ours = Contender {
        verify: &|n| asks.get(n).is_some_and(|ask| stores::admit(&house, ask).is_ok()),
        change: &|n| change(&store, n).is_ok(),
        hashes: &|| house.gate().counts().computed,
        cpu: &|| cpu_nanos(std::process::id()),
    };
    let cache = cache_of(scratch, known)?;
    // Two threads verify secrets, and one thread hashes the secrets of new tokens.
    cache.shadow.libxcrypt.prepare(3)?;
    let secret = known.first().map_or("", |(secret, _)| secret.as_str());
    let ids: Vec<_> = (0..2).map(tokenid_of).collect();
    let coming = Tokenid::new("user0", "local", "coming-and-going");
    for changer in [Changer::SameProcess, Changer::OtherProcess] {
        let theirs = Contender {
            verify: &|n| ids.get(n).is_some_and(|id| cache.verify(id, secret).is_ok_and(|yes| yes)),
            change: &|n| changer.change(&cache, &coming, n).is_ok(),
            hashes: &|| cache.shadow.work.hashes(),
            cpu: &|| Ok(cpu_nanos(std::process::id())? + libxcrypt::cpu_nanos(&cache.shadow.libxcrypt)?),
        };
        let what = format!("contended, changes by {}", changer.name());
        let warm = || ids.iter().for_each(|id| cache.warm(id, secret));
        let sums = measure([&ours, &theirs], if small { 2 } else { TURNS }, &warm);
        tell(report, &what, &sums.map_err(|why| format!("{what}: {why}"))?);
    }
    Ok(())
}

/// Measures two servers in turns.
fn measure(both: [&Contender<'_>; 2], turns: usize, warm: &dyn Fn()) -> Result<[Sums; 2], Failure> {
    let mut sums: [Sums; 2] = Default::default();
    for _ in 0..turns {
        for (contender, sums) in both.into_iter().zip(&mut sums) {
            warm();
            turn(contender, sums)?;
            warm();
            sums.latencies.extend(&planned(contender)?);
        }
    }
    Ok(sums)
}

/// Two threads verify as fast as they can while tokens change.
fn turn(contender: &Contender<'_>, sums: &mut Sums) -> Result<(), Failure> {
    let (is_over, verify) = (AtomicBool::new(false), contender.verify);
    let (hashes, cpu, began) = ((contender.hashes)(), (contender.cpu)()?, now());
    let (mut all_right, mut verified) = (true, 0);
    std::thread::scope(|scope| {
        let is_over = &is_over;
        let threads = [0, 1].map(|token| scope.spawn(move || until(is_over, || verify(token))));
        all_right &= changes(contender);
        is_over.store(true, Ordering::Relaxed);
        for (right, count) in threads.into_iter().filter_map(|thread| thread.join().ok()) {
            all_right &= right;
            verified += count;
        }
    });
    let elapsed = began.elapsed();
    if !all_right {
        return Err("a change failed, or a right secret was refused".into());
    }
    sums.each.push(elapsed.as_secs_f64() * 1e6 / verified as f64);
    sums.cpu.push(((contender.cpu)()? - cpu) / 1e3 / verified as f64);
    sums.hashes += ((contender.hashes)() - hashes) as f64;
    sums.changes += CHANGES as f64;
    Ok(())
}

/// Makes the changes of a turn. Returns whether all changes were made.
fn changes(contender: &Contender<'_>) -> bool {
    let mut all_made = true;
    for n in 0..CHANGES {
        let change = now();
        all_made &= (contender.change)(n);
        pause(EVERY.saturating_sub(change.elapsed()));
    }
    all_made
}

/// Verifies a secret again and again until `is_over` is set. Returns whether every verification succeeded, and the number of verifications.
fn until(is_over: &AtomicBool, verify: impl Fn() -> bool) -> (bool, usize) {
    let (mut right, mut n) = (true, 0);
    while !is_over.load(Ordering::Relaxed) {
        right &= verify();
        n += 1;
    }
    (right, n)
}

/// Two threads verify at planned times while tokens change. Returns the latencies in milliseconds.
fn planned(contender: &Contender<'_>) -> Result<Samples, Failure> {
    let (verify, count) = (contender.verify, CHANGES * (EVERY.as_millis() / PLANNED.as_millis()) as u64);
    let right =
        |token: &mut usize, _| verify(*token).then_some(()).ok_or("a right secret was refused".to_owned());
    std::thread::scope(|scope| {
        let all = scope.spawn(move || latencies(PLANNED, count, vec![0, 1], right));
        let all_made = changes(contender);
        let all = all.join().map_err(|_| "a client panicked")??;
        if all_made { Ok(all) } else { Err("a change failed".into()) }
    })
}

fn tell(report: &mut Report, what: &str, sums: &[Sums; 2]) {
    let [ours, theirs] = sums;
    let peer = "re-created cache";
    let paired = Paired {
        what: format!("{what}, a verification"),
        n: 2,
        unit: "µs",
        ours: &ours.each,
        peer,
        theirs: &theirs.each,
        floor: None,
    };
    report.compare(None, paired);
    for (who, sums) in [("Enfilade", ours), (peer, theirs)] {
        report.middle(&format!("{what}, CPU of a verification, {who}"), 2, &sums.cpu, "µs");
        let hashes = sums.hashes / sums.changes;
        report.once(&format!("{what}, hashes for each change, {who}"), 2, hashes, "hashes");
        report.tail(&format!("{what}, a verification at planned times, {who}"), 2, &sums.latencies, "ms");
    }
}
