//! Reads the address of the client behind a trusted proxy from the headers of the proxy: `Forwarded` (RFC 7239), or `X-Forwarded-For`,
//! `X-Forwarded-Proto`, `X-Forwarded-Host` and `X-Forwarded-Port`.
//!
//! Each proxy appends the address of its peer to the address list. So the list is read from the right, past all addresses of trusted proxies. The
//! first address that is not a trusted proxy is the client. It is possible that the client itself sent the values to the left of this address, so
//! these values are not read. Headers from an address that is not a trusted proxy are not read at all. No header can set the client certificate or
//! another property of TLS.

use crate::connection::{Connection, Proxies, UNNAMED};
use crate::head;
use crate::metrics::Metrics;
use crate::request_error::RequestError;
use hyper::header::{FORWARDED, HOST, HeaderMap, HeaderName, HeaderValue};
use hyper::http::uri::PathAndQuery;
use hyper::{Request, Uri};
use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};

pub(crate) const X_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
pub(crate) const X_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
pub(crate) const X_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
pub(crate) const X_PORT: HeaderName = HeaderName::from_static("x-forwarded-port");
/// The maximum number of proxies, and of values of a header.
const HOPS_MAX: usize = 64;

/// The client of a request, and the scheme and host of the URL that the client used. Scheme and host are `None` if no proxy reports them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) client: SocketAddr,
    pub(crate) is_https: Option<bool>,
    pub(crate) host: Option<HeaderValue>,
}

/// The report of one proxy about its peer, and about the request that it got from this peer.
#[derive(Default)]
struct Hop<'h> {
    peer: Option<Cow<'h, str>>,
    scheme: Option<Cow<'h, str>>,
    host: Option<Cow<'h, str>>,
    port: Option<Cow<'h, str>>,
}

impl Connection {
    /// If a trusted proxy reports the address and scheme of the client, this function stores them in place of the peer's address and scheme. Returns
    /// the host that the client used, if the proxy reports the host. If the peer is not a trusted proxy, its headers are ignored, and a metric counts
    /// the request. A request over a Unix socket is refused if its headers do not give the address of the client.
    pub(crate) fn follow(
        &mut self,
        headers: &HeaderMap,
        metrics: &Metrics,
    ) -> Result<Option<HeaderValue>, RequestError> {
        let names = [FORWARDED, X_FOR, X_PROTO, X_HOST, X_PORT];
        let is_forwarded = names.iter().any(|name| headers.contains_key(name));
        let host = match &self.proxies {
            Some(proxies) if is_forwarded => {
                let origin = origin(headers, (self.peer, self.is_https), proxies)?;
                self.peer = origin.client;
                self.is_https = origin.is_https.unwrap_or(self.is_https);
                origin.host
            }
            Some(_) => None,
            None => {
                if is_forwarded {
                    metrics.forwarded_ignored();
                }
                None
            }
        };
        if self.peer == UNNAMED { Err(NO_CLIENT) } else { Ok(host) }
    }
}

/// Sets the host of a request to the host that the client used.
pub(crate) fn set_host<B>(request: &mut Request<B>, host: HeaderValue) {
    request.headers_mut().insert(HOST, host);
    if request.uri().authority().is_some() {
        let target = request.uri().path_and_query().cloned();
        *request.uri_mut() = Uri::from(target.unwrap_or(PathAndQuery::from_static("/")));
    }
}

/// The client of a request from a trusted proxy. If a request has both kinds of headers, `Forwarded` takes precedence. If `X-Forwarded-For` names
/// another client than `Forwarded`, the request is refused, because it is possible that the client sent one of the two headers. Most proxies set only
/// one of them, and pass on the other header without a check.
pub(crate) fn origin(
    headers: &HeaderMap,
    connected: (SocketAddr, bool),
    proxies: &Proxies,
) -> Result<Origin, RequestError> {
    let mut hops = Vec::new();
    for line in lines(headers, &FORWARDED) {
        read_forwarded(line?, &mut hops).ok_or(FORM)?;
    }
    let (by_forwarded, by_x) =
        (follow(&hops, connected, proxies)?, follow(&x_hops(headers)?, connected, proxies)?);
    match (headers.contains_key(FORWARDED), headers.contains_key(X_FOR)) {
        (true, true) if by_forwarded.client.ip() != by_x.client.ip() => Err(TWO_CLIENTS),
        (true, _) => Ok(by_forwarded),
        (false, _) => Ok(by_x),
    }
}

