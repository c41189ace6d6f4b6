//! Reads the description of a visitor's request from a subrequest.
//!
//! All proxies use the same set of headers: `X-Forwarded-Method`, `-Proto`, `-Host`, `-Uri` and `-For`, and `X-Enfilade-Application` with the name of
//! the application that the proxy serves. The proxy must set each of these headers exactly once, and must remove any header of the same name that the
//! visitor sent. A subrequest without one of these headers is refused, because missing information must never permit a request.

use enfilade_faces::{Faces, Failure, RequestError};
use enfilade_facts::limits::Limits;
use enfilade_facts::vocabulary::{ApplicationName, HostName, StorePath, excerpt};
use enfilade_passage::{AccessRefusal, ApplicationAsk, Event, Method, Site};
use hyper::header::{
    ACCESS_CONTROL_REQUEST_METHOD, HeaderMap, HeaderName, HeaderValue, ORIGIN, SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_VERSION, UPGRADE,
};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// A header that describes the request of the visitor, and the refusals about this header.
struct Field {
    name: &'static str,
    missing: RequestError,
    twice: RequestError,
    not_ascii: RequestError,
}

macro_rules! advice {
    () => {
        "Use the configuration that `enfilade integrate` prints"
    };
}

macro_rules! fields {
    ($($FIELD:ident: $name:literal,)+) => {
        $(static $FIELD: Field = Field {
            name: $name,
            missing: RequestError::Subrequest(concat!("`", $name, "` is missing or empty. ", advice!())),
            twice: RequestError::Subrequest(concat!("`", $name, "` came more than once. ", advice!())),
            not_ascii: RequestError::Subrequest(concat!("`", $name, "` has a character that is not ASCII")),
        };)+
        /// All fields.
        static FIELDS: [&Field; 6] = [$(&$FIELD),+];
    };
}

fields! {
    METHOD: "x-forwarded-method",
    PROTO: "x-forwarded-proto",
    HOST: "x-forwarded-host",
    URI: "x-forwarded-uri",
    FOR: "x-forwarded-for",
    APPLICATION: "x-enfilade-application",
}

/// The values of the fields. The server finds all values in one pass over the headers, because every request of a visitor needs all fields.
#[derive(Default)]
struct Found<'h>([Values<'h>; 6]);

/// The first two values of a header.
type Values<'h> = [Option<&'h HeaderValue>; 2];

impl<'h> Found<'h> {
    fn in_headers(headers: &'h HeaderMap) -> Self {
        let mut found = Found::default();
        for (name, value) in headers {
            let of_name = found.0.iter_mut().zip(FIELDS).find(|(_, field)| field.name == name.as_str());
            if let Some(([first, second], _)) = of_name {
                *if first.is_none() { first } else { second } = Some(value);
            }
        }
        found
    }

    /// The only value of a field.
    fn one(&self, field: &Field) -> Result<&'h str, RequestError> {
        let values = self.0.iter().zip(FIELDS).find(|(_, of)| of.name == field.name);
        match values.map(|(values, _)| values) {
            Some([Some(value), None]) if !value.is_empty() => value.to_str().map_err(|_| field.not_ascii),
            Some([_, Some(_)]) => Err(field.twice),
            _ => Err(field.missing),
        }
    }
}

const BAD_PROTO: RequestError = RequestError::Subrequest("expected `http` or `https` in `x-forwarded-proto`");
const BAD_HOST: RequestError = RequestError::Subrequest(
    "expected a host name or an IP address, with an optional port, in `x-forwarded-host`",
);
const BAD_APPLICATION: RequestError =
    RequestError::Subrequest("expected the name of an application in `x-enfilade-application`");
const BAD_FOR: RequestError = RequestError::Subrequest(
    "expected one IP address in `x-forwarded-for`; the proxy must replace the header of the visitor, and not append to it",
);
const DEPTH: HeaderName = HeaderName::from_static("depth");
/// Headers from which some applications take the path or method, instead of the path or method of the request itself.
const MISLEADING: [&str; 6] = [
    "x-http-method-override",
    "x-http-method",
    "x-method-override",
    "x-original-url",
    "x-rewrite-url",
    "x-forwarded-prefix",
];

