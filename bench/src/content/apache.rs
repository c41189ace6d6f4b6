//! Apache with mod_dav and event workers, in a separate directory. It writes a log line for each request, as Enfilade does.

use crate::Failure;
use crate::machine::said;
use crate::peers::self_signed;
use crate::stopwatch::{Child, children, cpu_nanos, cpu_nanos_of_ended_children, pause};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

const PROGRAM: &str = "/usr/sbin/apache2";
/// The directory of Apache's modules.
pub(crate) const MODULES: &str = "/usr/lib/apache2/modules";
const TURNS: u32 = 100;

/// A running Apache, ended when dropped.
pub(crate) struct Apache {
    child: Child,
    pub(crate) address: SocketAddr,
    pub(crate) tls: SocketAddr,
    /// The file of its certificate for `localhost`.
    pub(crate) certificate: PathBuf,
    /// The configuration, without the paths of this run.
    pub(crate) configuration: String,
}

impl Apache {
    /// Starts Apache, which serves the directory `files` at the URL path `/files`. `None` if it is not installed.
    pub(crate) fn start(scratch: &Path, files: &Path) -> Result<Option<Self>, Failure> {
        Self::start_with(scratch, files, "")
    }

    /// Like [`Apache::start`], with more lines of configuration.
    pub(crate) fn start_with(scratch: &Path, files: &Path, more: &str) -> Result<Option<Self>, Failure> {
        if !Path::new(PROGRAM).exists() {
            return Ok(None);
        }
        let place = scratch.join("apache");
        std::fs::create_dir(&place)?;
        // Apache's workers run as another user, who needs access to the directories.
        for directory in [scratch, &place] {
            std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o755))?;
        }
        let locks = place.join("locks");
        std::fs::create_dir(&locks)?;
        std::fs::set_permissions(&locks, std::fs::Permissions::from_mode(0o777))?;
        let free = || TcpListener::bind("127.0.0.1:0").and_then(|one| one.local_addr());
        let (address, tls) = (free()?, free()?);
        let key = place.join("key.pem");
        let certificate = place.join("cert.pem");
        self_signed(&key, &certificate)?;
        let config = config(&place, files, address, tls, more);
        std::fs::write(place.join("httpd.conf"), &config)?;
        let configuration = config.replace(&scratch.display().to_string(), "SCRATCH");
        let mut command = Command::new(PROGRAM);
        command.args(["-D", "FOREGROUND", "-f"]).arg(place.join("httpd.conf"));
        let child = Child::start(command.stderr(Stdio::null()))?;
        let apache = Apache { child, address, tls, certificate, configuration };
        for _ in 0..TURNS {
            if TcpStream::connect(address).is_ok() {
                return Ok(Some(apache));
            }
            pause(Duration::from_millis(100));
        }
        let said = std::fs::read_to_string(place.join("error.log")).unwrap_or_default();
        Err(format!("Apache does not listen: {said}").into())
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.0.id()
    }
}

impl Drop for Apache {
    fn drop(&mut self) {
        end_with_workers(&mut self.child);
    }
}

/// Ends a server with its workers. On SIGTERM, the first process of the server also ends the workers. After SIGKILL, the workers would continue to
/// run.
pub(crate) fn end_with_workers(child: &mut Child) {
    let _ = Command::new("kill").arg(child.0.id().to_string()).status();
    for _ in 0..TURNS {
        if !matches!(child.0.try_wait(), Ok(None)) {
            return;
        }
        pause(Duration::from_millis(50));
    }
}

fn config(place: &Path, files: &Path, address: SocketAddr, tls: SocketAddr, more: &str) -> String {
    let modules = ["mpm_event", "authz_core", "dav", "dav_fs", "alias", "ssl", "socache_shmcb"];
    let load: String =
        modules.iter().map(|name| format!("LoadModule {name}_module {MODULES}/mod_{name}.so\n")).collect();
    let (place, files) = (place.display(), files.display());
    format!(
        "ServerRoot {place}\nServerName localhost\nPidFile {place}/pid\nListen {address}\nListen {tls}\nUser www-data\nGroup www-data\n{load}{more}\
         ErrorLog {place}/error.log\nLogLevel error\nLogFormat \"%h %u %t \\\"%r\\\" %>s %b\" common\nCustomLog {place}/access.log common\nDavLockDB {place}/locks/db\nKeepAlive On\nMaxKeepAliveRequests 0\nEnableSendfile On\n\
         DocumentRoot {place}\nAlias /files {files}\n<Directory {files}>\nRequire all granted\nDav On\n</Directory>\n\
         <VirtualHost {tls}>\nSSLEngine on\nSSLCertificateFile {place}/cert.pem\nSSLCertificateKeyFile {place}/key.pem\n\
         Alias /files {files}\n</VirtualHost>\n"
    )
}

/// The process ids of a server's first process and of its workers.
pub(crate) fn processes(pid: u32) -> Vec<u32> {
    children(pid).into_iter().chain([pid]).collect()
}

/// The CPU of all processes of a server so far, in seconds. The first process counts the CPU of workers that have ended.
pub(crate) fn cpu_of_all(pid: u32) -> Result<f64, Failure> {
    let mut nanos = cpu_nanos_of_ended_children(pid)?;
    for process in processes(pid) {
        // A worker may end between the two calls.
        nanos += cpu_nanos(process).unwrap_or(0.0);
    }
    Ok(nanos / 1e9)
}

pub(crate) fn version() -> String {
    said(Command::new(PROGRAM).arg("-v")).unwrap_or_else(|| "unknown".to_owned())
}