const FORM: RequestError = RequestError::Forwarded("`Forwarded` is not written as RFC 7239 says");
const ADDRESS: RequestError = RequestError::Forwarded(
    "expected an IP address, with an optional port, in `Forwarded` or `X-Forwarded-For`",
);
const SCHEME: RequestError =
    RequestError::Forwarded("expected http or https as `proto` in `Forwarded`, or in `X-Forwarded-Proto`");
const BAD_HOST: RequestError = RequestError::Forwarded(
    "expected a host name or an IP address, with an optional port, as `host` in `Forwarded`, or in `X-Forwarded-Host`",
);
const PORT: RequestError = RequestError::Forwarded("expected a number from 1 to 65535 in `X-Forwarded-Port`");
const NO_CLIENT: RequestError = RequestError::Forwarded(
    "no address of the client; a proxy on a Unix socket must send `Forwarded` with `for`, or `X-Forwarded-For`",
);
const TOO_MANY: RequestError = RequestError::Forwarded("a header has more than 64 values");
const TWO_CLIENTS: RequestError = RequestError::Forwarded(
    "`Forwarded` and `X-Forwarded-For` contain different addresses of the client; let the proxy remove the header that it does not set",
);

/// Reads the hops from the right, up to the first peer that is not a trusted proxy. If several proxies report a scheme, a host or a port, the report
/// of the proxy nearest to the client counts. A proxy that does not name its peer counts as the client.
fn follow(
    hops: &[Hop<'_>],
    (peer, is_tls): (SocketAddr, bool),
    proxies: &Proxies,
) -> Result<Origin, RequestError> {
    let mut origin = Origin { client: peer, is_https: None, host: None };
    let (mut host, mut port) = (None, None);
    if hops.len() > HOPS_MAX {
        return Err(TOO_MANY);
    }
    for hop in hops.iter().rev() {
        if let Some(scheme) = &hop.scheme {
            origin.is_https = Some(is_https(scheme)?);
        }
        if let Some(named) = hop.host.as_deref() {
            host = Some(Some(named).filter(|host| head::is_host(host)).ok_or(BAD_HOST)?);
        }
        if let Some(named) = hop.port.as_deref() {
            port = Some(port_of(named).ok_or(PORT)?);
        }
        let Some(named) = hop.peer.as_deref().map_or(Ok(None), node)? else { break };
        origin.client = named;
        if !(proxies.0)(named.ip()) {
            break;
        }
    }
    if let Some(host) = host {
        let usual = if origin.is_https.unwrap_or(is_tls) { 443 } else { 80 };
        let port = port.filter(|port| *port != usual && !has_port(host));
        let host = port.map_or(Cow::Borrowed(host), |port| Cow::Owned(format!("{host}:{port}")));
        origin.host = Some(HeaderValue::from_str(&host).map_err(|_| BAD_HOST)?);
    }
    Ok(origin)
}

/// Whether a valid host has a port. The colons of an IPv6 address are in brackets.
fn has_port(host: &str) -> bool {
    host.rsplit(']').next().is_some_and(|rest| rest.contains(':'))
}

fn port_of(text: &str) -> Option<u16> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|port| is_number && *port != 0)
}

fn is_https(scheme: &str) -> Result<bool, RequestError> {
    match scheme {
        _ if scheme.eq_ignore_ascii_case("https") => Ok(true),
        _ if scheme.eq_ignore_ascii_case("http") => Ok(false),
        _ => Err(SCHEME),
    }
}

