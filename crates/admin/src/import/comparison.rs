//! Compares a copy of the files of a Proxmox Backup Server with the files that this server follows. The result lists what would be valid again if the
//! copy replaced the followed files and was then imported.

use super::earlier::Earlier;
use super::passwords::Passwords;
use super::source::{ProxmoxFiles, ProxmoxTerms};
use crate::change_context::ChangeContext;
use crate::error::Error;
use crate::resolve::{dangling, user_id};
use enfilade_facts::tables::{Revocation, Revoked, User};
use enfilade_facts::vocabulary::{Role, RolePath, Ugid, Userid, excerpt};
use enfilade_facts::{Read, View};
use enfilade_sources::files::acl_cfg::AclCfg;
use enfilade_sources::files::section_config::Section;
use std::collections::{BTreeMap, BTreeSet};

/// The maximum number of differences in the text of [`would_return`].
const NAMED_MAX: usize = 10;

/// The only property of a datastore that takes rights away from users.
const MAINTENANCE: &str = "maintenance-mode";
/// The properties of a datastore that have an effect on this server.
const PROPERTIES: [&str; 3] = ["path", "backing-device", MAINTENANCE];

/// Returns a part of a sentence: what would be valid again if the files of the copy replaced the followed files, and were then imported.
pub(super) fn would_return(ctx: &ChangeContext<'_>, copy: &ProxmoxFiles, terms: ProxmoxTerms) -> String {
    let more = match all_differences(ctx, copy, terms) {
        Ok(more) => more,
        Err(why) => return format!("the differences cannot be listed: {why}"),
    };
    if more.is_empty() {
        return "however, the users, passwords, tokens, roles and datastores of this copy give only rights that the files of this server already give".to_owned();
    }
    let shown: Vec<&str> = more.iter().take(NAMED_MAX).map(String::as_str).collect();
    let rest = match more.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        rest => format!(" and {rest} more"),
    };
    format!("differences in the copy: {}{rest}", shown.join(", "))
}

fn all_differences(
    ctx: &ChangeContext<'_>,
    copy: &ProxmoxFiles,
    terms: ProxmoxTerms,
) -> Result<Vec<String>, Error> {
    // This comparison does not depend on the second factors in the followed files.
    let here = ProxmoxFiles::read(ctx.files, ProxmoxTerms { without_second_factor: true, ..terms })?;
    let mut more = accounts(&here, copy);
    more.extend(ctx.facts.read(|view| passwords(view, copy, terms))??);
    more.extend(roles(&here.acl, &copy.acl));
    more.extend(datastores(&here.datastores, &copy.datastores));
    Ok(more)
}

/// Users and tokens that only the copy contains, that are enabled only in the copy, or that are valid for longer in the copy. Also secrets of tokens,
/// if only the copy contains the secret, or if the secret in the copy is different.
fn accounts(here: &ProxmoxFiles, copy: &ProxmoxFiles) -> Vec<String> {
    let (mut more, mut secrets) = (Vec::new(), Vec::new());
    for (authid, entry) in &copy.users.entries {
        let kind = if authid.token.is_some() { "token" } else { "user" };
        let Some(own) = here.users.entries.get(authid) else {
            more.push(format!("{kind} {authid}"));
            continue;
        };
        if entry.enabled && !own.enabled {
            more.push(format!("{kind} {authid} as enabled"));
        }
        if own.expires != 0 && (entry.expires == 0 || own.expires < entry.expires) {
            more.push(format!("{kind} {authid} with a later expiry"));
        }
        let hash = |files: &ProxmoxFiles| files.hashes.hashes.get(&authid.to_proxmox()).cloned();
        match (authid.token.as_ref().and_then(|_| hash(copy)), hash(here)) {
            (Some(theirs), Some(own)) if theirs != own => {
                secrets.push(format!("another secret of token {authid}"));
            }
            (Some(_), None) => secrets.push(format!("the secret of token {authid}")),
            _ => {}
        }
    }
    more.extend(secrets);
    more
}

/// Passwords that an import of the copy would give to new users, or to users without a password.
fn passwords(view: &View<'_>, copy: &ProxmoxFiles, terms: ProxmoxTerms) -> Result<Vec<String>, Error> {
    let passwords = Passwords { files: copy, terms, earlier: Earlier::read(view, copy.earlier())? };
    let users = copy.users.entries.keys().filter(|authid| authid.token.is_none());
    let mut users: BTreeSet<&Userid> = users.map(|authid| &authid.user).collect();
    let root = Userid::root_pam();
    users.insert(&root);
    let mut more = Vec::new();
    for user in users.into_iter().filter(|user| passwords.offered(user).is_ok()) {
        let is_given = match user_id(view, user) {
            Ok(id) => {
                let row = view.get::<User>(&id)?.ok_or_else(|| dangling("user", id))?;
                row.password.is_none() && view.get::<Revocation>(&Revoked::User(id))?.is_none()
            }
            Err(Error::Missing { .. }) => true,
            Err(why) => return Err(why),
        };
        more.extend(is_given.then(|| format!("the password of user {user}")));
    }
    Ok(more)
}

