//! This is the only module that reads credentials from the headers of requests. A request must contain exactly one credential (exceptions:
//! [`of_visitor`] and [`beside_a_subject`]), in the only form that is accepted for its kind. Otherwise a proxy in front of the server might read
//! another credential than the server, and an attacker could use the difference.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use enfilade_facts::tables::{Audience, CountsIfBoth};
use enfilade_facts::vocabulary::{
    ApplicationName, Authid, Malformed, Realm, Secret, Userid, Word, percent_decoded, word_of_id,
};
use enfilade_passage::{
    BrowserAsk, CertificateAsk, Credential, IdentityRefusal as Refusal, SecretAsk, SessionAsk, TicketAsk,
};
use hyper::HeaderMap;
use hyper::header::{AUTHORIZATION, COOKIE, HeaderName, HeaderValue};
use zeroize::Zeroizing;

static AUTH_TOKEN: HeaderName = HeaderName::from_static("x-auth-token");
const SUBJECT_TOKEN: HeaderName = HeaderName::from_static("x-subject-token");

/// The source of a request's credential.
pub enum Carried<'a> {
    /// A header, and its name.
    Header(&'a HeaderName, &'a HeaderValue),
    /// The certificate of the connection.
    Certificate(&'a CertificateAsk),
    /// The cookie of a browser's session.
    Browser(BrowserAsk),
}

/// The request's credential. A request with `X-Subject-Token` is refused: in the Identity API, this header contains a second token.
///
/// # Errors
/// When there is no credential, or more than one.
pub(crate) fn carried(headers: &HeaderMap) -> Result<Carried<'_>, Refusal> {
    if headers.contains_key(&SUBJECT_TOKEN) {
        return Err(malformed(MORE_THAN_ONE));
    }
    only_one(headers)
}

/// The cookie of a browser's session for an application. Because of the prefix `__Host-`, a browser accepts the cookie only from the host itself,
/// over TLS (RFC 6265bis §4.1.3.2).
pub const APPLICATION_COOKIE: &str = "__Host-enfilade";
/// The cookie of a browser's session at the page for signing in.
pub const SIGN_IN_COOKIE: &str = "__Host-enfilade-sign-in";
/// The cookie of a browser's session at the console.
pub const CONSOLE_COOKIE: &str = "__Host-enfilade-console";
/// The cookie of a guest who knows the password of a link. The cookie grants nothing without the URL of the link.
pub const LINK_COOKIE: &str = "__Host-enfilade-link";
/// The cookie that connects a one-time code with the browser for which the code was issued. The cookie is not a credential.
pub const START_COOKIE: &str = "__Host-enfilade-start";

/// The credential of a visitor. The headers are those of a request to `application`, and a proxy asks whether to permit this request. Of all cookies,
/// only [`APPLICATION_COOKIE`] is a credential here. Other cookies and the header `X-Subject-Token` can belong to the application, so they are
/// ignored. `counts_if_both` selects the credential that counts. It is called only if the request has this cookie and a credential in a header.
///
/// # Errors
/// When there is no credential, when there are several and none of them counts, when the cookie cannot be read, or when `counts_if_both` fails.
pub fn of_visitor<'h, E: From<Refusal>>(
    headers: &'h HeaderMap,
    application: &ApplicationName,
    counts_if_both: impl FnOnce() -> Result<Option<CountsIfBoth>, E>,
) -> Result<Carried<'h>, E> {
    let browser = browser(headers, APPLICATION_COOKIE, || Audience::Application(application.clone()))?;
    let (header, is_one) = header_alone(headers);
    let counts = if header.is_some() && browser.is_some() { counts_if_both()? } else { None };
    match (header, browser, counts) {
        (None, Some(ask), _) | (_, Some(ask), Some(CountsIfBoth::Cookie)) => Ok(Carried::Browser(ask)),
        (Some(found), None, _) | (Some(found), _, Some(CountsIfBoth::Header)) if is_one => Ok(found),
        (None, None, _) => Err(Refusal::NoCredential.into()),
        _ => Err(malformed(MORE_THAN_ONE).into()),
    }
}

