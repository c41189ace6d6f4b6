//! The configured addresses of a listener.

use super::{Listener, socket_file};
use enfilade_privileged::client;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::{Error, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use tokio::net::{TcpListener, lookup_host};

/// One or more addresses: `ADDRESS:PORT`, `HOST:PORT`, or `:PORT` for all addresses of the machine. With `UNIX`, `unix:/PATH` is also allowed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "OneOrMore", into = "String")]
pub(crate) struct Addresses<const UNIX: bool = false>(Vec<String>);

/// The addresses of the listener for proxies, which can also be Unix sockets.
pub(crate) type PlainAddresses = Addresses<true>;

#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum OneOrMore {
    One(String),
    More(Vec<String>),
    /// Any other value, such as a number. It is refused.
    Other(toml::Value),
}

impl OneOrMore {
    /// The text. For a list, the texts of the list with commas between them.
    pub(super) fn text(self, expected: &str) -> Result<String, String> {
        match self {
            OneOrMore::One(text) => Ok(text),
            OneOrMore::More(texts) => Ok(texts.join(", ")),
            OneOrMore::Other(value) => Err(format!("`{value}`: expected {expected}")),
        }
    }
}

const EXPECTED: &str = "ADDRESS:PORT, HOST:PORT, or :PORT for all addresses of the machine; several as a list, or separated by commas";

const EXPECTED_PLAIN: &str = "ADDRESS:PORT, HOST:PORT, :PORT for all addresses of the machine, or unix:/PATH for a Unix socket; several as a list, or separated by commas";

impl<const UNIX: bool> Addresses<UNIX> {
    /// The description of the accepted values, for the reference.
    pub(crate) const EXPECTED: &str = if UNIX { EXPECTED_PLAIN } else { EXPECTED };

    fn of(texts: impl Iterator<Item = String>) -> Result<Self, String> {
        let texts: Vec<String> = texts.map(|text| text.trim().to_owned()).collect();
        let is_address = |text: &str| {
            let Some((host, port)) = text.rsplit_once(':') else { return false };
            let is_host = !host.contains(':') || host.starts_with('[') && host.ends_with(']');
            is_host && port.parse::<u16>().is_ok()
        };
        for text in &texts {
            match socket_file::path_in(text) {
                Some(_) if !UNIX => {
                    return Err(format!(
                        "`{text}`: a Unix socket is only for `tls.plain_listen` and `decisions.listen`; expected {EXPECTED}, such as 0.0.0.0:8443"
                    ));
                }
                Some(path) => drop(path?),
                None if is_address(text) => {}
                None => return Err(Self::wrong(text)),
            }
        }
        match texts.is_empty() {
            true => Err(format!("no address; expected {}", Self::EXPECTED)),
            false => Ok(Addresses(texts)),
        }
    }

    fn wrong(text: &str) -> String {
        format!("`{text}` is not an address; expected {}, such as 0.0.0.0:8443", Self::EXPECTED)
    }

    /// The addresses as they are in the configuration.
    pub(crate) fn texts(&self) -> &[String] {
        &self.0
    }
}

impl PlainAddresses {
    /// The paths of the Unix sockets.
    pub(crate) fn sockets(&self) -> impl Iterator<Item = PathBuf> {
        self.0.iter().filter_map(|text| Some(socket_file::path_in(text)?.ok()?.to_owned()))
    }

    /// Binds a listening socket for each address and each path. `key` is the configuration key. `mode` is the mode of the files of the sockets.
    pub(crate) async fn bind_all(
        &self,
        (what, key): (&str, &str),
        mode: u32,
    ) -> anyhow::Result<Vec<Listener>> {
        let mut listeners = Vec::new();
        for text in &self.0 {
            match socket_file::path_in(text) {
                Some(path) => {
                    let bound = socket_file::bind(path.map_err(anyhow::Error::msg)?, mode).await;
                    let (file, listener) = bound.map_err(|why| {
                        anyhow::anyhow!(
                            "cannot listen on {text} for {what}: {why}; correct the cause, or choose another path in `{key}`"
                        )
                    })?;
                    listeners.push(Listener::Unix(file, listener));
                }
                None => listeners.extend(bind_text(text, what).await?.into_iter().map(Listener::from)),
            }
        }
        Ok(listeners)
    }
}

