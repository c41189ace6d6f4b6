//! Reads users and tokens from the sections of `user.cfg`, and writes them into the sections.

use super::section_config::{self, LineError, Parsed, Section};
use enfilade_facts::limits::COMMENT_BYTES_MAX;
use enfilade_facts::vocabulary::{Authid, Userid, excerpt};
use std::collections::BTreeMap;

/// The section of a user or token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Whether the user or token may be used.
    pub enabled: bool,
    /// The second at which the user or token expires, since the epoch; 0 if it never expires.
    pub expires: i64,
    /// The comment of the user or token.
    pub comment: Option<String>,
}

impl Default for Entry {
    fn default() -> Self {
        Entry { enabled: true, expires: 0, comment: None }
    }
}

/// The parsed file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserCfg {
    /// Users and tokens.
    pub entries: BTreeMap<Authid, Entry>,
    /// Users and tokens with a malformed section. The flag says whether their last good facts may still be used.
    pub broken: BTreeMap<Authid, (LineError, bool)>,
    /// Problems that cannot be attributed to a user or token.
    pub problems: Vec<LineError>,
}

/// The properties of Proxmox Backup Server 4 that only users have. They are kept in the file, but have no effect in this server.
const OF_PEOPLE: [&str; 3] = ["firstname", "lastname", "email"];

/// The section types.
const USER: &str = "user";
const TOKEN: &str = "token";

/// Reads users and tokens from the parsed sections.
pub fn read(parsed: &Parsed) -> UserCfg {
    let mut users = UserCfg { problems: parsed.errors.clone(), ..UserCfg::default() };
    for section in &parsed.sections {
        match (read_section(section), Authid::from_proxmox(&section.id)) {
            (Ok((authid, entry)), _) => {
                users.entries.insert(authid, entry);
            }
            (Err((error, serves)), Ok(authid)) => {
                users.broken.entry(authid).or_insert((error, serves));
            }
            (Err((LineError { line, reason }, _)), Err(_)) => {
                let reason = format!("{reason} (section `{}`)", excerpt(&section.id));
                users.problems.push(LineError { line, reason });
            }
        }
    }
    users
}

/// The error, and whether the last good facts may still be used. The last good facts may not be used if the section is well-formed, but contains an
/// unknown value.
type Wrong = (LineError, bool);

fn read_section(section: &Section) -> Result<(Authid, Entry), Wrong> {
    let at = |line: u32, reason: String| (LineError { line, reason }, true);
    if let Some(error) = &section.error {
        return Err((error.clone(), true));
    }
    let authid = Authid::from_proxmox(&section.id).map_err(|why| at(section.line, format!("{why}")))?;
    match (section.kind.as_str(), &authid.token) {
        (USER, None) | (TOKEN, Some(_)) => {}
        (USER | TOKEN, _) => {
            return Err(at(section.line, format!("`{authid}` is not a {} id", section.kind)));
        }
        (other, _) => return Err(at(section.line, format!("unknown section type '{}'", excerpt(other)))),
    }
    let mut entry = Entry::default();
    let mut seen: Vec<&str> = Vec::new();
    for (index, (key, value)) in section.properties.iter().enumerate() {
        let line = section.lines.get(index).copied().unwrap_or(section.line);
        if seen.contains(&key.as_str()) {
            return Err(at(line, format!("duplicate property '{key}'")));
        }
        seen.push(key);
        let unknown = |expected: &str| {
            let reason = format!("`{}` is not a valid value of '{key}'; expected {expected}", excerpt(value));
            (LineError { line, reason }, false)
        };
        match key.as_str() {
            "enable" => entry.enabled = boolean(value).ok_or_else(|| unknown("true or false"))?,
            "expire" => {
                let seconds = value.parse().ok().filter(|seconds| *seconds >= 0);
                entry.expires = seconds.ok_or_else(|| unknown("seconds since the epoch, or 0"))?;
            }
            "comment" if value.len() > COMMENT_BYTES_MAX => {
                return Err(at(line, format!("the comment is longer than {COMMENT_BYTES_MAX} bytes")));
            }
            "comment" => entry.comment = Some(value.clone()),
            of_people if section.kind == USER && OF_PEOPLE.contains(&of_people) => {}
            "userid" | "tokenid" if *value == section.id => {}
            other => return Err(at(line, format!("unknown property '{}'", excerpt(other)))),
        }
    }
    Ok((authid, entry))
}

/// Reads a boolean in upper or lower case, as Proxmox's schema does.
fn boolean(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "on" | "yes" | "true" => Some(true),
        "0" | "off" | "no" | "false" => Some(false),
        _ => None,
    }
}

/// Writes an entry into the section of a user or token. If the section does not exist, it is created.
///
/// # Errors
/// When the section is malformed. It must be corrected first.
pub fn set(sections: &mut Vec<Section>, authid: &Authid, entry: &Entry) -> Result<(), String> {
    let id = authid.to_proxmox();
    let place = sections.iter().position(|section| section.id == id);
    let place = place.unwrap_or_else(|| {
        let kind = if authid.token.is_some() { TOKEN } else { USER };
        sections.push(Section::new(kind, &id, Vec::new()));
        sections.len() - 1
    });
    let Some(section) = sections.get_mut(place) else { return Ok(()) };
    if let Some(error) = &section.error {
        return Err(format!("user.cfg: line {}: {}; correct this line first", error.line, error.reason));
    }
    // Default values are not written, as in Proxmox.
    section_config::set(section, "comment", entry.comment.clone());
    section_config::set(section, "enable", (!entry.enabled).then(|| "false".to_owned()));
    section_config::set(section, "expire", (entry.expires != 0).then(|| entry.expires.to_string()));
    Ok(())
}