/// Beginnings of the names of headers that the proxy or this server sets, or that contain a credential. The server refuses a header if its name
/// contains `_` and, with `-` in place of `_`, begins with one of these texts. The second text of each entry describes the header in the refusal.
/// Some applications read `X_Forwarded_Host` as `X-Forwarded-Host`, so a visitor could set `X_Forwarded_Host`, which the proxy does not replace.
const WITHOUT_ALIAS: [(&str, &str); 12] = [
    ("x-forwarded-", "whose name begins with `x-forwarded-` (`_` counts as `-`) and contains `_`"),
    ("remote-", "whose name begins with `remote-` (`_` counts as `-`) and contains `_`"),
    ("x-enfilade-", "whose name begins with `x-enfilade-` (`_` counts as `-`) and contains `_`"),
    ("authorization", "whose name begins with `authorization` and contains `_`"),
    ("x-auth-token", "whose name begins with `x-auth-token` (`_` counts as `-`) and contains `_`"),
    ("x-http-", "whose name begins with `x-http-` (`_` counts as `-`) and contains `_`"),
    ("x-method-override", "whose name begins with `x-method-override` (`_` counts as `-`) and contains `_`"),
    ("x-original-url", "whose name begins with `x-original-url` (`_` counts as `-`) and contains `_`"),
    ("x-rewrite-url", "whose name begins with `x-rewrite-url` (`_` counts as `-`) and contains `_`"),
    ("x-real-ip", "whose name begins with `x-real-ip` (`_` counts as `-`) and contains `_`"),
    ("forwarded", "whose name begins with `forwarded` and contains `_`"),
    ("cookie", "whose name begins with `cookie` and contains `_`"),
];

/// A browser's request to a path below `/.enfilade/` on the host of an application.
pub(crate) struct Visited {
    /// The address of the visitor.
    pub(crate) visitor: IpAddr,
    /// The host that the browser visits.
    pub(crate) host: HostName,
    /// The application that the proxy serves.
    pub(crate) application: ApplicationName,
}

const PLAIN: RequestError =
    RequestError::Subrequest("a browser can sign in only over https, because its cookies are for https only");

impl Visited {
    /// Reads the address of the visitor and the visited host from the headers of the proxy.
    ///
    /// # Errors
    /// When a header is missing, is present twice, or cannot be read, or when the visitor does not use https.
    pub(crate) fn read(headers: &HeaderMap) -> Result<Self, RequestError> {
        let found = Found::in_headers(headers);
        let visitor = address(found.one(&FOR)?).ok_or(BAD_FOR)?;
        if found.one(&PROTO)? != "https" {
            return Err(PLAIN);
        }
        let host = HostName::of_authority(found.one(&HOST)?).ok_or(BAD_HOST)?;
        let application = found.one(&APPLICATION)?.parse().map_err(|_| BAD_APPLICATION)?;
        Ok(Visited { visitor, host, application })
    }

    /// Checks that the application of the proxy has the host. Returns the origin of the application's URLs. The origin does not depend on the port in
    /// the visitor's request.
    ///
    /// # Errors
    /// The refusal of door 4 if the application does not have the host, or the error of the source if the facts cannot be read.
    pub(crate) fn origin(&self, faces: &Faces) -> Result<String, Failure> {
        let found = enfilade_admin::application_of(faces.house().source(), &self.host);
        match found.map_err(crate::failure)? {
            Some((name, authority)) if name == self.application => Ok(format!("https://{authority}")),
            _ => Err(AccessRefusal::NoApplication(self.host.to_string()).into()),
        }
    }
}

/// The request of a visitor.
pub(crate) struct Subrequest {
    /// The address of the visitor.
    pub(crate) visitor: IpAddr,
    /// The address as text, for the log.
    pub(crate) peer: String,
    /// The question to door 4.
    pub(crate) ask: ApplicationAsk,
    /// The application that the proxy serves.
    pub(crate) application: ApplicationName,
}

