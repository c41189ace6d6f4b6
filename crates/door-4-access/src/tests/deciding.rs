//! Tests of decisions about one target at a time.

use super::{Facts, NOW, acl, alice, case, case_with, everything, memo, path, subject, token_of_alice};
use crate::ask::{Ask, NodeKind, StoredAcl, Subject, Wanted};
use crate::explain::{judge, rights};
use crate::open::{AccessCheck, knows_roles, would};
use crate::refuse::Refusal;
use crate::view::View;
use enfilade_facts::limits::ROLE_PATH_BYTES_MAX;
use enfilade_facts::tables::{
    AccessRules, Assignment, AssignmentKey, Binding, FileFault, FileName, MirroredFile, Who,
};
use enfilade_facts::vocabulary::{AccessMask, DatastoreName, ProjectId, RolePath, StorePath};
use enfilade_facts::{Clocks, MirrorHealth, Refuse, Table};
use enfilade_identity::{Principal, Reach, SetId};
use expect_test::expect;

const READER: &str = "/datastore/tank staff DatastoreReader";
const POWER: &str = "/datastore/tank staff DatastorePowerUser";

fn decide(facts: &str, at: &str, target: &Subject, wanted: Wanted<'_>) -> Result<AccessMask, Refusal> {
    case(&Facts::of(facts), &alice(), |case| case.decide(&Ask { path: &path(at), target, wanted }))
}

fn code(result: Result<AccessMask, Refusal>) -> &'static str {
    result.map_or_else(|refusal| refusal.code(), |_| "permit")
}

#[test]
fn what_each_role_grants() {
    let (file, directory) = (0x12_00a9, 0x12_00a9);
    for (role, on_file, on_directory, skips) in [
        ("DatastoreReader", file, directory, false),
        ("DatastoreBackup", file, directory | 0x6, false),
        ("DatastorePowerUser", 0x13_01ff, 0x13_01ff, false),
        ("DatastoreAdmin", 0x1f_01ff, 0x1f_01ff, true),
        ("Admin", 0x1f_01ff, 0x1f_01ff, true),
        ("DatastoreAudit", 0, 0, false),
        ("NoAccess", 0, 0, false),
        ("Admin NoAccess", 0, 0, false),
        ("DatastoreReader DatastoreAudit", file, directory, false),
        ("Audit", 0, 0, false),
        ("RemoteAdmin TapeAdmin", 0, 0, false),
    ] {
        let facts = Facts::of(&format!("/datastore/tank alice {role}"));
        case(&facts, &alice(), |case| {
            let roles = case.roles(&RolePath::of(case.datastore, &path("a"))).unwrap();
            let rights = (roles.rights(NodeKind::File).0, roles.rights(NodeKind::Directory).0);
            assert_eq!((rights, roles.skips_acl()), ((on_file, on_directory), skips), "{role}");
        });
    }
}

#[test]
fn roles_as_acl_cfg_resolves_them() {
    // Columns: the assignments; a path in the datastore; the roles that count on this path.
    for (facts, at, expected) in [
        ("", "a", "no role"),
        ("/ staff Admin", "a", "role Admin assigned to group @staff@local on /"),
        (
            "/datastore staff DatastoreReader",
            "",
            "role DatastoreReader assigned to group @staff@local on /datastore",
        ),
        ("/datastore others Admin\n/datastore bob Admin", "a", "no role"),
        (
            "/datastore/tank alice DatastoreReader-",
            "",
            "role DatastoreReader assigned to user alice@local on /datastore/tank",
        ),
        ("/datastore/tank alice DatastoreReader-", "a", "no role"),
        (
            // The roles on a deeper node replace the roles on a higher node, even if the roles on the deeper node grant less.
            "/datastore/tank alice DatastoreAdmin\n/datastore/tank/a staff DatastoreReader",
            "a/b",
            "role DatastoreReader assigned to group @staff@local on /datastore/tank/a",
        ),
        (
            // The roles of the user itself replace the roles of the user's groups on the same node.
            "/datastore/tank alice DatastoreReader\n/datastore/tank staff DatastoreAdmin",
            "a",
            "role DatastoreReader assigned to user alice@local on /datastore/tank",
        ),
        (
            // NoAccess does not propagate to this path. So no role on this path is assigned to the user itself, and the role of the group counts.
            "/datastore/tank alice NoAccess-\n/datastore/tank staff DatastoreAdmin",
            "a",
            "role DatastoreAdmin assigned to group @staff@local on /datastore/tank",
        ),
        (
            // A grantee with a role that does not apply here is not named.
            "/datastore/tank staff DatastoreReader\n/datastore/tank @staff NoAccess-",
            "a",
            "role DatastoreReader assigned to group @staff@local on /datastore/tank",
        ),
        (
            // `tank2` and `ab` only begin with the names of the nodes `tank` and `a`. So the roles on these paths do not apply.
            "/datastore/tank2 staff Admin\n/datastore/tank/ab staff Admin",
            "a",
            "no role",
        ),
    ] {
        let facts = Facts::of(facts);
        let given = case(&facts, &alice(), |case| {
            let resolved = case.roles(&RolePath::of(case.datastore, &path(at))).unwrap();
            resolved.given(&case.view, case.principal).to_string()
        });
        assert_eq!(given, expected);
    }
}

