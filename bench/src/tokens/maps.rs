//! Compares the memo with well-known concurrent maps, by lookups of keys that are present.

use crate::report::Report;
use crate::samples::Samples;
use crate::stopwatch::shared;
use crate::stores::Sequence;
use enfilade_facts::{MemoKey, MemoSeed, WordMemo};
use std::hint::black_box;

const ROUNDS: usize = 7;
const PROBES: usize = 400_000;

pub(crate) fn run(report: &mut Report, entries: u64) {
    let memo = WordMemo::<u64>::new(MemoSeed([9; 16]), 16 << 20);
    let keys: Vec<MemoKey> = (0..entries).map(|n| memo.key("n").number(n).key()).collect();
    let (dash, papaya) = (dashmap::DashMap::new(), papaya::HashMap::new());
    let quick = quick_cache::sync::Cache::new(2 * entries as usize);
    for (key, n) in keys.iter().zip(0_u64..) {
        memo.put(*key, n);
        dash.insert(*key, n);
        papaya.pin().insert(*key, n);
        quick.insert(*key, n);
    }
    let mut sequence = Sequence(1);
    let order: Vec<MemoKey> = (0..PROBES)
        .filter_map(|_| keys.get(usize::try_from(sequence.next() % entries).unwrap_or(0)).copied())
        .collect();
    for threads in [1, 2] {
        let mut measure = |name: &str, probe: &(dyn Fn(MemoKey) -> Option<u64> + Sync)| {
            let mut samples = Samples::default();
            for _ in 0..ROUNDS {
                samples.push(shared(threads, PROBES, |n| {
                    let key = order.get(n % order.len()).copied().unwrap_or_default();
                    black_box(probe(key));
                }));
            }
            report.middle(&format!("probe of {name}, threads: {threads}"), entries, &samples, "ns");
        };
        measure("the memo", &|key| memo.get(key));
        measure("dashmap", &|key| dash.get(&key).map(|found| *found));
        measure("papaya", &|key| papaya.pin().get(&key).copied());
        measure("quick_cache", &|key| quick.get(&key));
    }
}