/// The cookie of this name, as the credential of a browser's session; `None` if there is no such cookie.
///
/// # Errors
/// When there are several such cookies, or the cookie is empty or too long.
pub fn browser(
    headers: &HeaderMap,
    cookie: &str,
    audience: impl FnOnce() -> Audience,
) -> Result<Option<BrowserAsk>, Refusal> {
    let mut found = cookies(headers).filter(|(name, _)| *name == cookie.as_bytes());
    match (found.next(), found.next()) {
        (None, _) => Ok(None),
        (Some((_, text)), None) => {
            let cookie = Secret::new(text).ok_or(Refusal::BrowserSession)?;
            Ok(Some(BrowserAsk { cookie, audience: audience() }))
        }
        (Some(_), Some(_)) => Err(malformed(MORE_THAN_ONE)),
    }
}

/// The only cookie of this name; `None` if there is no cookie of this name, or if there are several.
pub fn cookie<'h>(headers: &'h HeaderMap, wanted: &str) -> Option<&'h [u8]> {
    let mut found = cookies(headers).filter(|(name, _)| *name == wanted.as_bytes());
    found.next().filter(|_| found.next().is_none()).map(|(_, text)| text)
}

/// The cookies in all headers `Cookie`, as bytes, because applications can set cookies with any bytes.
fn cookie_parts(headers: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    let lines = headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes);
    lines.flat_map(|line| line.split(|byte| *byte == b';')).map(<[u8]>::trim_ascii)
}

/// The names and values of all cookies.
fn cookies(headers: &HeaderMap) -> impl Iterator<Item = (&[u8], &[u8])> {
    cookie_parts(headers).filter_map(|part| {
        let at = part.iter().position(|byte| *byte == b'=')?;
        Some((part.get(..at)?, part.get(at + 1..)?))
    })
}

/// Whether a part of a header `Cookie` is a cookie that this server sets in browsers. Login tickets do not count.
fn is_ours(part: &[u8]) -> bool {
    let name = part.split(|byte| *byte == b'=').next().unwrap_or_default().trim_ascii();
    [APPLICATION_COOKIE, SIGN_IN_COOKIE, START_COOKIE, CONSOLE_COOKIE, LINK_COOKIE]
        .iter()
        .any(|ours| name == ours.as_bytes())
}

/// The cookies of a request that the application gets: all except those of this server. `None` if the request has no header `Cookie`.
pub fn cookies_for_application(headers: &HeaderMap) -> Option<HeaderValue> {
    let kept: Vec<&[u8]> = cookie_parts(headers).filter(|part| !part.is_empty() && !is_ours(part)).collect();
    headers.contains_key(COOKIE).then(|| HeaderValue::from_bytes(&kept.join(&b"; "[..])).ok()).flatten()
}

/// The name and password of a person who signs in, and the name under which a failure is counted. `None` if the password is empty or too long.
pub fn password(name: &str, password: &[u8]) -> Option<(SecretAsk, Word)> {
    let secret = Secret::new(password)?;
    // An API token cannot sign in, because its secret is for programs.
    match login(name).ok().filter(|authid| authid.token.is_none()) {
        Some(authid) => Some((SecretAsk { secret, authid: authid.clone() }, authid.to_word())),
        None => Some((SecretAsk { authid: Authid::of_nobody(name), secret }, word_of_id(name))),
    }
}

/// A login ticket in a cookie. Only the Proxmox API accepts this credential.
///
/// # Errors
/// When the request has another credential, or the ticket is malformed.
pub(crate) fn ticket(headers: &HeaderMap) -> Result<Option<TicketAsk>, Refusal> {
    let tickets: Vec<&str> = cookies(headers)
        .filter(|(name, _)| TICKET_COOKIES.iter().any(|known| known.as_bytes() == *name))
        .filter_map(|(_, ticket)| std::str::from_utf8(ticket).ok())
        .collect();
    match tickets.as_slice() {
        [] => Ok(None),
        [ticket]
            if [&AUTHORIZATION, &AUTH_TOKEN, &SUBJECT_TOKEN]
                .iter()
                .all(|name| !headers.contains_key(*name)) =>
        {
            let csrf = headers.get(CSRF).and_then(|value| value.to_str().ok()).map(str::to_owned);
            ticket_of(ticket.trim_matches('"'), csrf).map(Some)
        }
        _ => Err(malformed(MORE_THAN_ONE)),
    }
}

const TICKET_COOKIES: [&str; 4] =
    ["PBSAuthCookie", "__Host-PBSAuthCookie", "PDMAuthCookie", "__Host-PDMAuthCookie"];
const CSRF: HeaderName = HeaderName::from_static("csrfpreventiontoken");

