//! The image for containers: its content, and a server from this image that can write only to its volume.

use crate::curl::PROPFIND_0;
use crate::debian_root::{both, can_enter, not_tested};
use crate::podman::Podman;
use crate::server::{BINARY, Scratch, free_port, wait_until};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

/// The user of the server in the image.
const USER: u32 = 65_532;

fn image(scratch: &Scratch) -> PathBuf {
    let out = scratch.path().join("image");
    let out = out.to_str().unwrap();
    crate::privileged::program();
    xtask::package::image(&["--out", out, "--binary", BINARY, "--compression", "gzip"]).unwrap()
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", both(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Unpacks an archive of tar.
fn unpack(archive: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    run(Command::new("tar")
        .args(["--extract", "--numeric-owner", "--same-permissions", "--file"])
        .arg(archive)
        .arg("-C")
        .arg(to));
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// The file of a descriptor. The digest and the size are checked.
fn blob(layout: &Path, descriptor: &Value) -> PathBuf {
    let digest = descriptor["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
    let path = layout.join("blobs/sha256").join(digest);
    assert!(run(Command::new("sha256sum").arg(&path)).starts_with(digest));
    assert_eq!(std::fs::metadata(&path).unwrap().len(), descriptor["size"].as_u64().unwrap());
    path
}

/// The configuration, and the file of the only layer.
fn parts(layout: &Path) -> (Value, PathBuf) {
    let index = json(&layout.join("index.json"));
    let manifest = json(&blob(layout, &index["manifests"][0]));
    let of_docker = json(&layout.join("manifest.json"));
    let config = blob(layout, &manifest["config"]);
    assert!(config.ends_with(of_docker[0]["Config"].as_str().unwrap()));
    assert_eq!(manifest["layers"].as_array().unwrap().len(), 1);
    (json(&config), blob(layout, &manifest["layers"][0]))
}

#[test]
fn the_image_has_one_writable_directory_no_root_and_no_shell() {
    let scratch = Scratch::new();
    let layout = scratch.path().join("layout");
    unpack(&image(&scratch), &layout);
    let (config, layer) = parts(&layout);
    assert_eq!(config["config"]["User"], format!("{USER}:{USER}"));
    assert_eq!(config["config"]["Volumes"], serde_json::json!({ "/var/lib/enfilade": {} }));
    let unpacked = run(Command::new("sh").args(["-c", "gzip -dc \"$0\" | sha256sum"]).arg(&layer));
    let named = config["rootfs"]["diff_ids"][0].as_str().unwrap().to_owned();
    assert_eq!(format!("sha256:{}", unpacked.split(' ').next().unwrap()), named);

    let listing =
        run(Command::new("tar").args(["--list", "--verbose", "--numeric-owner", "--file"]).arg(&layer));
    let mut of_server = Vec::new();
    for line in listing.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (mode, owner, path) = (words[0], words[1], words[5]);
        assert!("d-l".contains(&mode[..1]) && !mode.contains(['s', 'S', 't', 'T']), "{line}");
        if owner == "0/0" {
            let is_closed = mode.starts_with('l') || (&mode[5..6], &mode[8..9]) == ("-", "-");
            assert!(is_closed, "others can write: {line}");
        } else {
            of_server.push((mode, owner, path));
        }
        assert!(!path.contains("bin/") || ["usr/bin/", "usr/bin/enfilade"].contains(&path), "{line}");
    }
    assert_eq!(of_server, [("drwx------", "65532/65532", "var/lib/enfilade/")]);
}

/// A container of the image, with separate addresses and an empty volume.
struct Container {
    scratch: Scratch,
    /// `HOST:PORT` of HTTPS, and of the operations listener.
    listen: [String; 2],
    /// Podman and the name of the image. If the value is `None`, the program of the unpacked layer runs.
    podman: Option<(Podman, String)>,
    child: Option<Child>,
}

const NAME: &str = "enfilade-test";

/// The options for a container that may only write to its volume.
const CLOSED: [&str; 4] =
    ["--network=host", "--read-only", "--cap-drop=all", "--security-opt=no-new-privileges"];

impl Container {
    fn new() -> Self {
        let scratch = Scratch::new();
        let volume = scratch.path().join("volume");
        std::fs::create_dir(&volume).unwrap();
        std::os::unix::fs::chown(&volume, Some(USER), Some(USER)).unwrap();
        let listen = [(); 2].map(|()| format!("127.0.0.1:{}", free_port()));
        Container { scratch, listen, podman: None, child: None }
    }

    fn volume(&self) -> PathBuf {
        self.scratch.path().join("volume")
    }

    fn environment(&self) -> [(&'static str, &str); 3] {
        [
            ("ENFILADE_DATA", "/var/lib/enfilade"),
            ("ENFILADE_TLS__LISTEN", &self.listen[0]),
            ("ENFILADE_OPERATIONS__LISTEN", &self.listen[1]),
        ]
    }

    /// The program of the unpacked layer. Everything except the volume is mounted read-only.
    fn in_layer(&self, words: &[&str]) -> Command {
        const ENTER: &str = r#"set -e
mount --bind "$0" "$0"
mount -t proc proc "$0/proc"
mount --rbind /dev "$0/dev"
mount --bind "$1" "$0/var/lib/enfilade"
mount -o remount,ro,bind "$0"
shift
exec chroot --userspec=65532:65532 --groups= "$0" /usr/bin/enfilade "$@""#;
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", ENTER]).arg(self.scratch.path().join("layer"));
        command.arg(self.volume()).args(words).env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command.envs(self.environment());
        command
    }

    /// Loads the image into podman. Returns the reason if podman cannot run the image on this machine.
    fn load(&mut self, archive: &Path) -> Result<(), String> {
        let mut podman = Podman::new(self.scratch.path());
        let loaded =
            podman.command(&["load", "--input"]).arg(archive).output().map_err(|why| why.to_string())?;
        if !loaded.status.success() {
            return Err(both(&loaded));
        }
        let said = both(&loaded);
        let name = said.lines().find_map(|line| line.split_once("localhost/")).map(|(_, name)| name.trim());
        let name = format!("localhost/{}", name.ok_or_else(|| said.clone())?);
        podman.fit(&[&CLOSED[..], &[name.as_str(), "--version"]].concat())?;
        self.podman = Some((podman, name));
        Ok(())
    }

    fn start(&mut self) {
        let mut command = match &self.podman {
            None => self.in_layer(&["serve"]),
            Some((podman, name)) => {
                let mut command = podman.run(&CLOSED);
                // Podman reads the health check of an image only from an image in Docker's format. So the command names the check.
                command.args([
                    "--name",
                    NAME,
                    "--health-cmd",
                    r#"["/usr/bin/enfilade","ready"]"#,
                    "--volume",
                ]);
                command.arg(format!("{}:/var/lib/enfilade", self.volume().display()));
                for (key, value) in self.environment() {
                    command.arg("--env").arg(format!("{key}={value}"));
                }
                command.arg(name);
                command
            }
        };
        let log = std::fs::File::create(self.scratch.path().join("log")).unwrap();
        self.child =
            Some(command.stdout(log.try_clone().unwrap()).stderr(log).stdin(Stdio::null()).spawn().unwrap());
    }

    /// Runs a command of the program next to the server.
    fn enfilade(&self, words: &[&str]) -> Output {
        match &self.podman {
            None => self.in_layer(words).output().unwrap(),
            Some((podman, _)) => {
                podman.command(&["exec", NAME, "/usr/bin/enfilade"]).args(words).output().unwrap()
            }
        }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.scratch.path().join("log")).unwrap_or_default()
    }

    /// Starts the server, and lets a new user list the datastore.
    fn serves(&mut self) {
        assert!(!self.enfilade(&["ready"]).status.success(), "no server runs yet");
        self.start();
        wait_until(Duration::from_secs(60), "the server is ready", || {
            self.enfilade(&["ready"]).status.success()
        });
        let output = self.enfilade(&["--json", "setup", "--user", "alice"]);
        assert!(output.status.success(), "{}\n{}", both(&output), self.log());
        let made: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(made["running"], true);
        let [token, secret] = ["tokenid", "value"].map(|key| made[key].as_str().unwrap());
        let url = format!("https://{}/dav/main/", self.listen[0]);
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--show-error", "--max-time", "60", "--output", "/dev/null"]);
        curl.args(["--write-out", "%{http_code}", "--user", &format!("{token}:{secret}"), "--cacert"]);
        let status = run(curl.arg(self.volume().join("tls/localhost.crt")).args(PROPFIND_0).arg(url));
        assert_eq!(status, "207", "{}", self.log());
        let said = self.enfilade(&["ready"]);
        assert_eq!(String::from_utf8_lossy(&said.stdout), "ready\n");
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        if let Some((podman, _)) = &self.podman {
            podman.remove(NAME);
        }
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn a_server_runs_from_the_image_with_a_read_only_root() {
    if !can_enter() {
        return not_tested("the image was not run, because this process is not root, or may not mount");
    }
    let mut container = Container::new();
    let place = container.scratch.path().to_owned();
    let archive = image(&container.scratch);
    unpack(&archive, &place.join("layout"));
    unpack(&parts(&place.join("layout")).1, &place.join("layer"));
    container.serves();

    // The archive is in the directory of the first container, so this container is dropped only after the archive is loaded.
    let first = container;
    let mut container = Container::new();
    if let Err(why) = container.load(&archive) {
        return not_tested(&format!("podman does not run images on this machine: {why}"));
    }
    drop(first);
    container.serves();
    let (podman, _) = container.podman.as_ref().unwrap();
    run(&mut podman.command(&["healthcheck", "run", NAME]));
}
