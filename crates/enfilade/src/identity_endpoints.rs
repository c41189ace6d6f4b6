//! Endpoints of the identity service that lead to this machine, but to a port on which the server does not listen. A client logs in at the address in
//! its own configuration, and makes every later call at the address in the catalog. So with such an endpoint, the login works, but every later call
//! fails.

use crate::config::Config;
use crate::listen::Place;
use crate::{operations, output};
use enfilade_admin::Error;
use enfilade_admin::keystone::list_catalog;
use enfilade_facts::Source;
use hyper::Uri;
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

/// The hosts and ports of listeners.
#[derive(Debug, Default)]
struct Listeners {
    hosts: BTreeSet<String>,
    ports: BTreeSet<u16>,
}

impl Listeners {
    /// The configured addresses for clients and for proxies.
    fn of_config(config: &Config) -> Self {
        let plain = config.tls.plain_listen.iter().flat_map(|listen| listen.texts());
        let texts = config.tls.listen.texts().iter().chain(plain);
        let parts = texts.filter_map(|text| text.rsplit_once(':'));
        let parts = parts.filter_map(|(host, port)| Some((host.to_owned(), port.parse::<u16>().ok()?)));
        let (hosts, ports) = parts.unzip();
        Listeners { hosts, ports }
    }

    /// Whether a host is this machine. This is true for a loopback address, and for the host of a listener.
    fn have_host(&self, host: &str) -> bool {
        is_loopback(host) || self.hosts.contains(host)
    }
}

/// The host and the port of a URL. An IPv6 address is in brackets.
fn address_of(url: &str) -> Option<(String, u16)> {
    let uri: Uri = url.parse().ok()?;
    let usual = if uri.scheme_str() == Some("http") { 80 } else { 443 };
    Some((uri.host()?.to_owned(), uri.port_u16().unwrap_or(usual)))
}

fn is_loopback(host: &str) -> bool {
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// Whether clients of this URL send passwords and tokens over a network without encryption.
pub(crate) fn is_unencrypted(url: &str) -> bool {
    url.starts_with("http://") && address_of(url).is_some_and(|(host, _)| !is_loopback(&host))
}

/// The URLs of the identity service that lead to this machine, with their ports.
fn of_this_machine(source: &dyn Source, listeners: &Listeners) -> Result<BTreeSet<(String, u16)>, Error> {
    let services = list_catalog(source)?.into_iter().filter(|row| row.service.kind == "identity");
    let urls = services.flat_map(|row| row.endpoints).map(|entry| entry.endpoint.url);
    let here = urls.filter_map(|url| {
        let (host, port) = address_of(&url)?;
        listeners.have_host(&host).then_some((url, port))
    });
    Ok(here.collect())
}

/// Whether it is possible that a proxy listens on this machine in front of the server.
fn has_proxy(config: &Config) -> bool {
    config.http.trusted_proxies != Default::default() || config.tls.proxy_from != Default::default()
}

/// Logs in one line which endpoints of the identity service do not lead to this server.
pub(crate) fn tell(source: &dyn Source, config: &Config, tls: &[SocketAddr], plain: &[Place]) {
    if has_proxy(config) {
        return;
    }
    let mut listeners = Listeners::of_config(config);
    listeners.hosts.extend(tls.iter().map(|address| match address.ip() {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    }));
    listeners.ports = tls.iter().map(SocketAddr::port).collect();
    listeners.ports.extend(plain.iter().filter_map(|place| match place {
        Place::Address(address) => Some(address.port()),
        Place::Socket(_) => None,
    }));
    let Ok(here) = of_this_machine(source, &listeners) else { return };
    let lost: Vec<&str> = here
        .iter()
        .filter(|(_, port)| !listeners.ports.contains(port))
        .map(|(url, _)| url.as_str())
        .collect();
    if !lost.is_empty() {
        let tls: Vec<String> = tls.iter().map(ToString::to_string).collect();
        output::note(&format!(
            "warning: the catalog says that the identity service is at {}, but this server listens on {}. A login at this server works, but every \
             later call fails, because clients send these calls to the URL in the catalog. Serve on the port of the URL, or change the URL with \
             `enfilade catalog endpoint`",
            output::some(&lost),
            tls.join(", ")
        ));
    }
}

/// Warnings about endpoints of the identity service that lead to a port of this machine on which no server listens. While a server runs, the warnings
/// are about the ports on which no program listens. If no server runs, they are about the ports that the configuration does not contain.
///
/// # Errors
/// When the facts cannot be read.
pub(crate) fn lost(source: &dyn Source, config: &Config, data: &Path) -> Result<Vec<String>, Error> {
    let (listeners, open) = (Listeners::of_config(config), open_ports());
    let is_served = operations::is_served(data) && !open.is_empty();
    let is_lost = |port: &u16| match is_served {
        true => !open.contains(port),
        // For port 0 the kernel chooses a port. So any port may be right.
        false => !listeners.ports.contains(port) && !listeners.ports.contains(&0) && !has_proxy(config),
    };
    let here = of_this_machine(source, &listeners)?.into_iter().filter(|(_, port)| is_lost(port));
    let why = |port: u16| match is_served {
        true => format!("no program listens on port {port} of this machine"),
        false => format!("no address in `[tls] listen` has the port {port}"),
    };
    let says = |(url, port): (String, u16)| {
        format!(
            "the catalog says that the identity service is at {url}, but {}. Logins at another address work, but every later call fails, because \
             clients send these calls to the URL in the catalog. Serve on this port, or change the URL with `enfilade catalog endpoint`",
            why(port)
        )
    };
    Ok(here.map(says).collect())
}

/// The TCP ports on which programs of this machine listen. Empty if the kernel does not show them.
fn open_ports() -> BTreeSet<u16> {
    let tables =
        ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| std::fs::read_to_string(path).unwrap_or_default());
    tables.iter().flat_map(|table| table.lines().filter_map(open_port)).collect()
}