/// In a session for a project, the roles on the project count in the datastores that are bound to the project. Roles on paths do not count.
#[test]
fn roles_on_a_project_count_where_it_is_bound() {
    const BOUND: ProjectId = ProjectId::from_bytes([1; 16]);
    const OTHER: ProjectId = ProjectId::from_bytes([2; 16]);
    let mut facts = Facts::of("/ alice Admin");
    let tank: DatastoreName = "tank".parse().unwrap();
    facts.put(&tank, &Binding { project: BOUND });
    let by = |role: &str, of: &str| {
        format!(
            "role {role} assigned to the users with role {of} on the datastore's project on /datastore/tank"
        )
    };
    let none = || "no role".to_owned();
    for (project, roles, rights, words) in [
        (BOUND, &["reader"][..], 0x12_00a9, by("DatastoreReader", "reader")),
        (BOUND, &["member"], 0x13_01ff, by("DatastorePowerUser", "member")),
        (BOUND, &["manager"], 0x17_01ff, by("DatastorePowerUser", "manager")),
        (BOUND, &["member", "manager"], 0x17_01ff, by("DatastorePowerUser", "member and manager")),
        (BOUND, &["admin", "service"], 0x1f_01ff, by("DatastoreAdmin", "admin")),
        (BOUND, &["service"], 0, none()),
        (BOUND, &[], 0, none()),
        (OTHER, &["admin"], 0, none()),
    ] {
        let reach = Reach::Project { project, roles: roles.iter().map(|role| (*role).to_owned()).collect() };
        let principal = Principal { reach, ..alice() };
        case(&facts, &principal, |case| {
            let resolved = case.roles(&RolePath::of(case.datastore, &path("a"))).unwrap();
            let given = resolved.given(&case.view, case.principal).to_string();
            assert_eq!((resolved.rights(NodeKind::File).0, given), (rights, words), "{project} {roles:?}");
            assert_eq!(case.is_admitted(), Ok(rights != 0), "{project} {roles:?}");
        });
    }
    let view = enfilade_facts::View::new(&facts);
    for (datastore, expected) in [("tank", Some(BOUND)), ("lake", None)] {
        assert_eq!(crate::bound_to(&view, &datastore.parse().unwrap()), Ok(expected), "{datastore}");
    }
}

#[test]
fn a_path_longer_than_any_assignment_still_resolves() {
    let deep = vec!["x".repeat(200); 5].join("/");
    let target = subject(NodeKind::File, everything());
    assert_eq!(code(decide(READER, &deep, &target, Wanted::On(AccessMask::READ))), "permit");
}

#[test]
fn a_role_on_the_longest_path_counts() {
    let (root, mut deep) = ("/datastore/tank/", String::new());
    while root.len() + deep.len() < ROLE_PATH_BYTES_MAX {
        deep.push(if deep.len() % 9 == 8 { '/' } else { 'x' });
    }
    assert!(!deep.ends_with('/'));
    let target = subject(NodeKind::File, everything());
    let facts = format!("{READER}\n{root}{deep} alice NoAccess");
    for (at, expected) in [(deep.as_str(), false), ("xxxxxxxx", true)] {
        assert_eq!(decide(&facts, at, &target, Wanted::On(AccessMask::READ)).is_ok(), expected, "{at}");
    }
}

