//! Delegation, on the HTTP face. A user with a lent credential derives chains of three and more credentials. The user calls every route of the
//! Identity API and of the Proxmox API with random values. After each change, no right, account or credential may exceed the rights that were lent
//! first. After the first lent credential has ended, no derived credential may work.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
#![allow(clippy::print_stdout, reason = "a campaign says how far it is")]

mod bodies;
mod holder;
mod http;
mod ways;
mod world;

use holder::Holder;
use std::collections::BTreeMap;
use world::{Dice, First, World};

/// The number of requests for each lent credential.
const EPISODE: u64 = 150;
/// The number of lent credentials in one world. Several are used, because building a world takes longer than a request.
const EPISODES: usize = 10;

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// Counts that show what the steps reached. If too few steps succeed, the test fails.
#[derive(Default)]
struct Tally {
    episodes: BTreeMap<First, u64>,
    ways: usize,
    good: usize,
    deepest: usize,
    whole: u64,
}

async fn episode(world: &mut World, dice: &mut Dice, steps: u64, tally: &mut Tally) -> Result<u64, String> {
    let first = world.lend(dice);
    let world = &*world;
    let mut holder = Holder::new(world, first);
    let mut asked = 0;
    let mut went = Ok(());
    while asked < steps && went.is_ok() && world.is_whole() {
        // Revocations have a resolution of one second, so the clock advances before each step.
        world.house.clock.advance_seconds(2);
        went = holder.step(world, dice).await;
        asked += 1;
    }
    if went.is_ok() && world.is_whole() {
        world.house.clock.advance_seconds(2);
        world.end_first();
        world.house.clock.advance_seconds(2);
        went = holder.nothing_works(world).await;
        tally.whole += 1;
    }
    *tally.episodes.entry(world.first).or_default() += 1;
    tally.ways += holder.known.len();
    tally.good += holder.good;
    tally.deepest = tally.deepest.max(holder.known.iter().map(|known| known.depth).max().unwrap_or(0));
    let trace = || {
        let last =
            holder.trace.iter().rev().take(40).rev().map(|call| call.chars().take(700).collect::<String>());
        last.collect::<Vec<_>>().join("\n")
    };
    went.map(|()| asked)
        .map_err(|why| format!("{why}\nfirst lent: {:?} with {:?}\n{}", world.first, world.lent, trace()))
}

#[tokio::test]
async fn what_was_lent_is_never_outgrown_or_outlived() {
    let (steps, seed) = (number("ENFILADE_CAMPAIGN_N", 10_000), number("ENFILADE_CAMPAIGN_SEED", 2_026));
    let mut dice = Dice(seed.wrapping_mul(2) + 1);
    let (mut tally, mut asked, mut told) = (Tally::default(), 0, 0);
    while asked < steps {
        let mut world = World::new().await;
        for _ in 0..EPISODES {
            if !world.is_whole() || asked >= steps {
                break;
            }
            match episode(&mut world, &mut dice, EPISODE.min(steps - asked), &mut tally).await {
                Ok(more) => asked += more,
                Err(why) => panic!("after {asked} steps of seed {seed}: {why}"),
            }
        }
        if steps > 100_000 && asked / 100_000 > told {
            told = asked / 100_000;
            println!("{asked} of {steps} steps");
        }
    }
    // A run without successful steps proves nothing.
    assert!(
        steps < 5_000 || tally.episodes.len() == 7 && tally.deepest >= 3,
        "first lent credentials by kind: {:?}, longest chain of credentials: {}",
        tally.episodes,
        tally.deepest
    );
    assert!(tally.good as u64 * 20 > steps, "{} good answers in {steps} steps", tally.good);
    println!(
        "{steps} steps, first lent credentials by kind: {:?}, ended by the test: {}, known credentials: {}, longest chain of credentials: {}, good answers: {}, 0 credentials with more rights or a longer life than was lent",
        tally.episodes, tally.whole, tally.ways, tally.deepest, tally.good
    );
}
