//! A client of a cloud's Keystone. URL and credentials come from `clouds.yaml`, as for the OpenStack client.

use crate::peer_certificate::explained;
use anyhow::{Context, anyhow, bail};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::SendRequest;
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Method, Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use serde::Deserializer;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Value, json};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// The largest response to read, in bytes.
const ANSWER_BYTES_MAX: usize = 1 << 30;

/// The default file of trusted certificate authorities. The key `cacert` in `clouds.yaml` overrides this default.
const AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// The entry of one cloud in `clouds.yaml`.
pub(super) struct Cloud {
    auth_url: String,
    auth: Value,
    authorities: PathBuf,
}

impl Cloud {
    /// Reads the entry of the cloud `name` from the first file that exists. The file in `OS_CLIENT_CONFIG_FILE` is tried first, and then the usual
    /// paths of `clouds.yaml`.
    pub(super) fn named(name: &str) -> anyhow::Result<Self> {
        let mut places: Vec<PathBuf> =
            std::env::var_os("OS_CLIENT_CONFIG_FILE").map(PathBuf::from).into_iter().collect();
        places.push("clouds.yaml".into());
        places.extend(
            std::env::var_os("HOME").map(|home| Path::new(&home).join(".config/openstack/clouds.yaml")),
        );
        places.push("/etc/openstack/clouds.yaml".into());
        let found = places.iter().find(|place| place.is_file());
        let place = found.ok_or_else(|| {
            let looked: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
            anyhow!("clouds.yaml not found; looked for {}", looked.join(", "))
        })?;
        let text = std::fs::read_to_string(place)
            .with_context(|| format!("`{}` cannot be read", place.display()))?;
        Self::of(&text, name).with_context(|| format!("`{}`", place.display()))
    }

    fn of(text: &str, name: &str) -> anyhow::Result<Self> {
        let file: Value = serde_yaml_ng::from_str(text)?;
        let cloud = file.get("clouds").and_then(|clouds| clouds.get(name));
        let cloud = cloud.ok_or_else(|| anyhow!("no cloud `{name}` under `clouds:`"))?;
        let auth = cloud.get("auth").cloned().ok_or_else(|| anyhow!("cloud `{name}` has no `auth:`"))?;
        let auth_url = auth.get("auth_url").and_then(Value::as_str);
        let auth_url = auth_url.ok_or_else(|| anyhow!("cloud `{name}` has no `auth_url:` under `auth:`"))?;
        let auth_url = auth_url.trim_end_matches('/').trim_end_matches("/v3").to_owned();
        refuse_plain(name, &auth_url)?;
        if cloud.get("verify") == Some(&Value::Bool(false)) {
            bail!(
                "cloud `{name}` has `verify: false`, which is refused; name its certificate authority with `cacert:`"
            );
        }
        let authorities = cloud.get("cacert").and_then(Value::as_str).unwrap_or(AUTHORITIES).into();
        Ok(Cloud { auth_url, auth, authorities })
    }

    /// The body of the login request.
    fn login(&self) -> anyhow::Result<Value> {
        let text = |name: &str| self.auth.get(name).and_then(Value::as_str);
        if let (Some(id), Some(secret)) =
            (text("application_credential_id"), text("application_credential_secret"))
        {
            let credential = json!({ "id": id, "secret": secret });
            let identity =
                json!({ "methods": ["application_credential"], "application_credential": credential });
            return Ok(json!({ "auth": { "identity": identity } }));
        }
        let domain =
            |who: &str| match (text(&format!("{who}_domain_id")), text(&format!("{who}_domain_name"))) {
                (Some(id), _) => json!({ "id": id }),
                (None, name) => json!({ "name": name.unwrap_or("Default") }),
            };
        let password = text("password").ok_or_else(|| {
            anyhow!("clouds.yaml: expected `username` and `password`, or `application_credential_id` and `application_credential_secret`, under `auth:` of the cloud")
        })?;
        let user = match (text("user_id"), text("username")) {
            (Some(id), _) => json!({ "id": id, "password": password }),
            (None, name) => {
                json!({ "name": name.unwrap_or_default(), "domain": domain("user"), "password": password })
            }
        };
        let identity = json!({ "methods": ["password"], "password": { "user": user } });
        let scope = match (
            text("system_scope"),
            text("project_id"),
            text("project_name"),
            text("domain_id"),
            text("domain_name"),
        ) {
            (Some(_), ..) => json!({ "system": { "all": true } }),
            (_, Some(id), ..) => json!({ "project": { "id": id } }),
            (_, _, Some(name), ..) => json!({ "project": { "name": name, "domain": domain("project") } }),
            (.., Some(id), _) => json!({ "domain": { "id": id } }),
            (.., Some(name)) => json!({ "domain": { "name": name } }),
            _ => json!({ "system": { "all": true } }),
        };
        Ok(json!({ "auth": { "identity": identity, "scope": scope } }))
    }
}

