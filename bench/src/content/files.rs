//! The files of the comparison, and the data directory of the server.

use super::{CONNECTIONS, FILE_BYTES, Size};
use crate::Failure;
use enfilade_access::{Ace, AceFlags, AceType, SecurityDescriptor};
use enfilade_facts::vocabulary::{AccessMask, Sid};
use std::io::Write;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

/// Makes files and directories with an ACL that lets each user of Enfilade read and write. For Apache, the mode decides.
pub(crate) struct Maker {
    acl: Vec<u8>,
}

impl Maker {
    pub(crate) fn new() -> Result<Self, Failure> {
        let flags = AceFlags(AceFlags::FILES | AceFlags::DIRECTORIES);
        let sid = Sid::AUTHENTICATED;
        let everybody = Ace { kind: AceType::Allow, flags, mask: AccessMask::ALL, sid };
        let list = SecurityDescriptor { dacl: Some(vec![everybody]), ..SecurityDescriptor::default() };
        Ok(Maker { acl: list.to_ntacl().map_err(|why| why.to_string())? })
    }

    fn give(&self, path: &Path) -> Result<(), Failure> {
        let flags = rustix::fs::XattrFlags::empty();
        rustix::fs::setxattr(path, "security.NTACL", &self.acl, flags)
            .or_else(|_| rustix::fs::setxattr(path, "user.NTACL", &self.acl, flags))?;
        Ok(())
    }

    pub(crate) fn directory(&self, path: &Path, mode: u32) -> Result<(), Failure> {
        std::fs::create_dir_all(path)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
        self.give(path)
    }

    pub(crate) fn file(&self, path: &Path, bytes: &[u8]) -> Result<(), Failure> {
        std::fs::write(path, bytes)?;
        self.give(path)
    }

    /// Makes a file of `bytes` bytes, without having the whole content in memory.
    pub(crate) fn large(&self, path: &Path, bytes: u64) -> Result<(), Failure> {
        let large = std::fs::File::create(path)?;
        let piece = content(FILE_BYTES).repeat(40);
        let mut left = bytes;
        while left > 0 {
            let count = left.min(piece.len() as u64);
            (&large).write_all(piece.get(..count as usize).unwrap_or_default())?;
            left -= count;
        }
        self.give(path)
    }
}

/// The content of a file of `bytes` bytes.
pub(crate) fn content(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|n| (n * 31 % 251) as u8).collect()
}

/// Makes the files that Enfilade and Apache serve.
pub(super) fn make(files: &Path, size: &Size) -> Result<(), Failure> {
    let maker = Maker::new()?;
    maker.directory(files, 0o755)?;
    let many = files.join("many");
    maker.directory(&many, 0o755)?;
    for n in 0..size.many {
        maker.file(&many.join(format!("file-{n:05}.txt")), b"x")?;
    }
    for d in 0..size.tree.0 {
        let below = files.join(format!("tree/d{d:03}"));
        maker.directory(&below, 0o755)?;
        for n in 0..size.tree.1 {
            maker.file(&below.join(format!("f{n:03}")), b"x")?;
        }
    }
    maker.give(&files.join("tree"))?;
    maker.directory(&files.join("small"), 0o755)?;
    for n in 0..CONNECTIONS {
        maker.file(&files.join(format!("small/{n}")), &content(FILE_BYTES))?;
    }
    maker.large(&files.join("large"), size.large)?;
    // Apache runs as another user.
    maker.directory(&files.join("up"), 0o777)?;
    maker.directory(&files.join("up-apache"), 0o777)
}

/// Makes a data directory with a datastore of the files. Returns the name and the secret of a token that may read and write the files.
pub(crate) fn prepare(data: &Path, files: &Path) -> Result<(String, String), Failure> {
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
