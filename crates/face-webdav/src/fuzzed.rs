//! Tests with faulty bodies and headers. The server must read or refuse them without a panic.

use super::conditions::{Conditions, resource_of};
use super::{digest, lock, propfind_request, proppatch, range};
use enfilade_facts::limits::Limits;
use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};

const BODIES: [&str; 5] = [
    "<?xml version=\"1.0\"?><d:propfind xmlns:d='DAV:'><d:prop><d:getetag/><x:y xmlns:x='urn:x'/></d:prop></d:propfind>",
    "<propfind xmlns='DAV:'><allprop/><include><x/></include></propfind>",
    "<D:propertyupdate xmlns:D='DAV:' xmlns:x='urn:x'><D:set><D:prop xml:lang='de'><x:a b='1'>&amp;&#65;<![CDATA[<y>]]></x:a></D:prop></D:set>\
     <D:remove><D:prop><x:b/></D:prop></D:remove></D:propertyupdate>",
    "<lockinfo xmlns='DAV:'><lockscope><exclusive/></lockscope><locktype><write/></locktype><owner><href>urn:me</href></owner></lockinfo>",
    "<!DOCTYPE x [<!ENTITY a 'b'>]><propfind xmlns='DAV:'>&a;<?p x?><!-- c --></propfind>",
];

const HEADERS: [&str; 7] = [
    "(<urn:uuid:181d4fae-7d8c-41d0-a765-00a0c91e6bf2> [\"a]b\"])(Not <DAV:no-lock> [W/\"c\"])",
    "<https://h/dav/main/a%20b> (<urn:x>) ([\"y\"]) </dav/main/c>(Not <urn:z>)",
    "https://h:8443/dav/main/a/../b?x#y",
    "bytes=0-99,-5",
    "sha-256=:LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ=:, md5=:AA==:",
    "Infinite, Second-4100000000",
    "Sun, 06 Nov 1994 08:49:37 GMT",
];

struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }

    /// Returns one of the seeds after one to four random edits. An edit changes, removes or repeats bytes, inserts bytes of another seed, or cuts off
    /// the end.
    fn near(&mut self, seeds: &[&str]) -> Vec<u8> {
        let mut bytes = seeds[self.roll(seeds.len())].as_bytes().to_vec();
        for _ in 0..=self.roll(4) {
            let at = self.roll(bytes.len().max(1));
            match self.roll(5) {
                0 if at < bytes.len() => bytes[at] = (self.roll(128)) as u8,
                1 if at < bytes.len() => drop(bytes.remove(at)),
                2 => {
                    let piece = bytes[at.min(bytes.len())..(at + self.roll(40)).min(bytes.len())].to_vec();
                    bytes.splice(at..at, piece);
                }
                3 => {
                    let other = seeds[self.roll(seeds.len())].as_bytes();
                    let from = self.roll(other.len());
                    let piece = other[from..(from + self.roll(30)).min(other.len())].to_vec();
                    bytes.splice(at..at, piece);
                }
                _ => bytes.truncate(at),
            }
        }
        bytes
    }
}

fn cases() -> usize {
    std::env::var("ENFILADE_CAMPAIGN_N").ok().and_then(|n| n.parse().ok()).unwrap_or(20_000)
}

#[test]
fn fuzzed_bodies_are_read_or_refused() {
    let mut dice = Dice(7);
    let mut read = [0; 3];
    for _ in 0..cases() {
        let body = dice.near(&BODIES);
        let outcomes = [
            propfind_request::read(&body, &Limits::default()).is_ok(),
            proppatch::read(&body, &Limits::default()).is_ok(),
            lock::read(&body, &Limits::default()).is_ok_and(|asked| asked.is_some()),
        ];
        outcomes.into_iter().zip(&mut read).for_each(|(is_read, count)| *count += usize::from(is_read));
    }
    println!("{} bodies; accepted as PROPFIND, PROPPATCH and LOCK: {read:?}; all others refused", cases());
    assert!(read.iter().all(|count| *count > 0));
}

#[test]
fn fuzzed_headers_are_read_or_refused() {
    let mut dice = Dice(9);
    let mut read = 0;
    for _ in 0..cases() {
        let value = dice.near(&HEADERS);
        let Ok(header) = HeaderValue::from_bytes(&value) else { continue };
        let with =
            |name: &'static str| HeaderMap::from_iter([(HeaderName::from_static(name), header.clone())]);
        read += usize::from(Conditions::read(&with("if")).is_ok());
        read += usize::from(digest::asked(&with("repr-digest")).is_ok());
        let _ = lock::seconds(&with("timeout"), &Limits::default());
        if let Ok(text) = std::str::from_utf8(&value) {
            let place = resource_of(text, Some("h:8443"));
            // A path that the server accepted contains no segment `..` and no segment `.`.
            assert!(place.is_none_or(|place| place.path.names().all(|name| name != ".." && name != ".")));
            let parts = match range::asked(Some(text), 1000, 16) {
                range::Asked::Part(part) => vec![part],
                range::Asked::Parts(parts) => parts,
                _ => Vec::new(),
            };
            for part in parts {
                assert!(part.start < part.end && part.end <= 1000);
            }
        }
    }
    println!("{} header values, each read as `If` and as `Repr-Digest`: {read} readings succeeded", cases());
    assert!(read > 0);
}