/// Refuses a URL that would send passwords without TLS over a network.
fn refuse_plain(cloud: &str, auth_url: &str) -> anyhow::Result<()> {
    let uri: Uri = auth_url
        .parse()
        .with_context(|| format!("`auth_url:` of cloud `{cloud}` is `{auth_url}`, which is not a URL"))?;
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let is_local =
        host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    match uri.scheme_str() {
        Some("https") => Ok(()),
        Some("http") if is_local => Ok(()),
        _ => bail!(
            "`auth_url:` of cloud `{cloud}` is `{auth_url}`, which is refused: the password and the records would cross the network without encryption; expected https:// (http:// only for this machine)"
        ),
    }
}

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// The API of the cloud after a login.
pub(super) struct Api {
    cloud: Cloud,
    uri: Uri,
    connection: Option<SendRequest<Full<Bytes>>>,
    token: String,
    /// The token of a session for the system, or the reason why there is no such session; `None` before the first exchange.
    system: Option<Result<String, String>>,
}

impl Api {
    pub(super) async fn login(cloud: Cloud) -> anyhow::Result<Self> {
        let uri: Uri = cloud
            .auth_url
            .parse()
            .with_context(|| format!("the `auth_url:` `{}` in clouds.yaml is not a URL", cloud.auth_url))?;
        let login = cloud.login()?;
        let mut api = Api { cloud, uri, connection: None, token: String::new(), system: None };
        let (status, token, body) = api.ask(Method::POST, "/v3/auth/tokens", &login.to_string()).await?;
        let body = json(&body);
        if status != StatusCode::CREATED {
            bail!("the login failed with {status}: {}", message(&body));
        }
        api.token = token.ok_or_else(|| anyhow!("the response to the login has no token"))?;
        api.system = body.pointer("/token/system").map(|_| Ok(api.token.clone()));
        Ok(api)
    }

    /// Reads a whole list, page by page.
    pub(super) async fn list(&mut self, path: &str, many: &str) -> anyhow::Result<Vec<Value>> {
        self.try_list(path, many).await?.map_err(|why| anyhow!(why))
    }

    /// Reads a whole list. The inner error is the reason why the server refused the call.
    pub(super) async fn try_list(
        &mut self,
        path: &str,
        many: &str,
    ) -> anyhow::Result<Result<Vec<Value>, String>> {
        let mut rows = Vec::new();
        Ok(self.try_each(path, many, |row| rows.push(row)).await?.map(|()| rows))
    }

    /// Gives each row of a list to `take`, which keeps only the needed parts of a long list. The inner error is the reason why the server refused the
    /// call.
    pub(super) async fn try_each(
        &mut self,
        path: &str,
        many: &str,
        take: impl FnMut(Value),
    ) -> anyhow::Result<Result<(), String>> {
        Ok(self.pages(path, many, take).await?.map_err(|(_, why)| why))
    }