/// Changes the section of a user or token.
///
/// # Errors
/// When the section does not exist or is malformed.
pub fn change(
    sections: &mut Vec<Section>,
    authid: &Authid,
    change: impl FnOnce(&mut Entry),
) -> Result<(), String> {
    let id = authid.to_proxmox();
    let mut entry = match sections.iter().find(|section| section.id == id) {
        Some(section) => {
            let read = read_section(section);
            let (_, entry) = read.map_err(|(why, _)| {
                format!("user.cfg: line {}: {}; correct this line first", why.line, why.reason)
            })?;
            entry
        }
        // The administrator root@pam exists even if the file has no section for it.
        None if authid.token.is_none() && authid.user == Userid::root_pam() => Entry::default(),
        None => {
            // The header of the section may be in a line that cannot be read, so the message also contains the number of such a line.
            let broken = sections.iter().find_map(|section| section.error.as_ref());
            let broken = broken.map(|why| {
                format!("; line {} cannot be read, and may belong to this section: {}", why.line, why.reason)
            });
            return Err(format!("user.cfg has no section of `{id}`{}", broken.unwrap_or_default()));
        }
    };
    change(&mut entry);
    set(sections, authid, &entry)
}

/// Removes the section of a user or token. Returns whether the section existed.
pub fn remove(sections: &mut Vec<Section>, authid: &Authid) -> bool {
    let before = sections.len();
    sections.retain(|section| section.id != authid.to_proxmox());
    sections.len() < before
}

/// Removes the sections of a user and of every token of the user.
pub fn remove_all_of(sections: &mut Vec<Section>, user: &Userid) {
    sections.retain(|section| !Authid::from_proxmox(&section.id).is_ok_and(|authid| authid.user == *user));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> UserCfg {
        read(&section_config::parse(text.as_bytes()))
    }

    #[test]
    fn sections_as_users_and_tokens() {
        let users = parsed(
            "user: a@pbs\n\tcomment two words\n\tenable false\n\texpire 1800000000\n\temail a@example.org\n\n\
             token: a@pbs!tok\n\nuser: root@pam\n\tenable 1\n",
        );
        assert!(users.broken.is_empty() && users.problems.is_empty(), "{users:?}");
        let entry = |id: &str| users.entries[&id.parse().unwrap()].clone();
        let comment = Some("two words".to_owned());
        assert_eq!(entry("a@pbs"), Entry { enabled: false, expires: 1_800_000_000, comment });
        assert_eq!((entry("a@pbs!tok"), entry("root@pam")), (Entry::default(), Entry::default()));
    }

    #[test]
    fn broken_sections_stand_alone() {
        for (text, line, reason, serves) in [
            ("user: a@pbs\n\tfoo 1\n", 2, "unknown property 'foo'", true),
            (
                "user: a@pbs\n\tenable flase\n",
                2,
                "`flase` is not a valid value of 'enable'; expected true or false",
                false,
            ),
            (
                "user: a@pbs\n\texpire -1\n",
                2,
                "`-1` is not a valid value of 'expire'; expected seconds since the epoch, or 0",
                false,
            ),
            ("token: a@pbs\n\tenable 1\n", 1, "`a@pbs` is not a token id", true),
            ("group: a@pbs\n", 1, "unknown section type 'group'", true),
            ("user: a@pbs\n\tenable 1\n\tenable 0\n", 3, "duplicate property 'enable'", true),
            ("user: a@pbs\n\tenable\n", 2, "syntax error (expected a property with a value)", true),
        ] {
            let users = parsed(&format!("{text}\nuser: b@pbs\n"));
            let broken: Vec<_> = users.broken.values().cloned().collect();
            assert_eq!(broken, [(LineError { line, reason: reason.into() }, serves)], "{text}");
            assert_eq!(users.entries.len(), 1);
        }
        let nobody = parsed("user: nobody\n\nuser a@pbs\n");
        let lines: Vec<_> = nobody.problems.iter().map(|why| why.line).collect();
        assert_eq!((lines, nobody.entries.len()), (vec![3, 1], 0));
    }

    #[test]
    fn what_is_set_is_written_as_the_original_writes_it() {
        let text = "user: a@pbs\n\tfirstname A\n\tenable false\n\n";
        let mut parsed = section_config::parse(text.as_bytes());
        let (user, token) = ("a@pbs".parse().unwrap(), "a@pbs!tok".parse().unwrap());
        set(&mut parsed.sections, &user, &Entry { expires: 7, ..Entry::default() }).unwrap();
        let comment = Some("for backups".to_owned());
        set(&mut parsed.sections, &token, &Entry { enabled: false, comment, ..Entry::default() }).unwrap();
        assert_eq!(
            String::from_utf8(section_config::print(&parsed).unwrap()).unwrap(),
            "user: a@pbs\n\tfirstname A\n\texpire 7\n\ntoken: a@pbs!tok\n\tcomment for backups\n\tenable false\n\n"
        );
        assert!(remove(&mut parsed.sections, &token) && !remove(&mut parsed.sections, &token));
        // If a name begins with `@`, its spelling in Proxmox's files differs from its spelling elsewhere.
        let staff = Authid::from_proxmox("@staff@pbs").unwrap();
        set(&mut parsed.sections, &staff, &Entry::default()).unwrap();
        assert_eq!(parsed.sections.last().unwrap().id, "@staff@pbs");
        assert_eq!(read(&parsed).entries.get(&staff), Some(&Entry::default()));
        change(&mut parsed.sections, &staff, |entry| entry.expires = 7).unwrap();
        assert!(remove(&mut parsed.sections, &staff));
        let mut broken = section_config::parse(b"user: a@pbs\n\tenable\n");
        assert!(set(&mut broken.sections, &user, &Entry::default()).unwrap_err().contains("line 2"));
    }
}
