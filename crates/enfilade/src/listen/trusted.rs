//! The proxies that are trusted to report the client in HTTP headers.

use super::Networks;
use super::addresses::OneOrMore;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// The word in the configuration that stands for every program that connects to the Unix socket.
const UNIX: &str = "unix";

/// Networks, and whether the word `unix` is present.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "OneOrMore", into = "String")]
pub(crate) struct Trusted {
    pub(crate) networks: Networks,
    /// Whether the peers on a Unix socket are trusted.
    pub(crate) unix: bool,
}

impl Trusted {
    /// Whether a peer is trusted. A peer without an address is connected over a Unix socket.
    pub(super) fn hold(&self, peer: Option<SocketAddr>) -> bool {
        peer.map_or(self.unix, |peer| self.networks.hold(peer.ip()))
    }
}

impl TryFrom<OneOrMore> for Trusted {
    type Error = String;
    fn try_from(written: OneOrMore) -> Result<Self, String> {
        let text = written.text("a list of addresses, networks and `unix`, such as [\"10.0.0.0/8\"]")?;
        let (unix, networks): (Vec<_>, Vec<_>) = text.split([',', ' ']).partition(|word| *word == UNIX);
        let networks = Networks::try_from(networks.join(","));
        let networks = networks
            .map_err(|why| format!("{why}, or `{UNIX}` for the Unix socket of `tls.plain_listen`"))?;
        Ok(Trusted { networks, unix: !unix.is_empty() })
    }
}

impl From<Trusted> for String {
    fn from(trusted: Trusted) -> Self {
        let networks = String::from(trusted.networks);
        match trusted.unix {
            true if networks.is_empty() => UNIX.to_owned(),
            true => format!("{networks}, {UNIX}"),
            false => networks,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_on_a_unix_socket_are_trusted_only_by_name() {
        let of = |text: &str| Trusted::try_from(OneOrMore::One(text.to_owned()));
        let local = Some(SocketAddr::from(([127, 0, 0, 1], 1)));
        for (text, shown, unix, tcp) in [
            ("", "", false, false),
            ("unix", "unix", true, false),
            ("unix, 127.0.0.1", "127.0.0.1/32, unix", true, true),
            ("127.0.0.1 unix", "127.0.0.1/32, unix", true, true),
            ("0.0.0.0/0, ::/0", "0.0.0.0/0, ::/0", false, true),
        ] {
            let trusted = of(text).unwrap();
            assert_eq!((trusted.hold(None), trusted.hold(local)), (unix, tcp), "{text}");
            assert_eq!(String::from(trusted), shown);
        }
        for wrong in ["unix:/run/a", "Unix", "nas"] {
            let why = of(wrong).unwrap_err();
            assert!(why.contains("expected an address or a network") && why.contains("`unix`"), "{why}");
        }
    }
}
