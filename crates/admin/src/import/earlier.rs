//! The list of imports: the names of the records that imports added to this store, and the names of the records of a source that this store already
//! had at the time of an import. If a record in the list is no longer in the store, it was removed or revoked. An import from Proxmox Backup Server
//! does not add it again, and an import from Keystone adds it again only with `--restore-deleted`. The list is part of the facts: it is committed
//! together with the records that it lists, and a backup or dump contains it.

use super::Imported;
use crate::error::Error;
use enfilade_facts::tables::{Extra, ExtraKey, Key as _, ResourceKind, Row};
use enfilade_facts::vocabulary::{Authid, UserId};
use enfilade_facts::{Change, Read, Source, SourceError, Table, View};
use std::collections::{BTreeMap, BTreeSet};

/// The kinds of records that are listed because of their result ([`is_listed`]). Datastores are listed by `stores.rs`.
const LISTED: [&str; 5] = ["user", "token", "password", "roles", "realm"];

/// The value in the list for a record that was imported completely. Later, the record may have been removed.
pub(crate) const WHOLE: &str = "{}";
/// The value in the list for a datastore, after the import of the datastore has begun. The section of the datastore is possibly not yet in
/// `datastore.cfg`. So if the datastore does not exist, the next import adds it.
const BEGUN: &str = "{\"begun\":true}";

/// How far the import of a record got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    Begun,
    Whole,
}

/// The names in the list, as [`listed`] makes them.
#[derive(Debug)]
pub(super) struct Earlier<'f> {
    stored: BTreeMap<String, Stage>,
    /// The names in `imported.json` of an earlier version. An import moves these names to the facts.
    of_file: &'f BTreeSet<String>,
}

impl<'f> Earlier<'f> {
    pub(super) fn read(view: &View<'_>, of_file: &'f BTreeSet<String>) -> Result<Self, SourceError> {
        let stage = |text: &str| if text == BEGUN { Stage::Begun } else { Stage::Whole };
        let mut stored = BTreeMap::new();
        // There may be millions of records of a cloud, so these records are not read.
        for kind in LISTED.into_iter().chain(["datastore"]) {
            let of_kind = ExtraKey { kind: ResourceKind::Imported, id: format!("{kind} ").into_bytes() };
            let rows = view.list::<Extra>(&of_kind.bytes())?.into_iter();
            stored.extend(rows.map(|(key, Extra(text))| (name_of(&key), stage(&text))));
        }
        Ok(Earlier { stored, of_file })
    }

    /// Whether an import added this record, or found it here.
    pub(super) fn has(&self, kind: &str, name: &str) -> bool {
        let what = listed(kind, name);
        self.stored.get(&what) == Some(&Stage::Whole) || self.of_file.contains(&what)
    }

    /// Adds `names` and the names in `imported.json` to the list, in a change.
    pub(super) fn add(&self, change: &mut Change, names: impl IntoIterator<Item = (String, Stage)>) {
        let mut all: BTreeMap<String, Stage> = BTreeMap::new();
        let of_file = self.of_file.iter().map(|name| (name.clone(), Stage::Whole));
        for (name, stage) in of_file.chain(names) {
            let known = all.entry(name).or_insert(stage);
            *known = stage.max(*known);
        }
        for (name, stage) in all.into_iter().filter(|(name, stage)| self.stored.get(name) < Some(stage)) {
            let text = match stage {
                Stage::Begun => BEGUN,
                Stage::Whole => WHOLE,
            };
            let key = ExtraKey { kind: ResourceKind::Imported, id: name.into_bytes() };
            change.put(&key, &Extra(text.to_owned()));
        }
    }
}

/// The text for a record in the list: its kind and name, such as `user ann@pbs`. Users and tokens are spelled as in Proxmox's files, because a key of
/// the store has room for the longest names in this spelling. Facts of format 5 and `imported.json` have the same spelling.
pub(super) fn listed(kind: &str, name: &str) -> String {
    let in_file =
        |name: &str| name.parse::<Authid>().map_or_else(|_| name.to_owned(), |authid| authid.to_proxmox());
    match (kind, name.split_once(" on ")) {
        ("user" | "token" | "password", _) => format!("{kind} {}", in_file(name)),
        // No spelling of a user, token or group contains a blank.
        ("roles", Some((who, path))) => format!("{kind} {} on {path}", in_file(who)),
        _ => format!("{kind} {name}"),
    }
}

/// The key in the list for a record of a cloud, such as `trust ID`. It contains the key of the record in its table instead of a name, because names
/// in a cloud can change.
pub(crate) fn key_of_record<R: Row>(key: &R::Key) -> ExtraKey {
    let kind = match R::TABLE {
        Table::Credentials => "application credential",
        Table::Trusts => "trust",
        Table::Blobs => "stored credential",
        Table::Consumers => "OAuth consumer",
        Table::AccessTokens => "OAuth access token",
        table => &format!("cloud {}", table.name()),
    };
    ExtraKey::imported(kind, &key.bytes())
}

