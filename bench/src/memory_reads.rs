//! The lowest cost of a lookup among many records (its floor): a loop that only reads memory. A lookup reads at least the place of the record in an
//! index, and then the record. The second read can begin only after the first read has ended.

use crate::report::Report;
use crate::samples::Estimate;
use crate::stopwatch::nanos;
use crate::stores::Sequence;

/// The number of rounds of each measurement.
const ROUNDS: usize = 15;
/// The number of records with which the caches of the processor have all memory of the loop.
const FEW: usize = 10;
/// The bytes that a processor reads from memory at once.
const LINE: usize = 64;

/// One line of memory. The first word has the number of another line.
#[derive(Clone)]
#[repr(align(64))]
struct Line([u64; LINE / size_of::<u64>()]);

/// Adds two times to the report: the time of two dependent reads of random places among `records` records, and how much longer this time is than the
/// time with [`FEW`] records. Each record has two lines of memory: one in the index, and one for its content.
pub(crate) fn tell(report: &mut Report, records: u64) {
    let [few, many] = [FEW, records as usize].map(two_reads);
    report.estimate("two dependent reads of random records, and nothing else", records, many, "ns");
    let name = format!("two dependent reads of random records, and nothing else, more than with {FEW}");
    report.estimate(&name, records, many.minus(few), "ns");
}

fn two_reads(records: usize) -> Estimate {
    let mut sequence = Sequence(1);
    let mut any = || (sequence.next() >> 32) as usize % records;
    let index: Vec<Line> = (0..records).map(|_| Line([any() as u64; 8])).collect();
    let content: Vec<Line> = (0..records).map(|_| Line([any() as u64; 8])).collect();
    let read = |lines: &[Line], at: usize| {
        lines.get(at).and_then(|Line(words)| words.first()).map_or(0, |word| *word as usize)
    };
    // The place of the next lookup depends on the result of this one, so the processor cannot begin the next lookup early. The measured time contains
    // the choice of a place. The choice takes the same time with few records and with many, so the difference of both times does not contain it.
    let mut last = 0;
    let samples = nanos(ROUNDS, || {
        let at = read(&index, (any() ^ last) % records);
        last = std::hint::black_box(read(&content, at));
    });
    samples.middle()
}
