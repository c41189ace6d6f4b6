//! The text form of ACLs, which people read and write. Each line contains one entry:
//!
//! ```text
//! owner alice@local
//! allow @staff read,write inherit=files,dirs
//! deny everyone delete
//! ```

use crate::security_descriptor::{Ace, AceFlags, AceType, SecurityDescriptor};
use enfilade_facts::vocabulary::{AccessMask, Sid};

/// One line of an ACL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AclLine {
    /// The owner of the object.
    Owner(Sid),
    /// The primary group of the object.
    Group(Sid),
    /// The object inherits nothing.
    Protected,
    /// An entry.
    Ace(Ace),
}

const WELL_KNOWN: [(&str, Sid); 7] = [
    ("everyone", Sid::EVERYONE),
    ("authenticated", Sid::AUTHENTICATED),
    ("network", Sid::NETWORK),
    ("creator-owner", Sid::CREATOR_OWNER),
    ("creator-group", Sid::CREATOR_GROUP),
    ("owner-rights", Sid::OWNER_RIGHTS),
    ("administrators", Sid::ADMINISTRATORS),
];

const FLAGS: [(&str, u8); 4] = [
    ("files", AceFlags::FILES),
    ("dirs", AceFlags::DIRECTORIES),
    ("only", AceFlags::INHERIT_ONLY),
    ("once", AceFlags::ONCE),
];

/// The name of a well-known SID, which has the same meaning on every machine; `None` for any other SID.
pub fn well_known(sid: &Sid) -> Option<&'static str> {
    WELL_KNOWN.iter().find(|(_, known)| known == sid).map(|(name, _)| *name)
}

/// Reads a line; `resolve` finds the SID of a user or group by its name.
///
/// # Errors
/// When the line is malformed, or a name is not known.
pub fn parse_line(line: &str, resolve: &dyn Fn(&str) -> Result<Sid, String>) -> Result<AclLine, String> {
    let who = |text: &str| match WELL_KNOWN.iter().find(|(name, _)| *name == text) {
        Some((_, sid)) => Ok(*sid),
        None if text.starts_with("S-1-") => text.parse().map_err(|why| format!("{why}")),
        None => resolve(text),
    };
    let words: Vec<&str> = line.split_whitespace().collect();
    match words.as_slice() {
        ["owner", name] => Ok(AclLine::Owner(who(name)?)),
        ["group", name] => Ok(AclLine::Group(who(name)?)),
        ["protected"] => Ok(AclLine::Protected),
        [kind @ ("allow" | "deny" | "audit"), name, rights, rest @ ..] => {
            let mut flags = 0;
            for word in rest {
                match word.strip_prefix("inherit=") {
                    Some(list) => flags |= parse_flags(list)?,
                    None if *word == "inherited" => flags |= AceFlags::INHERITED,
                    None => {
                        return Err(format!(
                            "`{word}`: expected `inherit=files,dirs,only,once` or `inherited`"
                        ));
                    }
                }
            }
            let kind = match *kind {
                "allow" => AceType::Allow,
                "deny" => AceType::Deny,
                _ => AceType::Audit,
            };
            let mask: AccessMask = rights.parse().map_err(|why| format!("{why}"))?;
            Ok(AclLine::Ace(Ace { kind, flags: AceFlags(flags), mask, sid: who(name)? }))
        }
        _ => {
            Err("expected `allow WHO RIGHTS`, `deny WHO RIGHTS`, `audit WHO RIGHTS`, `owner WHO`, `group WHO` or `protected`"
                .into())
        }
    }
}

fn parse_flags(list: &str) -> Result<u8, String> {
    list.split(',').try_fold(0, |flags, word| {
        let known = FLAGS.iter().find(|(name, _)| *name == word).map(|(_, flag)| *flag);
        // Success and failure bits of audit entries have no name: they are written as a number.
        let number = || word.strip_prefix("0x").and_then(|hex| u8::from_str_radix(hex, 16).ok());
        let flag = known.or_else(number);
        flag.map(|flag| flags | flag).ok_or_else(|| format!("`{word}`: expected files, dirs, only or once"))
    })
}

/// Writes an ACL as lines of text. `name` returns the name of the user or group with a SID.
pub fn print_lines(descriptor: &SecurityDescriptor, name: &dyn Fn(&Sid) -> Option<String>) -> Vec<String> {
    let call = |sid: &Sid| called(sid, name);
    let owner = descriptor.owner.iter().map(|sid| format!("owner {}", call(sid)));
    let group = descriptor.group.iter().map(|sid| format!("group {}", call(sid)));
    let protected = descriptor.is_protected.then(|| "protected".to_owned());
    // A security descriptor without a list of entries grants everything. If it were printed as no lines, the text would be read as an empty list,
    // which grants nothing.
    let everything =
        Ace { kind: AceType::Allow, flags: AceFlags(0), mask: AccessMask::ALL, sid: Sid::EVERYONE };
    let entries = descriptor.dacl.as_deref().unwrap_or(std::slice::from_ref(&everything));
    owner.chain(group).chain(protected).chain(entries.iter().map(|ace| print_ace(ace, name))).collect()
}