#[test]
fn whom_a_store_admits() {
    for (facts, admitted) in [
        ("", false),
        ("/ alice DatastoreAudit", true),
        ("/datastore/tank staff DatastoreReader-", true),
        ("/datastore alice DatastoreReader-", false),
        ("/datastore/tank/a/b staff DatastoreReader", true),
        ("/datastore/tank/a/b others DatastoreReader\n/datastore/tank2 alice Admin", false),
        ("/datastore/tank alice NoAccess\n/datastore/tank staff Admin", false),
        ("/datastore/tank alice NoAccess\n/datastore/tank/a alice DatastoreReader", true),
        ("/datastore/tank/a alice NoAccess", false),
        ("/datastore/tank alice@local DatastoreReader", true),
        ("/datastore/tank bob@local DatastoreReader", false),
        ("/datastore/tank bob@local!test DatastoreReader", false),
        ("/datastore/tank/a alice NoAccess DatastoreReader", false),
        ("/datastore/tank alice NoAccess- DatastoreReader", true),
        ("/datastore/tank/a alice NoAccess- DatastoreReader", true),
    ] {
        let (facts, memo) = (Facts::of(facts), memo());
        for _ in 0..2 {
            let answer = case_with(&facts, &alice(), &memo, |case| case.is_admitted());
            assert_eq!(answer, Ok(admitted));
        }
    }
}

#[test]
fn each_principal_and_store_is_admitted_for_itself() {
    let facts = Facts::of("/datastore/tank alice DatastoreReader");
    let view = enfilade_facts::View::new(&facts);
    let memo = super::memo();
    let bob = Principal { user: super::BOB, groups: Vec::new(), set: SetId(2), ..alice() };
    for round in 0..2 {
        for (who, principal, datastore, expected) in [
            ("alice", alice(), "tank", true),
            ("alice", alice(), "lake", false),
            ("bob", bob.clone(), "tank", false),
            ("her token", token_of_alice(), "tank", false),
        ] {
            let datastore = datastore.parse().unwrap();
            let admits = crate::admits(&view, NOW, &principal, &datastore, &memo).is_ok();
            assert_eq!(admits, expected, "{who} in {datastore}, round {round}");
        }
    }
}

#[test]
fn roles_and_acl_both_have_to_grant() {
    let modify = subject(NodeKind::File, acl(&["allow staff modify"]));
    let granted = |facts: &str| decide(facts, "a", &modify, Wanted::On(AccessMask::VISIBLE)).unwrap();
    assert_eq!(granted(READER), AccessMask::READ);
    assert_eq!(granted(POWER), AccessMask::MODIFY);
    assert_eq!(granted("/datastore/tank staff DatastoreAdmin"), AccessMask::ALL);
    let read_only = subject(NodeKind::File, acl(&["allow staff read"]));
    assert_eq!(code(decide(POWER, "a", &read_only, Wanted::On(AccessMask::WRITE_DATA))), "AC03");
    assert_eq!(code(decide(POWER, "a", &read_only, Wanted::Overwrite)), "AC03");
}

