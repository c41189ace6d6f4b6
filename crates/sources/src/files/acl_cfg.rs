//! `acl.cfg`: roles on paths, one line each:
//!
//! ```text
//! acl:<1 propagates, 0 does not>:<path>:<authids and @groups, separated by commas>:<roles, separated by commas>
//! ```
//! Comments are not possible in this file. Proxmox rejects the whole file if a line is malformed. This parser rejects only the assignments of the
//! malformed line.

use super::section_config::LineError;
use enfilade_facts::vocabulary::{Authid, Role, RolePath, Ugid, Userid, excerpt};
use std::collections::{BTreeMap, BTreeSet};

/// The roles of a user or group on a path, each with its propagate flag.
pub type Roles = BTreeMap<Role, bool>;

/// The content of `acl.cfg`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AclCfg {
    /// The assignments.
    pub entries: BTreeMap<(RolePath, Ugid), Roles>,
    /// Users and groups in malformed lines.
    pub broken: BTreeMap<(RolePath, Ugid), LineError>,
    /// Malformed lines in which no user or group can be read.
    pub problems: Vec<LineError>,
    /// The malformed lines, which are written back unchanged.
    raw: Vec<Vec<u8>>,
}

/// Whether the file can express the assignment. Any other assignment is stored in the facts only.
pub fn can_hold(path: &RolePath, ugid: &Ugid) -> bool {
    let text = ugid.to_string();
    path.is_plain() && !text.contains(',') && text.parse().as_ref() == Ok(ugid) && *ugid != root_pam()
}

/// The administrator of a Proxmox server. This user has every role, so the file needs no line for this user.
pub(crate) fn root_pam() -> Ugid {
    Ugid::Authid(Authid::from(Userid::root_pam()))
}

/// The assignments of each line, with the number of the line. Malformed lines are left out.
pub fn by_line(bytes: &[u8]) -> Vec<(u32, AclCfg)> {
    let lines = (1..).zip(bytes.split(|byte| *byte == b'\n'));
    let read = lines.map(|(number, raw)| (number, AclCfg::parse(raw)));
    read.filter(|(_, line)| !line.entries.is_empty()).collect()
}

impl AclCfg {
    /// Parses the content of the file. Line ends of Windows and a byte-order mark are accepted.
    pub fn parse(bytes: &[u8]) -> Self {
        let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let mut acl = AclCfg::default();
        for (index, raw) in text.split(|byte| *byte == b'\n').enumerate() {
            let number = u32::try_from(index + 1).unwrap_or(u32::MAX);
            let raw = raw.strip_suffix(b"\r").unwrap_or(raw);
            if raw.trim_ascii().is_empty() {
                continue;
            }
            if let Err((reason, named)) = acl.line(raw) {
                let error = LineError { line: number, reason };
                acl.raw.push(raw.to_vec());
                if named.is_empty() {
                    acl.problems.push(error);
                } else {
                    acl.broken.extend(named.into_iter().map(|entry| (entry, error.clone())));
                }
            }
        }
        acl
    }

    /// Adds all assignments of a line, or none of them. The error contains the reason, and the users and groups in the line as far as they can be
    /// read.
    fn line(&mut self, raw: &[u8]) -> Result<(), (String, Vec<(RolePath, Ugid)>)> {
        let nobody = |reason: String| (reason, Vec::new());
        let text = std::str::from_utf8(raw).map_err(|_| nobody("the line is not UTF-8".into()))?;
        let fields: Vec<&str> = text.split(':').collect();
        let [kind, propagate, path, ugids, roles] = fields.as_slice() else {
            return Err(nobody("expected acl:PROPAGATE:PATH:WHO:ROLES".into()));
        };
        let trimmed = path.trim_end_matches('/');
        let path: Result<RolePath, _> = if trimmed.is_empty() { "/".parse() } else { trimmed.parse() };
        let path = path.map_err(|why| nobody(why.to_string()))?;
        let mut named = Vec::new();
        let mut wrong = None;
        for ugid in ugids.split(',') {
            match ugid.trim().parse::<Ugid>() {
                Ok(ugid) => named.push((path.clone(), ugid)),
                Err(why) => wrong = Some(why.to_string()),
            }
        }
        let propagate = match (*kind, *propagate) {
            ("acl", "0") => false,
            ("acl", "1") => true,
            ("acl", other) => {
                return Err((format!("expected 0 or 1 after `acl:`, not `{}`", excerpt(other)), named));
            }
            (other, _) => return Err((format!("expected `acl`, not `{}`", excerpt(other)), named)),
        };
        let parsed: Result<Vec<Role>, _> = roles.split(',').map(|role| role.trim().parse()).collect();
        match (wrong, parsed) {
            (Some(why), _) => Err((why, named)),
            (None, Err(why)) => Err((why.to_string(), named)),
            (None, Ok(roles)) => {
                for entry in named {
                    // If two lines assign the same role to the same user or group on the same path, the propagate flag of the later line counts, as
                    // in Proxmox.
                    let of_entry = self.entries.entry(entry).or_default();
                    of_entry.extend(roles.iter().map(|role| (*role, propagate)));
                }
                Ok(())
            }
        }
    }

