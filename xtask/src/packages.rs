//! The Debian packages that the tests and the benchmarks need.

use std::ffi::OsStr;
use std::process::Command;

/// Each package, and the program in it that the tests run. The name of the program is empty if the package is a library for another program.
pub(crate) const OF_TESTS: &[(&str, &str)] = &[
    ("rclone", "rclone"),
    ("curl", "curl"),
    ("openssl", "openssl"),
    ("python3-pip", "pip3"),
    ("strace", "strace"),
    ("systemd", "systemd-analyze"),
    ("haproxy", "haproxy"),
    ("nginx-light", "nginx"),
    ("caddy", "caddy"),
    ("pebble", "pebble"),
    ("certbot", "certbot"),
    ("lego", "lego"),
    ("samba", "smbd"),
    ("samba-vfs-modules", ""),
    ("smbclient", "smbclient"),
    ("libnss-wrapper", ""),
    ("litmus", "litmus"),
    ("cadaver", "cadaver"),
    ("davfs2", "mount.davfs"),
    ("age", "age"),
    ("etcd-server", "etcd"),
    ("etcd-client", "etcdctl"),
    ("chromium", "chromium"),
    ("nodejs", "node"),
    ("npm", "npm"),
    ("prometheus", "promtool"),
    ("dpkg-dev", "dpkg-shlibdeps"),
    ("binutils", "strip"),
    ("lintian", "lintian"),
    ("mmdebstrap", "mmdebstrap"),
    ("minisign", "minisign"),
    ("podman", "podman"),
    ("runc", "runc"),
];

/// The packages of the programs with which Enfilade is compared. [`crate::peers`] has the programs that are not in Debian, or are too old there.
pub(crate) const OF_BENCHMARKS: &[(&str, &str)] = &[
    ("haproxy", "haproxy"),
    ("samba", "smbd"),
    ("samba-vfs-modules", ""),
    ("smbclient", "smbclient"),
    ("libnss-wrapper", ""),
    ("apache2", "apache2"),
    ("nginx-light", "nginx"),
    ("rclone", "rclone"),
    ("curl", "curl"),
    ("openssl", "openssl"),
    ("python3-pip", "pip3"),
    ("strace", "strace"),
    ("valgrind", "valgrind"),
];

/// Installs the packages that are missing. If the user is not root, the error is the command that installs them.
pub(crate) fn install(packages: &[(&'static str, &str)]) -> Result<(), String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Programs of servers are often only in the path of root.
    let path = [path.as_os_str(), OsStr::new("/usr/sbin")].join(OsStr::new(":"));
    let missing = missing(packages, &path);
    println!(
        "==> missing packages: {}",
        if missing.is_empty() { "none".to_owned() } else { missing.join(" ") }
    );
    if missing.is_empty() {
        return Ok(());
    }
    let line = format!("apt-get install -y --no-install-recommends {}", missing.join(" "));
    if !is_in(&path, "apt-get") {
        return Err(format!(
            "missing packages: {}; install them by hand, because there is no apt-get",
            missing.join(", ")
        ));
    }
    let is_root = Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n");
    if !is_root {
        return Err(format!("sudo {line}"));
    }
    for command in ["apt-get update", &line] {
        let mut words = command.split(' ');
        let status = Command::new(words.next().unwrap_or_default())
            .args(words)
            .env("DEBIAN_FRONTEND", "noninteractive")
            .status();
        if !status.is_ok_and(|status| status.success()) {
            return Err(format!("step `packages` failed; run it alone with `{command}`"));
        }
    }
    Ok(())
}

fn missing(packages: &[(&'static str, &str)], path: &OsStr) -> Vec<&'static str> {
    let is_there = |(package, program): &&(&str, &str)| match *program {
        "" => is_installed(package),
        program => is_in(path, program),
    };
    packages.iter().filter(|one| !is_there(one)).map(|(package, _)| *package).collect()
}

/// Whether the package manager has a list of the package's files: `NAME.list`, or `NAME:ARCHITECTURE.list`.
fn is_installed(package: &str) -> bool {
    let known = std::fs::read_dir("/var/lib/dpkg/info").into_iter().flatten().flatten();
    known.filter_map(|entry| entry.file_name().into_string().ok()).any(|name| {
        let of_package = name.strip_suffix(".list").and_then(|name| name.strip_prefix(package));
        of_package.is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
    })
}

fn is_in(path: &OsStr, program: &str) -> bool {
    std::env::split_paths(path).any(|directory| directory.join(program).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_in_the_path_is_missing() {
        let missing = missing(OF_TESTS, OsStr::new("/no/such:/folder"));
        for (package, program) in OF_TESTS {
            assert!(program.is_empty() || missing.contains(package), "{package}");
        }
        assert!(!is_installed("no-such-package"));
    }
}
