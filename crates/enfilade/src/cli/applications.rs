//! `enfilade application`, `enfilade integrate` and `enfilade decide`.

use super::changes;
use clap::{Args, Subcommand, ValueEnum};
use enfilade_admin::Target;
use enfilade_faces::RequestError;
use enfilade_facts::tables::{CountsIfBoth, CredentialKind};
use enfilade_facts::vocabulary::{
    ApplicationName, DatastoreName, HostName, Malformed, PathRefused, StorePath,
};
use enfilade_passage::{ApplicationAsk, Method, Site};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

#[derive(Debug, Subcommand)]
pub(crate) enum Application {
    /// Create an application
    #[command(alias = "add")]
    Create {
        /// The application
        name: ApplicationName,
        /// A host of the application's URLs, such as wiki.example.com; may be repeated
        #[arg(long = "host", required = true, value_name = "HOST")]
        hosts: Vec<HostName>,
        /// A user, token or @group that gets the role ApplicationUser on the application; may be repeated
        #[arg(long = "user", value_name = "WHO")]
        users: Vec<Target>,
        #[command(flatten)]
        properties: Properties,
    },
    /// Show all applications
    List,
    /// Show one application, and the roles on its paths
    Show {
        /// The application
        name: ApplicationName,
    },
    /// Change an application; a new list of paths replaces the old list
    #[command(group = changes([
        "hosts", "public", "open", "administer", "accept", "pass_preflight", "send_groups", "send_jwt", "datastore",
        "port", "if_both", "comment",
    ]))]
    Set {
        /// The application
        name: ApplicationName,
        /// A host of the application's URLs, such as wiki.example.com; may be repeated; the given hosts replace the old hosts
        #[arg(long = "host", value_name = "HOST")]
        hosts: Vec<HostName>,
        #[command(flatten)]
        properties: Properties,
    },
    /// Remove an application, and all roles on its paths
    #[command(aliases = ["delete", "rm"])]
    Remove {
        /// The application
        name: ApplicationName,
    },
}

/// The properties of an application. In `set`, a property that is not given stays unchanged.
#[derive(Clone, Debug, Args)]
pub(crate) struct Properties {
    /// Paths that everybody may read without a credential, with everything below them; commas separate several paths, `none` means no path
    #[arg(long, value_name = "PATHS")]
    pub(crate) public: Option<Paths>,
    /// Paths that everybody may read and change without a credential, with everything below them; commas separate several paths, `none` means no path
    #[arg(long, value_name = "PATHS")]
    pub(crate) open: Option<Paths>,
    /// Paths that need the role ApplicationAdmin, with everything below them; commas separate several paths, `none` means no path
    #[arg(long, value_name = "PATHS")]
    pub(crate) administer: Option<Paths>,
    /// The kinds of credentials that the application accepts, separated by commas: password, token, session; or `all` [initially: all]
    #[arg(long, value_name = "KINDS")]
    pub(crate) accept: Option<Kinds>,
    /// Whether preflight requests of browsers (CORS) pass without a credential [initially: no]
    #[arg(long, value_name = "YES|NO", value_parser = yes_or_no)]
    pub(crate) pass_preflight: Option<bool>,
    /// Whether the application gets the names of the user's groups in `Remote-Groups` [initially: yes]
    #[arg(long, value_name = "YES|NO", value_parser = yes_or_no)]
    pub(crate) send_groups: Option<bool>,
    /// Whether the application gets a signed token with the user's name, groups and roles in `Remote-Jwt` [initially: no]
    #[arg(long, value_name = "YES|NO", value_parser = yes_or_no)]
    pub(crate) send_jwt: Option<bool>,
    /// The datastore with the files that the application serves: the datastore's roles and ACLs decide who may read which path; `none` means that the
    /// roles on the application's own paths decide
    #[arg(long, value_name = "DATASTORE|none")]
    pub(crate) datastore: Option<Files>,
    /// The port of the application's URLs, for signing in with a browser [initially: 443]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: Option<u16>,
    /// Which credential counts if a request has the cookie of a sign-in and also `Authorization` or `X-Auth-Token`. With `none`, such a request is
    /// refused [initially: none]
    #[arg(long, value_name = "cookie|header|none")]
    pub(crate) if_both: Option<IfBoth>,
    /// A comment; an empty value removes it
    #[arg(long)]
    pub(crate) comment: Option<String>,
}

/// The credential that counts if a request has two credentials; `None` if neither counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IfBoth(pub(crate) Option<CountsIfBoth>);

impl FromStr for IfBoth {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let found = CountsIfBoth::ALL.into_iter().find(|counts| counts.name() == text);
        match text {
            "none" => Ok(IfBoth(None)),
            _ => found.map(|counts| IfBoth(Some(counts))).ok_or("expected cookie, header or none".to_owned()),
        }
    }
}

/// The datastore with the files that an application serves; `None` if the application serves no files of a datastore.
#[derive(Clone, Debug)]
pub(crate) struct Files(pub(crate) Option<DatastoreName>);

impl FromStr for Files {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Files(None)),
            name => name.parse().map(|name| Files(Some(name))).map_err(|why: Malformed| why.to_string()),
        }
    }
}

/// A list of paths of an application.
#[derive(Clone, Debug)]
pub(crate) struct Paths(pub(crate) Vec<StorePath>);

impl FromStr for Paths {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" {
            return Ok(Paths(Vec::new()));
        }
        let path = |text: &str| match text.starts_with('/') {
            true => text.parse().map_err(|why| format!("`{text}`: {why}")),
            false => Err(format!("`{text}`: expected a path such as /static")),
        };
        text.split(',').map(path).collect::<Result<_, _>>().map(Paths)
    }
}

