//! A clean Debian in a directory. Commands run there as in a container, and share only the network with this machine.

use crate::server::Scratch;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

/// The additional packages of the clean Debian: the packages for systemd, and the packages that the package of Enfilade needs.
const INCLUDED: &str = "systemd-sysv,dbus,procps";

/// Mounts the directories that programs need into the directory `$0`, and runs the rest of the arguments there. The mounts end with the command.
const ENTER: &str = r#"set -e
mount -t proc proc "$0/proc"
mount --rbind /dev "$0/dev"
exec chroot "$0" "$@""#;

pub(crate) struct DebianRoot {
    scratch: Scratch,
}

impl DebianRoot {
    /// Unpacks a clean Debian. Returns `None` if this process cannot unpack a Debian, and prints this even in a test that passes.
    pub(crate) fn new() -> Option<Self> {
        if !can_enter() {
            not_tested("the package was not installed, because this process is not root, or may not mount");
            return None;
        }
        let root = DebianRoot { scratch: Scratch::new() };
        std::fs::create_dir(root.place()).unwrap();
        let output =
            Command::new("tar").arg("-xf").arg(archive()).arg("-C").arg(root.place()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        Some(root)
    }

    /// The directory of the Debian on this machine.
    pub(crate) fn place(&self) -> PathBuf {
        self.scratch.path().join("root")
    }

    /// A path in the Debian, as a path of this machine.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.place().join(path.trim_start_matches('/'))
    }

    /// A command that runs as root in the Debian.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", ENTER]).arg(self.place()).args(words);
        command.env_clear().envs([
            ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
            ("HOME", "/root"),
            ("LANG", "C.UTF-8"),
            ("DEBIAN_FRONTEND", "noninteractive"),
        ]);
        command
    }

    /// Runs a command that must succeed. Returns its standard output and standard error.
    pub(crate) fn run(&self, line: &str) -> String {
        let words: Vec<&str> = line.split(' ').collect();
        let output = self.command(&words).output().unwrap();
        assert!(output.status.success(), "{line}: {}", both(&output));
        both(&output)
    }

    /// The paths of all files and directories, without the files that dpkg, apt and the user database manage.
    pub(crate) fn files(&self) -> Vec<String> {
        let mut all = Vec::new();
        list(&self.place(), &self.place(), &mut all);
        let of_others = |path: &String| {
            let kept = ["var/lib/dpkg/", "var/lib/apt/", "var/cache/", "var/log/", "opt/", "tmp/"];
            let of_users = ["passwd", "group", "shadow", "gshadow", ".pwd.lock"];
            kept.iter().any(|kept| path.starts_with(kept))
                || path
                    .strip_prefix("etc/")
                    .is_some_and(|name| of_users.contains(&name.trim_end_matches('-')))
        };
        all.retain(|path| !of_others(path));
        all.sort();
        all
    }
}

fn list(place: &Path, root: &Path, all: &mut Vec<String>) {
    for entry in std::fs::read_dir(place).unwrap().map(Result::unwrap) {
        let path = entry.path();
        all.push(path.strip_prefix(root).unwrap().to_string_lossy().into_owned());
        if entry.file_type().unwrap().is_dir() {
            list(&path, root, all);
        }
    }
}

/// Standard output, then standard error.
pub(crate) fn both(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

/// Prints what a passed test did not check. `eprintln!` would have no effect, because the test runner hides its output.
pub(crate) fn not_tested(why: &str) {
    let _ = std::io::stderr().write_all(format!("NOT TESTED: {why}\n").as_bytes());
}

/// Whether this process may mount, in a separate mount namespace.
pub(crate) fn can_enter() -> bool {
    let tried = Command::new("unshare").args(["--mount", "sh", "-c", "mount -t tmpfs none /mnt"]).output();
    rustix::process::geteuid().is_root() && tried.is_ok_and(|output| output.status.success())
}

/// The archive with the clean Debian. It has the same release as this machine, because the program was linked on this machine. The archive is made
/// once, which needs the network, and is kept below `target`.
fn archive() -> &'static Path {
    static MADE: LazyLock<PathBuf> = LazyLock::new(|| {
        let os = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
        let suite = os.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
        let suite =
            suite.expect("/etc/os-release has no VERSION_CODENAME: the tests of the package need Debian");
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("debian-{suite}.tar"));
        if !path.exists() {
            let new = path.with_extension(format!("{}.tar", std::process::id()));
            let mut make = Command::new("mmdebstrap");
            make.args(["--variant=apt", &format!("--include={INCLUDED}"), suite]).arg(&new);
            let output = make.output().expect("mmdebstrap is needed");
            assert!(output.status.success(), "mmdebstrap (it needs the network): {}", both(&output));
            std::fs::rename(&new, &path).unwrap();
        }
        path
    });
    &MADE
}