    /// Reads a whole list. The list is empty if the server does not support the call and answers 404 or 501. The inner error is the reason why the
    /// server refused the call.
    pub(super) async fn list_if_served(
        &mut self,
        path: &str,
        many: &str,
    ) -> anyhow::Result<Result<Vec<Value>, String>> {
        let mut rows = Vec::new();
        Ok(match self.pages(path, many, |row| rows.push(row)).await? {
            Err((StatusCode::NOT_FOUND | StatusCode::NOT_IMPLEMENTED, _)) => Ok(Vec::new()),
            read => read.map(|()| rows).map_err(|(_, why)| why),
        })
    }

    /// Like [`Api::list_if_served`], but in a session for the system. If there is no such session, the inner error contains the reason.
    pub(super) async fn list_for_system(
        &mut self,
        path: &str,
        many: &str,
    ) -> anyhow::Result<Result<Vec<Value>, String>> {
        let system = match self.system().await? {
            Ok(token) => token,
            Err(refused) => return Ok(Err(refused)),
        };
        let own = std::mem::replace(&mut self.token, system);
        let rows = self.list_if_served(path, many).await;
        self.token = own;
        rows
    }

    /// Like [`Api::list_for_system`]. If there is no session for the system, uses the session of the login.
    pub(super) async fn list_in_widest_session(
        &mut self,
        path: &str,
        many: &str,
    ) -> anyhow::Result<Result<Vec<Value>, String>> {
        match self.system().await? {
            Ok(_) => self.list_for_system(path, many).await,
            Err(_) => self.list_if_served(path, many).await,
        }
    }

    /// The token of a session for the system, or the reason why there is no such session. The first call exchanges the session of the login for a
    /// session for the system.
    async fn system(&mut self) -> anyhow::Result<Result<String, String>> {
        if let Some(system) = &self.system {
            return Ok(system.clone());
        }
        let identity = json!({ "methods": ["token"], "token": { "id": self.token } });
        let login = json!({ "auth": { "identity": identity, "scope": { "system": { "all": true } } } });
        let (status, token, body) = self.ask(Method::POST, "/v3/auth/tokens", &login.to_string()).await?;
        let body = json(&body);
        let system = token
            .filter(|_| status == StatusCode::CREATED)
            .ok_or_else(|| format!("{status}: {}", message(&body)));
        self.system = Some(system.clone());
        Ok(system)
    }

    /// Reads one record, or checks whether a record exists. Returns `None` if the server answers 404 (no such record) or 501 (the call is not
    /// supported). The inner error is the reason why the server refused the call.
    pub(super) async fn find(&mut self, path: &str) -> anyhow::Result<Result<Option<Value>, String>> {
        let path = format!("/v3/{path}");
        let (status, _, body) = self.ask(Method::GET, &path, "").await?;
        let body = json(&body);
        Ok(match status {
            StatusCode::OK | StatusCode::NO_CONTENT => Ok(Some(body)),
            StatusCode::NOT_FOUND | StatusCode::NOT_IMPLEMENTED => Ok(None),
            status => Err(format!("`GET {path}` failed with {status}: {}", message(&body))),
        })
    }

    async fn pages(
        &mut self,
        path: &str,
        many: &str,
        mut take: impl FnMut(Value),
    ) -> anyhow::Result<Result<(), (StatusCode, String)>> {
        let mut next = format!("/v3/{path}");
        loop {
            let (status, _, body) = self.ask(Method::GET, &next, "").await?;
            if status != StatusCode::OK {
                let why = format!("`GET {next}` failed with {status}: {}", message(&json(&body)));
                return Ok(Err((status, why)));
            }
            let link = page(&body, many, &mut take).with_context(|| format!("`GET {next}`"))?;
            match link {
                Some(link) if link != next => next = link,
                _ => return Ok(Ok(())),
            }
        }
    }

