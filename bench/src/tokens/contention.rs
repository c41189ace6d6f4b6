//! Counts the slow hashes of parallel verifications: after a change of another token, and for a token that was not verified yet.

use crate::Failure;
use crate::goals::Goal;
use crate::report::Report;
use crate::samples::Estimate;
use crate::scratch::Scratch;
use crate::stores::{self, Store, audit, id, tokenid_of};
use enfilade_facts::tables::{Credential, Name, NameKey, Verifier};
use enfilade_facts::vocabulary::{CredentialId, UserId};
use enfilade_facts::{Change, Source};
use enfilade_passage::House;
use enfilade_peers::token_cache::TokenCache;
use enfilade_peers::token_shadow::{Shadow, Tokenid};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

/// The number of parallel verifications after another token changed.
const THREADS: usize = 16;
const HERD: usize = 64;

pub(super) fn goals() -> Vec<Goal> {
    let hashes = "In process, doors 2 to 4; the tokens have yescrypt hashes of cost 5";
    vec![
        Goal::new(
            "foreign",
            0.0,
            "hashes",
            format!("slow hashes to verify {THREADS} remembered tokens after a change of another token"),
            format!(
                "{hashes}. {THREADS} tokens were verified before. Another token is created and deleted. Then {THREADS} clients verify the {THREADS} \
                 tokens at the same time. The slow hashes of these verifications are counted"
            ),
        ),
        Goal::new(
            "herd",
            1.0,
            "hashes",
            format!("slow hashes to verify a new token for {HERD} clients at the same time"),
            format!(
                "{hashes}. {HERD} clients verify the same token at the same time. It was not verified before. The slow hashes of these verifications \
                 are counted"
            ),
        ),
    ]
}

fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    Ok(tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build()?)
}

/// Verifies these tokens at the same time, each from another client. Returns the number of hashes that were computed.
pub(super) fn all_at_once(
    house: &Arc<House>,
    store: &Store,
    tokens: impl Iterator<Item = u64>,
) -> Result<u64, Failure> {
    let before = house.gate().counts().computed;
    let runtime = runtime()?;
    let asks = tokens.map(|n| store.ask(n)).collect::<Result<Vec<_>, _>>()?;
    runtime.block_on(async {
        let walk = |(n, ask): (usize, enfilade_passage::SecretAsk)| {
            let house = Arc::clone(house);
            // Each client has another address, so that the limit per address has no effect.
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
pub(super) fn counts(
    report: &mut Report,
    scratch: &Scratch,
    known: &[(String, String)],
) -> Result<(), Failure> {
    let place = scratch.path().join("hashed");
    let store = Store::hashed(&place, known)?;
    let house = store.house(32 << 20);
    let threads = THREADS as u64;
    all_at_once(&house, &store, 0..threads)?;
    change(&store, 0)?;
    change(&store, 1)?;
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

pub(super) fn cache_of(scratch: &Scratch, known: &[(String, String)]) -> Result<TokenCache, Failure> {
    let ids: Vec<_> = (0..known.len() as u64).map(tokenid_of).collect();
    // All tokens have the same hash, because only the number of computations is measured.
    let hash = known.first().map_or("", |(_, hash)| hash);
    Ok(TokenCache::new(Shadow::write(&scratch.path().join("hashed.shadow"), ids.iter(), hash)?))
}

fn of_cache(scratch: &Scratch, known: &[(String, String)]) -> Result<(u64, u64), Failure> {
    let cache = cache_of(scratch, known)?;
    let secret = known.first().map_or("", |(secret, _)| secret);
    let ids: Vec<_> = (0..=THREADS as u64).map(tokenid_of).collect();
    let all = |tokens: &[&Tokenid]| -> Result<u64, Failure> {
        let before = cache.shadow.work.hashes();
        match at_once(&cache, tokens, secret) {
            true => Ok(cache.shadow.work.hashes() - before),
            false => Err("the re-created cache refused the right secret".into()),
        }
    };
    let sixteen: Vec<_> = ids.iter().take(THREADS).collect();
    sixteen.iter().for_each(|id| cache.warm(id, secret));
    cache.changed_elsewhere();
    let last = ids.last().ok_or("no token")?;
    Ok((all(&sixteen)?, all(&[last; HERD])?))
}

/// Verifies the secret for each of these tokens at the same time, each on its own thread. Returns whether every verification succeeded.
pub(super) fn at_once(cache: &TokenCache, tokens: &[&Tokenid], secret: &str) -> bool {
    let verify = |token| move || cache.verify(token, secret).is_ok_and(|yes| yes);
    std::thread::scope(|scope| {
        let threads: Vec<_> = tokens.iter().map(|token| scope.spawn(verify(*token))).collect();
        threads.into_iter().all(|thread| thread.join().unwrap_or(false))
    })
}

/// Creates a token of the first user if `n` is even, and deletes the token if `n` is odd. The change is a commit to the store, as another process
/// would make it.
pub(super) fn change(store: &Store, n: u64) -> Result<(), Failure> {
    let (is_new, n) = (n.is_multiple_of(2), n / 2);
    let owner = UserId::from_bytes(id(1, 0));
    let key = CredentialId::from_bytes(id(9, n));
    let (_, row) = stores::token(0, Verifier::Keyed([n as u8; 32]));
    let row = Credential { name: "coming-and-going".parse()?, ..row };
    let name = NameKey::token(&owner, &row.name);
    let mut change = Change::new(audit(if is_new { "token create" } else { "token delete" }));
    if is_new {
        change.put(&name, &Name::new(key.stored(), row.name.as_str())).put(&key, &row);
    } else {
        change.delete::<Name>(&name).delete::<Credential>(&key);
    }
    store.lmdb.commit(&change)?;
    Ok(())
}
