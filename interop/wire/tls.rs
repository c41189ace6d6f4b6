//! If a connection does not begin with a ClientHello, the server sends an alert and ends the connection (RFC 8446 §6.2).

use super::{PATIENCE, unhex};
use crate::server::Server;
use std::io::{Read, Write};
use std::net::TcpStream;

/// The alert `decode_error` as a TLS record.
const DECODE_ERROR: &str = "15030300020232";
const UNEXPECTED_MESSAGE: &str = "1503030002020a";

#[test]
fn what_is_no_hello_is_answered_with_an_alert() {
    let server = Server::start();
    let http: String =
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".iter().map(|byte| format!("{byte:02x}")).collect();
    // A ClientHello of 128 KiB in records of 16 KiB, which is longer than the server accepts.
    let piece =
        |at: usize| if at == 0 { format!("01020000{}", "61".repeat(16380)) } else { "61".repeat(16384) };
    let large: String = (0..9).map(|at| format!("1603014000{}", piece(at))).collect();
    for (what, sent, alert) in [
        ("plain HTTP", http.as_str(), DECODE_ERROR),
        ("application data", "170303000568656c6c6f", UNEXPECTED_MESSAGE),
        ("a change of the cipher", "140303000101", UNEXPECTED_MESSAGE),
        ("a record of no known kind", "630303000568656c6c6f", DECODE_ERROR),
        ("another message of a handshake", "160303000402000000", DECODE_ERROR),
        ("a record of an unknown version", "160909000401000000", DECODE_ERROR),
        ("an empty record", "1603030000", DECODE_ERROR),
        ("a hello beyond 64 KiB", large.as_str(), DECODE_ERROR),
    ] {
        let mut stream = TcpStream::connect(&server.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let _ = stream.write_all(&unhex(sent.as_bytes()));
        let mut came = Vec::new();
        let end = stream.read_to_end(&mut came);
        let came: String = came.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!((came.as_str(), end.is_ok()), (alert, true), "{what}: {end:?}");
    }
}