#[test]
fn what_may_not_be_seen_is_not_there_whatever_else_is_granted() {
    // All rights are granted except reading the ACL. Without this right the object is not visible.
    let hidden = subject(NodeKind::File, acl(&["deny staff read-acl", "allow staff full"]));
    let parent = subject(NodeKind::Directory, everything());
    let ask = |wanted| code(decide(POWER, "a", &hidden, wanted));
    assert_eq!(ask(Wanted::On(AccessMask::READ_DATA)), "AC02");
    assert_eq!(ask(Wanted::On(AccessMask::NONE)), "AC02");
    assert_eq!(ask(Wanted::Delete { parent: &parent }), "AC02");
    assert_eq!(ask(Wanted::Overwrite), "AC06");
    // A drop box is an exception: the user may add files to a directory that the user cannot see.
    let drop_box = subject(NodeKind::Directory, acl(&["allow staff add-file"]));
    assert_eq!(code(decide(POWER, "d", &drop_box, Wanted::Create(NodeKind::File))), "permit");
    assert_eq!(code(decide(POWER, "d", &drop_box, Wanted::Create(NodeKind::Directory))), "AC02");
    assert_eq!(code(decide(POWER, "d", &drop_box, Wanted::On(AccessMask::LIST))), "AC02");
    // A review reports the same rights as a request.
    let facts = Facts::of(POWER);
    let (view, store) =
        (enfilade_facts::View::new(&facts), ("tank".parse().unwrap(), AccessRules::default()));
    let (adds, passes) = (AccessMask::ADD_FILE, AccessMask::TRAVERSE);
    for (kind, lines, expected) in [
        (NodeKind::Directory, "allow staff add-file", adds),
        (NodeKind::Directory, "allow staff add-file,execute,write-acl", adds | passes),
        (NodeKind::File, "allow staff write-data,execute", AccessMask::NONE),
    ] {
        let (at, target) = (path("d"), subject(kind, acl(&[lines])));
        let granted = rights(&view, NOW, &alice(), (&store.0, &store.1), (&at, &target, None), &memo());
        assert_eq!(granted, Ok(expected), "{lines}");
    }
}

#[test]
fn creating_needs_the_right_on_the_directory() {
    let both = subject(NodeKind::Directory, everything());
    let subdirectories = subject(NodeKind::Directory, acl(&["allow staff read,add-subdirectory"]));
    let ask = |facts, target, kind| code(decide(facts, "d", target, Wanted::Create(kind)));
    let backup = "/datastore/tank staff DatastoreBackup";
    assert_eq!(ask(backup, &both, NodeKind::File), "permit");
    assert_eq!(ask(backup, &both, NodeKind::Directory), "permit");
    assert_eq!(ask(backup, &subdirectories, NodeKind::Directory), "permit");
    assert_eq!(ask(backup, &subdirectories, NodeKind::File), "AC03");
    assert_eq!(ask(READER, &both, NodeKind::File), "AC03");
    let file = subject(NodeKind::File, everything());
    assert_eq!(code(decide(backup, "a", &file, Wanted::Overwrite)), "AC03");
}

#[test]
fn deleting_needs_the_target_or_its_directory() {
    let (all, read) = (everything(), acl(&["allow staff read"]));
    let child = acl(&["allow staff read,delete-child"]);
    let damaged = StoredAcl::Unreadable("no".into());
    for (facts, target, parent, expected) in [
        (POWER, &all, &read, "permit"),
        (POWER, &read, &child, "permit"),
        (POWER, &read, &read, "AC03"),
        (POWER, &read, &damaged, "AC03"),
        (READER, &all, &all, "AC03"),
        ("/datastore/tank staff DatastoreBackup", &read, &child, "AC03"),
        // Only the roles on the target limit the rights. The roles on its directory do not count.
        (
            "/datastore/tank staff DatastorePowerUser\n/datastore/tank/d/a staff DatastoreReader",
            &read,
            &child,
            "AC03",
        ),
        (
            "/datastore/tank staff DatastorePowerUser\n/datastore/tank/d/a alice NoAccess",
            &all,
            &child,
            "AC02",
        ),
        ("/datastore/tank/d/a staff DatastorePowerUser", &all, &child, "permit"),
        ("/datastore/tank/d/a staff DatastorePowerUser", &read, &child, "AC03"),
    ] {
        let parent = subject(NodeKind::Directory, parent.clone());
        let target = subject(NodeKind::File, target.clone());
        let result = decide(facts, "d/a", &target, Wanted::Delete { parent: &parent });
        assert!(result.as_ref().map_or(true, |granted| granted.covers(AccessMask::DELETE)));
        assert_eq!(code(result), expected, "{facts}");
    }
    // The root has no parent directory.
    let parent = subject(NodeKind::Directory, child);
    let root = subject(NodeKind::Directory, read);
    assert_eq!(code(decide(POWER, "", &root, Wanted::Delete { parent: &parent })), "AC03");
}

