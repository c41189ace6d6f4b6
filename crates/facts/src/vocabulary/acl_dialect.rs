//! The form in which ACLs are stored on the files of a datastore.

use super::Malformed;
use std::fmt;
use std::str::FromStr;

/// The form in which ACLs are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AclDialect {
    /// Windows' security descriptors, as Samba's `vfs_acl_xattr` keeps them in `security.NTACL`.
    #[default]
    Ntacl,
    /// NFSv4 ACLs, as Samba's `vfs_nfs4acl_xattr` keeps them in `security.nfs4acl_xdr`: they identify users and groups only by number.
    Nfs4,
}

impl AclDialect {
    /// The name of the form.
    pub fn name(self) -> &'static str {
        match self {
            AclDialect::Ntacl => "ntacl",
            AclDialect::Nfs4 => "nfs4",
        }
    }
}

impl fmt::Display for AclDialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for AclDialect {
    type Err = Malformed;
    fn from_str(text: &str) -> Result<Self, Malformed> {
        let all = [AclDialect::Ntacl, AclDialect::Nfs4];
        let found = all.into_iter().find(|dialect| dialect.name() == text);
        found.ok_or_else(|| Malformed::new("ACL dialect", text, "expected ntacl or nfs4"))
    }
}