/// The port of a line of the table, if the socket listens (state 0A). The columns are: number, local address, remote address, state.
fn open_port(line: &str) -> Option<u16> {
    let mut words = line.split_whitespace().skip(1);
    let (local, state) = (words.next()?, words.nth(1)?);
    u16::from_str_radix(local.rsplit_once(':')?.1, 16).ok().filter(|_| state == "0A")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_urls_of_this_machine_are_compared() {
        let config = Config::default();
        let mut listeners = Listeners::of_config(&config);
        assert_eq!(listeners.ports, [8443].into());
        listeners.hosts.insert("nas.lan".to_owned());
        for (url, expected) in [
            ("https://127.0.0.1:8443/v3", Some(8443)),
            ("https://[::1]:1/v3", Some(1)),
            ("https://localhost/v3", Some(443)),
            ("http://nas.lan/v3", Some(80)),
            ("https://cloud.example:8443/v3", None),
            ("https://10.0.0.1:8443/v3", None),
        ] {
            let (host, port) = address_of(url).unwrap();
            assert_eq!(listeners.have_host(&host).then_some(port), expected, "{url}");
        }
        for (url, expected) in [
            ("http://k:5000/v3", true),
            ("https://k:5000/v3", false),
            ("http://127.0.0.1:5000/v3", false),
            ("http://localhost/v3", false),
        ] {
            assert_eq!(is_unencrypted(url), expected, "{url}");
        }
    }

    #[test]
    fn the_kernel_shows_which_ports_are_open() {
        let listens = "   0: 0100007F:20FB 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000 0 1 1 0000000000000000 100 0 0 10 0";
        assert_eq!(open_port(listens), Some(8443));
        assert_eq!(open_port(&listens.replace(" 0A ", " 01 ")), None);
        assert_eq!(
            open_port("  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt"),
            None
        );
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(open_ports().contains(&listener.local_addr().unwrap().port()));
    }
}
