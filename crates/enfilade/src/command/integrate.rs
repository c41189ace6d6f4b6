//! `enfilade integrate`: complete configurations for proxies such as nginx and HAProxy. The texts are templates in the folder `integrate`.
//!
//! In a template, `@NAME@` stands for a value. A line can begin with a prefix. A line with the prefix `@tls:` is printed only if the proxy listens
//! with TLS. `@plain:` is for a proxy that listens without TLS. `@strip:` is for an application that gets no credentials. `@http:` is for a proxy
//! that asks this server over HTTP. `@grpc:` is for a proxy that asks this server over gRPC. `@bind:` is for a proxy that listens on one address of
//! the machine. `@files:` is for a proxy that itself serves the files of a datastore. `@upstream:` is for a proxy that passes requests on.

mod enable;

use self::enable::Enabling;
use crate::cli::{Integrate, Product};
use crate::home::Home;
use crate::output;
use anyhow::{Context, bail};
use clap::ValueEnum as _;
use enfilade_facts::tables::Application;
use enfilade_facts::vocabulary::ApplicationName;
use serde_json::json;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

/// The default of `--upstream`: the address of the application.
const UPSTREAM: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);

/// A file of a configuration: its name, and its template.
type Template = (&'static str, &'static str);

const NGINX: [Template; 1] = [("enfilade-@APPLICATION@.conf", include_str!("integrate/nginx.conf"))];
const HAPROXY: [Template; 2] = [
    ("haproxy.cfg", include_str!("integrate/haproxy.cfg")),
    ("enfilade.lua", include_str!("integrate/enfilade.lua")),
];
const TRAEFIK: [Template; 1] = [("enfilade-@APPLICATION@.yml", include_str!("integrate/traefik.yml"))];
const CADDY: [Template; 1] = [("Caddyfile", include_str!("integrate/Caddyfile"))];
const ENVOY: [Template; 1] = [("envoy.yaml", include_str!("integrate/envoy.yaml"))];

fn templates(product: Product) -> &'static [Template] {
    match product {
        Product::Nginx => &NGINX,
        Product::Haproxy => &HAPROXY,
        Product::Traefik => &TRAEFIK,
        Product::Caddy => &CADDY,
        Product::Envoy => &ENVOY,
    }
}

pub(super) fn run(home: &Home, arguments: &Integrate, json: bool) -> anyhow::Result<()> {
    let (name, application) = chosen(home, arguments.application.as_ref())?;
    let enabling = arguments.enable.then(|| Enabling::new(home, arguments)).transpose()?;
    let socket = enabling.as_ref().map(|enabling| enabling.socket.clone());
    let values = values(home, arguments, (&name, &application), socket)?;
    let files: Vec<(String, String)> = templates(arguments.product)
        .iter()
        .map(|(file, template)| (replaced(file, &values), filled(template, arguments, &values)))
        .collect();
    match &arguments.directory {
        Some(directory) => write(directory, &files, arguments.force, json)?,
        None if json => {
            let files: Vec<_> =
                files.iter().map(|(file, text)| json!({ "file": file, "text": text })).collect();
            output::json_line(&json!({ "application": name.to_string(), "files": files }));
        }
        None => {
            let is_one = files.len() == 1;
            for (file, text) in &files {
                if !is_one {
                    output::line(&format!("##### {file}"));
                }
                output::line(text.trim_end());
            }
            if !is_one {
                output::note("this configuration has several files: `--directory DIR` writes them");
            }
        }
    }
    enabling.map_or(Ok(()), |enabling| enabling.apply(&home.data, arguments.product))
}