#[test]
fn a_damaged_acl_is_for_nobody_but_those_who_skip_it() {
    for damaged in [StoredAcl::Unreadable("EIO".into()), StoredAcl::Ntacl(vec![1, 0])] {
        let target = subject(NodeKind::File, damaged);
        let refusal = decide(POWER, "a", &target, Wanted::On(AccessMask::READ)).unwrap_err();
        assert!(refusal.code() == "AC04" && refusal.looks_absent());
        let admin = "/datastore/tank staff DatastoreAdmin";
        assert_eq!(code(decide(admin, "a", &target, Wanted::On(AccessMask::ALL))), "permit");
        assert_eq!(code(decide("", "a", &target, Wanted::On(AccessMask::READ))), "AC02");
        for (facts, expected) in
            [(POWER, Err("AC04")), (admin, Ok(AccessMask::ALL)), ("", Ok(AccessMask::NONE))]
        {
            let facts = Facts::of(facts);
            let (view, store) =
                (enfilade_facts::View::new(&facts), ("tank".parse().unwrap(), AccessRules::default()));
            let at = path("a");
            let judged = judge(&view, NOW, &alice(), (&store.0, &store.1), &at, &target, &memo());
            assert_eq!(judged.map(|judged| judged.granted).map_err(|why| why.code()), expected);
        }
    }
}

#[test]
fn facts_that_cannot_be_read_refuse() {
    let mut facts = Facts::of(POWER);
    let (_, stored) = facts.records.iter_mut().find(|((table, _), _)| *table == Table::Assignments).unwrap();
    *stored.last_mut().unwrap() ^= 1;
    let target = subject(NodeKind::File, everything());
    case(&facts, &alice(), |case| {
        let ask = Ask { path: &path("a"), target: &target, wanted: Wanted::On(AccessMask::READ) };
        assert_eq!(case.decide(&ask).unwrap_err().code(), "AC05");
        assert_eq!(case.see(&StorePath::root(), &[("a", &target)]).unwrap_err().code(), "AC05");
        assert_eq!(case.is_admitted().unwrap_err().code(), "AC05");
    });
}

#[test]
fn a_role_that_cannot_be_read_refuses_what_it_may_be_about_and_nothing_else() {
    let mut facts = Facts::of(&format!("{POWER}\n/datastore/tank/dir/x others NoAccess"));
    let (_, stored) = facts.records.iter_mut().rfind(|((table, _), _)| *table == Table::Assignments).unwrap();
    *stored.last_mut().unwrap() ^= 1;
    let target = subject(NodeKind::File, everything());
    for (at, expected) in
        [("a", "permit"), ("dir", "permit"), ("dir/xa/b", "permit"), ("dir/x", "AC05"), ("dir/x/a/b", "AC05")]
    {
        let ask = Ask { path: &path(at), target: &target, wanted: Wanted::On(AccessMask::READ) };
        assert_eq!(code(case(&facts, &alice(), |case| case.decide(&ask))), expected, "{at}");
    }
    for (at, name, expected) in
        [("", "dir", "permit"), ("dir", "a", "permit"), ("dir", "x", "AC05"), ("dir/x", "a", "AC05")]
    {
        let seen = case(&facts, &alice(), |case| case.see(&path(at), &[(name, &target)]));
        assert_eq!(seen.map_or_else(|why| why.code(), |_| "permit"), expected, "{name} in `{at}`");
    }
}

#[test]
fn a_principal_of_older_facts_spoils_nobodys_answer() {
    let (facts, memo) = (Facts::of(POWER), memo());
    let mut before = alice();
    (before.groups, before.set) = (Vec::new(), SetId(2));
    let target = subject(NodeKind::File, everything());
    let ask = Ask { path: &path("a"), target: &target, wanted: Wanted::On(AccessMask::READ) };
    let decide = |principal: &_| code(case_with(&facts, principal, &memo, |case| case.decide(&ask)));
    assert_eq!(decide(&before), "AC02");
    assert_eq!(decide(&alice()), "permit");
    assert_eq!(decide(&before), "AC02");
}