/// An address with an optional port (RFC 7239 §6). The port is 0 if the text has no port. `None` for `unknown` and for an identifier that hides the
/// address.
fn node(text: &str) -> Result<Option<SocketAddr>, RequestError> {
    if text.eq_ignore_ascii_case("unknown") || text.starts_with('_') {
        return Ok(None);
    }
    let alone = || text.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, 0));
    let bracketed = || {
        let ip = text.strip_prefix('[')?.strip_suffix(']')?.parse().ok()?;
        Some(SocketAddr::new(IpAddr::V6(ip), 0))
    };
    let named = text.parse().ok().or_else(alone).or_else(bracketed).ok_or(ADDRESS)?;
    match named.ip().to_canonical() {
        // No client has the unspecified address (`0.0.0.0` or `::`). This server uses the unspecified address for a peer without an address.
        ip if ip.is_unspecified() => Err(ADDRESS),
        ip => Ok(Some(SocketAddr::new(ip, named.port()))),
    }
}

/// The hops in the `X-Forwarded-…` headers. Scheme, host and port of a hop have the same position, counted from the right, as its address. If a
/// header has fewer values than there are addresses, its leftmost value also applies to the addresses further left.
fn x_hops(headers: &HeaderMap) -> Result<Vec<Hop<'_>>, RequestError> {
    let [peers, schemes, hosts, ports] = [
        values(headers, &X_FOR)?,
        values(headers, &X_PROTO)?,
        values(headers, &X_HOST)?,
        values(headers, &X_PORT)?,
    ];
    let is_empty = [&peers, &schemes, &hosts, &ports].iter().all(|values| values.is_empty());
    let count = if is_empty { 0 } else { peers.len().max(1) };
    let at = |values: &[&'_ str], from_right: usize| values.len().checked_sub(from_right + 1);
    let hop = |from_right: usize| {
        let aligned =
            |values: &[_]| values.get(at(values, from_right).unwrap_or(0)).copied().map(Cow::Borrowed);
        let peer = at(&peers, from_right).and_then(|at| peers.get(at)).copied().map(Cow::Borrowed);
        Hop { peer, scheme: aligned(&schemes), host: aligned(&hosts), port: aligned(&ports) }
    };
    Ok((0..count).rev().map(hop).collect())
}

/// The values of a list field from all its lines; empty values do not count (RFC 9110 §5.6.1.2).
fn values<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Vec<&'h str>, RequestError> {
    let mut values = Vec::new();
    for line in lines(headers, name) {
        values.extend(
            line?.split(',').map(|value| value.trim_matches(BLANKS)).filter(|value| !value.is_empty()),
        );
    }
    if values.len() > HOPS_MAX { Err(TOO_MANY) } else { Ok(values) }
}

fn lines<'h>(
    headers: &'h HeaderMap,
    name: &HeaderName,
) -> impl Iterator<Item = Result<&'h str, RequestError>> {
    let text =
        |line: &'h HeaderValue| line.to_str().map_err(|_| RequestError::Forwarded("a value is not text"));
    headers.get_all(name).iter().map(text)
}

const BLANKS: [char; 2] = [' ', '\t'];

/// Reads a line of `Forwarded`: `1#( *( [ token "=" value ] ";" ) )` (RFC 7239 §4). `None` if the line has another form. The whole line is read from
/// the left, because a comma can be in a quoted string.
fn read_forwarded<'h>(line: &'h str, hops: &mut Vec<Hop<'h>>) -> Option<()> {
    let (mut rest, mut hop) = (line, None);
    loop {
        rest = rest.trim_start_matches(BLANKS);
        if !rest.starts_with([',', ';']) && !rest.is_empty() {
            let (name, after) = rest.split_once('=').filter(|(name, _)| is_token(name))?;
            let (value, after) = read_value(after)?;
            hop.get_or_insert_with(Hop::default).set(name, value)?;
            rest = after.trim_start_matches(BLANKS);
        }
        match rest.strip_prefix(';') {
            Some(after) => rest = after,
            None => {
                hops.extend(hop.take());
                match rest.strip_prefix(',') {
                    Some(after) => rest = after,
                    None if rest.is_empty() => return Some(()),
                    None => return None,
                }
            }
        }
    }
}

fn is_token(text: &str) -> bool {
    let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_fit)
}