/// The name of a proxy on the command line.
fn name_of(product: Product) -> String {
    product.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

fn write(directory: &Path, files: &[(String, String)], force: bool, json: bool) -> anyhow::Result<()> {
    // If one of the files must not be replaced, no file is written.
    for (file, text) in files {
        let path = directory.join(file);
        let is_other = std::fs::read(&path).is_ok_and(|there| there != text.as_bytes());
        anyhow::ensure!(
            force || !is_other,
            "`{}` exists and has different content: move it away, or replace it with `--force`",
            path.display()
        );
    }
    for (file, text) in files {
        let path = directory.join(file);
        std::fs::write(&path, text).with_context(|| format!("`{}` cannot be written", path.display()))?;
        output::done(json, &json!({ "file": path }), &format!("{} written", path.display()));
    }
    Ok(())
}

/// The application that the operator named. If the operator named no application, the only application that exists.
fn chosen(home: &Home, name: Option<&ApplicationName>) -> anyhow::Result<(ApplicationName, Application)> {
    if let Some(name) = name {
        return Ok((name.clone(), enfilade_admin::show_application(home.source(), name)?));
    }
    let mut all = enfilade_admin::list_applications(home.source())?;
    match (all.pop(), all.is_empty()) {
        (Some(only), true) => Ok(only),
        (Some(_), false) => bail!("there are several applications: name one with `--application NAME`"),
        (None, _) => bail!(
            "there is no application yet; create one, for example: enfilade application create wiki --host wiki.example.com"
        ),
    }
}

/// The values of a template.
fn values(
    home: &Home,
    arguments: &Integrate,
    (name, application): (&ApplicationName, &Application),
    enabled: Option<PathBuf>,
) -> anyhow::Result<Vec<(&'static str, String)>> {
    let Integrate { product, listen, certificate, key, no_tls, directory, .. } = arguments;
    let upstream = arguments.upstream.unwrap_or(UPSTREAM);
    let decisions = home.config.decisions.listen.as_ref();
    let is_enabled = enabled.is_some();
    let socket = enabled.or_else(|| decisions.and_then(|listen| listen.sockets().next()));
    let address = decisions.and_then(|listen| listen.texts().iter().find(|text| !text.starts_with("unix:")));
    match product {
        Product::Traefik if address.is_none() => bail!(
            "Traefik cannot use a Unix socket: add the name and a port of this server to `[decisions] listen`, such as \"pdp.example.com:8444\", and restart the server"
        ),
        Product::Traefik => {}
        _ if socket.is_none() && address.is_some() => bail!(
            "`[decisions] listen` has no Unix socket, and {} needs one: add \"unix:/run/enfilade/decisions.sock\", and restart the server",
            name_of(*product)
        ),
        _ if socket.is_none() => bail!(
            "the server does not listen for questions of proxies: run this command again with `--enable`, or set `listen = \
             \"unix:/run/enfilade/decisions.sock\"` and `users` in the section `[decisions]` of the configuration, and restart the server"
        ),
        _ => {}
    }
    if *product == Product::Haproxy && key.is_some() {
        bail!(
            "HAProxy reads the key from the file of the certificate: put both into one file, and leave out `--key`"
        );
    }
    let of_client = [&arguments.client_certificate, &arguments.client_key, &arguments.ca];
    if *product != Product::Traefik && of_client.iter().any(|file| file.is_some()) {
        bail!(
            "only Traefik connects to the server with a client certificate: leave out `--client-certificate`, `--client-key` and `--ca`"
        );
    }
    if arguments.grpc && *product != Product::Envoy {
        bail!("only Envoy can ask over gRPC; leave out `--grpc`");
    }
    let is_missing = |socket: &&PathBuf| !is_enabled && !socket.exists() && *product != Product::Traefik;
    if let Some(socket) = socket.as_ref().filter(is_missing) {
        output::note(&format!(
            "warning: there is no socket `{}`: restart the server, so that it listens there",
            socket.display()
        ));
    }
    let (port, own) = (listen.port(), application.port.unwrap_or(443));
    if home.config.decisions.sign_in.is_some() && port != own && *product != Product::Traefik {
        output::note(&format!(
            "warning: the proxy listens on port {port}, but after a sign-in Enfilade redirects browsers to port {own}. Unless port {own} is forwarded to the \
             proxy, run `enfilade application set {name} --port {port}`"
        ));
    }
    let placeholder = |path: &Option<PathBuf>, usual: &str| {
        path.as_ref().map_or_else(|| usual.to_owned(), |path| path.display().to_string())
    };
    let hosts: Vec<&str> =
        application.hosts.iter().map(enfilade_facts::vocabulary::HostName::as_str).collect();
    let site = |host: &&str| format!("{}{host}:{port}", if *no_tls { "http://" } else { "https://" });
    let rules: Vec<String> = hosts.iter().map(|host| format!("Host(`{host}`)")).collect();
    let shown = directory.as_deref().map(std::path::absolute).transpose()?;
    Ok(vec![
        ("APPLICATION", name.to_string()),
        ("SOCKET", socket.map(|path| path.display().to_string()).unwrap_or_default()),
        ("TRANSPORT", if arguments.grpc { "gRPC" } else { "HTTP" }.to_owned()),
        ("ADDRESS", address.cloned().unwrap_or_default()),
        ("ROOT", root(home, arguments, application)?.unwrap_or_default()),
        ("UPSTREAM", upstream.to_string()),
        ("UPSTREAM_IP", upstream.ip().to_string()),
        ("UPSTREAM_PORT", upstream.port().to_string()),
        ("LISTEN", listen.to_string()),
        ("LISTEN_IP", listen.ip().to_string()),
        ("LISTEN_PORT", port.to_string()),
        ("HOSTS", hosts.join(" ")),
        ("SITES", hosts.iter().map(site).collect::<Vec<_>>().join(", ")),
        ("RULE", rules.join(" || ")),
        ("CERTIFICATE", placeholder(certificate, "/etc/ssl/certs/REPLACE.pem")),
        ("KEY", placeholder(key, "/etc/ssl/private/REPLACE.key")),
        ("CLIENT_CERTIFICATE", placeholder(&arguments.client_certificate, "/etc/traefik/REPLACE-client.pem")),
        ("CLIENT_KEY", placeholder(&arguments.client_key, "/etc/traefik/REPLACE-client.key")),
        ("CA", placeholder(&arguments.ca, "/etc/traefik/REPLACE-ca.pem")),
        ("DIRECTORY", shown.map_or("/etc/haproxy".to_owned(), |path| path.display().to_string())),
        (
            "strip-name",
            if arguments.pass_credentials { String::new() } else { format!(", enfilade-strip-{name}") },
        ),
    ])
}

/// The directory of the files that the proxy serves itself; `None` if the proxy passes requests on.
fn root(home: &Home, arguments: &Integrate, application: &Application) -> anyhow::Result<Option<String>> {
    let is_own = arguments.product == Product::Nginx && arguments.upstream.is_none();
    let Some(datastore) = application.datastore.as_ref().filter(|_| is_own) else { return Ok(None) };
    let path = enfilade_admin::show_datastore(&home.change_context(), datastore)?.row.path;
    anyhow::ensure!(
        !path.contains(['"', '$', '\\']),
        "nginx cannot serve files below `{path}`, because the path contains `\"`, `$` or `\\`: move the datastore, or serve its files with another server \
         and `--upstream ADDRESS`"
    );
    Ok(Some(path))
}

/// The text of a template, with each `@NAME@` replaced by its value.
fn replaced(text: &str, values: &[(&'static str, String)]) -> String {
    values.iter().fold(text.to_owned(), |text, (name, value)| text.replace(&format!("@{name}@"), value))
}

fn filled(template: &str, arguments: &Integrate, values: &[(&'static str, String)]) -> String {
    let kept = [
        ("@tls:", !arguments.no_tls),
        ("@plain:", arguments.no_tls),
        ("@strip:", !arguments.pass_credentials),
        ("@http:", !arguments.grpc),
        ("@grpc:", arguments.grpc),
        ("@bind:", !arguments.listen.ip().is_unspecified()),
        ("@files:", values.iter().any(|(name, value)| *name == "ROOT" && !value.is_empty())),
        ("@upstream:", values.iter().any(|(name, value)| *name == "ROOT" && value.is_empty())),
    ];
    let mut text = String::new();
    for line in template.lines() {
        let marked = kept.into_iter().find_map(|(mark, is_kept)| Some((line.strip_prefix(mark)?, is_kept)));
        let (line, is_kept) = marked.unwrap_or((line, true));
        if !is_kept {
            continue;
        }
        text.push_str(&replaced(line, values));
        text.push('\n');
    }
    text
}
