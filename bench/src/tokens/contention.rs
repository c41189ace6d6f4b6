//! Parallel verifications while tokens are created and deleted.

use crate::Failure;
use crate::goals::Goal;
use crate::peers::token_cache::{Shadow, TokenCache};
use crate::report::Report;
use crate::samples::{Estimate, Samples};
use crate::scratch::Scratch;
use crate::stopwatch::{cpu_nanos, now};
use crate::stores::{self, Store, audit, id, tokenid_of};
use enfilade_facts::tables::{Credential, Name, NameKey, Verifier};
use enfilade_facts::vocabulary::{CredentialId, UserId};
use enfilade_facts::{Change, Source};
use enfilade_passage::House;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The number of parallel verifications after another token changed.
const THREADS: usize = 16;
const HERD: usize = 64;

pub(super) fn goals() -> Vec<Goal> {
    let hashes = "In process, doors 2 to 4 with yescrypt hashes of cost 5";
    vec![
        Goal::new(
            "foreign",
            0.0,
            "hashes",
            "slow hashes after a change of another token",
            format!(
                "{hashes}: {THREADS} known tokens are verified at once, after another token was created and deleted"
            ),
        ),
        Goal::new(
            "herd",
            1.0,
            "hashes",
            "slow hashes of a token that nobody knows yet",
            format!("{hashes}: {HERD} clients with one token at once"),
        ),
    ]
}

fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    Ok(tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build()?)
}

/// Verifies all tokens at once, each from another client. Returns the number of hashes that were computed.
fn all_at_once(house: &Arc<House>, store: &Store, tokens: impl Iterator<Item = u64>) -> Result<u64, Failure> {
    let before = house.gate().counts().computed;
    let runtime = runtime()?;
    let asks = tokens.map(|n| store.ask(n)).collect::<Result<Vec<_>, _>>()?;
    runtime.block_on(async {
        let walk = |(n, ask): (usize, enfilade_passage::SecretAsk)| {
            let house = Arc::clone(house);
            // Each client has an address of its own, so that the limit per address has no effect.
            let from = Ipv4Addr::new(10, 0, (n / 250) as u8, (n % 250) as u8);
            let credential = enfilade_passage::Credential::Secret(ask);
            async move {
                // A request that is refused because the queue is full is sent again.
                for _ in 0..1_000 {
                    match house.admit(&credential, from.into()).await {
                        Ok(_) => return true,
                        Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
                    }
                }
                false
            }
        };
        let all: Vec<_> = asks.into_iter().enumerate().map(|one| tokio::spawn(walk(one))).collect();
        for one in all {
            if !one.await.unwrap_or(false) {
                return Err(Failure::from("the right secret was refused"));
            }
        }
        Ok(())
    })?;
    Ok(house.gate().counts().computed - before)
}

/// Counts slow hashes after a change of another token, and when many clients use one unverified token at once.
pub(crate) fn counts(
    report: &mut Report,
    scratch: &Scratch,
    known: &[(String, String)],
) -> Result<(), Failure> {
    let place = scratch.path().join("hashed");
    let store = Store::hashed(&place, known)?;
    let house = store.house(32 << 20);
    let threads = THREADS as u64;
    all_at_once(&house, &store, 0..threads)?;
    make_and_delete(&store, 1)?;
    let ours = all_at_once(&house, &store, 0..threads)?;
    report.once("hashes of 16 who ask after another token changed", threads, ours as f64, "hashes");
    report.goal("foreign", Estimate::once(ours as f64));
    let herd = all_at_once(&house, &store, std::iter::repeat_n(THREADS as u64, HERD))?;
    report.once(
        "hashes of 64 who ask at once with one token nobody knows yet",
        HERD as u64,
        herd as f64,
        "hashes",
    );
    report.goal("herd", Estimate::once(herd as f64));
    let (hashes, herd) = of_cache(scratch, known)?;
    report.once(
        "the same by the re-created cache: after a change elsewhere",
        threads,
        hashes as f64,
        "hashes",
    );
    report.once("the same by the re-created cache: 64 on one token", HERD as u64, herd as f64, "hashes");
    Ok(())
}

fn cache_of(scratch: &Scratch, known: &[(String, String)]) -> Result<TokenCache, Failure> {
    let ids: Vec<_> = (0..known.len() as u64).map(tokenid_of).collect();
    // All tokens have the same hash, because only the number of computations is measured.
    let hash = known.first().map_or("", |(_, hash)| hash);
    Ok(TokenCache::new(Shadow::write(&scratch.path().join("hashed.shadow"), ids.iter(), hash)?))
}

fn of_cache(scratch: &Scratch, known: &[(String, String)]) -> Result<(usize, usize), Failure> {
    let cache = cache_of(scratch, known)?;
    let secret = known.first().map_or("", |(secret, _)| secret);
    let all = |tokens: &[u64]| -> usize {
        let before = cache.hashes.load(Ordering::Relaxed);
        std::thread::scope(|scope| {
            for n in tokens {
                scope.spawn(|| cache.verify(&tokenid_of(*n), secret).is_ok_and(|yes| yes));
            }
        });
        cache.hashes.load(Ordering::Relaxed) - before
    };
    let sixteen: Vec<u64> = (0..THREADS as u64).collect();
    sixteen.iter().for_each(|n| cache.warm(&tokenid_of(*n), secret));
    cache.changed_elsewhere();
    Ok((all(&sixteen), all(&[50; HERD])))
}

