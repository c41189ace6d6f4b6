//! The service of the package under a running systemd: `enfilade setup` starts the service.

use crate::debian_root::{both, not_tested};
use crate::package::debian;
use crate::podman::Podman;
use crate::server::{Scratch, wait_until};
use serde_json::Value;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

const NAME: &str = "enfilade-systemd";

/// A container in which systemd runs. Dropping the value removes the container.
struct Booted {
    podman: Podman,
}

impl Booted {
    fn exec(&self, line: &str) -> Output {
        let words: Vec<&str> = line.split(' ').collect();
        self.podman.command(&["exec", NAME]).args(words).output().unwrap()
    }

    fn must(&self, line: &str) -> String {
        let output = self.exec(line);
        let journal = || both(&self.exec("journalctl --no-pager -n 30 -u enfilade"));
        assert!(output.status.success(), "{line}: {}\n{}", both(&output), journal());
        both(&output)
    }
}

impl Drop for Booted {
    fn drop(&mut self) {
        self.podman.remove(NAME);
    }
}

#[test]
fn setup_starts_the_service_of_the_package_and_a_client_uses_it() {
    let Some((root, _built)) = debian() else { return };
    root.run("apt-get install -y /opt/newest.deb");
    let (place, storage) = (root.place(), Scratch::new());
    let of_root = ["--systemd=always", "--network=none", "--cap-add=all", "--rootfs"];
    let place = place.to_str().unwrap();
    let mut podman = Podman::new(storage.path());
    if let Err(why) = podman.fit(&[&of_root[..], &[place, "/bin/true"]].concat()) {
        return not_tested(&format!(
            "the service did not run under systemd, because podman does not run here: {why}"
        ));
    }
    let words = [&["--detach", "--name", NAME][..], &of_root[..], &[place, "/sbin/init"]].concat();
    let started = podman.run(&words).stdin(Stdio::null()).output().unwrap();
    assert!(started.status.success(), "{}", both(&started));
    let booted = Booted { podman };
    wait_until(Duration::from_secs(60), "systemd has started", || {
        // In a container, a unit of Debian may fail. The state is then `degraded`.
        ["running\n", "degraded\n"].contains(&both(&booted.exec("systemctl is-system-running")).as_str())
    });

    // With `--no-start`, the command starts nothing, and prints the command that starts the service.
    let line = "enfilade --json setup --user ann --datastore files --path /srv/files --certificate /opt/enfilade.crt";
    let made: Value = serde_json::from_str(&booted.must(&format!("{line} --no-start"))).unwrap();
    let start = made["start"].as_str().unwrap();
    assert!(
        start.ends_with("systemctl enable --now enfilade") && start.contains("ReadWritePaths="),
        "{start}"
    );
    assert!(!booted.exec("systemctl is-enabled enfilade").status.success());
    let hidden = booted.exec("enfilade setup --user ann --datastore more --path /tmp/ann --yes");
    assert!(both(&hidden).contains("its unit hides `/tmp`"), "{}", both(&hidden));

    let again = booted.exec(&format!("{line} --yes"));
    let journal = booted.exec("journalctl --no-pager -n 30 -u enfilade");
    assert!(again.status.success(), "{}\n{}", both(&again), both(&journal));
    let again: Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!((&again["running"], &again["value"]), (&Value::Bool(true), &Value::Null));
    booted.must("systemctl is-enabled enfilade");
    assert_eq!(booted.must("enfilade ready"), "ready\n");

    let pid = booted.podman.command(&["inspect", "--format", "{{.State.Pid}}", NAME]).output().unwrap();
    let pid = String::from_utf8(pid.stdout).unwrap();
    let [token, secret] = ["tokenid", "value"].map(|key| made[key].as_str().unwrap());
    let curl = |more: &[&str]| {
        let mut curl = Command::new("nsenter");
        curl.args(["--net", "--target", pid.trim(), "curl", "--silent", "--show-error", "--max-time", "60"]);
        curl.args(["--user", &format!("{token}:{secret}"), "--cacert"]).arg(root.path("/opt/enfilade.crt"));
        let output = curl.args(more).arg("https://127.0.0.1:8443/dav/files/file").output().unwrap();
        assert!(output.status.success(), "{}", both(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(curl(&["--upload-file", "/etc/hostname", "--write-out", "%{http_code}"]), "201");
    assert_eq!(curl(&[]), std::fs::read_to_string("/etc/hostname").unwrap());
    assert_eq!(std::fs::read(root.path("/srv/files/file")).unwrap(), std::fs::read("/etc/hostname").unwrap());
    booted.must("systemctl reload enfilade");
    booted.must("apt-get remove -y enfilade");
    assert!(!booted.exec("systemctl is-active enfilade").status.success());
}