/// Roles that give more rights in the copy. In `acl.cfg`, the roles on a path replace the roles that propagate to this path from above. So the roles
/// on a path can differ even if both files have the same entry for the path, or if neither file has an entry for it. Therefore this function compares
/// the roles that are in effect on each path, and not the entries.
fn roles(here: &AclCfg, copy: &AclCfg) -> Vec<String> {
    let places: BTreeSet<&(RolePath, Ugid)> = here.entries.keys().chain(copy.entries.keys()).collect();
    let differs = |(path, ugid): &(RolePath, Ugid), is_below: bool| {
        let place = if is_below { format!("below {path}") } else { path.to_string() };
        let (own, theirs) = (counting(here, path, ugid, is_below), counting(copy, path, ugid, is_below));
        match own.contains(&Role::NoAccess) {
            true => {
                (!theirs.contains(&Role::NoAccess)).then(|| format!("{place} without NoAccess of {ugid}"))
            }
            false => {
                let is_more = theirs.iter().any(|role| *role != Role::NoAccess && !own.contains(role));
                let on = if is_below { "" } else { "on " };
                is_more.then(|| format!("roles of {ugid} {on}{place}"))
            }
        }
    };
    places.into_iter().filter_map(|place| differs(place, false).or_else(|| differs(place, true))).collect()
}

/// The roles that are in effect on a path; or, if `is_below` is set, on the paths below this path that have no roles of their own. Roles that do not
/// propagate are in effect only on their own path. If the path itself has roles that are in effect, these roles decide. Otherwise the nearest path
/// above it with such roles decides. If NoAccess is among the roles that decide, only NoAccess is in effect.
fn counting(acl: &AclCfg, path: &RolePath, ugid: &Ugid, is_below: bool) -> BTreeSet<Role> {
    let mut found = BTreeSet::new();
    for node in path.nodes() {
        let is_leaf = !is_below && node == path.as_str();
        let roles = node.parse().ok().and_then(|node: RolePath| acl.entries.get(&(node, ugid.clone())));
        let roles = roles.into_iter().flatten().filter(|(_, propagates)| **propagates || is_leaf);
        let roles: BTreeSet<Role> = roles.map(|(role, _)| *role).collect();
        if !roles.is_empty() {
            found = roles;
        }
    }
    match found.contains(&Role::NoAccess) {
        true => BTreeSet::from([Role::NoAccess]),
        false => found,
    }
}

/// Datastores that only the copy contains, and differences in the [`PROPERTIES`] of datastores. A maintenance mode that only the copy has is not
/// listed, because it only takes rights away.
fn datastores(here: &[Section], copy: &[Section]) -> Vec<String> {
    let by_id = |sections: &[Section]| -> BTreeMap<String, BTreeMap<String, String>> {
        let properties = |section: &Section| section.properties.iter().cloned().collect();
        sections.iter().map(|section| (section.id.clone(), properties(section))).collect()
    };
    let here = by_id(here);
    let mut more = Vec::new();
    for (id, theirs) in by_id(copy) {
        let own = here.get(&id);
        let id = excerpt(&id);
        let Some(own) = own else {
            more.push(format!("datastore {id}"));
            continue;
        };
        let values = PROPERTIES.into_iter().map(|key| (key, own.get(key), theirs.get(key)));
        more.extend(values.filter(|(_, own, theirs)| own != theirs).filter_map(|differs| match differs {
            (MAINTENANCE, None, _) => None,
            (key, _, None) => Some(format!("datastore {id} without {key}")),
            (key, _, Some(_)) => Some(format!("datastore {id} with another {key}")),
        }));
    }
    more
}

#[cfg(test)]
mod tests {
    use super::*;
    use enfilade_sources::files::file_set::FileSet;
    use enfilade_sources::files::section_config;

