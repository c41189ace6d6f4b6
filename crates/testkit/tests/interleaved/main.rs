//! Compares COPY, MOVE and DELETE of whole trees with a naive reference. The trees, ACLs and locks are random.
//!
//! In the first test one actor acts alone, and the outcome must equal the outcome of the reference, member by member. In the second test another
//! actor can act between any two system calls of the first actor. Every acknowledged change must exist, or a user with the right to delete must have
//! deleted its result. The answer must be right for every member, and the quota must count the bytes on disk. Nothing may remain under a reserved
//! name.
//!
//! The actors are two threads of a worker, which is a second process of this program. The worker is traced: each of its threads stops at every system
//! call, and the scheduler lets one of them continue.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a campaign says how far it is")]
#![allow(clippy::disallowed_methods, reason = "tests that wait for another process read the clock and sleep")]

mod reference;
mod schedule;
mod world;

use reference::{Act, Actor, Tree};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use world::{Dice, World};

const RUNS: &str = "ENFILADE_INTERLEAVED_RUNS";
const SEED: &str = "ENFILADE_INTERLEAVED_SEED";
const ALONE: &str = "ENFILADE_INTERLEAVED_ALONE";

/// `GATE` is the number of runs with two actors in a usual test run. `TIMES_ALONE` is the number of runs with one actor for each run with two actors.
const GATE: u64 = 400;
const TIMES_ALONE: u64 = 4;
/// A file system in memory, if the machine has one.
const MEMORY: &str = "/dev/shm";

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Runs one act after another, without a second actor.
fn alone(world: &World, seed: u64, runs: u64) {
    let (mut done, mut refused, mut left) = (0, 0, 0);
    for run in 0..runs {
        let mut dice = Dice::new(seed, run);
        let tree = Tree::random(&mut dice);
        world.plant(&tree);
        let act = Act::random(&mut dice, &tree, false);
        let real = world.actors.act(Actor::Alice, &act);
        let (expected, after) = tree.after(Actor::Alice, &act);
        let said = format!("run {run} of seed {seed}: {act:?} in {tree:#?}");
        assert_eq!(real, expected, "{said}");
        assert_eq!(world.on_disk(), after.on_disk(), "{said}");
        world.check_quota(&said);
        match &real {
            Err(()) => refused += 1,
            Ok(named) if named.is_empty() => done += 1,
            Ok(_) => left += 1,
        }
    }
    assert!(done > 0 && refused > 0 && left > 0);
    eprintln!(
        "{runs} acts of one actor: {done} done completely, {left} done except for members that the answer named, {refused} refused; each outcome equals the reference"
    );
}

/// Runs two acts at the same time.
fn together(world: &World, seed: u64, run: u64) {
    let mut dice = Dice::new(seed, run);
    let mut tree = Tree::random(&mut dice);
    let around = match dice.below(3) {
        0 => Act::around_a_move(&mut dice, &mut tree),
        _ => None,
    };
    let (acts, then) = around.unwrap_or_else(|| {
        ([Act::random(&mut dice, &tree, false), Act::random(&mut dice, &tree, true)], None)
    });
    world.plant(&tree);
    let actors = &world.actors;
    let outcomes = std::thread::scope(|scope| {
        let alice = scope.spawn(|| actors.act(Actor::Alice, &acts[0]));
        let bob = scope.spawn(|| {
            let outcome = actors.act(Actor::Bob, &acts[1]);
            if let Some(then) = &then {
                // The scheduler sees this system call, and begins the next act when its plan says so.
                let _ = std::os::unix::process::parent_id();
                let _ = actors.act(Actor::Bob, then);
            }
            outcome
        });
        [alice.join().unwrap(), bob.join().unwrap()]
    });
    let said = format!(
        "run {run} of seed {seed}: alice {:?} {:?}, bob {:?} {:?} and then {then:?}, in {tree:#?}",
        acts[0], outcomes[0], acts[1], outcomes[1]
    );
    let now = world.on_disk();
    tree.check(&acts, &outcomes, &now, &said);
    world.check_locks(&acts, &outcomes, &now, &said);
    world.check_quota(&said);
}

/// The worker process runs this function with an environment variable that gives the number of runs. In a usual test run, this function does nothing.
#[test]
fn worker() {
    let (Some(runs), Some(seed)) = (number(RUNS), number(SEED)) else { return };
    let world = World::new();
    if std::env::var_os(ALONE).is_some() {
        return alone(&world, seed, runs);
    }
    let own = std::process::id().to_string();
    Command::new("kill").args(["-STOP", &own]).status().unwrap();
    (0..runs).for_each(|run| together(&world, seed, run));
}

fn start(runs: u64, seed: u64) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "worker", "--nocapture", "--test-threads", "1"]).stdout(Stdio::null());
    command.env(RUNS, runs.to_string()).env(SEED, seed.to_string());
    // The worker syncs thousands of trees, and this test does not test the disk. So a file system in memory is used, because it is faster.
    if Path::new(MEMORY).is_dir() {
        command.env("TMPDIR", MEMORY);
    }
    command
}

/// The scheduler waits for any child process, so only one child process may run at a time.
static CHILDREN: Mutex<()> = Mutex::new(());

#[test]
fn alone_every_outcome_is_the_references() {
    let _one = CHILDREN.lock().unwrap_or_else(PoisonError::into_inner);
    let runs = number("ENFILADE_CAMPAIGN_N").unwrap_or(GATE) * TIMES_ALONE;
    let seed = number("ENFILADE_CAMPAIGN_SEED").unwrap_or(1);
    let ended = start(runs, seed).env(ALONE, "1").status().unwrap();
    assert!(ended.success(), "something is not as the reference says, see above");
}

#[test]
fn whatever_a_second_actor_does_between_two_steps_nothing_is_lost() {
    let _one = CHILDREN.lock().unwrap_or_else(PoisonError::into_inner);
    let runs = number("ENFILADE_CAMPAIGN_N").unwrap_or(GATE);
    let seed = number("ENFILADE_CAMPAIGN_SEED").unwrap_or(1);
    let mut worker = start(runs, seed).spawn().unwrap();
    let steps = schedule::run(worker.id(), seed, runs);
    let ended = worker.wait();
    let is_well = ended.is_ok_and(|status| status.success()) || steps.is_well;
    assert!(is_well, "a check failed, see above");
    assert_eq!(steps.runs, runs);
    println!(
        "{} runs with a second actor, {} system calls that reach files, {} switches to the other actor at these calls: nothing is lost, and every answer is right",
        steps.runs, steps.of_files, steps.switches
    );
    assert!(steps.switches > runs / 2);
}