    async fn ask(
        &mut self,
        method: Method,
        path: &str,
        body: &str,
    ) -> anyhow::Result<(StatusCode, Option<String>, Bytes)> {
        let host = self
            .uri
            .authority()
            .ok_or_else(|| anyhow!("the `auth_url:` `{}` in clouds.yaml has no host", self.uri))?
            .to_string();
        let prefix = self.uri.path().trim_end_matches('/');
        let path = if path.starts_with(prefix) { path.to_owned() } else { format!("{prefix}{path}") };
        // If the server has closed the connection, a new connection is opened once.
        for _ in 0..2 {
            let mut connection = match self.connection.take().filter(|connection| !connection.is_closed()) {
                Some(connection) => connection,
                None => self.connect().await?,
            };
            let request = Request::builder().method(method.clone()).uri(&path).header(HOST, &host);
            let request =
                request.header("X-Auth-Token", &self.token).header(CONTENT_TYPE, "application/json");
            let request = request.body(Full::from(Bytes::from(body.to_owned())))?;
            let Ok(answer) = connection.send_request(request).await else { continue };
            let status = answer.status();
            let subject = answer
                .headers()
                .get("x-subject-token")
                .and_then(|token| token.to_str().ok())
                .map(str::to_owned);
            let whole = http_body_util::Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
            let whole = whole
                .map_err(|why| anyhow!("the response to `{path}` could not be read completely: {why}"))?
                .to_bytes();
            self.connection = Some(connection);
            return Ok((status, subject, whole));
        }
        bail!(
            "`{host}` closed every connection without a response: check the host and the scheme (`http` or `https`) of `auth_url:` in clouds.yaml"
        );
    }

    async fn connect(&self) -> anyhow::Result<SendRequest<Full<Bytes>>> {
        let is_tls = self.uri.scheme_str() != Some("http");
        let host = self.uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let port = self.uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let stream = TcpStream::connect((host.as_str(), port))
            .await
            .with_context(|| format!("cannot connect to {host}:{port}"))?;
        let stream: Box<dyn Stream> = match is_tls {
            false => Box::new(stream),
            true => {
                let mut roots = RootCertStore::empty();
                let file = &self.cloud.authorities;
                let certificates = CertificateDer::pem_file_iter(file).with_context(|| {
                    format!(
                        "`{}` cannot be read; name another file of CA certificates with `cacert:` in clouds.yaml",
                        file.display()
                    )
                })?;
                for certificate in certificates {
                    // A certificate that cannot be parsed is ignored, and so is not trusted.
                    let _ = certificate.map(|certificate| roots.add(certificate));
                }
                let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
                let name = ServerName::try_from(host.clone())?;
                let connector = TlsConnector::from(Arc::new(config));
                Box::new(
                    connector
                        .connect(name, stream)
                        .await
                        .map_err(|why| anyhow!(explained(&why)))
                        .with_context(|| {
                            format!(
                                "TLS with {host}:{port} failed; if the certificate of the server is not trusted, name its CA with `cacert:`"
                            )
                        })?,
                )
            }
        };
        let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(sender)
    }
}

fn json(body: &[u8]) -> Value {
    serde_json::from_slice(body).unwrap_or_default()
}

/// Gives the rows of one page of a list to `take`, and returns the path of the next page.
fn page(body: &[u8], many: &str, take: &mut impl FnMut(Value)) -> anyhow::Result<Option<String>> {
    let mut reader = serde_json::Deserializer::from_slice(body);
    let read = Page { many, take }.deserialize(&mut reader).and_then(|page| reader.end().map(|()| page));
    let read = read.ok().filter(|page| page.has_rows);
    let page = read.ok_or_else(|| {
        anyhow!("the response has no list `{many}`, so nothing was imported; expected an Identity v3 API: check `auth_url:` in clouds.yaml")
    })?;
    match page.links.get("next") {
        None | Some(Value::Null) => Ok(None),
        Some(link) => {
            let uri = link.as_str().and_then(|link| link.parse::<Uri>().ok());
            let path = uri.and_then(|uri| uri.path_and_query().map(ToString::to_string));
            let path = path.ok_or_else(|| {
                anyhow!("the link to the next page of `{many}` is not a URL: {link}; nothing was imported; check `auth_url:` in clouds.yaml")
            })?;
            Ok(Some(path))
        }
    }
}

