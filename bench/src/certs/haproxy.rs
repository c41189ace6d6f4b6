//! HAProxy with a directory of certificates, and its runtime API.

use super::running::Running;
use crate::Failure;
use crate::machine::said;
use crate::report::Report;
use crate::stopwatch::{Child, now};
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The maximum number of certificates with which HAProxy is started. With more certificates, a start takes minutes.
const MOST: usize = 110_000;

/// Whether HAProxy is compared with `count` certificates. Adds its version to the report, or the fact that it is missing.
pub(super) fn is_compared(report: &mut Report, count: usize) -> bool {
    let Some(version) = version() else {
        report.missing(
            "HAProxy with these certificates",
            "haproxy is not installed (`apt-get install haproxy`)",
        );
        return false;
    };
    report.peer("HAProxy", version, configuration("ADDRESS", "DIRECTORY", "SOCKET"));
    if count > MOST {
        eprintln!("HAProxy is not started with more than {MOST} certificates");
    }
    count <= MOST
}

/// The version, if HAProxy is installed.
pub(super) fn version() -> Option<String> {
    said(Command::new("haproxy").arg("-v"))
}

/// Starts HAProxy with the certificates of a directory, and waits until it accepts a connection. `place` gets its configuration.
pub(super) fn start(directory: &Path, place: &Path) -> Result<Running, Failure> {
    let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let [config, control, log] = ["haproxy.cfg", "haproxy.sock", "haproxy.log"].map(|file| place.join(file));
    let text =
        configuration(&address.to_string(), &directory.display().to_string(), &control.display().to_string());
    std::fs::write(&config, text)?;
    let mut command = Command::new("haproxy");
    command.args(["-db", "-f"]).arg(&config).stdout(Stdio::null()).stderr(std::fs::File::create(&log)?);
    let began = now();
    let child = Child::start(&mut command)?;
    let mut running = Running { child, address, millis: 0.0, control: Some(control) };
    running.wait().map_err(|why| {
        format!("haproxy: {why}; it says: {}", std::fs::read_to_string(&log).unwrap_or_default())
    })?;
    running.millis = began.elapsed().as_secs_f64() * 1e3;
    Ok(running)
}

fn configuration(address: &str, directory: &str, control: &str) -> String {
    format!(
        "global\n  maxconn 1000\n  stats socket {control} mode 600 level admin\n\
         defaults\n  mode http\n  timeout connect 5s\n  timeout client 30s\n  timeout server 30s\n\
         frontend f\n  bind {address} ssl crt {directory}\n  http-request return status 200\n"
    )
}

/// Replaces the certificate of a file in the memory of HAProxy.
pub(super) fn replace(control: &Path, file: &Path, pem: &str) -> Result<(), Failure> {
    let file = file.display();
    // An empty line ends the certificate.
    ask(control, &format!("set ssl cert {file} <<\n{}\n\n", pem.trim_end()), "Transaction created")?;
    ask(control, &format!("commit ssl cert {file}\n"), "Success!")
}

/// Sends a command to the runtime API. The answer must have this text.
fn ask(control: &Path, command: &str, expected: &str) -> Result<(), Failure> {
    let mut stream = UnixStream::connect(control)?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    stream.write_all(command.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    match answer.contains(expected) {
        true => Ok(()),
        false => {
            let command = command.lines().next().unwrap_or_default();
            Err(format!("haproxy answers `{command}` with `{}`", answer.trim()).into())
        }
    }
}