/// Reads a login ticket: `PBS:user@realm:token`. Some clients percent-encode the whole ticket, and others only some of its characters.
///
/// # Errors
/// When the text is not in this form.
pub fn ticket_of(text: &str, csrf: Option<String>) -> Result<TicketAsk, Refusal> {
    let decoded = |text: &str| {
        percent_decoded(text.as_bytes()).and_then(|bytes| String::from_utf8(bytes).ok()).map(Zeroizing::new)
    };
    // The spelling of a user's name can itself contain percent-encoded bytes. So a ticket that is not percent-encoded must not be decoded.
    let text = match text.starts_with("PBS:") {
        true => Some(Zeroizing::new(text.to_owned())),
        false => decoded(text),
    };
    let parts = text.as_ref().and_then(|text| {
        let (userid, token) = text.strip_prefix("PBS:")?.split_once(':')?;
        Some((userid.to_owned(), Secret::new(decoded(token)?.as_bytes())?))
    });
    let (userid, token) = parts.ok_or_else(|| {
        malformed("the ticket does not have the form PBS:USER@REALM:TOKEN; log in again for a new ticket")
    })?;
    Ok(TicketAsk { userid, session: SessionAsk { token }, csrf })
}

/// A ticket in the form that [`ticket_of`] reads. The ticket is ASCII text, because a cookie can contain only ASCII characters.
pub fn ticket_text(user: &Authid, token: &str) -> String {
    format!("PBS:{}:{token}", user.to_word())
}

const MORE_THAN_ONE: &str = "there is more than one credential in the request; send exactly one";

/// The credential of a request to the Identity API. In this API, `X-Subject-Token` is not a credential but the token to examine. If a request has a
/// token in `X-Auth-Token`, another token in `Authorization: Bearer` and no cookie, `X-Auth-Token` counts, as in Keystone. For example,
/// keystoneauth's plugin `v3oauth2clientcredential` sends both tokens.
///
/// # Errors
/// When there is no credential, or more than one.
pub fn beside_a_subject(headers: &HeaderMap) -> Result<Carried<'_>, Refusal> {
    let (mut tokens, mut others) =
        (headers.get_all(&AUTH_TOKEN).iter(), headers.get_all(AUTHORIZATION).iter());
    let is_bearer = |value: &HeaderValue| {
        value.as_bytes().get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"bearer "))
    };
    match (tokens.next(), tokens.next(), others.next(), others.next()) {
        (Some(token), None, Some(other), None) if is_bearer(other) && !headers.contains_key(COOKIE) => {
            Ok(Carried::Header(&AUTH_TOKEN, token))
        }
        _ => only_one(headers),
    }
}

/// The last credential in the headers, and whether the headers contain no other credential.
fn header_alone(headers: &HeaderMap) -> (Option<Carried<'_>>, bool) {
    let (mut found, mut is_one) = (None, true);
    for (name, value) in headers {
        if name == AUTHORIZATION || *name == AUTH_TOKEN {
            is_one &= found.replace(Carried::Header(name, value)).is_none();
        }
    }
    (found, is_one)
}

/// The credential in the headers, if there is exactly one.
fn only_one(headers: &HeaderMap) -> Result<Carried<'_>, Refusal> {
    let (found, is_one) = header_alone(headers);
    // This function reads no credential from a cookie. But a cookie can contain a second credential, so a request with a credential and a cookie is
    // refused. Exception: the cookies of this server. They are not credentials here, and a browser sends them with every request to this host.
    let has_cookie = || headers.contains_key(COOKIE) && cookie_parts(headers).any(|part| !is_ours(part));
    match found {
        Some(_) if !is_one || has_cookie() => Err(malformed(MORE_THAN_ONE)),
        found => found.ok_or(Refusal::NoCredential),
    }
}

/// The text after the scheme in the only `Authorization` header of a login. An `X-Auth-Token` is ignored, because some clients also send this header
/// with a login.
fn login_header<'h>(headers: &'h HeaderMap, scheme: &str) -> Result<&'h str, Refusal> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let value = values.next().ok_or(Refusal::NoCredential)?;
    if values.next().is_some() {
        return Err(malformed(MORE_THAN_ONE));
    }
    let parts = value.to_str().ok().and_then(|value| value.split_once(' '));
    match parts {
        Some((said, rest)) if said.eq_ignore_ascii_case(scheme) => Ok(rest),
        _ => Err(malformed(&format!("expected the scheme `{scheme}` in the Authorization header"))),
    }
}

/// The parameters of `Authorization: OAuth` (RFC 5849 §3.5.1), as unparsed text.
///
/// # Errors
/// When there is no such header, or more than one.
pub fn oauth(headers: &HeaderMap) -> Result<&str, Refusal> {
    login_header(headers, "OAuth")
}

