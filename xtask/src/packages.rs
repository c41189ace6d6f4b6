//! The Debian packages the tests need.

use std::ffi::OsStr;
use std::process::Command;

/// A package, and the program of it that the tests run.
const PACKAGES: [(&str, &str); 9] = [
    ("rclone", "rclone"),
    ("curl", "curl"),
    ("openssl", "openssl"),
    ("python3-pip", "pip3"),
    ("strace", "strace"),
    ("haproxy", "haproxy"),
    ("pebble", "pebble"),
    ("certbot", "certbot"),
    ("lego", "lego"),
];

/// Installs what is missing, or says how to.
pub(crate) fn install() -> Result<(), String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let missing = missing(&path);
    println!("==> packages: {}", if missing.is_empty() { "all there".to_owned() } else { missing.join(" ") });
    if missing.is_empty() {
        return Ok(());
    }
    let line = format!("apt-get install -y --no-install-recommends {}", missing.join(" "));
    if !is_in(&path, "apt-get") {
        return Err(format!(
            "the tests need {}; there is no apt-get to install it with",
            missing.join(" and ")
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

fn missing(path: &OsStr) -> Vec<&'static str> {
    PACKAGES.iter().filter(|(_, program)| !is_in(path, program)).map(|(package, _)| *package).collect()
}

fn is_in(path: &OsStr, program: &str) -> bool {
    std::env::split_paths(path).any(|directory| directory.join(program).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_in_the_path_is_missing() {
        assert_eq!(
            missing(OsStr::new("/no/such:/folder")),
            ["rclone", "curl", "openssl", "python3-pip", "strace", "haproxy", "pebble", "certbot", "lego"]
        );
    }
}
