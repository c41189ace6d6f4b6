//! Starts and stops a real proxy (nginx, HAProxy, Caddy, Envoy or Traefik) with a configuration.

use crate::decisions::HOST;
use crate::proxmox::from_pypi;
use std::fs::Permissions;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A running proxy, and its address `127.0.0.1:<port>`.
pub(crate) struct Proxy {
    child: Child,
    pub(crate) address: String,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // On SIGTERM, the main process of a proxy also ends its workers.
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        let _ = self.child.wait();
    }
}

/// A complete configuration of nginx that contains this text in the context `http`. nginx writes only into the directory.
pub(crate) fn nginx_around(directory: &Path, text: &str) -> String {
    let at = directory.display();
    let paths = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|name| format!("{name}_temp_path {at}/{name};"));
    format!("pid {at}/pid;\nevents {{}}\nhttp {{\naccess_log off;\n{}\n{text}\n}}\n", paths.join("\n"))
}

/// The program of a proxy that is not in Debian. A package on PyPI contains it.
fn of_package(name: &str, path: &str) -> PathBuf {
    let place = from_pypi(&format!("{name}.txt"), &format!("target/interop-{name}"));
    let program = place.join(path);
    std::fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    program
}

/// Whether Traefik has read its routes. Traefik accepts connections earlier.
fn has_routes(address: &str) -> bool {
    let status = |scheme: &str| {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--insecure", "--max-time", "5", "--output", "/dev/null"]);
        curl.args(["--write-out", "%{http_code}", "--header", &format!("Host: {HOST}")]);
        String::from_utf8(curl.arg(format!("{scheme}://{address}/")).output().unwrap().stdout).unwrap()
    };
    ["http", "https"].iter().any(|scheme| !["000", "404", "400"].contains(&status(scheme).as_str()))
}

impl Proxy {
    /// Starts a proxy with a configuration file in a directory, and waits until it accepts connections.
    pub(crate) fn start(kind: &str, directory: &Path, file: &str, address: String) -> Self {
        let file = directory.join(file);
        let path = file.to_str().unwrap();
        let arguments = match kind {
            // The worker may connect to a socket of this user.
            "nginx" => vec!["-e", "stderr", "-g", "daemon off; worker_processes 1; user root;", "-c", path],
            "haproxy" => vec!["-db", "-f", path],
            "traefik" => vec!["--configFile", path],
            "caddy" => vec!["run", "--adapter", "caddyfile", "--config", path],
            _ => vec!["--use-dynamic-base-id", "--concurrency", "1", "-c", path],
        };
        let log = std::fs::File::create(directory.join("log")).unwrap();
        let program = match kind {
            "envoy" | "envoy --grpc" => of_package("envoy", "envoy/_bin/envoy"),
            "traefik" => of_package("traefik", "bin/traefik"),
            other => other.into(),
        };
        let child = Command::new(program)
            .args(arguments)
            .envs([("XDG_DATA_HOME", directory), ("XDG_CONFIG_HOME", directory)])
            .stderr(log)
            .stdout(Stdio::null())
            .spawn()
            .unwrap_or_else(|why| panic!("{kind} is needed: {why}"));
        let mut proxy = Proxy { child, address };
        let said = || std::fs::read_to_string(directory.join("log")).unwrap_or_default();
        for _ in 0..3000 {
            if TcpStream::connect(&proxy.address).is_ok() && (kind != "traefik" || has_routes(&proxy.address))
            {
                return proxy;
            }
            assert!(proxy.child.try_wait().unwrap().is_none(), "{kind} ended: {}", said());
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("{kind} does not accept connections: {}", said());
    }
}