/// The id and the secret of an OAuth 2.0 client in `Authorization: Basic`. As in Keystone, the id and the secret are not percent-encoded.
///
/// # Errors
/// When there is no such header, when there is more than one, or when the header cannot be read.
pub fn client(headers: &HeaderMap) -> Result<(String, Secret), Refusal> {
    let decoded = STANDARD.decode(login_header(headers, "Basic")?);
    let decoded = Zeroizing::new(decoded.map_err(|_| malformed("the Basic credential is not base64"))?);
    let mut parts = decoded.splitn(2, |byte| *byte == b':');
    let (Some(id), Some(secret)) = (parts.next(), parts.next()) else {
        return Err(malformed("the Basic credential has no `:` between id and secret"));
    };
    let secret = Secret::new(secret).ok_or(Refusal::NoCredential)?;
    Ok((String::from_utf8_lossy(id).into_owned(), secret))
}

impl Carried<'_> {
    /// The name of the credential's source, and the unparsed bytes of the credential. `None` for a cookie, because the credential of a cookie also
    /// depends on its audience.
    pub(crate) fn unread(&self) -> Option<(&[u8], &[u8])> {
        match self {
            Carried::Header(name, value) => Some((name.as_str().as_bytes(), value.as_bytes())),
            Carried::Certificate(ask) => Some((b"certificate", &ask.fingerprint)),
            Carried::Browser(_) => None,
        }
    }

    /// The credential.
    ///
    /// # Errors
    /// When the credential cannot be parsed.
    pub(crate) fn read(&self) -> Result<Credential, Refusal> {
        let (name, value) = match self {
            Carried::Header(name, value) => (*name, *value),
            Carried::Certificate(ask) => return Ok(Credential::Certificate(**ask)),
            Carried::Browser(ask) => return Ok(Credential::Browser(ask.clone())),
        };
        if *name == AUTH_TOKEN {
            return session(value.as_bytes());
        }
        let value = value.to_str().map_err(|_| malformed("the Authorization header is not plain text"))?;
        let (scheme, rest) = value.split_once([' ', '=']).unwrap_or((value, ""));
        let is_followed_by_blank = value.as_bytes().get(scheme.len()) != Some(&b'=');
        match scheme {
            "PBSAPIToken" | "PDMAPIToken" => proxmox(rest).map(Credential::Secret),
            "PVEAPIToken" => Err(malformed(
                "`PVEAPIToken` is the scheme of another server (Proxmox VE); expected `PBSAPIToken=USER@REALM!TOKEN:SECRET`",
            )),
            _ if scheme.eq_ignore_ascii_case("basic") && is_followed_by_blank => basic(rest),
            _ if scheme.eq_ignore_ascii_case("bearer") && is_followed_by_blank => session(rest.as_bytes()),
            _ => Err(malformed(
                "the Authorization scheme is unknown; expected `Basic`, `Bearer` or `PBSAPIToken`",
            )),
        }
    }
}

fn session(token: &[u8]) -> Result<Credential, Refusal> {
    let token = Secret::new(token);
    let token =
        token.ok_or_else(|| malformed("the token is empty, longer than 511 bytes or contains a NUL byte"))?;
    Ok(Credential::Session(SessionAsk { token }))
}

/// Reads `user@realm!token:secret`, with the secret percent-encoded. Proxmox Backup Server and Datacenter Manager use this form.
fn proxmox(text: &str) -> Result<SecretAsk, Refusal> {
    let Some((authid, secret)) = text.split_once(':') else {
        return Err(malformed(match text.contains('=') {
            true => "there is `=` between token and secret; expected `PBSAPIToken=USER@REALM!TOKEN:SECRET`",
            false => {
                "there is no `:` between token and secret; expected `PBSAPIToken=USER@REALM!TOKEN:SECRET`"
            }
        }));
    };
    let authid: Authid = authid.parse().map_err(|why| malformed(&format!("{why}")))?;
    if authid.token.is_none() {
        return Err(malformed(
            "the Authorization header has no token name; expected `PBSAPIToken=USER@REALM!TOKEN:SECRET`",
        ));
    }
    if !secret.contains('%') {
        return secret_of(authid, secret.as_bytes());
    }
    let secret = percent_decoded(secret.as_bytes());
    let secret = secret.ok_or_else(|| {
        malformed("in the secret, a `%` is not followed by two hexadecimal digits: write `%` as `%25`")
    })?;
    secret_of(authid, &Zeroizing::new(secret))
}