/// The key in the list for the password of a user of a cloud.
pub(crate) fn key_of_password(user: &UserId) -> ExtraKey {
    ExtraKey::imported("cloud password", user.bytes())
}

fn name_of(key: &ExtraKey) -> String {
    String::from_utf8_lossy(&key.id).into_owned()
}

/// Whether the record of this result is put into the list: the import added the record, or the record is a password and the user already has a
/// password.
pub(super) fn is_listed(item: &Imported) -> bool {
    let is_here = (item.left_out.is_none() && !item.is_remark) || item.has_password_here();
    is_here && LISTED.contains(&item.kind)
}

/// The names of the records that imports added to this store, and the names of the records of a source that this store already had at the time of an
/// import. Each name has the kind of the record in front.
///
/// # Errors
/// When the facts cannot be read.
pub fn imported_names(source: &dyn Source) -> Result<Vec<String>, Error> {
    let rows = source.read(|view| view.list::<Extra>(&[ResourceKind::Imported as u8]))??;
    Ok(rows.iter().map(|(key, _)| name_of(key)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use enfilade_facts::AuditRecord;
    use enfilade_facts::limits::{KEY_BYTES_MAX, ROLE_PATH_BYTES_MAX, TOKEN_NAME_BYTES_MAX};
    use enfilade_facts::vocabulary::Userid;
    use enfilade_sources::memory::Memory;

    #[test]
    fn only_records_that_are_here_are_listed() {
        let items = [
            Imported::taken("user", "ann@pbs"),
            Imported::left("user", "bob@pbs", "why"),
            Imported::remark("roles", "ann@pbs on /", "why".to_owned()),
            Imported::left("password", "eve@pbs", super::super::HAS_PASSWORD),
            Imported::taken("second factor", "ann@pbs"),
            Imported::taken("realm", "corp"),
        ];
        let found: Vec<String> = items.iter().filter(|item| is_listed(item)).map(Imported::what).collect();
        assert_eq!(found, ["user ann@pbs", "password eve@pbs", "realm corp"]);
    }

    #[test]
    fn the_list_has_the_spelling_of_proxmox_and_the_longest_name_fits() {
        for (kind, name, expected) in [
            ("user", "ann@pbs", "user ann@pbs"),
            ("password", "%40staff@%pbs", "password @staff@pbs"),
            ("token", "a%E2%80%8Bb@%pbs!t", "token a\u{200b}b@pbs!t"),
            ("roles", "%40staff@%pbs!t on /", "roles @staff@pbs!t on /"),
            ("roles", "@staff on /datastore/tank/a on b", "roles @staff on /datastore/tank/a on b"),
            ("realm", "pbs", "realm pbs"),
        ] {
            assert_eq!(listed(kind, name), expected);
        }
        let user = Userid::new(&"\u{200b}".repeat(20), "pbs".parse().unwrap()).unwrap();
        let authid = Authid { user, token: Some("t".repeat(TOKEN_NAME_BYTES_MAX).parse().unwrap()) };
        assert_eq!((authid.user.is_plain(), authid.to_proxmox().len()), (true, 129));
        let below = "p".repeat(ROLE_PATH_BYTES_MAX - "/datastore/tank/".len());
        let longest = listed("roles", &format!("{authid} on /datastore/tank/{below}"));
        let key = ExtraKey { kind: ResourceKind::Imported, id: longest.into_bytes() };
        assert_eq!(key.bytes().len(), KEY_BYTES_MAX);
    }

    #[test]
    fn a_name_stays_in_the_list_and_a_datastore_counts_when_its_import_has_ended() {
        let source = Memory::new(enfilade_facts::StoreId(1));
        let of_file = BTreeSet::from(["user old@pbs".to_owned()]);
        let add = |names: &[(&str, Stage)]| {
            let audit = AuditRecord { who: "t".into(), what: "t".into(), unix_seconds: 0, request: None };
            let mut change = Change::new(audit);
            let earlier = source.read(|view| Earlier::read(view, &of_file)).unwrap().unwrap();
            earlier.add(&mut change, names.iter().map(|(name, stage)| ((*name).to_owned(), *stage)));
            source.commit(&change).unwrap();
        };
        let has = |kind: &str, name: &str| {
            let none = BTreeSet::new();
            source.read(|view| Earlier::read(view, &none).unwrap().has(kind, name)).unwrap()
        };
        add(&[("user ann@pbs", Stage::Whole), ("datastore tank", Stage::Begun)]);
        assert_eq!(
            [has("user", "ann@pbs"), has("user", "old@pbs"), has("token", "ann@pbs")],
            [true, true, false]
        );
        assert!(!has("datastore", "tank"), "the section may be missing in datastore.cfg");
        add(&[("datastore tank", Stage::Whole)]);
        add(&[("datastore tank", Stage::Begun)]);
        assert!(has("datastore", "tank"));
        let before = source.at();
        add(&[("user ann@pbs", Stage::Whole)]);
        assert_eq!(source.at(), before, "nothing is written twice");
        assert_eq!(imported_names(&source).unwrap(), ["datastore tank", "user ann@pbs", "user old@pbs"]);
    }
}