impl Addresses {
    /// The default address of a listener: 127.0.0.1 with this port.
    pub(crate) fn local(port: u16) -> Self {
        Addresses(vec![SocketAddr::from((Ipv4Addr::LOCALHOST, port)).to_string()])
    }

    /// One address.
    pub(crate) fn one(address: SocketAddr) -> Self {
        Addresses(vec![address.to_string()])
    }

    /// The first address, for a client on this machine. No client can connect to the unspecified address, so `localhost` replaces it.
    pub(crate) fn for_client(&self) -> String {
        let first = self.0.first().map(String::as_str).unwrap_or_default();
        let port = ["0.0.0.0:", "[::]:", ":"].iter().find_map(|every| first.strip_prefix(every));
        port.map_or_else(|| first.to_owned(), |port| format!("localhost:{port}"))
    }

    /// Whether all addresses are local, so that only clients on this machine can connect.
    pub(crate) fn is_local(&self) -> bool {
        let is_local =
            |text: &String| ["127.", "[::1]:", "localhost:"].iter().any(|host| text.starts_with(host));
        self.0.iter().all(is_local)
    }

    /// Binds a listening socket for each address. A host name stands for all addresses that the system's resolver returns for it.
    pub(crate) async fn bind(&self, what: &str) -> anyhow::Result<Vec<TcpListener>> {
        let mut listeners = Vec::new();
        for text in &self.0 {
            listeners.extend(bind_text(text, what).await?);
        }
        Ok(listeners)
    }
}

async fn bind_text(text: &str, what: &str) -> anyhow::Result<Vec<TcpListener>> {
    let bound = match text.strip_prefix(':') {
        Some(port) => everywhere(port.parse()?).await.map(|one| vec![one]),
        None => of_name(text).await,
    };
    bound.map_err(|why| {
        let look = match why.kind() {
            ErrorKind::AddrNotAvailable => {
                "this machine does not have the address (`ip address` shows the addresses of this machine)"
            }
            ErrorKind::AddrInUse => "`ss -ltnp` shows the programs that listen",
            _ => "correct the cause",
        };
        anyhow::anyhow!(
            "cannot listen on {text} for {what}: {why}; {look}; choose another address with --listen, --ops-listen or in \
             enfilade.toml"
        )
    })
}

/// A socket for IPv6 and IPv4, or for IPv4 on a machine without IPv6.
async fn everywhere(port: u16) -> Result<TcpListener, Error> {
    match bind_or_ask((Ipv6Addr::UNSPECIFIED, port).into()).await {
        Err(why) if why.kind() != ErrorKind::AddrInUse => {
            bind_or_ask((Ipv4Addr::UNSPECIFIED, port).into()).await
        }
        bound => bound,
    }
}

/// The first port on which every process may listen.
const FIRST_FREE_PORT: u16 = 1024;

/// A socket on an address. If the port needs a capability that this process does not have, the helper process makes the socket.
async fn bind_or_ask(address: SocketAddr) -> Result<TcpListener, Error> {
    match TcpListener::bind(address).await {
        Err(why) if why.kind() == ErrorKind::PermissionDenied && address.port() < FIRST_FREE_PORT => {
            let Some(helper) = client::helper() else {
                return Err(Error::new(
                    ErrorKind::PermissionDenied,
                    "ports below 1024 need the helper process (`[privileges] helper`), or CAP_NET_BIND_SERVICE",
                ));
            };
            let socket = client::listen(address).map_err(|why| {
                let port = address.port();
                let helper = helper.display();
                let says = match std::io::Error::from(why) {
                    why if why.kind() == ErrorKind::PermissionDenied => format!(
                        "the helper process does not listen on port {port}: add `--port {port}` to `ExecStart` of enfilade-privileged.service"
                    ),
                    why => format!("the helper process at `{helper}` did not make the socket: {why}"),
                };
                Error::other(says)
            })?;
            let listener = std::net::TcpListener::from(socket);
            listener.set_nonblocking(true)?;
            TcpListener::from_std(listener)
        }
        bound => bound,
    }
}