/// A list of kinds of credentials. An empty list means all kinds.
#[derive(Clone, Debug)]
pub(crate) struct Kinds(pub(crate) Vec<CredentialKind>);

impl FromStr for Kinds {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if text == "all" {
            return Ok(Kinds(Vec::new()));
        }
        text.split(',').map(str::parse).collect::<Result<_, _>>().map(Kinds)
    }
}

fn yes_or_no(text: &str) -> Result<bool, String> {
    match text {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err("expected yes or no".to_owned()),
    }
}

/// A method and a URL. If the text contains no method, the method is GET.
#[derive(Clone, Debug)]
pub(crate) struct RequestLine {
    pub(crate) text: String,
    /// The question about the request. The value is `Err` if the request is refused before any door is asked.
    pub(crate) ask: Result<ApplicationAsk, RequestError>,
}

impl FromStr for RequestLine {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        const EXPECTED: &str = "expected a method and a URL, such as 'POST https://wiki.example.com/admin'";
        let (name, url) = text.split_once(' ').unwrap_or(("GET", text));
        let method = Method::named(name);
        if method.is_some_and(|method| method.class_of_destination().is_some()) {
            return Err(format!(
                "{name} needs rights on two paths: ask about {} on the source, and about PUT on the destination",
                if name == "COPY" { "GET" } else { "DELETE" }
            ));
        }
        let ask = match (method, HostName::and_path_of(url)) {
            (_, Err(PathRefused::Url)) => return Err(format!("`{url}` is not a URL; {EXPECTED}")),
            (_, Err(why)) => Err(RequestError::Path(why)),
            (None, Ok(_)) => Err(RequestError::UnknownMethod),
            (Some(method), Ok((host, path))) => Ok(ApplicationAsk {
                site: Site::Host(host),
                only: None,
                recurses: method.recurses(None),
                method,
                path,
                destination: None,
                upgrades: false,
                is_preflight: false,
            }),
        };
        Ok(RequestLine { text: text.to_owned(), ask })
    }
}

/// An IP address with a port. `:PORT` means all IPv4 addresses.
fn address(text: &str) -> Result<SocketAddr, String> {
    let every = text.strip_prefix(':').map(|port| format!("0.0.0.0:{port}"));
    every
        .as_deref()
        .unwrap_or(text)
        .parse()
        .map_err(|_| "expected ADDRESS:PORT, such as 127.0.0.1:8080".to_owned())
}

/// A proxy that can ask this server for decisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Product {
    /// nginx, with `auth_request`
    Nginx,
    /// HAProxy, with a script in Lua
    Haproxy,
    /// Traefik, with `forwardAuth`
    Traefik,
    /// Caddy, with `forward_auth`
    Caddy,
    /// Envoy, with `ext_authz` over HTTP or gRPC
    Envoy,
}

#[derive(Debug, Args)]
pub(crate) struct Integrate {
    /// The proxy
    #[arg(value_enum)]
    pub(crate) product: Product,
    /// The application [default: the only application]
    #[arg(long)]
    pub(crate) application: Option<ApplicationName>,
    /// The address of the application behind the proxy: an IP address and a port [default: 127.0.0.1:8080; nginx needs no address for an application
    /// with `--datastore`, because nginx itself serves the files]
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pub(crate) upstream: Option<SocketAddr>,
    /// The address on which the proxy listens: an IP address and a port; `[::]:443` for IPv6
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:443", value_parser = address)]
    pub(crate) listen: SocketAddr,
    /// The certificate chain of the proxy, in PEM; for HAProxy with the key in the same file [default: a path that you must replace]
    #[arg(long, value_name = "FILE")]
    pub(crate) certificate: Option<PathBuf>,
    /// The key of the certificate, in PEM [default: a path that you must replace]
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
    /// Traefik's client certificate for its questions to Enfilade, in PEM [default: a path that you must replace]
    #[arg(long, value_name = "FILE")]
    pub(crate) client_certificate: Option<PathBuf>,
    /// The key of Traefik's client certificate, in PEM [default: a path that you must replace]
    #[arg(long, value_name = "FILE")]
    pub(crate) client_key: Option<PathBuf>,
    /// The CA that signed Enfilade's certificate, in PEM; only for Traefik [default: a path that you must replace]
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// Let the proxy listen without TLS, for a test. Passwords are then not encrypted. Do not use this option for a proxy behind another proxy:
    /// failed logins of one visitor would block all visitors
    #[arg(long, conflicts_with_all = ["certificate", "key"])]
    pub(crate) no_tls: bool,
    /// Let Envoy ask for decisions over gRPC instead of HTTP
    #[arg(long)]
    pub(crate) grpc: bool,
    /// Pass on `Authorization` and `X-Auth-Token` to the application, which can then act as the user
    #[arg(long)]
    pub(crate) pass_credentials: bool,
    /// Allow the proxy on this machine to ask this server for decisions: write `[decisions] listen` and `users` into the configuration file, and add
    /// the user of the proxy to the group that may enter the directory of the socket. Afterwards restart the server and the proxy
    #[arg(long)]
    pub(crate) enable: bool,
    /// The Unix socket on which the server listens for the proxy, if the configuration file names none [default: /run/enfilade/decisions.sock]
    #[arg(long, value_name = "PATH", requires = "enable")]
    pub(crate) socket: Option<PathBuf>,
    /// The Linux user that runs the proxy [default: www-data for nginx, and the name of the proxy for the others]
    #[arg(long, value_name = "NAME", requires = "enable")]
    pub(crate) proxy_user: Option<String>,
    /// Write the files into this existing directory, instead of printing them
    #[arg(long, value_name = "DIR")]
    pub(crate) directory: Option<PathBuf>,
    /// Replace existing files in the directory
    #[arg(long, requires = "directory")]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Decide {}