/// A value, and the text after it: a quoted string (RFC 9110 §5.6.4), or a word. A word may also contain the characters of an address with a port,
/// because some proxies do not quote addresses.
fn read_value(text: &str) -> Option<(Cow<'_, str>, &str)> {
    let Some(quoted) = text.strip_prefix('"') else {
        let (value, rest) = text.split_at(text.find([',', ';', ' ', '\t']).unwrap_or(text.len()));
        let is_fit = is_token(&value.replace([':', '[', ']'], "_"));
        return is_fit.then_some((Cow::Borrowed(value), rest));
    };
    let (mut value, mut characters) = (String::new(), quoted.char_indices());
    loop {
        match characters.next()? {
            (at, '"') => return Some((Cow::Owned(value), quoted.get(at + 1..)?)),
            (_, '\\') => value.push(characters.next()?.1),
            (_, character) => value.push(character),
        }
    }
}

impl<'h> Hop<'h> {
    /// Sets a parameter. `None` if the hop already has this parameter (RFC 7239 §4). The parameter `by` and unknown parameters are ignored.
    fn set(&mut self, name: &str, value: Cow<'h, str>) -> Option<()> {
        let parameter = match name {
            _ if name.eq_ignore_ascii_case("for") => &mut self.peer,
            _ if name.eq_ignore_ascii_case("proto") => &mut self.scheme,
            _ if name.eq_ignore_ascii_case("host") => &mut self.host,
            _ => return Some(()),
        };
        parameter.replace(value).is_none().then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::AnonymousSlot;
    use std::sync::Arc;

    /// The client, and the scheme and host, that the headers report. The trusted proxies are 10.0.0.0/8 and ::1; the peer is 10.0.0.1:1.
    fn seen(lines: &[(&str, &str)]) -> Result<(String, String), RequestError> {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            headers.append(name, HeaderValue::from_str(value).unwrap());
        }
        let is_proxy = |ip: IpAddr| match ip {
            IpAddr::V4(v4) => v4.octets()[0] == 10,
            IpAddr::V6(v6) => v6.is_loopback(),
        };
        let peer = ([10, 0, 0, 1], 1).into();
        let Origin { client, is_https, host } =
            origin(&headers, (peer, false), &Proxies(Arc::new(is_proxy)))?;
        let scheme = is_https.map_or("", |is_https| if is_https { "https" } else { "http" });
        let host = host.as_ref().map_or("", |host| host.to_str().unwrap());
        Ok((client.to_string(), format!("{scheme} {host}")))
    }

    fn said(lines: &[(&str, &str)], client: &str, url: &str) {
        assert_eq!(seen(lines), Ok((client.to_owned(), url.to_owned())), "{lines:?}");
    }

    #[test]
    fn the_client_is_the_rightmost_address_that_is_not_a_proxy() {
        let x = |value: &str, client: &str| said(&[("x-forwarded-for", value)], client, " ");
        x("192.0.2.7", "192.0.2.7:0");
        x("192.0.2.7:4660", "192.0.2.7:4660");
        x("2001:db8::7", "[2001:db8::7]:0");
        x("[2001:db8::7]", "[2001:db8::7]:0");
        x("[2001:db8::7]:80", "[2001:db8::7]:80");
        x("::ffff:192.0.2.7", "192.0.2.7:0");
        x("198.51.100.1, 192.0.2.7", "192.0.2.7:0");
        x("198.51.100.1, 192.0.2.7,10.0.0.2 , ::1", "192.0.2.7:0");
        // The values that the client itself sent are not read.
        x("10.0.0.9, <garbage>, 192.0.2.7, 10.0.0.2", "192.0.2.7:0");
        // If all addresses are addresses of proxies, the leftmost address counts as the client.
        x("10.0.0.3, 10.0.0.2", "10.0.0.3:0");
        // If a proxy does not name its peer, the proxy itself counts as the client.
        x("unknown", "10.0.0.1:1");
        x("192.0.2.7, _hidden, 10.0.0.2", "10.0.0.2:0");
        x("", "10.0.0.1:1");
        let two = [("x-forwarded-for", "198.51.100.1"), ("x-forwarded-for", "192.0.2.7, 10.0.0.2")];
        said(&two, "192.0.2.7:0", " ");
    }

