use super::*;

/// Sends a preface and these frames in pieces. Returns whether a malformed header block was found.
fn came(frames: &[(u8, u8, u32, &[u8])], piece: usize) -> bool {
    let mut bytes = vec![b'x'; PREFACE];
    for (kind, flags, stream, payload) in frames {
        bytes.extend_from_slice(&(payload.len() as u32).to_be_bytes()[1..]);
        bytes.extend_from_slice(&[*kind, *flags]);
        bytes.extend_from_slice(&stream.to_be_bytes());
        bytes.extend_from_slice(payload);
    }
    let mut fields = Fields::default();
    bytes.chunks(piece).map(|piece| fields.came(piece)).max().unwrap_or_default()
}

/// The requests in RFC 7541, appendix C.3. `HUFFMAN` contains the same requests in Huffman code, from appendix C.4.
const PLAIN: [&[u8]; 3] = [
    b"\x82\x86\x84\x41\x0fwww.example.com",
    b"\x82\x86\x84\xbe\x58\x08no-cache",
    b"\x82\x87\x85\xbf\x40\x0acustom-key\x0ccustom-value",
];
const HUFFMAN: [&[u8]; 3] = [
    b"\x82\x86\x84\x41\x8c\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff",
    b"\x82\x86\x84\xbe\x58\x86\xa8\xeb\x10\x64\x9c\xbf",
    b"\x82\x87\x85\xbf\x40\x88\x25\xa8\x49\xe9\x5b\xa9\x7d\x7f\x89\x25\xa8\x49\xe9\x5b\xb8\xe8\xb4\xbf",
];

#[test]
fn the_table_grows_as_the_examples_of_the_rfc_say() {
    for requests in [PLAIN, HUFFMAN] {
        let mut table = Table::default();
        for (request, size) in requests.into_iter().zip([57, 110, 164]) {
            assert!(!table.read(request, false));
            assert_eq!(table.size, size);
        }
        table.most = 110;
        table.evict();
        assert_eq!((table.size, table.entries.len()), (107, 2));
    }
}

#[test]
fn what_is_malformed_is_found_however_it_comes() {
    let request: &[u8] = b"\x82\x87\x84\x41\x01x";
    for (what, frames, is_malformed) in [
        ("a request", vec![(1, 5, 1, request)], false),
        ("a path", vec![(1, 5, 1, &b"\x82\x87\x04\x02/a"[..])], false),
        ("a fragment", vec![(1, 5, 1, b"\x82\x87\x04\x04/a#b")], true),
        ("a fragment in Huffman's code", vec![(1, 5, 1, b"\x04\x83\x63\xff\xd7")], true),
        ("a path by name", vec![(1, 5, 1, b"\0\x05:path\x02/#")], true),
        ("a path by name in Huffman's code", vec![(1, 5, 1, b"\0\x84\xb9\x58\xd3\x3f\x02/#")], true),
        ("a scheme", vec![(1, 5, 1, b"\x06\x00")], true),
        ("a scheme in Huffman's code", vec![(1, 5, 1, b"\0\x85\xb8\x82\x4e\x5a\x4b\0")], true),
        ("an entry of the table", vec![(1, 5, 1, b"\x44\x02/#"), (0, 1, 1, b"#"), (1, 5, 3, b"\xbe")], true),
        ("an entry's name, another value", vec![(1, 5, 1, b"\x44\x02/a"), (1, 5, 3, b"\x7e\x02/#")], true),
        ("padding", vec![(1, 0x0d, 1, b"\x02\x82\x87\x04\x01/##")], false),
        ("priority", vec![(1, 0x25, 1, b"\0\0\0\0\xff\x04\x02/#")], true),
        ("a continuation", vec![(1, 1, 1, b"\x82\x04\x03"), (9, 4, 1, b"/#x")], true),
        ("trailers", vec![(1, 4, 1, request), (0, 0, 1, b"abc"), (1, 5, 1, b"\x40\x01a\x01#")], false),
        ("a method in trailers", vec![(1, 4, 1, request), (1, 5, 1, b"\x82")], true),
        ("an unknown pseudo-field in trailers", vec![(1, 4, 1, request), (1, 5, 1, b"\0\x02:x\0")], true),
        ("other frames", vec![(0, 0, 1, b"/#"), (4, 0, 0, b"\x04\x02/#"), (1, 5, 1, request)], false),
    ] {
        for piece in 1..40 {
            assert_eq!(came(&frames, piece), is_malformed, "{what}, in pieces of {piece}");
        }
    }
}
