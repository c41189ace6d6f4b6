//! Imports that fail after some of their changes, and the imports after them.

use super::*;
use crate::bootstrap::ensure_local_realm;
use crate::change_context::ChangeContext;
use crate::limit_model::LimitModel;
use crate::passwords::PasswordRules;
use crate::resolve::user_id;
use enfilade_content::ReservedPaths;
use enfilade_facts::tables::Revoked;
use enfilade_facts::vocabulary::{Secret, Userid};
use enfilade_facts::{
    At, Change, Clocks, CommitError, MirrorHealth, Read as _, Requester, Source, SourceError, StoreId, View,
};
use enfilade_sources::files::file_set::FileSet;
use enfilade_sources::files::mirror::Mirror;
use enfilade_sources::memory::Memory;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

const NOW: Clocks = Clocks { unix_seconds: 1_000_000, tick_millis: 1, mirror: MirrorHealth::Current };

/// A store that accepts a few more changes, and then refuses all further changes.
struct Refusing {
    facts: Memory,
    left: AtomicUsize,
}

impl Source for Refusing {
    fn at(&self) -> At {
        self.facts.at()
    }

    fn with_view(&self, look: &mut dyn FnMut(&View<'_>)) -> Result<(), SourceError> {
        self.facts.with_view(look)
    }

    fn commit(&self, change: &Change) -> Result<At, CommitError> {
        let left = self.left.load(Ordering::Relaxed);
        if left == 0 {
            return Err(SourceError::Unavailable("the disk is full".into()).into());
        }
        self.left.store(left - 1, Ordering::Relaxed);
        self.facts.commit(change)
    }
}

/// A server without users, and the files of a source with the user ann, her token, and her roles on the datastore `tank`.
struct World {
    place: PathBuf,
    facts: Refusing,
    here: FileSet,
}

impl World {
    fn new(name: &str) -> Self {
        let place = std::env::temp_dir().join(format!("enfilade-import-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&place);
        for directory in ["here", "copy", "tank"] {
            std::fs::create_dir_all(place.join(directory)).unwrap();
        }
        let write = |name: &str, text: &str| std::fs::write(place.join("copy").join(name), text).unwrap();
        write("user.cfg", "user: ann@pbs\n\ntoken: ann@pbs!t\n\n");
        write("token.shadow", "{\"ann@pbs!t\":\"$5$abcdefgh$z7wEczwqyYUOd9HA5NQrhDXmefK6XkIx5Q0aNIEaWo/\"}");
        write("acl.cfg", "acl:1:/datastore/tank:ann@pbs:DatastoreReader\n");
        write("datastore.cfg", &format!("datastore: tank\n\tpath {}\n\n", place.join("tank").display()));
        let facts = Refusing { facts: Memory::new(StoreId(1)), left: AtomicUsize::new(usize::MAX) };
        let world = World { here: FileSet::new(place.join("here")), place, facts };
        world.with_context(|ctx| ensure_local_realm(ctx, None)).unwrap();
        world
    }

    fn with_context<R>(&self, run: impl FnOnce(&ChangeContext<'_>) -> R) -> R {
        run(&ChangeContext {
            facts: &self.facts,
            files: &self.here,
            passwords: PasswordRules::NONE,
            limit_model: LimitModel::default(),
            reserved: &ReservedPaths::default(),
            roots: None,
            who: "test",
            request: None,
            requester: Requester::Administrator,
            keeps_administrators: false,
            now: NOW,
        })
    }

    /// Imports with a store that accepts only `changes` changes. Returns the records that were imported, and the records that were left out,
    /// each with the reason.
    fn import(&self, changes: usize) -> Result<(Vec<String>, Vec<String>), String> {
        let terms = ProxmoxTerms::default();
        let files = ProxmoxFiles::read(&FileSet::new(self.place.join("copy")), terms).unwrap();
        self.facts.left.store(changes, Ordering::Relaxed);
        let imported = self.with_context(|ctx| import_proxmox(ctx, &files, terms));
        self.facts.left.store(usize::MAX, Ordering::Relaxed);
        let (items, _) = imported.map_err(|why| why.to_string())?;
        let (taken, left): (Vec<_>, Vec<_>) = items.iter().partition(|item| item.left_out.is_none());
        let left = left.iter().map(|item| format!("{}: {}", item.what(), item.left_out.as_deref().unwrap()));
        Ok((taken.iter().map(|item| item.what()).collect(), left.collect()))
    }

    fn datastores(&self) -> String {
        std::fs::read_to_string(self.place.join("here/datastore.cfg")).unwrap_or_default()
    }

    fn remove_datastores(&self) {
        std::fs::write(self.place.join("here/datastore.cfg"), "").unwrap();
        Mirror::new(self.here.clone()).look(&self.facts, NOW).unwrap();
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.place);
    }
}

const ALL: [&str; 5] = [
    "user ann@pbs",
    "token ann@pbs!t",
    "user root@pam",
    "roles ann@pbs on /datastore/tank",
    "datastore tank",
];

#[test]
fn after_a_failed_change_nothing_was_imported_and_the_next_import_adds_everything() {
    let world = World::new("nothing");
    assert!(world.import(0).unwrap_err().contains("the disk is full"));
    assert_eq!((world.datastores(), imported_names(&world.facts).unwrap()), (String::new(), Vec::new()));
    assert_eq!(world.import(usize::MAX).unwrap(), (ALL.map(str::to_owned).to_vec(), Vec::new()));
    assert!(world.datastores().contains("datastore: tank"));
    let listed = imported_names(&world.facts).unwrap();
    assert!(ALL.iter().all(|name| listed.iter().any(|listed| listed == name)), "{listed:?}");
    assert!(listed.iter().any(|name| name == "realm pbs"), "{listed:?}");
}

#[test]
fn datastores_that_could_not_be_added_are_added_by_the_next_import_and_stay_removed_after_it() {
    let world = World::new("datastores");
    let lock = world.place.join("here/.datastore.lck");
    std::fs::create_dir(&lock).unwrap();
    let why = world.import(usize::MAX).unwrap_err();
    assert!(
        why.contains("were imported, but the datastores were not: ") && why.contains("import again"),
        "{why}"
    );
    assert_eq!(world.datastores(), "");
    std::fs::remove_dir(&lock).unwrap();
    let (taken, left) = world.import(usize::MAX).unwrap();
    assert_eq!(taken, ["datastore tank"]);
    assert!(left.iter().all(|item| item.ends_with(HERE)), "the roles are here, too: {left:?}");
    world.remove_datastores();
    let (taken, left) = world.import(usize::MAX).unwrap();
    assert!(
        taken.is_empty() && left.contains(&format!("datastore tank: {}", removed("datastore"))),
        "{left:?}"
    );
    assert_eq!(world.datastores(), "");
}

fn is_said_to_be_in_the_file(why: &str) {
    assert!(
        why.contains(
            "the datastores are in datastore.cfg, but the end of the import could not be recorded: "
        ),
        "{why}"
    );
    assert!(
        why.contains("the disk is full") && why.ends_with("would add a removed datastore again: tank"),
        "{why}"
    );
    assert!(!why.contains("the datastores were not"), "{why}");
}

#[test]
fn datastores_that_were_written_and_are_not_in_the_facts_yet_are_not_said_to_be_missing() {
    let world = World::new("written");
    let why = world.import(1).unwrap_err();
    assert!(world.datastores().contains("datastore: tank"));
    is_said_to_be_in_the_file(&why);
    assert!(why.contains("the change was written to the file, but it has no effect yet"), "{why}");
    Mirror::new(world.here.clone()).look(&world.facts, NOW).unwrap();
    assert_eq!(world.import(usize::MAX).unwrap().0, Vec::<String>::new());
}

/// The process ends after `datastore.cfg` was written, and before the end of the import was recorded.
#[test]
fn a_datastore_of_an_unfinished_import_is_listed_by_the_next_one() {
    let world = World::new("unfinished");
    let why = world.import(2).unwrap_err();
    assert!(world.datastores().contains("datastore: tank"));
    is_said_to_be_in_the_file(&why);
    assert!(!why.contains("it has no effect yet"), "{why}");
    assert_eq!(world.import(usize::MAX).unwrap().0, Vec::<String>::new());
    world.remove_datastores();
    let (taken, left) = world.import(usize::MAX).unwrap();
    assert!(
        taken.is_empty() && left.contains(&format!("datastore tank: {}", removed("datastore"))),
        "{left:?}"
    );
}

#[test]
fn a_line_without_a_record_has_its_number() {
    let world = World::new("lines");
    let acl =
        "acl:1:/datastore/tank:ann@pbs:DatastoreReader\nacl:1:/../x:ann@pbs:DatastoreReader\nnonsense\n";
    std::fs::write(world.place.join("copy/acl.cfg"), acl).unwrap();
    let (_, left) = world.import(usize::MAX).unwrap();
    assert!(
        left.iter().any(|item| item.starts_with("roles in line 2 of acl.cfg: acl.cfg, line 2: ")),
        "{left:?}"
    );
    assert!(
        left.iter().any(|item| item.starts_with("roles in line 3 of acl.cfg: acl.cfg, line 3: ")),
        "{left:?}"
    );
}

#[test]
fn another_copy_of_followed_files_is_refused_with_what_it_would_bring_back() {
    let world = World::new("followed");
    std::fs::write(world.place.join("here/user.cfg"), "user: bob@pbs\n\n").unwrap();
    Mirror::new(world.here.clone()).look(&world.facts, NOW).unwrap();
    let why = world.import(usize::MAX).unwrap_err();
    for part in [
        "this server follows its own user.cfg",
        "can make entries valid again that were removed, revoked or restricted on this server after the copy was made",
        "differences in the copy: user ann@pbs, token ann@pbs!t, roles of ann@pbs on /datastore/tank, datastore tank",
        "compare each of its files",
    ] {
        assert!(why.contains(part), "{part}: {why}");
    }
    std::fs::write(world.place.join("here/token.shadow"), "[").unwrap();
    let why = world.import(usize::MAX).unwrap_err();
    assert!(why.contains("the differences cannot be listed: `") && why.contains("token.shadow"), "{why}");
}

/// An import of the copy would give a password to a user only if the user has no password here, and no password of the user was ever removed or
/// revoked here.
#[test]
fn passwords_that_another_copy_of_followed_files_would_bring_back_are_named() {
    let world = World::new("passwords");
    let hash = "$5$abcdefgh$z7wEczwqyYUOd9HA5NQrhDXmefK6XkIx5Q0aNIEaWo/";
    let all = "user: ann@pbs\n\nuser: bob@pbs\n\nuser: eve@pbs\n\ntoken: ann@pbs!t\n\n";
    let shadow = format!("{{\"ann\":\"{hash}\",\"bob\":\"{hash}\",\"eve\":\"{hash}\",\"zoe\":\"{hash}\"}}");
    for (directory, file, text) in [
        ("here", "user.cfg", all),
        ("copy", "user.cfg", all),
        ("here", "token.shadow", &std::fs::read_to_string(world.place.join("copy/token.shadow")).unwrap()),
        ("here", "acl.cfg", &std::fs::read_to_string(world.place.join("copy/acl.cfg")).unwrap()),
        ("here", "datastore.cfg", &std::fs::read_to_string(world.place.join("copy/datastore.cfg")).unwrap()),
        ("here", "shadow.json", &format!("{{\"bob\":\"{hash}\"}}")),
        ("copy", "shadow.json", &shadow),
    ] {
        std::fs::write(world.place.join(directory).join(file), text).unwrap();
    }
    Mirror::new(world.here.clone()).look(&world.facts, NOW).unwrap();
    let user = |name: &str| format!("{name}@pbs").parse::<Userid>().unwrap();
    world.with_context(|ctx| {
        // Bob's password was imported and later changed, and Eve's sessions were revoked.
        let own = ProxmoxFiles::read(&world.here, ProxmoxTerms::default()).unwrap();
        import_proxmox(ctx, &own, ProxmoxTerms::default()).unwrap();
        crate::users::set_password(ctx, &user("bob"), &Secret::new(b"another one").unwrap()).unwrap();
        let eve = ctx.facts.read(|view| user_id(view, &user("eve"))).unwrap().unwrap();
        crate::keystone::revoke(ctx, &[Revoked::User(eve)], None, "test").unwrap();
    });
    let why = world.import(usize::MAX).unwrap_err();
    assert!(why.contains("differences in the copy: the password of user ann@pbs)"), "{why}");
}

#[test]
fn names_that_no_record_can_have_are_spelled_in_the_report() {
    let world = World::new("spelled");
    let write = |name: &str, text: &str| std::fs::write(world.place.join("copy").join(name), text).unwrap();
    write("shadow.json", "{\"a\\u0007!b\":\"$5$x\",\"\":\"$5$x\"}");
    write("domains.cfg", "odd: x\u{200b}y z\n\tcomment c\n\n");
    write("datastore.cfg", "datastore: a\u{202e}b\n\tpath /a\n\n");
    let (_, left) = world.import(usize::MAX).unwrap();
    for begin in
        ["password a%07%21b@%pbs: ", "password @%pbs: ", "datastore a%E2%80%AEb: ", "realm x%E2%80%8By z: "]
    {
        assert!(left.iter().any(|item| item.starts_with(begin)), "{begin}: {left:?}");
    }
}