fn called(sid: &Sid, name: &dyn Fn(&Sid) -> Option<String>) -> String {
    let known = well_known(sid).map(str::to_owned);
    known.or_else(|| name(sid)).unwrap_or_else(|| sid.to_string())
}

pub(crate) fn print_ace(ace: &Ace, name: &dyn Fn(&Sid) -> Option<String>) -> String {
    let kind = match ace.kind {
        AceType::Allow => "allow",
        AceType::Deny => "deny",
        AceType::Audit => "audit",
    };
    let mut text = format!("{kind} {} {}", called(&ace.sid, name), ace.mask);
    let mut flags: Vec<String> =
        FLAGS.iter().filter(|(_, flag)| ace.flags.has(*flag)).map(|(word, _)| (*word).to_owned()).collect();
    let named = FLAGS.iter().fold(AceFlags::INHERITED, |all, (_, flag)| all | flag);
    if ace.flags.0 & !named != 0 {
        flags.push(format!("{:#x}", ace.flags.0 & !named));
    }
    if !flags.is_empty() {
        text.push_str(" inherit=");
        text.push_str(&flags.join(","));
    }
    if ace.flags.has(AceFlags::INHERITED) {
        text.push_str(" inherited");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_people_write() {
        let staff = Sid::of_store([1, 2, 3], 1000);
        let resolve =
            |name: &str| if name == "@staff" { Ok(staff) } else { Err(format!("there is no `{name}`")) };
        let parse = |line: &str| parse_line(line, &resolve);
        let ace = |kind, mask, flags, sid| AclLine::Ace(Ace { kind, flags: AceFlags(flags), mask, sid });
        assert_eq!(parse("owner S-1-1-0"), Ok(AclLine::Owner(Sid::EVERYONE)));
        assert_eq!(
            parse("allow @staff read,write inherit=files,dirs"),
            Ok(ace(AceType::Allow, AccessMask::READ | AccessMask::WRITE, 3, staff))
        );
        assert_eq!(
            parse("deny everyone delete"),
            Ok(ace(AceType::Deny, AccessMask::DELETE, 0, Sid::EVERYONE))
        );
        assert_eq!(
            parse("allow everyone read inherit=dirs,dirs,0x41 inherited"),
            Ok(ace(AceType::Allow, AccessMask::READ, 0x53, Sid::EVERYONE))
        );
        for line in [
            "",
            "allow everyone read files",
            "allow everyone read inherited,files",
            "allow",
            "allow @staff",
            "allow @nobody read",
            "permit @staff read",
            "allow @staff reed",
            "allow @staff read inherit=all",
            "allow S-1-x read",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn no_list_is_printed_as_what_it_grants() {
        let print =
            |dacl| print_lines(&SecurityDescriptor { dacl, ..SecurityDescriptor::default() }, &|_| None);
        assert_eq!(print(None), ["allow everyone full"]);
        assert_eq!(print(Some(Vec::new())), Vec::<String>::new());
    }

    fn any_sid() -> impl Strategy<Value = Sid> {
        let known = (0..WELL_KNOWN.len()).prop_map(|index| WELL_KNOWN[index].1);
        prop_oneof![known, any::<u32>().prop_map(|rid| Sid::of_store([1, 2, 3], rid))]
    }

    fn any_ace() -> impl Strategy<Value = Ace> {
        let kind = prop_oneof![Just(AceType::Allow), Just(AceType::Deny), Just(AceType::Audit)];
        (kind, any::<u8>(), any::<u32>(), any_sid()).prop_map(|(kind, flags, mask, sid)| Ace {
            kind,
            flags: AceFlags(flags),
            mask: AccessMask(mask),
            sid,
        })
    }

    proptest! {
        #[test]
        fn what_is_printed_reads_back(
            owner in proptest::option::of(any_sid()),
            group in proptest::option::of(any_sid()),
            entries in proptest::collection::vec(any_ace(), 0..6),
            named in any::<bool>(),
            is_protected in any::<bool>(),
        ) {
            let descriptor = SecurityDescriptor { owner, group, dacl: Some(entries), is_protected };
            let name = |sid: &Sid| named.then(|| format!("@{sid}"));
            let resolve = |name: &str| {
                let sid = name.strip_prefix('@').ok_or("no such name")?;
                sid.parse().map_err(|why| format!("{why}"))
            };
            let mut read = SecurityDescriptor { dacl: Some(Vec::new()), ..SecurityDescriptor::default() };
            for line in print_lines(&descriptor, &name) {
                match parse_line(&line, &resolve) {
                    Ok(AclLine::Owner(sid)) => read.owner = Some(sid),
                    Ok(AclLine::Group(sid)) => read.group = Some(sid),
                    Ok(AclLine::Protected) => read.is_protected = true,
                    Ok(AclLine::Ace(ace)) => read.dacl.get_or_insert_default().push(ace),
                    Err(why) => prop_assert!(false, "{}: {}", line, why),
                }
            }
            prop_assert_eq!(read, descriptor);
        }
    }
}
