use super::*;
use enfilade_facts::MemoSeed;
use enfilade_facts::memo::KeyMaker;
use std::net::Ipv4Addr;

fn key(n: u64) -> MemoKey {
    KeyMaker::new(&MemoSeed([1; 16]), "work").number(n).key()
}

fn from(n: u8, failures: u32) -> Asker {
    Asker { from: Ipv4Addr::new(192, 0, 2, n).into(), failures }
}

/// The state of a gate without threads. The work of a computation is a number.
struct Bench(State<u64>);

impl Bench {
    fn new(slots: usize) -> Self {
        Bench(State { slots, ..State::default() })
    }

    fn join(&mut self, work: u64, asker: Asker) -> Option<watch::Receiver<Progress>> {
        self.0.join(key(work), work, asker).map(|joined| joined.progress)
    }

    fn begin(&mut self) -> Option<Job<u64>> {
        self.0.begin()
    }
}

#[test]
fn fewest_failures_go_first_and_most_failures_are_dropped() {
    let mut bench = Bench::new(1);
    let mut flood: Vec<_> =
        (0..4).map(|n| bench.join(n.into(), from(n, 3 + u32::from(n == 2))).unwrap()).collect();
    assert!(bench.join(4, from(4, 4)).is_none(), "no waiting address has more failures");
    assert!(bench.join(4, from(4, 9)).is_none());
    // One computation is for the address with the most failures. This computation is dropped first, and its request gets `Progress::Dropped`. The
    // other three addresses have the same number of failures, so the newest of their computations is dropped next.
    let cold = bench.join(5, from(200, 0)).unwrap();
    assert_eq!(*flood[2].borrow_and_update(), Progress::Dropped);
    let warm = bench.join(6, from(201, 2)).unwrap();
    assert_eq!(*flood[3].borrow_and_update(), Progress::Dropped);
    let mut order = Vec::new();
    while let Some(job) = bench.begin() {
        order.push(job.work);
        bench.0.end(&job, Progress::Done(Outcome::Differs));
    }
    assert_eq!(order, [5, 6, 0, 1], "the address with the fewest failures, then the oldest computation");
    assert!(
        [&cold, &warm, &flood[0], &flood[1]]
            .iter()
            .all(|who| *who.borrow() == Progress::Done(Outcome::Differs))
    );
    assert!(bench.0.known.is_empty() && bench.0.running.is_empty());
}

#[test]
fn a_work_without_a_waiting_request_is_not_computed() {
    let mut bench = Bench::new(1);
    let mut waiting: Vec<_> = (0..4).map(|n| bench.join(n.into(), from(n, 0)).unwrap()).collect();
    let running = bench.begin().unwrap();
    drop(waiting.drain(1..));
    // If no request waits for a computation any more, the place of the computation in a full queue becomes free.
    let last: Vec<_> = (9..13).map(|n| bench.join(n.into(), from(n, 0)).unwrap()).collect();
    bench.0.end(&running, Progress::Done(Outcome::Differs));
    let mut computed = vec![running.work];
    while let Some(job) = bench.begin() {
        computed.push(job.work);
        bench.0.end(&job, Progress::Done(Outcome::Differs));
    }
    assert_eq!(computed, [0, 9, 10, 11, 12]);
    drop(last);
}

#[test]
fn an_address_has_one_of_several_slots() {
    let mut bench = Bench::new(4);
    let waiting: Vec<_> = (0..4).map(|n| bench.join(n, from(1, 0)).unwrap()).collect();
    let first = bench.begin().unwrap();
    assert_eq!(first.work, 0);
    assert!(bench.begin().is_none(), "one of its hashes is being computed");
    // A request from another address does not wait for the four requests of this address.
    let other = bench.join(9, from(2, 0)).unwrap();
    let begun = bench.begin().unwrap();
    assert_eq!((begun.work, *other.borrow()), (9, Progress::Running));
    assert!(bench.begin().is_none());
    bench.0.end(&first, Progress::Done(Outcome::Differs));
    assert_eq!(bench.begin().map(|job| job.work), Some(1));
    drop(waiting);
}

#[test]
fn a_hash_is_computed_once_for_all_requests() {
    let mut bench = Bench::new(1);
    let one = bench.join(7, from(1, 0)).unwrap();
    let job = bench.begin().unwrap();
    let other = bench.join(7, from(2, 9)).unwrap();
    assert!(bench.begin().is_none());
    bench.0.end(&job, Progress::Done(Outcome::Differs));
    assert_eq!([*one.borrow(), *other.borrow()], [Progress::Done(Outcome::Differs); 2]);
}

#[test]
fn there_are_as_many_threads_as_slots_after_every_change() {
    let gate = HashGate::new(0);
    for (slots, threads) in [(1, 1), (4, 4), (2, 2), (0, 1), (3, 3)] {
        gate.set_slots(slots);
        // If this loop never ends, threads do not end or are not started.
        while gate.shared.state().threads != threads {
            std::thread::yield_now();
        }
    }
}