    #[test]
    fn forwarded_is_read_as_rfc_7239_says() {
        let f = |value: &str, client: &str, url: &str| said(&[("forwarded", value)], client, url);
        f("for=192.0.2.7", "192.0.2.7:0", " ");
        f("For=\"[2001:db8::7]:4711\"", "[2001:db8::7]:4711", " ");
        f("for=192.0.2.7;proto=https;by=203.0.113.43;host=nas.example", "192.0.2.7:0", "https nas.example");
        f("proto=HTTP ; host=\"a.example:8443\" ; for=\"192.0.2.7:1\"", "192.0.2.7:1", "http a.example:8443");
        f(
            "for=1.2.3.4;host=x, for=192.0.2.7;proto=https;host=a, for=10.0.0.2;proto=http",
            "192.0.2.7:0",
            "https a",
        );
        f("for=192.0.2.7, for=10.0.0.2;proto=https;host=b", "192.0.2.7:0", "https b");
        f("for=unknown;proto=https", "10.0.0.1:1", "https ");
        f("for=\"_gazonk\", for=10.0.0.2", "10.0.0.2:0", " ");
        f(", ,for=192.0.2.7:80,", "192.0.2.7:80", " ");
        f("for=\"192.0.2\\.7\";x=\"a, for=6.6.6.6\"", "192.0.2.7:0", " ");
        f("", "10.0.0.1:1", " ");
    }

    #[test]
    fn malformed_headers_of_a_proxy_are_refused() {
        for value in [
            "192.0.2.7",
            "for",
            "for=",
            "for=\"192.0.2.7",
            "for=192.0.2.7 proto=https",
            "for=a\"b\"",
            "=x",
            "for=\"1.2.3.4\"x",
            "for=192.0.2.7;for=192.0.2.8",
            "f r=1.2.3.4",
        ] {
            assert_eq!(seen(&[("forwarded", value)]), Err(FORM), "{value}");
        }
        // A client cannot open a quoted string that hides the element appended by the proxy.
        for appended in ["for=192.0.2.7", "for=\"[2001:db8::7]:1\"", "for=192.0.2.7;host=\"a:1\""] {
            assert_eq!(seen(&[("forwarded", &format!("for=6.6.6.6;x=\", {appended}"))]), Err(FORM));
        }
        for value in [
            "nas",
            "1.2.3",
            "192.0.2.7, x",
            "1.2.3.4:99999",
            "[1.2.3.4]",
            "fe80::1%eth0",
            "0.0.0.0",
            "[::]:1",
            "::ffff:0.0.0.0",
            "unix:",
        ] {
            assert_eq!(seen(&[("x-forwarded-for", value)]), Err(ADDRESS), "{value}");
        }
        assert_eq!(seen(&[("x-forwarded-proto", "ftp")]), Err(SCHEME));
        for host in ["a b", "u@a", "a/b"] {
            assert_eq!(seen(&[("x-forwarded-host", host)]), Err(BAD_HOST), "{host}");
        }
        for port in ["0", "65536", "+80", "https", "-1", "80;"] {
            assert_eq!(seen(&[("x-forwarded-port", port)]), Err(PORT), "{port}");
        }
        for name in ["forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-port"] {
            let value = vec![if name == "forwarded" { "for=10.0.0.2" } else { "10.0.0.2" }; 65].join(",");
            assert_eq!(seen(&[(name, &value)]), Err(TOO_MANY), "{name}");
        }
    }

    #[test]
    fn scheme_and_host_are_those_of_the_proxy_nearest_to_the_client() {
        let of = |peers, schemes, hosts, url: &str| {
            let lines =
                [("x-forwarded-for", peers), ("x-forwarded-proto", schemes), ("x-forwarded-host", hosts)];
            said(&lines, "192.0.2.7:0", url);
        };
        of("192.0.2.7", "https", "a.example:8443", "https a.example:8443");
        of("192.0.2.7, 10.0.0.2", "https", "a", "https a");
        of("192.0.2.7, 10.0.0.2", "https, http", "a, inner", "https a");
        of("1.2.3.4, 192.0.2.7, 10.0.0.2", "ftp, https, http", "x, a, inner", "https a");
        of("192.0.2.7", "x, https", "x, a", "https a");
        said(&[("x-forwarded-proto", "https")], "10.0.0.1:1", "https ");
    }