#[test]
fn a_refusal_names_what_decided() {
    let says = |facts, lines: &[&str], wanted| {
        let target = subject(NodeKind::File, acl(lines));
        decide(facts, "docs/a.txt", &target, wanted).unwrap_err().to_string()
    };
    let write = Wanted::On(AccessMask::WRITE_DATA);
    expect!["write-data on /docs/a.txt is not granted: role DatastoreReader assigned to group @staff@local on /datastore/tank"]
        .assert_eq(&says(READER, &["allow everyone full"], write));
    expect!["write-data on /docs/a.txt is not granted: ACE #2 `deny S-1-5-21-1-2-3-1001 write`"]
        .assert_eq(&says(POWER, &["deny everyone execute", "deny staff write", "allow staff full"], write));
    expect!["write-data on /docs/a.txt is not granted: no entry of the ACL grants the right"]
        .assert_eq(&says(POWER, &["allow staff read"], write));
    expect![
        "the user cannot see /docs/a.txt: ACE #1 `deny everyone read-data`; no entry of the ACL grants the right"
    ]
    .assert_eq(&says(POWER, &["deny everyone read-data", "allow staff execute"], write));
    expect!["the user cannot see /docs/a.txt: no role"].assert_eq(&says("", &[], write));
    // If several steps refuse the missing right, the refusal names only the first of these steps.
    expect!["write-data on /docs/a.txt is not granted: role DatastoreReader assigned to group @staff@local on /datastore/tank"]
        .assert_eq(&says(READER, &["deny staff write", "allow everyone full"], write));
    let target = Subject { mode: 0o640, ..subject(NodeKind::File, StoredAcl::Absent) };
    let refusal = decide(POWER, "docs/a.txt", &target, Wanted::Overwrite).unwrap_err().to_string();
    expect!["/docs/a.txt exists already, and the user cannot see it: no ACL; mode 640 of 0:0 grants read-attributes,read-acl,synchronize"]
        .assert_eq(&refusal);
}

#[test]
fn the_sticky_bit_keeps_others_from_deleting() {
    // The uid of alice is 100, and her group has the gid 50.
    let all = everything();
    for (mode, directory_uid, entry_uid, acl, expected) in [
        (0o777, 0, 0, None, "permit"),
        (0o1777, 0, 0, None, "AC03"),
        (0o1777, 0, 100, None, "permit"),
        (0o1777, 100, 0, None, "permit"),
        (0o1755, 0, 100, None, "AC03"),
        // If the directory has an ACL, the ACL decides, and the sticky bit does not count.
        (0o1777, 0, 0, Some(all.clone()), "permit"),
    ] {
        let parent = Subject {
            mode,
            uid: directory_uid,
            ..subject(NodeKind::Directory, acl.unwrap_or(StoredAcl::Absent))
        };
        let target = Subject { mode: 0o666, uid: entry_uid, ..subject(NodeKind::File, StoredAcl::Absent) };
        let wanted = Wanted::Delete { parent: &parent };
        assert_eq!(
            code(decide(POWER, "a/b", &target, wanted)),
            expected,
            "{mode:o} {directory_uid} {entry_uid}"
        );
        // Only a role that skips ACLs overrides the sticky bit.
        let admin = "/datastore/tank staff DatastoreAdmin";
        assert_eq!(code(decide(admin, "a/b", &target, wanted)), "permit");
    }
    let nobody = Principal { uid: None, ..alice() };
    let parent = Subject { mode: 0o1777, uid: 0, ..subject(NodeKind::Directory, StoredAcl::Absent) };
    let target = Subject { mode: 0o666, uid: 0, ..subject(NodeKind::File, StoredAcl::Absent) };
    let (at, wanted) = (path("a/b"), Wanted::Delete { parent: &parent });
    let ask = Ask { path: &at, target: &target, wanted };
    assert_eq!(code(case(&Facts::of(POWER), &nobody, |case| case.decide(&ask))), "AC03");
}

