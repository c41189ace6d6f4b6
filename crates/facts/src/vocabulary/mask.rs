//! Rights, as NFSv4 (RFC 8881 §6.2.1.3) and Windows number them.

use super::Malformed;
use std::fmt;
use std::ops::{BitAnd, BitOr, BitOrAssign, Not};
use std::str::FromStr;

/// A set of rights on a file or directory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct AccessMask(pub u32);

impl AccessMask {
    /// No right at all.
    pub const NONE: Self = Self(0);
    /// Read a file's bytes.
    pub const READ_DATA: Self = Self(0x1);
    /// List a directory (the same bit as `READ_DATA`).
    pub const LIST: Self = Self(0x1);
    /// Write a file's bytes.
    pub const WRITE_DATA: Self = Self(0x2);
    /// Make a file in a directory (the same bit as `WRITE_DATA`).
    pub const ADD_FILE: Self = Self(0x2);
    /// Append bytes to a file.
    pub const APPEND: Self = Self(0x4);
    /// Make a directory in a directory (the same bit as `APPEND`).
    pub const ADD_SUBDIRECTORY: Self = Self(0x4);
    /// Read extended attributes.
    pub const READ_NAMED_ATTRIBUTES: Self = Self(0x8);
    /// Write extended attributes.
    pub const WRITE_NAMED_ATTRIBUTES: Self = Self(0x10);
    /// Execute a file.
    pub const EXECUTE: Self = Self(0x20);
    /// Pass through a directory (the same bit as `EXECUTE`).
    pub const TRAVERSE: Self = Self(0x20);
    /// Delete the entries of a directory.
    pub const DELETE_CHILD: Self = Self(0x40);
    /// Read the size, the times and similar attributes.
    pub const READ_ATTRIBUTES: Self = Self(0x80);
    /// Write the times and similar attributes.
    pub const WRITE_ATTRIBUTES: Self = Self(0x100);
    /// Delete the object.
    pub const DELETE: Self = Self(0x1_0000);
    /// Read the ACL.
    pub const READ_ACL: Self = Self(0x2_0000);
    /// Write the ACL.
    pub const WRITE_ACL: Self = Self(0x4_0000);
    /// Take or give away ownership.
    pub const WRITE_OWNER: Self = Self(0x8_0000);
    /// Wait on the object; only for compatibility with Windows.
    pub const SYNCHRONIZE: Self = Self(0x10_0000);
    /// All rights on a file: Windows' "full control".
    pub const ALL: Self = Self(0x1f_01ff);

    /// By default, an entry is visible to a principal that has all of these rights, as with Samba's `hide unreadable`. A datastore can require other
    /// rights.
    pub const VISIBLE: Self = Self(0x2_0089);

    /// Read, in the usual sense: read the bytes or list the directory, read the attributes and the ACL, and traverse.
    pub const READ: Self = Self(0x12_00a9);
    /// Write, in the usual sense: new content, new entries, new attributes; no deletion.
    pub const WRITE: Self = Self(0x0116);
    /// Read, write and delete: Windows' "modify".
    pub const MODIFY: Self = Self(0x13_01ff & !0x40);

    /// Whether this set contains every right of `wanted`.
    pub const fn covers(self, wanted: Self) -> bool {
        self.0 & wanted.0 == wanted.0
    }

    /// Whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// All rights of the two sets (their union), as a `const fn`.
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOr for AccessMask {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for AccessMask {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl BitAnd for AccessMask {
    type Output = Self;
    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl Not for AccessMask {
    type Output = Self;
    fn not(self) -> Self {
        Self(!self.0)
    }
}

/// The names of rights. The largest sets come first, so that a mask is printed with few words.
const NAMES: [(&str, AccessMask); 18] = [
    ("full", AccessMask::ALL),
    ("modify", AccessMask::MODIFY),
    ("read", AccessMask::READ),
    ("write", AccessMask::WRITE),
    ("read-data", AccessMask::READ_DATA),
    ("write-data", AccessMask::WRITE_DATA),
    ("append", AccessMask::APPEND),
    ("read-named-attributes", AccessMask::READ_NAMED_ATTRIBUTES),
    ("write-named-attributes", AccessMask::WRITE_NAMED_ATTRIBUTES),
    ("execute", AccessMask::EXECUTE),
    ("delete-child", AccessMask::DELETE_CHILD),
    ("read-attributes", AccessMask::READ_ATTRIBUTES),
    ("write-attributes", AccessMask::WRITE_ATTRIBUTES),
    ("delete", AccessMask::DELETE),
    ("read-acl", AccessMask::READ_ACL),
    ("write-acl", AccessMask::WRITE_ACL),
    ("write-owner", AccessMask::WRITE_OWNER),
    ("synchronize", AccessMask::SYNCHRONIZE),
];

/// Other names for the same bits. They are accepted, but never printed. Exception: `none` is printed for the empty set.
const ALIASES: [(&str, AccessMask); 5] = [
    ("list", AccessMask::LIST),
    ("add-file", AccessMask::ADD_FILE),
    ("add-subdirectory", AccessMask::ADD_SUBDIRECTORY),
    ("traverse", AccessMask::TRAVERSE),
    ("none", AccessMask::NONE),
];

impl fmt::Display for AccessMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("none");
        }
        let mut left = *self;
        let mut separator = "";
        for (name, mask) in NAMES {
            if left.covers(mask) {
                write!(f, "{separator}{name}")?;
                separator = ",";
                left = left & !mask;
            }
        }
        if !left.is_empty() {
            write!(f, "{separator}0x{:x}", left.0)?;
        }
        Ok(())
    }
}

impl fmt::Debug for AccessMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl FromStr for AccessMask {
    type Err = Malformed;
    fn from_str(text: &str) -> Result<Self, Malformed> {
        text.split(',').map(str::trim).try_fold(Self::NONE, |mask, word| {
            let named = NAMES.iter().chain(&ALIASES).find(|(name, _)| *name == word).map(|(_, mask)| *mask);
            let number = || word.strip_prefix("0x").and_then(|hex| u32::from_str_radix(hex, 16).ok()).map(Self);
            named.or_else(number).map(|more| mask | more).ok_or_else(|| {
                Malformed::new(
                    "right",
                    word,
                    "expected read, write, modify, full, list, add-file, add-subdirectory, traverse, delete, read-acl, \
                     write-acl or the name of another right; separate several rights by commas",
                )
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_read_back_as_written() {
        for bits in [0, 1, 2, 0x2_0089, 0x12_00a9, 0x1f_01ff, 0x13_01bf, 0x8000_0000, 0x1234_5678] {
            assert_eq!(AccessMask(bits).to_string().parse(), Ok(AccessMask(bits)), "{bits:x}");
        }
        assert_eq!(AccessMask::ALL.to_string(), "full");
        assert_eq!((AccessMask::READ | AccessMask::DELETE).to_string(), "read,delete");
        assert_eq!("list, traverse".parse(), Ok(AccessMask(0x21)));
        assert!("reed".parse::<AccessMask>().is_err());
    }
}