    #[test]
    fn a_port_is_added_to_a_host_without_one() {
        let of = |peers, schemes, hosts, ports, url: &str| {
            let lines = [
                ("x-forwarded-for", peers),
                ("x-forwarded-proto", schemes),
                ("x-forwarded-host", hosts),
                ("x-forwarded-port", ports),
            ];
            said(&lines, "192.0.2.7:0", url);
        };
        of("192.0.2.7", "https", "a", "8443", "https a:8443");
        of("192.0.2.7", "https", "a", "443", "https a");
        of("192.0.2.7", "https", "a", "80", "https a:80");
        of("192.0.2.7", "http", "a", "80", "http a");
        // If no scheme is reported, the scheme of the connection counts. This connection has no TLS.
        of("192.0.2.7", "", "a", "80", " a");
        of("192.0.2.7", "", "a", "443", " a:443");
        of("192.0.2.7", "https", "a:1", "8443", "https a:1");
        of("192.0.2.7", "https", "[::1]", "8443", "https [::1]:8443");
        of("192.0.2.7", "https", "[::1]:1", "8443", "https [::1]:1");
        of("192.0.2.7", "https", "", "8443", "https ");
        of("192.0.2.7", "https", "a", "", "https a");
        // The values that the client itself sent are not read. Of several proxies, only the values of the proxy nearest to the client count.
        of("1.2.3.4, 192.0.2.7, 10.0.0.2", "x, https, http", "x, a, inner", "x, 8443, 80", "https a:8443");
        of("192.0.2.7, 10.0.0.2", "https", "a", "8443", "https a:8443");
    }

    #[test]
    fn over_a_unix_socket_the_proxy_has_to_name_the_client() {
        let seen = |is_trusted: bool, lines: &[(&'static str, &'static str)]| {
            let headers = lines
                .iter()
                .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
            let mut connection = Connection {
                peer: UNNAMED,
                proxies: is_trusted.then(|| Proxies(Arc::new(|ip: IpAddr| ip.is_loopback()))),
                cut: Arc::default(),
                is_https: false,
                anonymous: Arc::new(AnonymousSlot::new(())),
                last: Arc::default(),
                certificate: None,
                terms: None,
                splices: None,
                handshake: None,
            };
            connection.follow(&headers.collect(), &Metrics::default()).map(|_| connection.client())
        };
        for (lines, expected) in [
            (&[("x-forwarded-for", "192.0.2.7")][..], Ok("192.0.2.7".to_owned())),
            (&[("x-forwarded-for", "6.6.6.6, 192.0.2.7, 127.0.0.1")], Ok("192.0.2.7".to_owned())),
            (&[("forwarded", "for=127.0.0.1")], Ok("127.0.0.1".to_owned())),
            (&[], Err(NO_CLIENT)),
            (&[("x-forwarded-proto", "https")], Err(NO_CLIENT)),
            (&[("x-forwarded-for", "")], Err(NO_CLIENT)),
            (&[("x-forwarded-for", "192.0.2.7, unknown")], Err(NO_CLIENT)),
            (&[("forwarded", "for=_hidden;proto=https")], Err(NO_CLIENT)),
            (&[("x-forwarded-for", "0.0.0.0")], Err(ADDRESS)),
        ] {
            assert_eq!(seen(true, lines), expected, "{lines:?}");
            assert_eq!(seen(false, lines), Err(NO_CLIENT), "{lines:?}");
        }
    }

    #[test]
    fn two_kinds_of_headers_have_to_name_the_same_client() {
        let both = |forwarded, x| {
            seen(&[("forwarded", forwarded), ("x-forwarded-for", x), ("x-forwarded-host", "x")])
        };
        assert_eq!(both("for=192.0.2.7;host=a", "192.0.2.7"), Ok(("192.0.2.7:0".into(), " a".into())));
        assert_eq!(both("for=192.0.2.7", "198.51.100.1"), Err(TWO_CLIENTS));
        assert_eq!(both("for=192.0.2.7", ""), Err(TWO_CLIENTS));
    }
}