/// Reads `user@realm!token:secret` or `user@realm:password`, in base64 (RFC 7617). A name or secret that nobody can have is judged like a wrong name
/// or secret, so the answer is 401. After a 401, a browser asks its user again, and does not repeat the credential.
fn basic(encoded: &str) -> Result<Credential, Refusal> {
    // The decoder is strict: it requires padding, and unused bits must be zero.
    let decoded = STANDARD.decode(encoded).map_err(|_| malformed("the Basic credential is not base64"))?;
    let decoded = Zeroizing::new(decoded);
    let mut parts = decoded.splitn(2, |byte| *byte == b':');
    let (Some(name), Some(secret)) = (parts.next(), parts.next()) else {
        return Err(malformed("the Basic credential has no `:` between user and password"));
    };
    // No user has a name that is not UTF-8.
    let known = std::str::from_utf8(name).ok().and_then(|name| login(name).ok());
    match (known, Secret::new(secret)) {
        (Some(authid), Some(secret)) => Ok(Credential::Secret(SecretAsk { authid, secret })),
        (known, secret) => {
            let name = String::from_utf8_lossy(name);
            // A valid name with an impossible secret counts as a failed login of this name.
            let named = known.map_or_else(|| word_of_id(&name), |authid| authid.to_word());
            let secret = secret.or_else(|| Secret::new(b"-"));
            let secret = secret.ok_or_else(|| malformed("the Basic credential has no secret"))?;
            Ok(Credential::NamedSecret(SecretAsk { authid: Authid::of_nobody(&name), secret }, named))
        }
    }
}

/// Adds the realm `local` to a name without a realm, because people type names such as `alice` into a browser. A name without a realm and without a
/// token is read unchanged: it can contain blanks and other characters that are percent-encoded in any other name.
fn login(name: &str) -> Result<Authid, Malformed> {
    match name.split_once('!') {
        _ if name.contains('@') => name.parse(),
        Some((user, token)) => format!("{user}@{}!{token}", Realm::local()).parse(),
        None => Userid::new(name, Realm::local()).map(Authid::from),
    }
}

fn secret_of(authid: Authid, secret: &[u8]) -> Result<SecretAsk, Refusal> {
    let secret = Secret::new(secret);
    let secret = secret
        .ok_or_else(|| malformed("the secret is empty, longer than 511 bytes or contains a NUL byte"))?;
    Ok(SecretAsk { authid, secret })
}