#[test]
fn the_walk_in_words() {
    let lines = [
        "deny staff write",
        "allow creator-owner full inherit=files,dirs,only",
        "audit everyone full",
        "allow S-1-5-21-9-9-9-9 full",
        "allow everyone modify",
        "deny everyone read",
    ];
    let target = subject(NodeKind::File, acl(&lines));
    let facts = Facts::of(POWER);
    let view = enfilade_facts::View::new(&facts);
    let (tank, rules) = ("tank".parse().unwrap(), AccessRules::default());
    let judged = judge(&view, NOW, &alice(), (&tank, &rules), &path("a"), &target, &memo()).unwrap();
    let walk: Vec<String> = judged.walk.iter().map(ToString::to_string).collect();
    expect![[r#"
        role DatastorePowerUser assigned to group @staff@local on /datastore/tank: modify,delete-child
        ACE #1 `deny S-1-5-21-1-2-3-1001 write` denies write
        ACE #2 `allow creator-owner full inherit=files,dirs,only` does not apply to this object, but only to files and directories that are created in it
        ACE #3 `audit everyone full` requests auditing and decides nothing
        ACE #4 `allow S-1-5-21-9-9-9-9 full` names neither the user nor a group of the user
        ACE #5 `allow everyone modify` grants read,delete
        ACE #6 `deny everyone read` has no effect, because earlier entries already granted or denied its rights
        no entry grants or denies delete-child,write-acl,write-owner, so these rights are refused"#]]
    .assert_eq(&walk.join("\n"));
    assert_eq!((judged.granted, judged.skips_acl), (AccessMask::READ | AccessMask::DELETE, false));
    assert_eq!(judged.roles.node, "/datastore/tank");
    let would = |wanted| {
        let at = path("a");
        let ask = Ask { path: &at, target: &target, wanted: Wanted::On(wanted) };
        would(&view, NOW, &alice(), (&tank, &rules), &ask, &memo()).map_err(|why| why.code())
    };
    assert!(would(AccessMask::READ).is_ok());
    assert_eq!(would(AccessMask::WRITE_DATA), Err("AC03"));
}

#[test]
fn without_a_role_the_walk_says_how_to_give_one() {
    let (facts, target) = (Facts::of(""), subject(NodeKind::File, everything()));
    let view = enfilade_facts::View::new(&facts);
    let (tank, rules) = ("tank".parse().unwrap(), AccessRules::default());
    let judged = judge(&view, NOW, &alice(), (&tank, &rules), &path("a"), &target, &memo()).unwrap();
    let walk: Vec<String> = judged.walk.iter().map(ToString::to_string).collect();
    assert_eq!(
        walk,
        [
            "neither the user nor a group of the user has a role on this path or above it: assign a role with `enfilade role assign`"
        ]
    );
}

#[test]
fn what_acl_cfg_says_and_is_not_known_might_be_no_access() {
    let fault = |refuses| FileFault { line: 2, reason: "?".into(), since: 0, refuses };
    let named = |facts: &mut Facts, fault: Option<FileFault>| {
        let who = Who::Named("alice@local".parse().unwrap());
        let key = AssignmentKey { path: "/datastore/tank/a".parse().unwrap(), who };
        facts.put(&key, &Assignment { roles: vec![("DatastoreReader".parse().unwrap(), true)], fault });
    };
    let file = subject(NodeKind::File, everything());
    let read = Wanted::On(AccessMask::READ_DATA);
    let ask = |facts: &Facts, now: Clocks, at: &str| {
        let view = enfilade_facts::View::new(facts);
        let (memo, principal, tank) = (memo(), alice(), "tank".parse().unwrap());
        let case = AccessCheck {
            view: View(&view),
            now,
            principal: &principal,
            datastore: &tank,
            visible: AccessMask::VISIBLE,
            memo: &memo,
        };
        code(case.decide(&Ask { path: &path(at), target: &file, wanted: read }))
    };
    let knows = |facts: &Facts, now: Clocks, at: &str| {
        let view = enfilade_facts::View::new(facts);
        knows_roles(&view, now, &"tank".parse().unwrap(), &path(at)).unwrap()
    };
    let stale = Clocks { mirror: MirrorHealth::Stale, ..NOW };
    let mut facts = Facts::of("/ alice Admin");
    named(&mut facts, None);
    assert_eq!(
        [ask(&facts, NOW, "a"), ask(&facts, stale, "a"), ask(&facts, stale, "b")],
        ["permit", "AC02", "permit"]
    );
    assert_eq!(
        [knows(&facts, NOW, "a"), knows(&facts, stale, "a/b"), knows(&facts, stale, "b")],
        [true, false, true]
    );
    named(&mut facts, Some(fault(false)));
    assert_eq!(ask(&facts, NOW, "a"), "permit");
    named(&mut facts, Some(fault(true)));
    assert_eq!([ask(&facts, NOW, "a"), ask(&facts, NOW, "b")], ["AC02", "permit"]);
    assert_eq!([knows(&facts, NOW, "a"), knows(&facts, NOW, "b")], [false, true]);
    named(&mut facts, None);
    facts.put(&FileName::Acl, &MirroredFile { fault: Some(fault(false)), ..MirroredFile::default() });
    assert_eq!(ask(&facts, NOW, "a"), "permit");
    facts.put(&FileName::Acl, &MirroredFile { fault: Some(fault(true)), ..MirroredFile::default() });
    assert_eq!([ask(&facts, NOW, "a"), ask(&facts, NOW, "b")], ["AC02", "permit"]);
    assert!(!knows(&facts, NOW, "b"), "a line that is not read may give a role here");
}

/// The mirror of the files becomes stale or becomes current again, but no commit happens. So all roles are remembered at the same revision.
#[test]
fn roles_are_remembered_for_as_long_as_somebody_looks_at_their_file() {
    let mut facts = Facts::of("/ alice Admin");
    let who = Who::Named("alice@local".parse().unwrap());
    let key = AssignmentKey { path: "/datastore/tank/a".parse().unwrap(), who };
    let roles = vec![("DatastoreReader".parse().unwrap(), true)];
    facts.put(&key, &Assignment { roles, fault: None });
    let file = subject(NodeKind::File, everything());
    let stale = Clocks { mirror: MirrorHealth::Stale, ..NOW };
    for times in [[NOW, stale, NOW], [stale, NOW, stale]] {
        let (memo, principal, tank) = (memo(), alice(), "tank".parse().unwrap());
        let view = enfilade_facts::View::new(&facts);
        let decided = times.map(|now| {
            let view = View(&view);
            let visible = AccessMask::VISIBLE;
            let case =
                AccessCheck { view, now, principal: &principal, datastore: &tank, visible, memo: &memo };
            let read = Wanted::On(AccessMask::READ_DATA);
            code(case.decide(&Ask { path: &path("a"), target: &file, wanted: read }))
        });
        let expected = times.map(|now| if now.mirror.is_current() { "permit" } else { "AC02" });
        assert_eq!(decided, expected);
    }
}

#[test]
fn a_token_with_roles_of_its_own_has_what_it_and_its_owner_have() {
    let file = subject(NodeKind::File, everything());
    for (facts, wanted, expected) in [
        ("/ alice Admin", AccessMask::READ_DATA, "AC02"),
        ("/ alice Admin\n/ test DatastoreReader", AccessMask::READ_DATA, "permit"),
        ("/ alice Admin\n/ test DatastoreReader", AccessMask::WRITE_DATA, "AC03"),
        ("/ alice Admin\n/ alice@local!test DatastoreReader", AccessMask::READ_DATA, "permit"),
        ("/ alice Admin\n/ alice@local!other DatastoreReader", AccessMask::READ_DATA, "AC02"),
        ("/ alice DatastoreReader\n/ test Admin", AccessMask::READ_DATA, "permit"),
        ("/ alice DatastoreReader\n/ test Admin", AccessMask::WRITE_DATA, "AC03"),
        ("/ test Admin", AccessMask::READ_DATA, "AC02"),
        ("/ alice Admin\n/ test Admin\n/datastore/tank/a test NoAccess", AccessMask::READ_DATA, "AC02"),
        ("/ staff Admin\n/ test Admin", AccessMask::WRITE_OWNER, "permit"),
    ] {
        let decided = case(&Facts::of(facts), &token_of_alice(), |case| {
            case.decide(&Ask { path: &path("a"), target: &file, wanted: Wanted::On(wanted) })
        });
        assert_eq!(code(decided), expected, "{facts}");
    }
}
