//! Connections from a load balancer. A header before all other bytes contains the address of the client (PROXY protocol, version 2).
//!
//! Peers in `[tls] proxy_from` must send the header. From any other peer the header is refused. This works because neither a ClientHello nor a
//! request begins with the bytes of this header.

use super::addresses::OneOrMore;
use serde::{Deserialize, Serialize};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use tokio::io::{AsyncRead, AsyncReadExt};

/// Networks, as a list, or as text such as `10.0.0.0/8, ::1`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "OneOrMore", into = "String")]
pub(crate) struct Networks(Vec<(IpAddr, u8)>);

impl Networks {
    /// Whether one of the networks contains the address.
    pub(crate) fn hold(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|(network, bits)| same_start(*network, address, *bits))
    }
}

fn same_start(a: IpAddr, b: IpAddr, bits: u8) -> bool {
    let differ = match (a, b) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
        (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
        _ => return false,
    };
    differ >= u32::from(bits)
}

impl TryFrom<OneOrMore> for Networks {
    type Error = String;
    fn try_from(written: OneOrMore) -> Result<Self, String> {
        written.text("a list of addresses and networks, such as [\"10.0.0.0/8\"]")?.try_into()
    }
}

impl TryFrom<String> for Networks {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        let words = text.split([',', ' ']).filter(|word| !word.is_empty());
        let network = |word: &str| {
            let (address, bits) = match word.split_once('/') {
                Some((address, bits)) => (address, Some(bits)),
                None => (word, None),
            };
            let address = IpAddr::from_str(address).ok()?;
            let most = if address.is_ipv4() { 32 } else { 128 };
            let bits = bits.map_or(Some(most), |bits| bits.parse().ok().filter(|bits| *bits <= most))?;
            Some((address, bits))
        };
        let said = |word: &str| format!("`{word}`: expected an address or a network such as 10.0.0.0/8");
        words.map(|word| network(word).ok_or_else(|| said(word))).collect::<Result<_, _>>().map(Networks)
    }
}

impl From<Networks> for String {
    fn from(networks: Networks) -> Self {
        let words: Vec<String> =
            networks.0.iter().map(|(network, bits)| format!("{network}/{bits}")).collect();
        words.join(", ")
    }
}

const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// The maximum number of bytes after the first 16 bytes of the header. These bytes are addresses and further fields (TLVs). The further fields are
/// read but not used.
const REST_BYTES_MAX: usize = 1024;

/// The version of the PROXY header at the beginning of a connection; `None` if the connection begins with other bytes. No ClientHello begins with a
/// PROXY header.
pub(super) fn version(begin: &[u8]) -> Option<u8> {
    match () {
        () if begin.starts_with(b"PROXY ") => Some(1),
        () if begin.starts_with(&SIGNATURE) => Some(2),
        () => None,
    }
}

/// The number of bytes that [`version`] needs.
pub(super) const BEGIN_BYTES: usize = SIGNATURE.len();

/// Reads the header and returns the address of the client. If the header has the command `LOCAL`, as for a health check of the load balancer, returns
/// the address of the peer.
pub(super) async fn read(stream: &mut (impl AsyncRead + Unpin), peer: SocketAddr) -> io::Result<SocketAddr> {
    let wrong = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let mut head = [0; 16];
    let [first, rest @ ..] = &mut head;
    match stream.read(std::slice::from_mut(first)).await {
        // Some health checks end the connection, and others reset it.
        Ok(0) => return Err(ended_before()),
        Err(why) if why.kind() == io::ErrorKind::ConnectionReset => return Err(ended_before()),
        other => other?,
    };
    let ended = |_| wrong("the connection ended within the PROXY header");
    stream.read_exact(rest).await.map_err(ended)?;
    let [signature @ .., command, family, high, low] = head;
    if signature != SIGNATURE || command >> 4 != 2 {
        return Err(wrong("the connection does not begin with a PROXY header of version 2"));
    }
    let length = usize::from(u16::from_be_bytes([high, low]));
    if length > REST_BYTES_MAX {
        return Err(wrong("the PROXY header is too long"));
    }
    let mut rest = vec![0; length];
    stream.read_exact(&mut rest).await.map_err(ended)?;
    let named = match (command & 15, family) {
        (0, _) => return Ok(peer),
        (1, 0x11) => address::<4, 12>(&rest, |ip| Ipv4Addr::from(ip).into())
            .ok_or_else(|| wrong("the addresses of the PROXY header are truncated")),
        (1, 0x21) => address::<16, 36>(&rest, |ip| Ipv6Addr::from(ip).into())
            .ok_or_else(|| wrong("the addresses of the PROXY header are truncated")),
        // The kind of the client address is not supported, so the address of the load balancer is used.
        (1, _) => return Ok(peer),
        _ => Err(wrong("the command of the PROXY header is not known")),
    }?;
    // Inside the server, the unspecified address stands for a client over a Unix socket. No client on a network has this address.
    match named.ip().to_canonical().is_unspecified() {
        true => Err(wrong("the PROXY header names no client: its source address is 0.0.0.0 or ::")),
        false => Ok(named),
    }
}