fn malformed(why: &str) -> Refusal {
    Refusal::Malformed(why.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    fn extract(headers: &HeaderMap) -> Result<Credential, Refusal> {
        carried(headers)?.read()
    }

    fn of(value: &str) -> Result<SecretAsk, Refusal> {
        match extract(&headers(&[("authorization", value)]))? {
            Credential::Secret(credential) => Ok(credential),
            _ => panic!("{value}"),
        }
    }

    #[test]
    fn one_credential_in_one_spelling() {
        let ask = of("Basic YWxpY2VAbG9jYWwhYmFja3VwOnM6MQ==").unwrap();
        assert_eq!(
            (ask.authid.to_string().as_str(), ask.secret.reveal()),
            ("alice@local!backup", b"s:1".as_slice())
        );
        assert!(of("basic YWxpY2VAbG9jYWw6eA==").is_ok());
        for (login, name) in [
            ("alice:x", "alice@local"),
            ("alice!laptop:x", "alice@local!laptop"),
            ("al ice:x", "al%20ice@%local"),
            ("a/b:x", "a%2Fb@%local"),
        ] {
            let value = format!("Basic {}", STANDARD.encode(login));
            assert_eq!(of(&value).unwrap().authid.to_string(), name);
        }
        // Credentials that nobody can have: an impossible name, a name in bytes that are not UTF-8, or an empty secret.
        for (login, named) in [
            (&b":x"[..], ""),
            (b" alice:x", "%20alice"),
            (b"alice@:x", "alice%40"),
            (b"alice@x:x", "alice%40x"),
            (b"@local:x", "%40local"),
            (b"a/b@local:x", "a%2Fb%40local"),
            (b"al\xffice@local:x", "al%EF%BF%BDice%40local"),
            (b"alice@local:", "alice@local"),
            (b"al ice:", "al%20ice@%local"),
        ] {
            let value = format!("Basic {}", STANDARD.encode(login));
            let Ok(Credential::NamedSecret(ask, said)) = extract(&headers(&[("authorization", &value)]))
            else {
                panic!("{named}")
            };
            assert_eq!(said, named);
            let nobody = [ask.authid.to_string(), ask.authid.to_word().to_string()];
            assert!(nobody.iter().all(|text| text.parse::<Authid>().is_err()), "{nobody:?}");
        }
        for wrong in [
            "Basic",
            "Basic ",
            "Basic YWxpY2VAbG9jYWw6eA",
            "Basic YWxpY2VAbG9jYWw6eB==",
            "Basic  YWxpY2VAbG9jYWw6eA==",
            "Basic YWxpY2VAbG9jYWw6eA== ",
            "Basic YWxpY2VAbG9jYWw=",
            "Bearer",
            "Bearer=abc",
        ] {
            assert!(matches!(of(wrong), Err(Refusal::Malformed(_))), "{wrong}");
        }
        assert_eq!(extract(&HeaderMap::new()).err(), Some(Refusal::NoCredential));
        assert_eq!(extract(&headers(&[("cookie", "a=b")])).err(), Some(Refusal::NoCredential));
    }

    /// A browser sends the cookies of an application with every request, and the proxy passes the cookies on.
    #[test]
    fn the_cookies_of_an_application_are_not_credentials() {
        let wiki: ApplicationName = "wiki".parse().unwrap();
        let alone = |headers: &HeaderMap| of_visitor(headers, &wiki, || Ok::<_, Refusal>(None)).map(drop);
        let good = ("authorization", "Basic YWxpY2VAbG9jYWw6eA==");
        for other in [("cookie", "a=b"), ("cookie", "PBSAuthCookie=PBS:a@b:c"), ("x-subject-token", "abc")] {
            assert!(alone(&headers(&[good, other])).is_ok(), "{}", other.0);
            assert_eq!(alone(&headers(&[other])).err(), Some(Refusal::NoCredential));
        }
        for other in [good, ("x-auth-token", "abc")] {
            assert!(matches!(alone(&headers(&[good, other])), Err(Refusal::Malformed(_))));
        }
    }

    #[test]
    fn a_session_in_one_of_two_places() {
        for (name, value) in
            [("authorization", "Bearer abc"), ("authorization", "bearer abc"), ("x-auth-token", "abc")]
        {
            let Ok(Credential::Session(ask)) = extract(&headers(&[(name, value)])) else { panic!("{value}") };
            assert_eq!(ask.token.reveal(), b"abc");
        }
        // If a request has `X-Auth-Token` and a bearer token, the Identity API reads only `X-Auth-Token`.
        let bearer = ("authorization", "Bearer def");
        let both = headers(&[("x-auth-token", "abc"), bearer]);
        assert!(matches!(extract(&both), Err(Refusal::Malformed(_))));
        let Ok(Credential::Session(ask)) = beside_a_subject(&both).unwrap().read() else { panic!() };
        assert_eq!(ask.token.reveal(), b"abc");
        for more in [("x-auth-token", "abc"), bearer, ("cookie", "a=b"), ("authorization", "Basic YTph")] {
            let more = headers(&[("x-auth-token", "abc"), bearer, more]);
            assert!(matches!(beside_a_subject(&more), Err(Refusal::Malformed(_))), "{more:?}");
        }
        let subject = headers(&[("x-auth-token", "abc"), ("x-subject-token", "def")]);
        assert!(matches!(extract(&subject), Err(Refusal::Malformed(_))));
        assert!(matches!(beside_a_subject(&subject).unwrap().read(), Ok(Credential::Session(_))));
    }

    #[test]
    fn tokens_as_proxmox_clients_send_them() {
        for good in [
            "PBSAPIToken=alice@local!backup:s:1",
            "PBSAPIToken alice@local!backup:s:1",
            "PDMAPIToken=alice@local!backup:s%3A1",
            "PBSAPIToken=alice@local!backup:%73%3a%31",
        ] {
            let ask = of(good).unwrap();
            let found = (ask.authid.to_string(), ask.secret.reveal().to_vec());
            assert_eq!(found, ("alice@local!backup".to_owned(), b"s:1".to_vec()), "{good}");
        }
        for (wrong, why) in [
            ("PBSAPIToken=alice@local!backup=s1", "there is `=` between token and secret"),
            ("PBSAPIToken=alice@local!backup", "there is no `:`"),
            ("PBSAPIToken=alice@local:s1", "has no token name"),
            ("PBSAPIToken=alice!backup:s1", "auth id"),
            ("PBSAPIToken=alice@local!backup:s%3", "hexadecimal digits"),
            ("PBSAPIToken=alice@local!backup:s%zz", "hexadecimal digits"),
            ("PBSAPIToken=alice@local!backup:%00", "NUL"),
            ("PBSAPIToken=alice@local!backup:", "empty"),
            ("pbsapitoken=alice@local!backup:s", "scheme is unknown"),
            ("PVEAPIToken=alice@local!backup=s", "another server"),
            ("Basic=YWxpY2VAbG9jYWw6eA==", "scheme is unknown"),
        ] {
            let Err(Refusal::Malformed(said)) = of(wrong) else { panic!("{wrong}") };
            assert!(said.contains(why), "{wrong}: {said}");
        }
    }

    #[test]
    fn a_ticket_in_a_cookie_is_the_only_credential() {
        let good = "PBSAuthCookie=PBS:alice@pbs:abc";
        for cookie in [
            good,
            "a=b; PBSAuthCookie=PBS%3Aalice%40pbs%3Aabc; c=d",
            "__Host-PBSAuthCookie=PBS:alice@pbs:abc",
        ] {
            let found = ticket(&headers(&[("cookie", cookie), ("csrfpreventiontoken", "x")]));
            let Ok(Some(ask)) = found else { panic!("{cookie}") };
            let (userid, token) = (ask.userid.as_str(), ask.session.token.reveal());
            assert_eq!((userid, token, ask.csrf.as_deref()), ("alice@pbs", b"abc".as_slice(), Some("x")));
        }
        // A name with percent-encoded bytes is read unchanged, even if the client percent-encodes the whole ticket.
        for name in ["J%C3%BCrgen%20Gro%C3%9F@%local", "ä@pam", "a%3Ab@%local", "100%@local"] {
            let user: Authid = name.parse().unwrap();
            let text = ticket_text(&user, "abc=");
            let encoded = text.replace('%', "%25").replace(':', "%3A").replace('=', "%3D");
            for text in [text, encoded] {
                let ask = ticket_of(&text, None).unwrap();
                assert!(ask.is_of(&user) && ask.session.token.reveal() == b"abc=", "{text}");
            }
        }
        for other in [
            ("authorization", "Basic YWxpY2VAbG9jYWw6eA=="),
            ("x-auth-token", "abc"),
            ("x-subject-token", "abc"),
            ("cookie", good),
        ] {
            let found = ticket(&headers(&[("cookie", good), other]));
            assert!(matches!(found, Err(Refusal::Malformed(_))), "{}", other.0);
        }
        for wrong in
            ["PBSAuthCookie=abc", "PBSAuthCookie=PVE:a@b:c", "PBSAuthCookie=PBS:a", "PBSAuthCookie=PBS:a@b:"]
        {
            let found = ticket(&headers(&[("cookie", wrong)]));
            assert!(matches!(found, Err(Refusal::Malformed(_))), "{wrong}");
        }
        // In other protocols a cookie is not a credential.
        assert_eq!(extract(&headers(&[("cookie", good)])).err(), Some(Refusal::NoCredential));
    }

    #[test]
    fn the_cookie_of_a_browser_is_a_credential_for_its_application_alone() {
        let wiki: ApplicationName = "wiki".parse().unwrap();
        let with = |pairs: &[(&'static str, &str)], counts| match of_visitor(&headers(pairs), &wiki, || {
            Ok(counts)
        }) {
            Ok(Carried::Browser(ask)) => Ok(String::from_utf8(ask.cookie.reveal().to_vec()).unwrap()),
            Ok(_) => Ok("header".to_owned()),
            Err(why) => Err::<_, Refusal>(why),
        };
        let of = |pairs: &[(&'static str, &str)]| with(pairs, None);
        let (good, basic) = ("__Host-enfilade=abc", "Basic YWxpY2VAbG9jYWw6eA==");
        for cookies in [good, "a=b; __Host-enfilade=abc; c=d", "__Host-enfilade-start=x;__Host-enfilade=abc"]
        {
            assert_eq!(of(&[("cookie", cookies)]), Ok("abc".to_owned()), "{cookies}");
        }
        assert_eq!(of(&[("cookie", "a=b"), ("authorization", basic)]), Ok("header".to_owned()));
        for none in ["a=b", "__host-enfilade=abc", "__Host-enfilade", "x__Host-enfilade=abc"] {
            assert_eq!(of(&[("cookie", none)]), Err(Refusal::NoCredential), "{none}");
        }
        for two in [
            &[("cookie", "__Host-enfilade=a; __Host-enfilade=b")][..],
            &[("cookie", good), ("cookie", good)],
            &[("cookie", good), ("authorization", basic)],
            &[("cookie", good), ("x-auth-token", "t")],
        ] {
            assert!(matches!(of(two), Err(Refusal::Malformed(_))), "{two:?}");
        }
        // A setting of the application determines whether the cookie or the header counts. If the cookie counts, credentials in headers are ignored.
        // Several cookies are always refused.
        let (cookie, header) = (Some(CountsIfBoth::Cookie), Some(CountsIfBoth::Header));
        let both = [("cookie", good), ("authorization", basic)];
        let headers = [both[0], both[1], ("x-auth-token", "t")];
        assert_eq!((with(&both, cookie), with(&both, header)), (Ok("abc".into()), Ok("header".into())));
        assert_eq!(with(&headers, cookie), Ok("abc".into()));
        assert!(matches!(with(&headers, header), Err(Refusal::Malformed(_))));
        for counts in [cookie, header] {
            let twice = [both[0], both[0], both[1]];
            assert!(matches!(with(&twice, counts), Err(Refusal::Malformed(_))), "{counts:?}");
            assert_eq!(with(&[both[0]], counts), Ok("abc".into()), "{counts:?}");
            assert_eq!(with(&[both[1]], counts), Ok("header".into()), "{counts:?}");
            assert!(matches!(with(&headers[1..], counts), Err(Refusal::Malformed(_))), "{counts:?}");
        }
        assert_eq!(of(&[("cookie", "__Host-enfilade=")]), Err(Refusal::BrowserSession));
    }

    #[test]
    fn applications_do_not_get_the_cookies_of_this_server() {
        let left = |lines: &[&str]| {
            let pairs: Vec<_> = lines.iter().map(|line| ("cookie", *line)).collect();
            cookies_for_application(&headers(&pairs)).map(|kept| kept.to_str().unwrap().to_owned())
        };
        assert_eq!(left(&[]), None);
        for (lines, expected) in [
            (&["__Host-enfilade=abc"][..], ""),
            (&["a=b; __Host-enfilade=abc; c=d"], "a=b; c=d"),
            (&["a=b;__Host-enfilade =abc", "__Host-enfilade-start=x; c=\"d\""], "a=b; c=\"d\""),
            (&["__Host-enfilade; __Host-enfilade-sign-in=y;; a"], "a"),
            (&["__host-enfilade=abc"], "__host-enfilade=abc"),
        ] {
            assert_eq!(left(lines).as_deref(), Some(expected), "{lines:?}");
        }
    }

    #[test]
    fn a_login_has_one_header_of_its_scheme() {
        for (value, expected) in [
            ("Basic YTE6czox", Ok(("a1".to_owned(), b"s:1".to_vec()))),
            ("basic YTE6JTQx", Ok(("a1".to_owned(), b"%41".to_vec()))),
            ("Basic YTE6", Err(Refusal::NoCredential)),
        ] {
            let found = client(&headers(&[("authorization", value), ("x-auth-token", "t")]));
            assert_eq!(found.map(|(id, secret)| (id, secret.reveal().to_vec())), expected, "{value}");
        }
        for wrong in ["Bearer abc", "Basic", "Basic YTE", "Basic YTE=", "OAuth a=\"b\""] {
            assert!(
                matches!(client(&headers(&[("authorization", wrong)])), Err(Refusal::Malformed(_))),
                "{wrong}"
            );
        }
        let two = headers(&[("authorization", "OAuth a"), ("authorization", "OAuth b")]);
        assert!(matches!(oauth(&two), Err(Refusal::Malformed(_))));
        assert_eq!(oauth(&headers(&[("authorization", "oauth a=\"b\"")])).unwrap(), "a=\"b\"");
        assert_eq!(oauth(&HeaderMap::new()).err(), Some(Refusal::NoCredential));
    }

    #[test]
    fn two_credentials_are_none() {
        let good = "Basic YWxpY2VAbG9jYWw6eA==";
        let signed_in =
            headers(&[("authorization", good), ("cookie", "__Host-enfilade-sign-in=a; __Host-enfilade=b")]);
        assert!(extract(&signed_in).is_ok(), "a browser sends these cookies to every page of the host");
        for other in ["authorization", "x-auth-token", "cookie"] {
            let two = headers(&[("authorization", good), (other, good)]);
            assert!(matches!(extract(&two), Err(Refusal::Malformed(_))), "{other}");
        }
    }
}
