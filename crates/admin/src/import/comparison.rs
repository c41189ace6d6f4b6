//! Compares a copy of the files of a Proxmox Backup Server with the files that this server follows: what would be valid again if the copy replaced them.

use super::source::ProxmoxFiles;
use enfilade_facts::tables::FileName;
use enfilade_facts::vocabulary::{Authid, Role, excerpt};
use enfilade_sources::files::acl_cfg::AclCfg;
use enfilade_sources::files::file_set::FileSet;
use enfilade_sources::files::section_config;
use enfilade_sources::files::token_shadow::{Hashes, TokenShadow};
use enfilade_sources::files::user_cfg::{self, UserCfg};

/// The maximum number of records in the text.
const NAMED_MAX: usize = 10;

/// The followed files, as far as they can be read.
struct Followed {
    users: UserCfg,
    hashes: Hashes,
    acl: AclCfg,
    datastores: Vec<String>,
}

impl Followed {
    fn read(files: &FileSet) -> Result<Self, String> {
        let bytes = |file: FileName| {
            let read = files.read(file).map_err(|why| format!("`{}`: {why}", files.path(file).display()));
            read.map(Option::unwrap_or_default)
        };
        let shadow = match bytes(FileName::Secrets)? {
            empty if empty.is_empty() => TokenShadow::default(),
            bytes => TokenShadow::parse(&bytes)
                .map_err(|why| format!("`{}`: {}", files.path(FileName::Secrets).display(), why.reason))?,
        };
        let datastores = section_config::parse(&bytes(FileName::Datastores)?).sections;
        Ok(Followed {
            users: user_cfg::read(&section_config::parse(&bytes(FileName::Users)?)),
            hashes: shadow.hashes(),
            acl: AclCfg::parse(&bytes(FileName::Acl)?),
            datastores: datastores.into_iter().map(|section| section.id).collect(),
        })
    }
}

/// What would be valid again if the files of the copy replaced the followed files, as a part of a sentence.
pub(super) fn would_return(here: &FileSet, copy: &ProxmoxFiles) -> String {
    let followed = match Followed::read(here) {
        Ok(followed) => followed,
        Err(why) => return format!("the differences cannot be listed: {why}"),
    };
    let more = differences(&followed, copy);
    if more.is_empty() {
        return "the copy has no user, token, role or datastore that is missing on this server".to_owned();
    }
    let shown: Vec<&str> = more.iter().take(NAMED_MAX).map(String::as_str).collect();
    let rest = match more.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        rest => format!(" and {rest} more"),
    };
    format!("differences in the copy: {}{rest}", shown.join(", "))
}

fn differences(here: &Followed, copy: &ProxmoxFiles) -> Vec<String> {
    let mut more = Vec::new();
    for (authid, entry) in &copy.users.entries {
        let kind = if authid.token.is_some() { "token" } else { "user" };
        match here.users.entries.get(authid) {
            None => more.push(format!("{kind} {authid}")),
            Some(own) if entry.enabled && !own.enabled => more.push(format!("{kind} {authid} as enabled")),
            Some(own) if own.expires != 0 && (entry.expires == 0 || entry.expires > own.expires) => {
                more.push(format!("{kind} {authid} with a later expiry"));
            }
            Some(_) => {}
        }
    }
    let mut secrets: Vec<&str> = copy
        .hashes
        .hashes
        .iter()
        .filter_map(|(token, hash)| {
            here.hashes.hashes.get(token).is_some_and(|own| own != hash).then_some(token.as_str())
        })
        .collect();
    secrets.sort_unstable();
    let spelled = |token: &str| {
        Authid::from_proxmox(token).map_or_else(|_| excerpt(token), |authid| authid.to_string())
    };
    more.extend(secrets.into_iter().map(|token| format!("another secret of token {}", spelled(token))));
    for ((path, ugid), roles) in &copy.acl.entries {
        let own = here.acl.entries.get(&(path.clone(), ugid.clone()));
        if roles.keys().any(|role| *role != Role::NoAccess && own.is_none_or(|own| !own.contains_key(role))) {
            more.push(format!("roles of {ugid} on {path}"));
        }
    }
    for ((path, ugid), roles) in &here.acl.entries {
        let theirs = copy.acl.entries.get(&(path.clone(), ugid.clone()));
        if roles.contains_key(&Role::NoAccess)
            && theirs.is_none_or(|theirs| !theirs.contains_key(&Role::NoAccess))
        {
            more.push(format!("{path} without NoAccess of {ugid}"));
        }
    }
    let is_here = |id: &String| here.datastores.contains(id);
    let datastores = copy.datastores.iter().map(|section| &section.id).filter(|id| !is_here(id));
    more.extend(datastores.map(|id| format!("datastore {id}")));
    more
}

#[cfg(test)]
mod tests {
    use super::super::source::ProxmoxTerms;
    use super::*;

    #[test]
    fn what_was_taken_away_since_the_copy_was_made_is_named() {
        let place = std::env::temp_dir().join(format!("enfilade-comparison-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&place);
        let write = |which: &str, texts: [&str; 4]| {
            let directory = place.join(which);
            std::fs::create_dir_all(&directory).unwrap();
            for (name, text) in
                ["user.cfg", "token.shadow", "acl.cfg", "datastore.cfg"].into_iter().zip(texts)
            {
                std::fs::write(directory.join(name), text).unwrap();
            }
            FileSet::new(directory)
        };
        let copy = write(
            "copy",
            [
                "user: ann@pbs\n\nuser: bob@pbs\n\nuser: eve@pbs\n\ntoken: ann@pbs!a\n\ntoken: ann@pbs!b\n\n",
                "{\"ann@pbs!a\":\"$5$old\",\"ann@pbs!b\":\"$5$b\"}",
                "acl:1:/datastore/tank:ann@pbs:DatastoreReader\nacl:1:/:bob@pbs:Audit\n",
                "datastore: tank\n\tpath /tank\n\ndatastore: old\n\tpath /old\n\n",
            ],
        );
        let here = write(
            "here",
            [
                "user: ann@pbs\n\nuser: eve@pbs\n\tenable false\n\ntoken: ann@pbs!a\n\texpire 7\n\n",
                "{\"ann@pbs!a\":\"$5$new\"}",
                "acl:1:/datastore/tank:ann@pbs:DatastoreReader,NoAccess\n",
                "datastore: tank\n\tpath /tank\n\n",
            ],
        );
        let copy = ProxmoxFiles::read(&copy, ProxmoxTerms::default()).unwrap();
        assert_eq!(
            would_return(&here, &copy),
            "differences in the copy: token ann@pbs!a with a later expiry, token ann@pbs!b, user bob@pbs, user eve@pbs as enabled, \
             another secret of token ann@pbs!a, roles of bob@pbs on /, /datastore/tank without NoAccess of ann@pbs, datastore old"
        );
        let same = ProxmoxFiles::read(&here, ProxmoxTerms::default()).unwrap();
        assert!(would_return(&here, &same).starts_with("the copy has no user"));
        std::fs::write(place.join("here/token.shadow"), "[").unwrap();
        assert!(would_return(&here, &copy).contains("token.shadow"));
        std::fs::remove_dir_all(&place).unwrap();
    }
}
