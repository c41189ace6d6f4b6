//! Describes the machine, and the commit of the measured source.

use serde_json::{Value, json};
use std::process::Command;

/// The processor, memory and kernel of the machine.
pub(crate) fn machine() -> Value {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.split_once(':')).map(|(_, value)| value.trim().to_owned())
    };
    json!({
        "cpu": field(&read("/proc/cpuinfo"), "model name"),
        "cores": std::thread::available_parallelism().map_or(1, usize::from),
        "memory": field(&read("/proc/meminfo"), "MemTotal"),
        // The text after the first `-` is the name of the kernel's build.
        "kernel": read("/proc/sys/kernel/osrelease").trim().split('-').next(),
    })
}

/// The commit of the source, with the suffix `-dirty` if files were changed after it.
pub(crate) fn commit() -> String {
    let output = Command::new("git").args(["describe", "--always", "--dirty"]).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    text.ok().filter(|text| !text.is_empty()).unwrap_or_else(|| "unknown".to_owned())
}

/// The anonymous memory of a process, in bytes.
pub(crate) fn anonymous_bytes(process: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("RssAnon:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? * 1024)
}