    /// The content of the file as Proxmox writes it, sorted by path. For each path, roles that do not propagate come first. Roles with the same users
    /// and groups are in one line; if one of these roles is `NoAccess`, the other roles are left out. Malformed lines follow unchanged.
    pub fn print(&self) -> Vec<u8> {
        let mut nodes: BTreeMap<Vec<&str>, [BTreeMap<Role, BTreeSet<String>>; 2]> = BTreeMap::new();
        for ((path, ugid), roles) in &self.entries {
            let steps = path.as_str().split('/').filter(|step| !step.is_empty()).collect();
            let node = nodes.entry(steps).or_default();
            for (role, propagate) in roles {
                let [stays, propagates] = node;
                let set = if *propagate { propagates } else { stays };
                set.entry(*role).or_default().insert(ugid.to_string());
            }
        }
        let mut text = String::new();
        for (steps, sets) in nodes {
            for (propagate, roles) in sets.into_iter().enumerate() {
                let mut lines: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
                for (role, who) in roles {
                    let who: Vec<String> = who.into_iter().collect();
                    lines.entry(who.join(",")).or_default().insert(role.name());
                }
                for (who, roles) in lines {
                    let roles: Vec<&str> = match roles.contains(Role::NoAccess.name()) {
                        true => vec![Role::NoAccess.name()],
                        false => roles.into_iter().collect(),
                    };
                    text.push_str(&format!(
                        "acl:{propagate}:/{}:{who}:{}\n",
                        steps.join("/"),
                        roles.join(",")
                    ));
                }
            }
        }
        let mut bytes = text.into_bytes();
        for raw in &self.raw {
            bytes.extend_from_slice(raw);
            bytes.push(b'\n');
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entries(acl: &AclCfg) -> Vec<String> {
        let entry = |((path, ugid), roles): (&(RolePath, Ugid), &Roles)| format!("{path} {ugid} {roles:?}");
        acl.entries.iter().map(entry).collect()
    }

    #[test]
    fn lines_as_the_original_reads_and_writes_them() {
        let text = "acl:1:/:admin@pbs:Admin\n\
                    acl:0:/datastore:@staff,a@pbs:DatastoreAudit\n\
                    acl:1:/datastore:a@pbs:DatastoreBackup,DatastoreReader\n\
                    acl:1:/datastore/tank/ns1:a@pbs!tok,b@pbs:NoAccess\n\
                    acl:1:/remote/other:a@pbs:RemoteAdmin\n";
        let acl = AclCfg::parse(text.as_bytes());
        assert!(acl.broken.is_empty() && acl.problems.is_empty(), "{acl:?}");
        assert_eq!(String::from_utf8(acl.print()).unwrap(), text);
        assert_eq!(
            entries(&acl),
            [
                "/ admin@pbs {Admin: true}",
                "/datastore a@pbs {DatastoreReader: true, DatastoreBackup: true, DatastoreAudit: false}",
                "/datastore @staff {DatastoreAudit: false}",
                "/datastore/tank/ns1 a@pbs!tok {NoAccess: true}",
                "/datastore/tank/ns1 b@pbs {NoAccess: true}",
                "/remote/other a@pbs {RemoteAdmin: true}",
            ]
        );
        let other = "\u{feff}\r\n  \r\nacl:1:/datastore/:b@pbs, a@pbs :DatastoreReader\r\nacl:0:/datastore:b@pbs:DatastoreReader";
        let acl = AclCfg::parse(other.as_bytes());
        assert_eq!(
            String::from_utf8(acl.print()).unwrap(),
            "acl:0:/datastore:b@pbs:DatastoreReader\nacl:1:/datastore:a@pbs:DatastoreReader\n"
        );
    }

    #[test]
    fn a_broken_line_takes_only_those_it_names() {
        let text = "acl:1:/:a@pbs,b@pbs:Admni\nacl:1:/:c@pbs:Admin\n# comment\nacl:2:/:d@pbs:Admin\nacl:1:/../x:e@pbs:Admin\nacl:1:/:f@pbs,oops:Admin\nACL:1:/:g@pbs:Admin\n";
        let acl = AclCfg::parse(text.as_bytes());
        assert_eq!(entries(&acl), ["/ c@pbs {Admin: true}"]);
        let broken: Vec<_> = acl.broken.iter().map(|((_, who), why)| format!("{who} {}", why.line)).collect();
        assert_eq!(broken, ["a@pbs 1", "b@pbs 1", "d@pbs 4", "f@pbs 6", "g@pbs 7"]);
        let lines: Vec<_> = acl.problems.iter().map(|why| why.line).collect();
        assert_eq!(lines, [3, 5]);
        let printed = acl.print();
        assert!(printed.starts_with(b"acl:1:/:c@pbs:Admin\nacl:1:/:a@pbs,b@pbs:Admni\n# comment\n"));
        assert_eq!(AclCfg::parse(&printed).broken.len(), 5);
    }

    #[test]
    fn each_line_has_its_number() {
        let lines = by_line(b"acl:1:/:a@pbs,b@pbs:Admin\r\n\nnonsense\nacl:0:/datastore:a@pbs:Audit");
        let told: Vec<_> = lines.iter().map(|(number, line)| (*number, entries(line))).collect();
        let expected = [
            (1, vec!["/ a@pbs {Admin: true}".to_owned(), "/ b@pbs {Admin: true}".to_owned()]),
            (4, vec!["/datastore a@pbs {Audit: false}".to_owned()]),
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn what_the_file_cannot_say() {
        let can = |path: &str, who: &str| can_hold(&path.parse().unwrap(), &who.parse().unwrap());
        assert!(can("/datastore/tank/a.b", "a@pbs") && can("/", "@staff") && can("/", "root@pam!t"));
        assert!(!can("/datastore/tank/two words", "a@pbs"));
        assert!(!can("/", "a,b@pbs"));
        assert!(!can("/", "root@pam"));
    }

    proptest! {
        #[test]
        fn fuzzed_what_was_printed_is_read_as_before(bytes in prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..200),
            proptest::collection::vec(proptest::sample::select(vec![
                "acl:", "1:", "0:", "/", "/datastore/tank", ":", "a@pbs", "b@pbs!t", "@g", ",", "Admin", "NoAccess",
                "DatastoreReader", "\n", "\r\n", " ", "x",
            ]), 0..60).prop_map(|words| words.concat().into_bytes()),
        ]) {
            let acl = AclCfg::parse(&bytes);
            let again = AclCfg::parse(&acl.print());
            prop_assert_eq!(again.broken.len(), acl.broken.len());
            prop_assert_eq!(again.problems.len(), acl.problems.len());
            // Together with `NoAccess`, no other role is written, because no other role has an effect.
            let counts = |acl: &AclCfg| -> Vec<_> {
                let mut entries = acl.entries.clone();
                for roles in entries.values_mut() {
                    for propagates in [false, true] {
                        if roles.get(&Role::NoAccess) == Some(&propagates) {
                            roles.retain(|role, other| *role == Role::NoAccess || *other != propagates);
                        }
                    }
                }
                entries.into_iter().collect()
            };
            prop_assert_eq!(AclCfg::parse(&again.print()).print(), again.print());
            prop_assert_eq!(counts(&again), counts(&acl));
        }
    }
}
