use super::*;
use enfilade_facts::AuditRecord;

fn changes() -> Vec<Change> {
    let audit = AuditRecord { who: "alice".into(), what: "x".into(), unix_seconds: 7, request: None };
    vec![Change::new(audit.clone()), Change::new(audit)]
}

fn every_flipped_bit_is_found(bytes: &[u8]) {
    assert_eq!(Stored::open(b"log/8", bytes), Err("its checksum does not match"));
    for (at, bit) in (0..bytes.len()).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
        let mut damaged = bytes.to_vec();
        damaged[at] ^= 1 << bit;
        assert!(Stored::open(b"log/9", &damaged).is_err(), "byte {at}, bit {bit}");
    }
    for end in 0..bytes.len() {
        assert!(Stored::open(b"log/9", &bytes[..end]).is_err(), "{end} bytes");
    }
}

#[test]
fn an_entry_is_read_as_it_was_written_and_every_flipped_bit_is_found() {
    let encoded = Encoded::new(&changes());
    let (id, first) = (EntryId([1; 16]), Revision(8));
    let bytes = encoded.seal(b"log/9", id, first, 9);
    let entry = Stored::open(b"log/9", &bytes).unwrap();
    assert_eq!((entry.last(), encoded.last(first)), (Revision(9), Revision(9)));
    assert_eq!(entry.whole(), Some(Entry { id, first, state: 9, changes: changes() }));
    assert_eq!(bytes.len(), encoded.entry_bytes());
    every_flipped_bit_is_found(&bytes);
}

#[test]
fn an_entry_in_parts_is_read_as_it_was_written_and_has_a_bounded_number_of_parts() {
    let (id, first) = (EntryId([1; 16]), Revision(8));
    let of = |count: usize| {
        let parts = Parts { id: PartsId([2; 16]), checksums: vec![[3; 16]; count] };
        let encoded = Encoded::new(&changes());
        let bytes = encoded.bytes().to_vec();
        assert_eq!(read_changes(&bytes, 2), Some(changes()));
        assert_eq!((read_changes(&bytes, 1), read_changes(&bytes[1..], 2)), (None, None));
        (encoded.in_parts(parts.clone()).seal(b"log/9", id, first, 9), parts)
    };
    let (bytes, parts) = of(2);
    let entry = Stored { id, first, state: 9, body: Body::Parted { count: 2, parts } };
    assert_eq!((Stored::open(b"log/9", &bytes).as_ref(), entry.last()), (Ok(&entry), Revision(9)));
    assert_eq!(entry.whole(), None);
    every_flipped_bit_is_found(&bytes);
    assert!(Stored::open(b"log/9", &of(PARTS_MAX).0).is_ok());
    for count in [0, PARTS_MAX + 1] {
        assert!(Stored::open(b"log/9", &of(count).0).is_err(), "{count} parts");
    }
}
