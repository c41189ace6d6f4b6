//! The text form of ACLs that Windows writes in one line (SDDL, MS-DTYP §2.5.1):
//! `O:S-1-5-…G:…D:P(A;OICI;0x1200a9;;;WD)`. With this form, an operator can copy ACLs between this server and `icacls`, `samba-tool ntacl` or
//! scripts.

use crate::security_descriptor::{Ace, AceFlags, AceType, SecurityDescriptor};
use enfilade_facts::vocabulary::{AccessMask, Sid};

/// The two-letter names of well-known SIDs. SIDs of a domain are not in this table, because the two-letter name does not contain the domain.
const SIDS: [(&str, &str); 26] = [
    ("AC", "S-1-15-2-1"),
    ("AN", "S-1-5-7"),
    ("AO", "S-1-5-32-548"),
    ("AU", "S-1-5-11"),
    ("BA", "S-1-5-32-544"),
    ("BG", "S-1-5-32-546"),
    ("BO", "S-1-5-32-551"),
    ("BU", "S-1-5-32-545"),
    ("CG", "S-1-3-1"),
    ("CO", "S-1-3-0"),
    ("ED", "S-1-5-9"),
    ("IU", "S-1-5-4"),
    ("LS", "S-1-5-19"),
    ("LW", "S-1-16-4096"),
    ("NO", "S-1-5-32-556"),
    ("NS", "S-1-5-20"),
    ("NU", "S-1-5-2"),
    ("OW", "S-1-3-4"),
    ("PO", "S-1-5-32-550"),
    ("PS", "S-1-5-10"),
    ("PU", "S-1-5-32-547"),
    ("RC", "S-1-5-12"),
    ("RD", "S-1-5-32-555"),
    ("SO", "S-1-5-32-549"),
    ("SU", "S-1-5-6"),
    ("WD", "S-1-1-0"),
];
/// The system account of Windows. It is looked up together with the names in [`SIDS`].
const SYSTEM: (&str, &str) = ("SY", "S-1-5-18");

const TYPES: [(&str, AceType); 4] =
    [("A", AceType::Allow), ("D", AceType::Deny), ("AU", AceType::Audit), ("AL", AceType::Audit)];

const FLAGS: [(&str, u8); 7] = [
    ("OI", AceFlags::FILES),
    ("CI", AceFlags::DIRECTORIES),
    ("NP", AceFlags::ONCE),
    ("IO", AceFlags::INHERIT_ONLY),
    ("ID", AceFlags::INHERITED),
    ("SA", 0x40),
    ("FA", 0x80),
];

const RIGHTS: [(&str, u32); 21] = [
    ("GA", 0x1000_0000),
    ("GX", 0x2000_0000),
    ("GW", 0x4000_0000),
    ("GR", 0x8000_0000),
    ("FA", 0x001f_01ff),
    ("FR", 0x0012_0089),
    ("FW", 0x0012_0116),
    ("FX", 0x0012_00a0),
    ("SD", 0x0001_0000),
    ("RC", 0x0002_0000),
    ("WD", 0x0004_0000),
    ("WO", 0x0008_0000),
    ("CC", 0x1),
    ("DC", 0x2),
    ("LC", 0x4),
    ("SW", 0x8),
    ("RP", 0x10),
    ("WP", 0x20),
    ("DT", 0x40),
    ("LO", 0x80),
    ("CR", 0x100),
];

/// The flag of a security descriptor without a DACL. Such a security descriptor grants every right.
const NO_LIST: &str = "NO_ACCESS_CONTROL";

/// Writes an ACL. Rights are written as numbers, because `FA` has different meanings in different programs.
pub fn to_sddl(descriptor: &SecurityDescriptor) -> String {
    let mut text = String::new();
    let called = |sid: &Sid| {
        let spelled = sid.to_string();
        let known = SIDS.iter().chain([&SYSTEM]).find(|(_, known)| *known == spelled);
        known.map_or(spelled.clone(), |(letters, _)| (*letters).to_owned())
    };
    for (mark, sid) in [("O:", &descriptor.owner), ("G:", &descriptor.group)] {
        if let Some(sid) = sid {
            text.push_str(mark);
            text.push_str(&called(sid));
        }
    }
    text.push_str("D:");
    if descriptor.is_protected {
        text.push('P');
    }
    let Some(entries) = &descriptor.dacl else {
        text.push_str(NO_LIST);
        return text;
    };
    for ace in entries {
        let kind = TYPES.iter().find(|(_, kind)| *kind == ace.kind).map_or("", |(letters, _)| letters);
        let flags: String =
            FLAGS.iter().filter(|(_, flag)| ace.flags.has(*flag)).map(|(letters, _)| *letters).collect();
        text.push_str(&format!("({kind};{flags};{:#x};;;{})", ace.mask.0, called(&ace.sid)));
    }
    text
}

