//! Requests to the ACME authority over HTTPS.

use crate::peer_certificate::explained;
use anyhow::Context;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::header::HOST;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// The maximum time for one request.
const REQUEST_MAX: Duration = Duration::from_secs(30);
/// The maximum size of the body of an answer, in bytes. A chain of certificates has some thousands of bytes.
const BODY_MAX: usize = 256 * 1024;
/// The files with the CA certificates that the system trusts: Debian and Alpine, Fedora, openSUSE.
const SYSTEM_ROOTS: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem"];

/// An HTTPS client that opens a new connection for each request, because requests are rare, and months may pass between two requests.
pub(super) struct Https(TlsConnector);

impl Https {
    /// A client that trusts the CA certificates in the file `roots`. Without `roots`, the client trusts the CA certificates of the system.
    pub(super) fn new(roots: Option<&Path>) -> anyhow::Result<Self> {
        let file = match roots {
            Some(file) => file,
            None => SYSTEM_ROOTS.iter().map(Path::new).find(|file| file.exists()).with_context(|| {
                format!(
                    "no file with CA certificates exists ({}), so the ACME authority cannot be verified: install the package ca-certificates, or set `[tls] acme_roots`",
                    SYSTEM_ROOTS.join(", ")
                )
            })?,
        };
        let named = || format!("the CA certificates in `{}` cannot be read", file.display());
        let mut store = RootCertStore::empty();
        let pem = std::fs::read(file).with_context(named)?;
        let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
        let (used, _) = store.add_parsable_certificates(read.with_context(named)?);
        anyhow::ensure!(used > 0, "no usable CA certificate in `{}`", file.display());
        let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(store)
            .with_no_client_auth();
        Ok(Https(TlsConnector::from(Arc::new(config))))
    }
}

type Answering = Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>>;

impl HttpClient for Https {
    fn request(&self, request: Request<BodyWrapper<Bytes>>) -> Answering {
        let connector = self.0.clone();
        Box::pin(async move {
            let url = request.uri().to_string();
            let answer = match tokio::time::timeout(REQUEST_MAX, send(connector, request)).await {
                Ok(answer) => answer,
                Err(_) => Err(anyhow::anyhow!("no answer within {} s", REQUEST_MAX.as_secs())),
            };
            answer.map(BytesResponse::from).map_err(|why| Error::Other(format!("{url}: {why:#}").into()))
        })
    }
}

async fn send(
    connector: TlsConnector,
    mut request: Request<BodyWrapper<Bytes>>,
) -> anyhow::Result<Response<Full<Bytes>>> {
    let uri = request.uri().clone();
    let (host, authority) =
        (uri.host().context("a URL without a host")?, uri.authority().context("no host")?);
    anyhow::ensure!(uri.scheme_str() == Some("https"), "expected a URL with https");
    let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned())?;
    let stream = TcpStream::connect((host.trim_matches(['[', ']']), uri.port_u16().unwrap_or(443))).await?;
    let stream = connector.connect(name, stream).await.map_err(|why| anyhow::anyhow!(explained(&why)))?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let driven = tokio::spawn(connection);
    request.headers_mut().insert(HOST, authority.as_str().parse()?);
    let target = uri.path_and_query().map_or("/", |target| target.as_str()).parse()?;
    *request.uri_mut() = target;
    let (parts, body) = sender.send_request(request).await?.into_parts();
    let body = Limited::new(body, BODY_MAX).collect().await.map_err(|why| anyhow::anyhow!("{why}"))?;
    driven.abort();
    Ok(Response::from_parts(parts, Full::new(body.to_bytes())))
}