async fn of_name(text: &str) -> Result<Vec<TcpListener>, Error> {
    let mut found: Vec<SocketAddr> = lookup_host(text).await?.collect();
    found.dedup();
    let (mut listeners, mut failed) = (Vec::new(), None);
    for address in found {
        match bind_or_ask(address).await {
            Ok(listener) => listeners.push(listener),
            // A name such as `localhost` may have an IPv6 address on a machine without IPv6.
            Err(why) if address.is_ipv6() && why.kind() == ErrorKind::AddrNotAvailable => failed = Some(why),
            Err(why) => return Err(why),
        }
    }
    match failed {
        Some(why) if listeners.is_empty() => Err(why),
        None if listeners.is_empty() => Err(Error::new(ErrorKind::NotFound, "the name has no address")),
        _ => Ok(listeners),
    }
}

impl<const UNIX: bool> TryFrom<OneOrMore> for Addresses<UNIX> {
    type Error = String;
    fn try_from(written: OneOrMore) -> Result<Self, String> {
        match written {
            OneOrMore::One(text) => text.parse(),
            OneOrMore::More(texts) => Self::of(texts.into_iter()),
            OneOrMore::Other(value) => Err(Self::wrong(&value.to_string())),
        }
    }
}

impl<const UNIX: bool> FromStr for Addresses<UNIX> {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        Self::of(text.split(',').map(str::to_owned))
    }
}

impl<const UNIX: bool> fmt::Display for Addresses<UNIX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(", "))
    }
}

impl<const UNIX: bool> From<Addresses<UNIX>> for String {
    fn from(addresses: Addresses<UNIX>) -> Self {
        addresses.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_as_people_write_them() {
        for good in ["127.0.0.1:8443", ":8443", "nas.lan:443", "[::1]:1", "127.0.0.1:1, [::1]:1"] {
            assert_eq!(good.parse::<Addresses>().unwrap().to_string(), good);
        }
        for wrong in ["", "8443", "127.0.0.1", "::1:8443", "nas:https", "a:1,", ":65536"] {
            let said = wrong.parse::<Addresses>().unwrap_err();
            assert!(said.contains("expected ADDRESS:PORT"), "{wrong}: {said}");
        }
        for (addresses, expected) in [("127.0.0.1:1, [::1]:1", true), ("localhost:1", true), (":1", false)] {
            assert_eq!(addresses.parse::<Addresses>().unwrap().is_local(), expected, "{addresses}");
        }
        let list = toml::from_str::<toml::Table>("a = ['127.0.0.1:1', ':2']").unwrap().remove("a").unwrap();
        assert_eq!(list.try_into::<Addresses>().unwrap().to_string(), "127.0.0.1:1, :2");
    }

    #[test]
    fn only_the_listener_for_proxies_has_unix_sockets() {
        let text = "127.0.0.1:8080, unix:/run/enfilade/http.sock";
        let both: PlainAddresses = text.parse().unwrap();
        assert_eq!(both.to_string(), text);
        assert_eq!(both.sockets().collect::<Vec<_>>(), [PathBuf::from("/run/enfilade/http.sock")]);
        let said = text.parse::<Addresses>().unwrap_err();
        assert!(said.contains("only for `tls.plain_listen`"), "{said}");
        let said = "unix:run/x".parse::<PlainAddresses>().unwrap_err();
        assert!(said.contains("not absolute"), "{said}");
        let said = "/run/x".parse::<PlainAddresses>().unwrap_err();
        assert!(said.contains("unix:/PATH"), "{said}");
    }

    #[tokio::test]
    async fn every_address_is_bound() {
        let both: Addresses = "127.0.0.1:0, :0, localhost:0".parse().unwrap();
        let bound = both.bind("a test").await.unwrap();
        assert!((3..=4).contains(&bound.len()));
        let taken: Addresses = bound[0].local_addr().unwrap().to_string().parse().unwrap();
        let said = taken.bind("a test").await.unwrap_err().to_string();
        assert!(said.contains("cannot listen on 127.0.0.1:") && said.contains("ss -ltnp"), "{said}");
        // An address for documentation (RFC 5737), which no machine has.
        let absent: Addresses = "192.0.2.1:1".parse().unwrap();
        let said = absent.bind("a test").await.unwrap_err().to_string();
        assert!(said.contains("does not have the address") && !said.contains("ss -ltnp"), "{said}");
    }
}