/// Creates and deletes a token of the first user this many times, by commits to the store, as another process does.
fn make_and_delete(store: &Store, times: u64) -> Result<(), Failure> {
    let owner = UserId::from_bytes(id(1, 0));
    for n in 0..times {
        let key = CredentialId::from_bytes(id(9, n));
        let (_, row) = stores::token(0, Verifier::Keyed([n as u8; 32]));
        let row = Credential { name: "coming-and-going".parse()?, ..row };
        let mut change = Change::new(audit("token create"));
        change
            .put(&NameKey::token(&owner, &row.name), &Name::new(key.stored(), row.name.as_str()))
            .put(&key, &row);
        store.lmdb.commit(&change)?;
        let mut change = Change::new(audit("token delete"));
        change.delete::<Name>(&NameKey::token(&owner, &row.name)).delete::<Credential>(&key);
        store.lmdb.commit(&change)?;
    }
    Ok(())
}

/// Measures the throughput of two verifying threads while tokens are created and deleted.
pub(crate) fn run(
    report: &mut Report,
    scratch: &Scratch,
    known: &[(String, String)],
    small: bool,
) -> Result<(), Failure> {
    let seconds = if small { 1 } else { 5 };
    let store = Store::hashed(&scratch.path().join("contended"), known)?;
    let house = store.house(32 << 20);
    all_at_once(&house, &store, 0..known.len() as u64)?;
    let asks = (0..known.len() as u64).map(|n| store.ask(n)).collect::<Result<Vec<_>, _>>()?;
    let hashes = house.gate().counts().computed;
    let verify = |n: usize| asks.get(n % asks.len()).is_some_and(|ask| stores::admit(&house, ask).is_ok());
    let change = || make_and_delete(&store, 1).is_ok();
    contended(report, "ours", seconds, &verify, &change)?;
    report.once("contended, ours, hashes", 2, (house.gate().counts().computed - hashes) as f64, "hashes");

    let cache = cache_of(scratch, known)?;
    let secret = known.first().map_or("", |(secret, _)| secret.as_str());
    let ids: Vec<_> = (0..known.len() as u64).map(tokenid_of).collect();
    ids.iter().for_each(|id| cache.warm(id, secret));
    let verify =
        |n: usize| ids.get(n % ids.len()).is_some_and(|id| cache.verify(id, secret).is_ok_and(|yes| yes));
    let change = || {
        // A change by another process of Proxmox Backup Server increments the shared generation.
        cache.changed_elsewhere();
        true
    };
    contended(report, "re-created cache", seconds, &verify, &change)?;
    report.once(
        "contended, re-created cache, hashes",
        2,
        cache.hashes.load(Ordering::Relaxed) as f64,
        "hashes",
    );
    Ok(())
}

/// The time between two changes of tokens.
const EVERY: Duration = Duration::from_millis(100);

fn contended(
    report: &mut Report,
    who: &str,
    seconds: u64,
    verify: &(dyn Fn(usize) -> bool + Sync),
    change: &(dyn Fn() -> bool + Sync),
) -> Result<(), Failure> {
    let (is_over, failed) = (AtomicBool::new(false), AtomicBool::new(false));
    let (began, cpu) = (now(), cpu_nanos(std::process::id())?);
    let mut all = Samples::default();
    let mut done = 0;
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..2)
            .map(|thread| {
                let (is_over, failed) = (&is_over, &failed);
                scope.spawn(move || {
                    let (mut samples, mut n, mut longest) = (Samples::default(), thread * 50, 0.0_f64);
                    while !is_over.load(Ordering::Relaxed) {
                        let began = now();
                        if !verify(n) {
                            failed.store(true, Ordering::Relaxed);
                        }
                        let micros = began.elapsed().as_secs_f64() * 1e6;
                        // Keeps each 64th time as a sample, and the longest of all times.
                        longest = longest.max(micros);
                        if n % 64 == 0 {
                            samples.push(micros);
                        }
                        n += 1;
                    }
                    (samples, n - thread * 50, longest)
                })
            })
            .collect();
        while began.elapsed() < Duration::from_secs(seconds) {
            std::thread::park_timeout(EVERY);
            if !change() {
                failed.store(true, Ordering::Relaxed);
            }
        }
        is_over.store(true, Ordering::Relaxed);
        let mut longest = 0.0_f64;
        for (samples, n, most) in running.into_iter().filter_map(|thread| thread.join().ok()) {
            all.extend(&samples);
            done += n;
            longest = longest.max(most);
        }
        report.once(&format!("contended, {who}, longest"), 2, longest, "µs");
    });
    if failed.load(Ordering::Relaxed) {
        return Err(format!("contended, {who}: the right secret was refused").into());
    }
    let elapsed = began.elapsed().as_secs_f64();
    report.once(&format!("contended, {who}"), 2, done as f64 / elapsed, "requests/s");
    // A closed loop: a thread verifies again when its last verification has ended, so a stall is in one sample of each thread.
    report.tail(&format!("contended, {who}, in a closed loop"), 2, &all, "µs");
    let used = cpu_nanos(std::process::id())? - cpu;
    report.once(&format!("contended, {who}, CPU of each"), 2, used / 1e3 / done as f64, "µs");
    Ok(())
}