/// Reads a page row by row. The page of a large cloud has hundreds of thousands of rows. If all rows were JSON values in memory, they would need ten
/// times the memory of their text.
struct Page<'p, T> {
    many: &'p str,
    take: &'p mut T,
}

/// The rest of a page after its rows were taken.
#[derive(Default)]
struct PageRead {
    has_rows: bool,
    links: Value,
}

impl<'de, T: FnMut(Value)> DeserializeSeed<'de> for Page<'_, T> {
    type Value = PageRead;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<PageRead, D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de, T: FnMut(Value)> Visitor<'de> for Page<'_, T> {
    type Value = PageRead;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an object with a list `{}`", self.many)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<PageRead, A::Error> {
        let mut read = PageRead::default();
        while let Some(name) = map.next_key::<String>()? {
            match name.as_str() {
                "links" => read.links = map.next_value()?,
                name if name == self.many => {
                    map.next_value_seed(Rows(&mut *self.take))?;
                    read.has_rows = true;
                }
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(read)
    }
}

/// Reads the list of a page, and calls the function with each row.
struct Rows<'p, T>(&'p mut T);

impl<'de, T: FnMut(Value)> DeserializeSeed<'de> for Rows<'_, T> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de, T: FnMut(Value)> Visitor<'de> for Rows<'_, T> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut rows: A) -> Result<(), A::Error> {
        while let Some(row) = rows.next_element()? {
            (self.0)(row);
        }
        Ok(())
    }
}

fn message(body: &Value) -> &str {
    body.get("error").and_then(|error| error.get("message")).and_then(Value::as_str).unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "clouds:\n  one:\n    auth:\n      auth_url: https://k:5000/v3/\n      username: admin\n      password: pw\n      project_name: p\n      project_domain_name: d\n    cacert: /c\n  two:\n    verify: false\n    auth: {auth_url: https://k}\n  three:\n    auth: {auth_url: http://127.0.0.1:5000, application_credential_id: i, application_credential_secret: s}\n  plain:\n    auth: {auth_url: http://k}\n";

    #[test]
    fn clouds_as_clients_have_them() {
        let one = Cloud::of(FILE, "one").unwrap();
        assert_eq!((one.auth_url.as_str(), one.authorities.to_str()), ("https://k:5000", Some("/c")));
        let login = one.login().unwrap();
        assert_eq!(login["auth"]["scope"]["project"], json!({ "name": "p", "domain": { "name": "d" } }));
        assert_eq!(login["auth"]["identity"]["password"]["user"]["domain"], json!({ "name": "Default" }));
        let three = Cloud::of(FILE, "three").unwrap().login().unwrap();
        assert_eq!(three["auth"]["identity"]["methods"], json!(["application_credential"]));
        for (name, expected) in
            [("two", "cacert"), ("four", "no cloud `four`"), ("plain", "without encryption")]
        {
            let why = format!("{:#}", Cloud::of(FILE, name).err().unwrap());
            assert!(why.contains(expected), "{why}");
        }
    }

    #[test]
    fn a_response_without_the_list_is_no_empty_list() {
        for body in [Value::Null, json!([]), json!({ "users": null }), json!({ "projects": [] })] {
            let why = page(body.to_string().as_bytes(), "users", &mut drop).unwrap_err().to_string();
            assert!(why.contains("no list `users`"), "{body}: {why}");
        }
        assert!(page(b"{\"users\":[{\"id\":1}", "users", &mut drop).is_err(), "the response is cut");
        let mut rows = Vec::new();
        let mut with = |next: Value| {
            let body =
                json!({ "links": { "next": next }, "truncated": [true], "users": [1, {}] }).to_string();
            page(body.as_bytes(), "users", &mut |row| rows.push(row))
        };
        assert_eq!(with(Value::Null).unwrap(), None);
        assert_eq!(with(json!("https://k/v3/users?m=1")).unwrap().unwrap(), "/v3/users?m=1");
        assert!(with(json!(1)).is_err());
        assert_eq!(Value::from(rows), json!([1, {}, 1, {}, 1, {}]));
    }
}