/// Reads an ACL.
///
/// # Errors
/// A text that says which part of the ACL cannot be read.
pub fn from_sddl(text: &str) -> Result<SecurityDescriptor, String> {
    let mut descriptor = SecurityDescriptor::default();
    let (mut rest, mut has_list) = (text.trim(), false);
    while !rest.is_empty() {
        let (mark, after) = rest.split_at_checked(2).ok_or("expected `O:`, `G:` or `D:`")?;
        let end = next_part(after);
        let (part, further) = after.split_at_checked(end).unwrap_or((after, ""));
        match mark {
            "O:" if descriptor.owner.is_none() => descriptor.owner = Some(sid(part)?),
            "G:" if descriptor.group.is_none() => descriptor.group = Some(sid(part)?),
            "D:" if !has_list => {
                has_list = true;
                (descriptor.dacl, descriptor.is_protected) = list(part)?;
            }
            // The system list (SACL) says which accesses are audited. This server does not store the list.
            "S:" => {}
            other => {
                return Err(format!(
                    "`{other}` is not expected here; expected `O:`, `G:` or `D:`, each once"
                ));
            }
        }
        rest = further;
    }
    match has_list {
        true => Ok(descriptor),
        false => Err("there is no `D:` part, which is the list of entries".to_owned()),
    }
}

/// Where the next part begins: at a letter and a colon outside of brackets. Neither SIDs nor flags contain a colon.
fn next_part(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut depth = 0_usize;
    for (at, pair) in bytes.windows(2).enumerate() {
        match pair {
            [b'(', _] => depth += 1,
            [b')', _] => depth = depth.saturating_sub(1),
            [b'O' | b'G' | b'D' | b'S', b':'] if depth == 0 => return at,
            _ => {}
        }
    }
    text.len()
}

type List = (Option<Vec<Ace>>, bool);

fn list(text: &str) -> Result<List, String> {
    let entries = text.find('(').unwrap_or(text.len());
    let (mut flags, mut rest) = text.split_at_checked(entries).unwrap_or((text, ""));
    let (mut is_protected, mut is_none) = (false, false);
    while !flags.is_empty() {
        // The flags `AR` and `AI` say how the list was inherited. These flags do not change the rights that the list grants, so this server ignores
        // them.
        let word = [NO_LIST, "AR", "AI", "P"].into_iter().find(|word| flags.starts_with(word));
        let word = word.ok_or_else(|| format!("`{flags}`: expected `P`, `AI`, `AR` or `(`"))?;
        is_protected |= word == "P";
        is_none |= word == NO_LIST;
        flags = flags.strip_prefix(word).unwrap_or_default();
    }
    let mut aces = Vec::new();
    while let Some(inside) = rest.strip_prefix('(') {
        let (entry, further) = inside.split_once(')').ok_or("an entry is not closed; expected `)`")?;
        aces.push(ace(entry)?);
        rest = further.trim_start();
    }
    match (is_none, rest) {
        (true, "") if aces.is_empty() => Ok((None, is_protected)),
        (false, "") => Ok((Some(aces), is_protected)),
        (true, _) => Err(format!("`{NO_LIST}` and entries contradict each other")),
        (_, rest) => Err(format!("`{rest}`: expected `(` or the end")),
    }
}

fn ace(text: &str) -> Result<Ace, String> {
    let fields: Vec<&str> = text.split(';').map(str::trim).collect();
    let [kind, flags, rights, object, inherited, who] = fields.as_slice() else {
        return Err(format!("`({text})`: expected `(TYPE;FLAGS;RIGHTS;;;WHO)`"));
    };
    if !object.is_empty() || !inherited.is_empty() {
        return Err(format!(
            "`({text})`: the fourth and the fifth field must be empty; they are for objects of Active Directory, not for files"
        ));
    }
    let kind = TYPES.iter().find(|(letters, _)| letters == kind);
    let (_, kind) = kind.ok_or_else(|| format!("`({text})`: expected the type `A`, `D`, `AU` or `AL`"))?;
    let mut ace = Ace { kind: *kind, flags: AceFlags(0), mask: rights_of(rights)?, sid: sid(who)? };
    let mut flags = *flags;
    while !flags.is_empty() {
        let known = FLAGS.iter().find(|(letters, _)| flags.starts_with(letters));
        let (letters, flag) = known.ok_or_else(|| {
            format!("`({text})`: `{flags}` is not a flag; expected OI, CI, NP, IO, ID, SA or FA")
        })?;
        ace.flags.0 |= flag;
        flags = flags.strip_prefix(letters).unwrap_or_default();
    }
    Ok(ace)
}

fn rights_of(text: &str) -> Result<AccessMask, String> {
    let wrong = || {
        format!(
            "`{text}` is not a set of rights; expected letters such as `FA`, or a number such as 0x1200a9"
        )
    };
    if let Some(digits) = text.strip_prefix("0x") {
        return u32::from_str_radix(digits, 16).map(AccessMask).map_err(|_| wrong());
    }
    if text.starts_with(|first: char| first.is_ascii_digit()) {
        return text.parse().map(AccessMask).map_err(|_| wrong());
    }
    let (mut mask, mut rest) = (0, text);
    while !rest.is_empty() {
        let (letters, right) =
            RIGHTS.iter().find(|(letters, _)| rest.starts_with(letters)).ok_or_else(wrong)?;
        mask |= right;
        rest = rest.strip_prefix(letters).unwrap_or_default();
    }
    Ok(AccessMask(mask))
}

fn sid(text: &str) -> Result<Sid, String> {
    let known = SIDS.iter().chain([&SYSTEM]).find(|(letters, _)| *letters == text);
    let spelled = known.map_or(text, |(_, spelled)| spelled);
    spelled.parse().map_err(|_| {
        format!(
            "`{text}` is not a known principal; expected a SID such as S-1-5-21-1-2-3-1000, or letters such as `WD`"
        )
    })
}

#[cfg(test)]
mod tests;