fn ended_before() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, "the connection ended before its first byte")
}

/// The error for a connection that sent no complete header in time.
pub(super) fn too_late() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "no complete PROXY header of version 2 arrived in time")
}

/// Reads the source address and the source port. The order in the header is: source address, destination address, source port, destination port.
fn address<const IP: usize, const ALL: usize>(
    rest: &[u8],
    ip: impl Fn([u8; IP]) -> IpAddr,
) -> Option<SocketAddr> {
    let all: &[u8; ALL] = rest.first_chunk()?;
    let source = ip(*all.first_chunk::<IP>()?);
    let port = all.get(2 * IP..2 * IP + 2)?;
    Some(SocketAddr::new(source, u16::from_be_bytes(port.try_into().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    const PEER: &str = "10.0.0.1:1";

    async fn said(bytes: &[u8]) -> Result<(String, usize), String> {
        let mut stream = bytes;
        let peer = read(&mut stream, PEER.parse().unwrap()).await.map_err(|why| why.to_string())?;
        Ok((peer.to_string(), stream.len()))
    }

    fn header(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let length = (rest.len() as u16).to_be_bytes();
        [&SIGNATURE[..], &[0x20 | command, family], &length, rest, b"GET"].concat()
    }

    #[tokio::test]
    async fn who_is_there_stands_in_the_header_and_nothing_after_it_is_taken() {
        let four = [192, 0, 2, 7, 192, 0, 2, 1, 0x12, 0x34, 0, 80];
        let mut six = [0; 36];
        (six[0], six[1], six[15], six[32]) = (0x20, 0x01, 9, 1);
        let with_more = [&four[..], &[3, 0, 1, 0]].concat();
        for (bytes, expected) in [
            (header(1, 0x11, &four), "192.0.2.7:4660"),
            (header(1, 0x11, &with_more), "192.0.2.7:4660"),
            (header(1, 0x21, &six), "[2001::9]:256"),
            (header(0, 0, &[]), PEER),
            (header(1, 0x31, &[0; 216]), PEER),
        ] {
            assert_eq!(said(&bytes).await, Ok((expected.to_owned(), 3)));
        }
        for bytes in [
            b"GET / HTTP/1.1\r\n\r\n".to_vec(),
            header(1, 0x11, &four[..11]),
            header(7, 0x11, &four),
            header(1, 0x11, &[0; 1025]),
            header(1, 0x11, &[0; 12]),
            header(1, 0x21, &[0; 36]),
            SIGNATURE.to_vec(),
        ] {
            assert!(said(&bytes).await.is_err(), "{bytes:?}");
        }
    }

    /// A connection that was reset.
    struct Reset;

    impl AsyncRead for Reset {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            _: &mut tokio::io::ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()))
        }
    }

    #[tokio::test]
    async fn a_connection_that_ends_or_is_reset_before_its_first_byte_is_a_health_check() {
        let peer: SocketAddr = PEER.parse().unwrap();
        let ended = [
            read(&mut &b""[..], peer).await.map_err(|why| why.kind()),
            read(&mut Reset, peer).await.map_err(|why| why.kind()),
        ];
        assert_eq!(ended, [Err(io::ErrorKind::ConnectionAborted); 2]);
        let mut within = (&SIGNATURE[..]).chain(Reset);
        assert_eq!(read(&mut within, peer).await.unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn a_header_of_either_version_is_recognised() {
        assert_eq!(version(b"PROXY TCP4 1"), Some(1));
        assert_eq!(version(&header(0, 0, &[])), Some(2));
        for other in [&b""[..], b"PROXY", b"GET / HTTP/1.1", b"\x16\x03\x01\0\xc8\x01\0", &SIGNATURE[..11]] {
            assert_eq!(version(other), None, "{other:?}");
        }
    }

    #[test]
    fn networks() {
        let of = |text: &str| Networks::try_from(text.to_owned());
        let some = of("10.0.0.0/8, 192.0.2.7 2001:db8::/32").unwrap();
        for (address, held) in [
            ("10.255.0.1", true),
            ("::ffff:10.1.1.1", true),
            ("11.0.0.1", false),
            ("192.0.2.7", true),
            ("192.0.2.8", false),
            ("2001:db8:1::1", true),
            ("2001:db9::1", false),
        ] {
            assert_eq!(some.hold(address.parse().unwrap()), held, "{address}");
        }
        assert!(!of("").unwrap().hold("127.0.0.1".parse().unwrap()));
        assert!(of("0.0.0.0/0").unwrap().hold("127.0.0.1".parse().unwrap()));
        for wrong in ["10.0.0.0/33", "10.0.0/8", "x", "::/129"] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }
}