    /// The differences of two directories with files. The first is the copy.
    fn found(files: [[&str; 4]; 2]) -> Vec<String> {
        let place = std::env::temp_dir().join(format!("enfilade-comparison-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&place);
        let [copy, here] = [("copy", files[0]), ("here", files[1])].map(|(name, texts)| {
            let directory = place.join(name);
            std::fs::create_dir_all(&directory).unwrap();
            for (name, text) in ["user.cfg", "token.shadow", "acl.cfg", "datastore.cfg"].iter().zip(texts) {
                std::fs::write(directory.join(name), text).unwrap();
            }
            ProxmoxFiles::read(&FileSet::new(directory), ProxmoxTerms::default()).unwrap()
        });
        std::fs::remove_dir_all(&place).unwrap();
        let mut more = accounts(&here, &copy);
        more.extend(roles(&here.acl, &copy.acl));
        more.extend(datastores(&here.datastores, &copy.datastores));
        more
    }

    #[test]
    fn what_was_taken_away_since_the_copy_was_made_is_named() {
        let copy = [
            "user: ann@pbs\n\nuser: bob@pbs\n\nuser: eve@pbs\n\ntoken: ann@pbs!a\n\ntoken: ann@pbs!b\n\ntoken: ann@pbs!c\n\n",
            "{\"ann@pbs!a\":\"$5$old\",\"ann@pbs!b\":\"$5$b\",\"ann@pbs!c\":\"$5$c\"}",
            "acl:1:/datastore/tank:ann@pbs:DatastoreReader\nacl:1:/:bob@pbs:Audit\n",
            "datastore: tank\n\tpath /tank\n\ndatastore: old\n\tpath /old\n\n",
        ];
        let here = [
            "user: ann@pbs\n\nuser: eve@pbs\n\tenable false\n\texpire 9\n\ntoken: ann@pbs!a\n\texpire 7\n\ntoken: ann@pbs!c\n\n",
            "{\"ann@pbs!a\":\"$5$new\"}",
            "acl:1:/datastore/tank:ann@pbs:DatastoreReader,NoAccess\n",
            "datastore: tank\n\tpath /tank\n\n",
        ];
        let expected = [
            "token ann@pbs!a with a later expiry",
            "token ann@pbs!b",
            "user bob@pbs",
            "user eve@pbs as enabled",
            "user eve@pbs with a later expiry",
            "another secret of token ann@pbs!a",
            "the secret of token ann@pbs!c",
            "roles of bob@pbs on /",
            "/datastore/tank without NoAccess of ann@pbs",
            "datastore old",
        ];
        let mut named = found([copy, here]);
        let mut expected = expected.map(str::to_owned).to_vec();
        named.sort();
        expected.sort();
        assert_eq!(named, expected);
        assert_eq!(found([here, here]), Vec::<String>::new());
    }

    #[test]
    fn roles_are_judged_by_what_they_give_on_each_path() {
        for (here, copy, expected) in [
            // An entry that propagates gives more rights than an entry that does not propagate.
            (
                "acl:0:/datastore:ann@pbs:Admin",
                "acl:1:/datastore:ann@pbs:Admin",
                "roles of ann@pbs below /datastore",
            ),
            ("acl:1:/datastore:ann@pbs:Admin", "acl:0:/datastore:ann@pbs:Admin", ""),
            // A NoAccess that propagates takes away more rights than a NoAccess that does not propagate.
            (
                "acl:1:/datastore/tank:ann@pbs:NoAccess",
                "acl:0:/datastore/tank:ann@pbs:NoAccess",
                "below /datastore/tank without NoAccess of ann@pbs",
            ),
            ("acl:0:/datastore/tank:ann@pbs:NoAccess", "acl:1:/datastore/tank:ann@pbs:NoAccess", ""),
            // Roles with fewer rights on a path replace the roles of the path above.
            (
                "acl:1:/:ann@pbs:Admin\nacl:1:/datastore/tank:ann@pbs:DatastoreAudit",
                "acl:1:/:ann@pbs:Admin",
                "roles of ann@pbs on /datastore/tank",
            ),
            // The followed files give the same roles on this path, because the roles propagate from the path above.
            ("acl:1:/:ann@pbs:Admin", "acl:1:/:ann@pbs:Admin\nacl:1:/datastore/tank:ann@pbs:Admin", ""),
            // In the copy, only NoAccess counts.
            ("acl:1:/:ann@pbs:NoAccess", "acl:1:/:ann@pbs:NoAccess,Admin", ""),
        ] {
            let found = roles(&AclCfg::parse(here.as_bytes()), &AclCfg::parse(copy.as_bytes()));
            assert_eq!(found.join(", "), expected, "{here} / {copy}");
        }
    }

    #[test]
    fn properties_of_datastores_are_compared_if_they_have_an_effect() {
        let section = |properties: &str| {
            section_config::parse(format!("datastore: tank\n{properties}").as_bytes()).sections
        };
        for (here, copy, expected) in [
            ("\tpath /new\n", "\tpath /old\n", "datastore tank with another path"),
            (
                "\tpath /a\n\tmaintenance-mode offline\n",
                "\tpath /a\n",
                "datastore tank without maintenance-mode",
            ),
            (
                "\tpath /a\n\tmaintenance-mode offline\n",
                "\tpath /a\n\tmaintenance-mode read-only\n",
                "datastore tank with another maintenance-mode",
            ),
            ("\tpath /a\n", "\tpath /a\n\tmaintenance-mode offline\n", ""),
            ("\tpath /a\n\tcomment new\n", "\tcomment old\n\tpath /a\n\tgc-schedule daily\n", ""),
        ] {
            assert_eq!(datastores(&section(here), &section(copy)).join(", "), expected, "{here} / {copy}");
        }
    }
}