impl Subrequest {
    /// Reads the request from the headers of a subrequest.
    ///
    /// # Errors
    /// When a header is missing, is present twice, or cannot be read. Also when the application could interpret the headers as a request that differs
    /// from the judged request.
    pub(crate) fn read(headers: &HeaderMap, limits: &Limits) -> Result<Self, RequestError> {
        let found = Found::in_headers(headers);
        let said = found.one(&FOR)?;
        let visitor = address(said).ok_or(BAD_FOR)?;
        let is_https = match found.one(&PROTO)? {
            "https" | "wss" => true,
            "http" | "ws" => false,
            _ => return Err(BAD_PROTO),
        };
        let host = HostName::of_authority(found.one(&HOST)?).ok_or(BAD_HOST)?;
        let method = Method::named(found.one(&METHOD)?).ok_or(RequestError::UnknownMethod)?;
        let path = path_of(found.one(&URI)?, limits)?;
        no_misleading(headers)?;
        let destination = match method.class_of_destination() {
            Some(_) => Some(destination(headers, (is_https, &host), limits)?),
            None => None,
        };
        let has = |name: HeaderName| headers.contains_key(name);
        let application: ApplicationName = found.one(&APPLICATION)?.parse().map_err(|_| BAD_APPLICATION)?;
        only_websocket(headers)?;
        // A client cannot open a WebSocket without `Sec-WebSocket-Key` and `Sec-WebSocket-Version`. Some proxies remove `Upgrade` from subrequests,
        // so the server also looks for these two headers.
        let upgrades = has(UPGRADE) || has(SEC_WEBSOCKET_KEY) || has(SEC_WEBSOCKET_VERSION);
        let is_preflight =
            method.name() == "OPTIONS" && has(ORIGIN) && has(ACCESS_CONTROL_REQUEST_METHOD) && !upgrades;
        let site = Site::Host(host);
        let recurses = method.recurses(headers.get(DEPTH).map(HeaderValue::as_bytes));
        let ask = ApplicationAsk {
            site,
            only: Some(application.clone()),
            recurses,
            method,
            path,
            destination,
            upgrades,
            is_preflight,
        };
        Ok(Subrequest { visitor, peer: written(visitor, said), ask, application })
    }
}

/// Refuses a change to any protocol except WebSocket. If a change to `h2c` were permitted, a visitor could send further requests over the same
/// connection, and the proxy would not ask for decisions about these requests.
fn only_websocket(headers: &HeaderMap) -> Result<(), RequestError> {
    let mut values = headers.get_all(UPGRADE).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(()),
        (Some(value), None) if value.as_bytes().eq_ignore_ascii_case(b"websocket") => Ok(()),
        _ => Err(RequestError::Upgrade),
    }
}

/// If a subrequest is refused, records the visitor's request that the subrequest describes. So the operator can find this request in the log. Each
/// recorded text is printable and short.
pub(crate) fn describe(headers: &HeaderMap, event: &mut Event) {
    let said = |field: &Field| {
        let value = headers.get(field.name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        excerpt(value)
    };
    event.peer = said(&FOR);
    event.verb = said(&METHOD).into();
    // The query is left out, because it can contain secrets.
    let uri = said(&URI);
    event.path = format!("{}{}", said(&HOST), uri.split('?').next().unwrap_or_default());
}

fn path_of(uri: &str, limits: &Limits) -> Result<StorePath, RequestError> {
    let path = StorePath::from_target(uri).map_err(RequestError::Path)?;
    path.keeps_to(limits).map_err(RequestError::Path)?;
    Ok(path)
}

/// The path in the header `Destination` of COPY and MOVE (RFC 4918 §10.3). The destination must be on the host of the request.
fn destination(
    headers: &HeaderMap,
    (is_https, host): (bool, &HostName),
    limits: &Limits,
) -> Result<StorePath, RequestError> {
    let mut values = headers.get_all("destination").iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return Err(RequestError::Header("Destination"));
    };
    let text = value.to_str().map_err(|_| RequestError::Header("Destination"))?;
    // Some proxies join two headers of one name with a comma in the subrequest, but pass on both headers to the application.
    if text.contains(',') {
        return Err(RequestError::Header("Destination"));
    }
    if text.starts_with('/') {
        return path_of(text, limits);
    }
    let rest = text.strip_prefix(if is_https { "https://" } else { "http://" });
    let rest = rest.ok_or(RequestError::Elsewhere)?;
    let at = rest.find('/').ok_or(RequestError::Header("Destination"))?;
    let (authority, uri) = rest.split_at(at);
    match HostName::of_authority(authority) {
        Some(other) if other == *host => path_of(uri, limits),
        _ => Err(RequestError::Elsewhere),
    }
}

fn no_misleading(headers: &HeaderMap) -> Result<(), RequestError> {
    for name in headers.keys() {
        let name = name.as_str();
        if let Some(misleading) = MISLEADING.iter().find(|misleading| **misleading == name) {
            return Err(RequestError::Misleading(misleading));
        }
        if !name.contains('_') {
            continue;
        }
        let alias = name.replace('_', "-");
        if let Some((_, said)) = WITHOUT_ALIAS.iter().find(|(known, _)| alias.starts_with(known)) {
            return Err(RequestError::Misleading(said));
        }
    }
    Ok(())
}

