//! The files of the comparison, and the data directory of the server.

use super::{CONNECTIONS, FILE_BYTES, Size};
use crate::Failure;
use enfilade_access::{Ace, AceFlags, AceType, SecurityDescriptor};
use enfilade_facts::vocabulary::{AccessMask, Sid};
use std::io::Write;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

/// Makes the files that both servers serve.
pub(super) fn make(files: &Path, size: &Size) -> Result<(), Failure> {
    let acl = {
        let flags = AceFlags(AceFlags::FILES | AceFlags::DIRECTORIES);
        let sid = Sid::AUTHENTICATED;
        let everybody = Ace { kind: AceType::Allow, flags, mask: AccessMask::ALL, sid };
        let list = SecurityDescriptor { dacl: Some(vec![everybody]), ..SecurityDescriptor::default() };
        list.to_ntacl().map_err(|why| why.to_string())?
    };
    let give = |path: &Path| -> Result<(), Failure> {
        let flags = rustix::fs::XattrFlags::empty();
        rustix::fs::setxattr(path, "security.NTACL", &acl, flags)
            .or_else(|_| rustix::fs::setxattr(path, "user.NTACL", &acl, flags))?;
        Ok(())
    };
    let directory = |path: &Path, mode: u32| -> Result<(), Failure> {
        std::fs::create_dir_all(path)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
        give(path)
    };
    let file = |path: &Path, bytes: &[u8]| -> Result<(), Failure> {
        std::fs::write(path, bytes)?;
        give(path)
    };
    directory(files, 0o755)?;
    let many = files.join("many");
    directory(&many, 0o755)?;
    for n in 0..size.many {
        file(&many.join(format!("file-{n:05}.txt")), b"x")?;
    }
    for d in 0..size.tree.0 {
        let below = files.join(format!("tree/d{d:03}"));
        directory(&below, 0o755)?;
        for n in 0..size.tree.1 {
            file(&below.join(format!("f{n:03}")), b"x")?;
        }
    }
    give(&files.join("tree"))?;
    let content: Vec<u8> = (0..FILE_BYTES).map(|n| (n * 31 % 251) as u8).collect();
    directory(&files.join("small"), 0o755)?;
    for n in 0..CONNECTIONS {
        file(&files.join(format!("small/{n}")), &content)?;
    }
    let large = std::fs::File::create(files.join("large"))?;
    let piece = content.repeat(40);
    let mut left = size.large;
    while left > 0 {
        let count = left.min(piece.len() as u64);
        (&large).write_all(piece.get(..count as usize).unwrap_or_default())?;
        left -= count;
    }
    give(&files.join("large"))?;
    // Apache runs as another user.
    directory(&files.join("up"), 0o777)?;
    directory(&files.join("up-apache"), 0o777)
}

/// Makes a data directory with a datastore of the files. Returns the name and the secret of a token that may read and write the files.
pub(super) fn prepare(data: &Path, files: &Path) -> Result<(String, String), Failure> {
    let program = std::env::current_exe()?.with_file_name("enfilade");
    let run = |arguments: &[&str]| -> Result<serde_json::Value, Failure> {
        let output = Command::new(&program).args(["--json", "--data"]).arg(data).args(arguments).output()?;
        if !output.status.success() {
            return Err(format!("{arguments:?}: {}", String::from_utf8_lossy(&output.stderr)).into());
        }
        let first = output.stdout.split(|byte| *byte == b'\n').next().unwrap_or_default();
        Ok(serde_json::from_slice(first)?)
    };
    let path = files.to_str().ok_or("the scratch directory has no UTF-8 path")?;
    run(&["init"])?;
    run(&["datastore", "remove", "main"])?;
    run(&["datastore", "create", "main", "--path", path])?;
    run(&["user", "add", "reader@local"])?;
    run(&["role", "assign", "--path", "/datastore/main", "--auth-id", "reader@local", "DatastorePowerUser"])?;
    let made = run(&["token", "create", "reader@local!t"])?;
    let text = |key: &str| made.get(key).and_then(|value| value.as_str()).unwrap_or_default().to_owned();
    Ok((text("tokenid"), text("value")))
}
