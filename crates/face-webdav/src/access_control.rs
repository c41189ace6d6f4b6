//! The owner and the ACL of a resource, for users who may read the ACL (RFC 3744 §5.1 and §5.5).

use super::xml::push_text;
use enfilade_facts::vocabulary::{AccessMask, Sid};
use enfilade_passage::{Ace, AceFlags, AceType, Found, SecurityDescriptor};
use std::fmt::Write as _;

/// The owner and the ACL of a resource, and two URLs that are needed to write them: the URL of the user, and the URL of the parent directory.
#[derive(Clone, Debug)]
pub(crate) struct Control {
    descriptor: SecurityDescriptor,
    /// The SID and the URL of the requesting user.
    own: (Sid, String),
    /// The URL of the parent directory, from which entries are inherited.
    parent: String,
}

/// The privileges of RFC 3744 §3, each with the rights that it needs.
const PRIVILEGES: [(&str, AccessMask); 9] = [
    ("read", AccessMask::READ_DATA),
    ("write-content", AccessMask::WRITE_DATA),
    ("write-properties", AccessMask::WRITE_NAMED_ATTRIBUTES),
    ("bind", AccessMask::ADD_FILE.and(AccessMask::ADD_SUBDIRECTORY)),
    ("unbind", AccessMask::DELETE_CHILD),
    ("unlock", AccessMask::WRITE_DATA),
    ("read-acl", AccessMask::READ_ACL),
    ("write-acl", AccessMask::WRITE_ACL),
    ("read-current-user-privilege-set", AccessMask::READ_ATTRIBUTES),
];

/// Calls `is_there` for each privilege, with the rights that the privilege needs. Writes the privilege if the result is true.
pub(crate) fn push_privileges(xml: &mut String, is_there: impl Fn(AccessMask) -> bool) {
    for (privilege, _) in PRIVILEGES.iter().filter(|(_, mask)| is_there(*mask)) {
        let _ = write!(xml, "<D:privilege><D:{privilege}/></D:privilege>");
    }
}

impl Control {
    /// The owner and ACL of a resource, if the user may read them.
    pub(crate) fn of(found: &Found, own: (Sid, String), parent: String) -> Option<Self> {
        found.descriptor().map(|descriptor| Control { descriptor, own, parent })
    }

    pub(crate) fn has_owner(&self) -> bool {
        self.descriptor.owner.is_some()
    }

    pub(crate) fn push_owner(&self, xml: &mut String) {
        self.descriptor.owner.iter().for_each(|owner| self.push_href(xml, owner));
    }

    /// Writes the entries in the order of evaluation. Inherit-only entries are left out, because they do not apply to this resource. Audit entries
    /// are left out, because they do not grant or deny anything. Entries without any privilege of [`PRIVILEGES`] are left out, too.
    pub(crate) fn push_acl(&self, xml: &mut String) {
        // A descriptor without an ACL grants everything.
        let everything =
            [Ace { kind: AceType::Allow, flags: AceFlags(0), mask: AccessMask::ALL, sid: Sid::EVERYONE }];
        for ace in self.descriptor.dacl.as_deref().unwrap_or(&everything) {
            if ace.kind != AceType::Audit && !ace.flags.has(AceFlags::INHERIT_ONLY) {
                self.push_ace(xml, ace);
            }
        }
    }

    fn push_ace(&self, xml: &mut String, ace: &Ace) {
        let mut privileges = String::new();
        // A privilege is granted only if all of its rights are allowed, and it is denied if any of its rights is denied.
        push_privileges(&mut privileges, |mask| match ace.kind {
            AceType::Allow => ace.mask.covers(mask),
            _ => !(ace.mask & mask).is_empty(),
        });
        if privileges.is_empty() {
            return;
        }
        xml.push_str("<D:ace><D:principal>");
        match ace.sid {
            Sid::EVERYONE => xml.push_str("<D:all/>"),
            Sid::AUTHENTICATED | Sid::NETWORK => xml.push_str("<D:authenticated/>"),
            Sid::OWNER_RIGHTS => xml.push_str("<D:property><D:owner/></D:property>"),
            sid => self.push_href(xml, &sid),
        }
        let verdict = if ace.kind == AceType::Allow { "grant" } else { "deny" };
        let _ = write!(xml, "</D:principal><D:{verdict}>{privileges}</D:{verdict}>");
        if ace.flags.has(AceFlags::INHERITED) {
            let _ = write!(xml, "<D:inherited><D:href>{}</D:href></D:inherited>", self.parent);
        }
        xml.push_str("</D:ace>");
    }

    /// Writes the URL of a subject. The URL of the user contains the name of the user. The URLs of all other subjects contain SIDs, because the
    /// lookup of a name would have to search all users and groups.
    fn push_href(&self, xml: &mut String, sid: &Sid) {
        let (own, url) = &self.own;
        xml.push_str("<D:href>");
        match own == sid {
            true => push_text(xml, url),
            false => {
                let _ = write!(xml, "/principals/{sid}");
            }
        }
        xml.push_str("</D:href>");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(entries: &[Ace]) -> String {
        let sid: Sid = "S-1-5-21-1-2-3-1000".parse().unwrap();
        let descriptor = SecurityDescriptor {
            owner: Some(sid),
            dacl: Some(entries.to_vec()),
            ..SecurityDescriptor::default()
        };
        let control =
            Control { descriptor, own: (sid, "/principals/a@b".to_owned()), parent: "/dav/x/".to_owned() };
        let mut xml = String::new();
        control.push_owner(&mut xml);
        control.push_acl(&mut xml);
        xml
    }

    #[test]
    fn entries_that_count() {
        let ace = |kind, flags, mask, sid| Ace { kind, flags: AceFlags(flags), mask, sid };
        let other = "S-1-5-21-1-2-3-1001".parse().unwrap();
        let owner = "<D:href>/principals/a@b</D:href>";
        assert_eq!(written(&[]), owner);
        let read = AccessMask::READ_DATA;
        for (entry, expected) in [
            (
                ace(AceType::Allow, 0, read, other),
                "<D:ace><D:principal><D:href>/principals/S-1-5-21-1-2-3-1001</D:href></D:principal>\
                 <D:grant><D:privilege><D:read/></D:privilege></D:grant></D:ace>",
            ),
            (
                ace(AceType::Deny, AceFlags::INHERITED, AccessMask::ADD_SUBDIRECTORY, Sid::EVERYONE),
                "<D:ace><D:principal><D:all/></D:principal><D:deny><D:privilege><D:bind/></D:privilege></D:deny>\
                 <D:inherited><D:href>/dav/x/</D:href></D:inherited></D:ace>",
            ),
            (ace(AceType::Allow, 0, AccessMask::ADD_SUBDIRECTORY, Sid::EVERYONE), ""),
            (ace(AceType::Audit, 0, read, other), ""),
            (ace(AceType::Allow, AceFlags::INHERIT_ONLY, read, other), ""),
        ] {
            assert_eq!(written(&[entry]), format!("{owner}{expected}"));
        }
    }
}