/// An IP address with an optional port.
fn address(text: &str) -> Option<IpAddr> {
    let bracketed = || text.strip_prefix('[')?.strip_suffix(']')?.parse::<std::net::Ipv6Addr>().ok();
    let socket = || text.parse::<SocketAddr>().ok().map(|address| address.ip());
    let ip = text.parse().ok().or_else(socket).or_else(|| bracketed().map(IpAddr::V6))?;
    Some(IpAddr::to_canonical(&ip)).filter(|ip| !ip.is_unspecified())
}

/// The text of an address. The address was parsed from `said`. An IPv4 address has only one spelling, so its text is copied from `said`: copying is
/// faster than formatting the address.
fn written(address: IpAddr, said: &str) -> String {
    match said.parse::<Ipv4Addr>() {
        Ok(_) => said.to_owned(),
        Err(_) => address.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: [(&str, &str); 6] = [
        ("x-forwarded-method", "GET"),
        ("x-forwarded-proto", "https"),
        ("x-forwarded-host", "wiki.example.com:8443"),
        ("x-forwarded-uri", "/a%20b/c?x=;"),
        ("x-forwarded-for", "192.0.2.7"),
        ("x-enfilade-application", "wiki"),
    ];

    fn read(lines: &[(&str, &str)]) -> Result<Subrequest, RequestError> {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            headers.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        Subrequest::read(&headers, &Limits::default())
    }

    /// Reads the valid headers of the tests, with another value for the header `name`.
    fn with(name: &str, value: &str) -> Result<Subrequest, RequestError> {
        let lines = GOOD.map(|line| if line.0 == name { (line.0, value) } else { line });
        read(&lines)
    }

    /// Reads the valid headers of the tests, together with the headers in `more`. A header in `more` replaces the valid header of the same name.
    fn and(more: &[(&str, &str)]) -> Result<Subrequest, RequestError> {
        let lines: Vec<_> = GOOD
            .iter()
            .filter(|line| more.iter().all(|more| more.0 != line.0))
            .chain(more)
            .copied()
            .collect();
        read(&lines)
    }

    #[test]
    fn a_whole_subrequest_is_read() {
        let Subrequest { visitor, ask, .. } = read(&GOOD).unwrap();
        assert_eq!(visitor.to_string(), "192.0.2.7");
        assert_eq!(
            (ask.site.to_string().as_str(), ask.method.name(), ask.path.as_str()),
            ("wiki.example.com", "GET", "a b/c")
        );
        assert!(ask.destination.is_none() && !ask.is_preflight && !ask.upgrades);
    }

    #[test]
    fn each_header_is_needed_exactly_once() {
        for (at, (name, value)) in GOOD.into_iter().enumerate() {
            let without: Vec<_> = GOOD.into_iter().filter(|line| line.0 != name).collect();
            let said = read(&without).err().unwrap().to_string();
            assert!(said.contains(name) && said.contains("missing"), "{said}");
            let twice: Vec<_> = GOOD.into_iter().chain([GOOD[at]]).collect();
            let said = read(&twice).err().unwrap().to_string();
            assert!(said.contains(name) && said.contains("more than once"), "{said}");
            assert!(with(name, "").is_err() && with(name, "\u{e9}").is_err(), "{name} {value}");
        }
    }

    #[test]
    fn paths_that_an_application_could_read_differently_are_refused() {
        for uri in [
            "",
            "a",
            "//",
            "/a//b",
            "/a/../b",
            "/a/./b",
            "/%2e%2e/b",
            "/a%2fb",
            "/a%5cb",
            "/a\\b",
            "/a%00",
            "/a%0a",
            "/a%",
            "/a%zz",
            "/a;b",
            "/a;b/../c",
            "/a#b",
            "/a b",
            "http://wiki.example.com/a",
            "*",
            "/%ff",
            "/a/%2e",
            "/a?b c",
            "/a?\t",
        ] {
            assert!(with("x-forwarded-uri", uri).is_err(), "{uri}");
        }
        for (uri, path) in [
            ("/", ""),
            ("/?a=/../b", ""),
            ("/a/", "a"),
            ("/%61dmin", "admin"),
            ("/a%3Bb", "a;b"),
            ("/a%25b", "a%b"),
            ("/%C3%A4", "ä"),
        ] {
            assert_eq!(with("x-forwarded-uri", uri).unwrap().ask.path.as_str(), path, "{uri}");
        }
    }

    #[test]
    fn hosts_methods_and_addresses_are_read_strictly() {
        for (name, value) in [
            ("x-forwarded-host", "wiki.example.com."),
            ("x-forwarded-host", "a@wiki.example.com"),
            ("x-forwarded-host", "wiki.example.com, evil.example.com"),
            ("x-forwarded-method", "get"),
            ("x-forwarded-method", "TRACE"),
            ("x-forwarded-method", "GET, POST"),
            ("x-forwarded-proto", "ftp"),
            ("x-forwarded-proto", "https,http"),
            ("x-forwarded-for", "192.0.2.7, 10.0.0.1"),
            ("x-forwarded-for", "unix:"),
            ("x-forwarded-for", "0.0.0.0"),
        ] {
            assert!(with(name, value).is_err(), "{name}: {value}");
        }
        for value in ["192.0.2.7:80", "::ffff:192.0.2.7"] {
            let read = with("x-forwarded-for", value).unwrap();
            assert_eq!((read.visitor.to_string().as_str(), read.peer.as_str()), ("192.0.2.7", "192.0.2.7"));
        }
        let read = with("x-forwarded-for", "[2001:db8::7]:1").unwrap();
        assert_eq!((read.visitor.to_string().as_str(), read.peer.as_str()), ("2001:db8::7", "2001:db8::7"));
        for value in ["192.0.2.07", "192.0.2", "192.0.2.7 ", "0x7f.0.0.1"] {
            assert!(with("x-forwarded-for", value).is_err(), "an IPv4 address has one spelling: {value}");
        }
    }

    #[test]
    fn headers_that_lead_an_application_astray_are_refused() {
        for name in [
            "x-http-method-override",
            "x-original-url",
            "x_forwarded_uri",
            "x-forwarded_uri",
            "remote_user",
            "x_http_method_override",
            "authorization_",
            "x_auth_token",
        ] {
            assert!(matches!(and(&[(name, "x")]), Err(RequestError::Misleading(_))), "{name}");
        }
        assert!(and(&[("my_header", "x"), ("accept", "*/*")]).is_ok());
    }

    #[test]
    fn a_move_names_its_destination_on_the_same_host() {
        let to = |method, more: &[(&str, &str)]| {
            let lines: Vec<_> =
                [("x-forwarded-method", method)].into_iter().chain(more.iter().copied()).collect();
            and(&lines).map(|read| read.ask.destination.map(|path| path.as_str().to_owned()))
        };
        let here = [("destination", "https://wiki.example.com/b")];
        assert_eq!(to("MOVE", &here).unwrap().as_deref(), Some("b"));
        assert_eq!(to("COPY", &[("destination", "/b/c")]).unwrap().as_deref(), Some("b/c"));
        assert_eq!(to("GET", &here).unwrap(), None);
        for wrong in [
            &[][..],
            &[("destination", "https://wiki.example.com/b"), ("destination", "https://wiki.example.com/c")],
            &[("destination", "https://evil.example.com/b")],
            &[("destination", "http://wiki.example.com/b")],
            &[("destination", "https://wiki.example.com")],
            &[("destination", "https://wiki.example.com/a/../b")],
            &[("destination", "//wiki.example.com/b")],
            &[("destination", "b")],
            &[("destination", "/b,/c")],
        ] {
            assert!(to("MOVE", wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn an_upgrade_is_no_plain_read() {
        assert!(and(&[("upgrade", "WebSocket")]).unwrap().ask.upgrades);
        for other in [
            &[("upgrade", "h2c")][..],
            &[("upgrade", "websocket"), ("upgrade", "websocket")],
            &[("upgrade", "h2c, websocket")],
        ] {
            assert!(matches!(and(other), Err(RequestError::Upgrade)), "{other:?}");
        }
        assert!(and(&[("sec-websocket-key", "x")]).unwrap().ask.upgrades);
        let asked = [
            ("x-forwarded-method", "OPTIONS"),
            ("origin", "https://a"),
            ("access-control-request-method", "PUT"),
        ];
        assert!(and(&asked).unwrap().ask.is_preflight);
        assert!(!and(&asked[..2]).unwrap().ask.is_preflight);
    }
}
