//! Describes the machine and the measured source.

use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

/// The processor, memory and kernel of the machine, and the file system of temporary directories.
pub(crate) fn machine(scratch: &Path) -> Value {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.split_once(':')).map(|(_, value)| value.trim().to_owned())
    };
    json!({
        "cpu": field(&read("/proc/cpuinfo"), "model name"),
        "cores": std::thread::available_parallelism().map_or(1, usize::from),
        "memory": field(&read("/proc/meminfo"), "MemTotal"),
        // The text after the first `-` names the build of the kernel, and is left out.
        "kernel": read("/proc/sys/kernel/osrelease").trim().split('-').next(),
        "file_system": file_system(&read("/proc/self/mountinfo"), scratch),
    })
}

/// The type and the options of the file system that has this path, by the mounts of this process.
fn file_system(mounts: &str, path: &Path) -> Option<String> {
    let mount = |line: &str| {
        // proc_pid_mountinfo(5): the mount point is field 5, its options are field 6; the type comes after a `-`.
        let (fields, after) = line.split_once(" - ")?;
        let mut fields = fields.split(' ').skip(4);
        let (place, options) = (fields.next()?, fields.next()?);
        let place = place.replace("\\040", " ");
        path.starts_with(&place)
            .then(|| (place.len(), format!("{} {options}", after.split(' ').next().unwrap_or(""))))
    };
    // If several file systems are mounted at one place, only the last of these file systems is visible.
    mounts.lines().filter_map(mount).max_by_key(|(length, _)| *length).map(|(_, found)| found)
}

/// The compiler, and the settings of the profile.
pub(crate) fn build() -> Value {
    let manifest = include_str!("../../Cargo.toml");
    let name = if cfg!(debug_assertions) { "dev" } else { "release" };
    let section = manifest.split_once(&format!("[profile.{name}]\n")).map_or("", |(_, after)| after);
    let settings: Vec<&str> = section.lines().take_while(|line| !line.is_empty()).collect();
    json!({
        "compiler": said(Command::new("rustc").arg("--version")),
        "profile": format!("{name}: {}", settings.join(", ")),
    })
}

/// The files that are written from measurements.
const NOT_SOURCE: [&str; 5] = [
    ":(exclude)bench/runs",
    ":(exclude)bench/REASONS.md",
    ":(exclude)docs/benchmarks",
    ":(exclude)docs/benchmarks.md",
    ":(exclude)docs/campaigns.md",
];

/// The measured source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tree {
    pub(crate) commit: String,
    /// The hash of the commit's files, which stays the same if the commit gets another message or parent.
    pub(crate) tree: String,
    /// Whether the files are equal to the files of the commit.
    pub(crate) is_clean: bool,
}

impl Tree {
    /// The source at this moment. Records, and the pages that are written from them, do not count as changed files.
    pub(crate) fn now() -> Self {
        let git = |arguments: &[&str]| said(Command::new("git").args(arguments));
        let hash = |of: &str| git(&["rev-parse", "--short=10", of]).unwrap_or_else(|| "unknown".to_owned());
        let changed = git(&[&["status", "--porcelain", "--", "."], NOT_SOURCE.as_slice()].concat());
        let is_clean = changed.is_some_and(|changed| changed.is_empty());
        Tree { commit: hash("HEAD"), tree: hash("HEAD^{tree}"), is_clean }
    }

    /// Returns the source of a run that began with this source. If the source changed during the run, the result is not clean.
    pub(crate) fn unless_changed(self, end: &Tree) -> Self {
        let is_clean = self == *end && self.is_clean;
        Tree { is_clean, ..self }
    }
}

/// The first line of a command's standard output, or of its standard error if the standard output is empty. `None` if the command fails.
pub(crate) fn said(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    let text =
        String::from_utf8_lossy(if output.stdout.is_empty() { &output.stderr } else { &output.stdout })
            .into_owned();
    Some(text.lines().next().unwrap_or_default().trim().to_owned())
}

/// The anonymous memory of a process, in bytes.
pub(crate) fn anonymous_bytes(process: &str) -> Option<u64> {
    status_bytes(process, "RssAnon:")
}

/// The resident memory of a process, in bytes; 0 if there is no such process.
pub(crate) fn resident_bytes(process: u32) -> u64 {
    status_bytes(&process.to_string(), "VmRSS:").unwrap_or(0)
}

/// The bytes that a process has written to files and sockets (proc_pid_io(5), `wchar`).
pub(crate) fn written_bytes(process: u32) -> Result<f64, crate::Failure> {
    counted_bytes(process, "wchar: ")
}

/// The bytes that a process has made the kernel read from disks (proc_pid_io(5), `read_bytes`).
pub(crate) fn read_bytes(process: u32) -> Result<f64, crate::Failure> {
    counted_bytes(process, "read_bytes: ")
}

fn counted_bytes(process: u32, field: &str) -> Result<f64, crate::Failure> {
    let path = format!("/proc/{process}/io");
    let text = std::fs::read_to_string(&path)?;
    let bytes = text.lines().find_map(|line| line.strip_prefix(field));
    Ok(bytes.ok_or_else(|| format!("`{path}` has no line `{}`", field.trim()))?.trim().parse()?)
}

/// A field of the status of a process, in bytes. The kernel gives these fields in kB.
fn status_bytes(process: &str, field: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with(field))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_mount_has_the_path() {
        let mounts = "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n\
                      30 22 0:26 / /tmp rw,nosuid shared:2 - tmpfs tmpfs rw\n\
                      31 22 0:27 / /tmp/with\\040space ro - xfs /dev/sdb rw\n";
        let found = |path: &str| file_system(mounts, path.as_ref());
        assert_eq!(found("/var/x").as_deref(), Some("ext4 rw,relatime"));
        assert_eq!(found("/tmp/x").as_deref(), Some("tmpfs rw,nosuid"));
        assert_eq!(found("/tmp/with space/x").as_deref(), Some("xfs ro"));
        // `/tmpx` is not below `/tmp`.
        assert_eq!(found("/tmpx").as_deref(), Some("ext4 rw,relatime"));
        assert_eq!(file_system("", "/".as_ref()), None);
    }

    #[test]
    fn a_source_that_changed_during_the_run_is_not_clean() {
        let tree = |commit: &str, is_clean| Tree { commit: commit.into(), tree: "t".into(), is_clean };
        assert!(tree("a", true).unless_changed(&tree("a", true)).is_clean);
        assert!(!tree("a", true).unless_changed(&tree("b", true)).is_clean);
        assert!(!tree("a", true).unless_changed(&tree("a", false)).is_clean);
        assert!(!tree("a", false).unless_changed(&tree("a", false)).is_clean);
    }

    #[test]
    fn the_profile_is_told() {
        assert!(
            build().get("profile").is_some_and(|profile| profile.as_str().unwrap().contains("opt-level")
                || profile.as_str().unwrap().contains("lto"))
        );
    }
}
