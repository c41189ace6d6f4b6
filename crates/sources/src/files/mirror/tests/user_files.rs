//! Tests of the mirror with `user.cfg`, `token.shadow` and `acl.cfg`.

use super::*;
use enfilade_facts::tables::{
    Assignment, AssignmentKey, Credential, Member, Membership, MembershipKey, Name, NameKey, User, Verifier,
    Who,
};
use enfilade_facts::vocabulary::{GroupId, Role, UserId};
use enfilade_facts::{Row, View};

const USERS: FileName = FileName::Users;
const SECRETS: FileName = FileName::Secrets;
const ACL: FileName = FileName::Acl;

impl Bench {
    fn read<R>(&self, look: impl FnOnce(&View<'_>) -> Result<R, SourceError>) -> R {
        self.source.read(look).unwrap().unwrap()
    }

    fn user(&self, userid: &str) -> Option<(UserId, User)> {
        let (name, realm) = userid.split_once('@').unwrap();
        self.read(|view| {
            let Some(domain) = view.get::<Name>(&NameKey::domain(&realm.parse().unwrap()))? else {
                return Ok(None);
            };
            let Some(id) = view.get::<Name>(&NameKey::user(&domain.domain(), name))? else { return Ok(None) };
            Ok(view.get::<User>(&id.user())?.map(|user| (id.user(), user)))
        })
    }

    fn token(&self, userid: &str, name: &str) -> Option<Credential> {
        let (owner, _) = self.user(userid)?;
        self.read(|view| {
            let id = view.get::<Name>(&NameKey::token(&owner, &name.parse().unwrap()))?;
            id.map_or(Ok(None), |id| view.get::<Credential>(&id.credential()))
        })
    }

    fn commit<R: Row>(&self, key: &R::Key, row: &R) {
        let audit = AuditRecord { who: "a test".into(), what: "put".into(), unix_seconds: 0, request: None };
        let mut change = Change::new(audit);
        change.put(key, row);
        self.source.commit(&change).unwrap();
    }

    /// The text `path who roles` for each assignment that comes from `acl.cfg`. `!` means that the assignment refuses access because of an error, and
    /// `?` means that the assignment has an error, but still applies.
    fn roles(&self) -> Vec<String> {
        let rows = self.read(|view| view.list::<Assignment>(&[]));
        let kept = rows.into_iter().filter(|(key, _)| matches!(key.who, Who::Named(_)));
        let text = |(AssignmentKey { path, who }, assignment): (AssignmentKey, Assignment)| {
            let Who::Named(ugid) = who else { unreachable!() };
            let roles: Vec<_> =
                assignment.roles.iter().map(|(role, down)| format!("{role}{}", u8::from(*down))).collect();
            let mark = assignment.fault.map_or("", |fault| if fault.refuses { " !" } else { " ?" });
            format!("{path} {ugid} {}{mark}", roles.join("+"))
        };
        kept.map(text).collect()
    }
}

const TWO: &str = "user: a@pbs\n\tcomment Ann\n\ntoken: a@pbs!t\n\nuser: b@pbs\n\tenable false\n";

#[test]
fn users_and_tokens_are_followed_from_both_files_together() {
    let mut bench = Bench::new();
    bench.write(USERS, TWO);
    bench.write(SECRETS, r#"{"a@pbs!t":"$5$x","nobody@pbs!t":"$5$y"}"#);
    let outcome = bench.look();
    assert!(outcome.problems.is_empty(), "{outcome:?}");
    // Two users, the administrator, a token, and the administrator's role.
    assert_eq!((outcome.added, outcome.changed, outcome.removed), (5, 0, 0));
    let (id, ann) = bench.user("a@pbs").unwrap();
    assert_eq!((ann.enabled, ann.comment.as_deref(), ann.mirrored.is_some()), (true, Some("Ann"), true));
    assert!(!bench.user("b@pbs").unwrap().1.enabled);
    let token = bench.token("a@pbs", "t").unwrap();
    assert_eq!((token.verifier, token.own_roles), (Verifier::Crypt("$5$x".into()), true));
    assert_eq!(bench.roles(), ["/ root@pam Admin1"]);
    assert_eq!(bench.look(), Outcome::default());
    // Fields of a record that are not in the files are not changed.
    bench.commit(
        &id,
        &User {
            uid: Some(7),
            password: Some(enfilade_facts::tables::Password::of("hash".into())),
            ..ann.clone()
        },
    );
    bench.write(USERS, &TWO.replace("Ann", "Anna"));
    bench.look();
    let (same, anna) = bench.user("a@pbs").unwrap();
    assert_eq!((same, anna.uid, anna.sid, anna.comment.as_deref()), (id, Some(7), ann.sid, Some("Anna")));
    // Only the hash changes.
    bench.write(SECRETS, r#"{"a@pbs!t":"$5$z"}"#);
    assert_eq!(bench.look().changed, 1);
    assert_eq!(bench.token("a@pbs", "t").unwrap().verifier, Verifier::Crypt("$5$z".into()));
    bench.write(SECRETS, "{}");
    bench.look();
    assert_eq!(bench.token("a@pbs", "t").unwrap().verifier, Verifier::Missing);
}

#[test]
fn whoever_is_taken_out_is_gone_with_all_that_is_theirs() {
    let mut bench = Bench::new();
    bench.write(USERS, TWO);
    bench.look();
    let (id, before) = bench.user("a@pbs").unwrap();
    let group = GroupId::from_bytes([9; 16]);
    bench.commit(&MembershipKey { member: Member::User(id), group }, &Membership);
    let assigned = AssignmentKey { path: "/".parse().unwrap(), who: Who::User(id) };
    bench.commit(&assigned, &Assignment { roles: vec![(Role::Admin, true)], fault: None });
    for process in ["the one that saw it", "another"] {
        if process == "another" {
            bench.restart();
        }
        bench.write(USERS, "user: b@pbs\n");
        bench.look();
        assert!(bench.user("a@pbs").is_none() && bench.token("a@pbs", "t").is_none(), "{process}");
        let left = bench.read(|view| view.list::<Membership>(&Member::User(id).prefix()));
        assert!(left.is_empty() && bench.read(|view| view.get::<Assignment>(&assigned)).is_none());
        bench.write(USERS, TWO);
        bench.look();
    }
    let (other, after) = bench.user("a@pbs").unwrap();
    assert!(other != id && after.sid != before.sid, "a later user of this name is another user");
}

#[test]
fn one_that_is_broken_keeps_its_last_good_facts_and_no_longer_than_that() {
    let mut bench = Bench::new();
    bench.write(USERS, TWO);
    bench.look_at(LATE);
    bench.write(USERS, &format!("{TWO}\tenable\n\nuser: c@pbs\n\tfoo 1\n\ntoken: a@pbs!u\n\tenable maybe\n"));
    let problems = bench.look_at(LATE).problems;
    assert_eq!(problems.len(), 3, "{problems:?}");
    let fault = |bench: &Bench, user: &str| {
        bench.user(user).unwrap().1.mirrored.unwrap().fault.map(|fault| fault.refuses)
    };
    assert_eq!((fault(&bench, "b@pbs"), fault(&bench, "a@pbs")), (Some(false), None));
    assert!(bench.user("c@pbs").is_none() && bench.token("a@pbs", "u").is_none());
    bench.look_at(LATE + 61);
    assert_eq!(fault(&bench, "b@pbs"), Some(true));
    // The section of `a@pbs` is missing in a file with errors, so it may have been removed by mistake.
    bench.write(USERS, "user: b@pbs\n\tenable\n");
    bench.look_at(LATE + 62);
    assert_eq!((fault(&bench, "b@pbs"), fault(&bench, "a@pbs")), (Some(true), Some(false)));
    assert!(bench.token("a@pbs", "t").unwrap().mirrored.unwrap().fault.is_some());
    // For a well-formed section with an unknown value, access is refused at once.
    bench.write(USERS, &TWO.replace("comment Ann", "enable maybe"));
    bench.look_at(LATE + 63);
    assert_eq!((fault(&bench, "b@pbs"), fault(&bench, "a@pbs")), (None, Some(true)));
    bench.write(USERS, TWO);
    bench.look_at(LATE + 64);
    assert_eq!((fault(&bench, "b@pbs"), fault(&bench, "a@pbs")), (None, None));
    assert_eq!(bench.token("a@pbs", "t").unwrap().mirrored.unwrap().fault, None);
}

#[test]
fn secrets_that_cannot_be_read_leave_the_hashes_and_mark_the_file() {
    let mut bench = Bench::new();
    bench.write(USERS, TWO);
    bench.write(SECRETS, r#"{"a@pbs!t":"$5$x"}"#);
    bench.look_at(LATE);
    bench.write(SECRETS, "{\n\"a@pbs!t\":\"$5$");
    let problems = bench.look_at(LATE).problems;
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].contains("token.shadow: line 2: expected a JSON object"), "{problems:?}");
    assert_eq!(bench.token("a@pbs", "t").unwrap().verifier, Verifier::Crypt("$5$x".into()));
    assert!(!bench.file(SECRETS).unwrap().fault.unwrap().refuses);
    bench.look_at(LATE + 61);
    assert!(bench.file(SECRETS).unwrap().fault.unwrap().refuses);
    // The token `a@pbs!t` has two entries.
    bench.write(SECRETS, r#"{"a@pbs!t":"$5$x","a@pbs!t":"$5$y","b@pbs!x":1}"#);
    let problems = bench.look_at(LATE + 62).problems;
    assert!(
        problems[0].contains("a@pbs!t: it has more than one entry; the last good facts stay in use"),
        "{problems:?}"
    );
    assert_eq!(bench.file(SECRETS).unwrap().fault, None);
    // A change of `user.cfg` does not remove the error of the token's entry.
    bench.write(USERS, &TWO.replace("Ann", "Anna"));
    bench.look_at(LATE + 63);
    let fault = bench.token("a@pbs", "t").unwrap().mirrored.unwrap().fault.unwrap();
    assert_eq!((fault.since, fault.refuses), (LATE + 62, false));
    bench.write(SECRETS, r#"{"a@pbs!t":"$5$y"}"#);
    bench.look_at(LATE + 64);
    let token = bench.token("a@pbs", "t").unwrap();
    assert_eq!((token.verifier, token.mirrored.unwrap().fault), (Verifier::Crypt("$5$y".into()), None));
}

#[test]
fn roles_are_what_acl_cfg_says_and_the_administrator_s() {
    let mut bench = Bench::new();
    bench.write(
        ACL,
        "acl:1:/datastore/tank:a@pbs,@staff,a@pbs!t:DatastoreReader\nacl:1:/:root@pam:NoAccess\n",
    );
    bench.look_at(LATE);
    let three = [
        "/ root@pam Admin1",
        "/datastore/tank @staff DatastoreReader1",
        "/datastore/tank a@pbs DatastoreReader1",
        "/datastore/tank a@pbs!t DatastoreReader1",
    ];
    assert_eq!(bench.roles(), three);
    bench.write(
        ACL,
        "acl:1:/datastore/tank:a@pbs,@staff:DatastoreRaeder\nacl:0:/datastore/tank:b@pbs:NoAccess\n",
    );
    let problems = bench.look_at(LATE).problems;
    assert!(problems[0].contains("acl.cfg: line 1: role `DatastoreRaeder`"), "{problems:?}");
    let broken = [
        "/ root@pam Admin1",
        "/datastore/tank @staff DatastoreReader1 ?",
        "/datastore/tank a@pbs DatastoreReader1 ?",
        "/datastore/tank a@pbs!t DatastoreReader1 ?",
        "/datastore/tank b@pbs NoAccess0",
    ];
    assert_eq!(bench.roles(), broken);
    bench.look_at(LATE + 61);
    assert_eq!(bench.roles()[1], "/datastore/tank @staff DatastoreReader1 !");
    bench.write(ACL, "acl:1:/datastore/tank:b@pbs:Admin\nacl:1:/datastore:c@pbs:Oops\n");
    bench.look_at(LATE + 62);
    // `c@pbs` has no last good facts on this path. Because of the malformed line, access is refused, and no role is inherited from a higher path.
    assert_eq!(bench.roles()[1], "/datastore c@pbs  !");
    bench.write(ACL, "");
    bench.look_at(LATE + 63);
    assert_eq!(bench.roles(), ["/ root@pam Admin1"]);
}

#[test]
fn one_changed_line_among_many_costs_one_record() {
    let mut bench = Bench::new();
    let users: String = (0..500).map(|n| format!("user: u{n}@pbs\n\ntoken: u{n}@pbs!t\n\n")).collect();
    let secrets = |last: &str| {
        let entries: Vec<String> = (0..500).map(|n| format!("\"u{n}@pbs!t\":\"$5${n}{last}\"")).collect();
        format!("{{{}}}", entries.join(","))
    };
    bench.write(USERS, &users);
    bench.write(SECRETS, &secrets(""));
    assert_eq!(bench.look().added, 1002);
    bench.write(SECRETS, &secrets("").replace("\"$5$77\"", "\"$5$new\""));
    let outcome = bench.look();
    assert_eq!((outcome.added, outcome.changed, outcome.removed), (0, 1, 0));
    assert_eq!(bench.token("u77@pbs", "t").unwrap().verifier, Verifier::Crypt("$5$new".into()));
    bench.write(USERS, &users.replace("user: u77@pbs\n\ntoken: u77@pbs!t\n\n", ""));
    let outcome = bench.look();
    assert_eq!((outcome.added, outcome.changed, outcome.removed), (0, 0, 2));
    assert!(bench.user("u77@pbs").is_none());
    bench.write(USERS, &users);
    assert_eq!(bench.look().added, 2);
    assert_eq!(bench.token("u77@pbs", "t").unwrap().verifier, Verifier::Crypt("$5$new".into()));
}

#[test]
fn whoever_has_seen_both_files_compares_what_was_changed_in_them() {
    let mut bench = Bench::new();
    let users: String = (0..500).map(|n| format!("user: u{n}@pbs\n\ntoken: u{n}@pbs!t\n\n")).collect();
    let entries: Vec<String> = (0..500).map(|n| format!("\"u{n}@pbs!t\":\"$5${n}\"")).collect();
    bench.write(USERS, &users);
    bench.write(SECRETS, &format!("{{{}}}", entries.join(",")));
    bench.look();
    bench.restart();
    bench.mirror.has_seen(&bench.source, at(LATE)).unwrap();
    bench.write(USERS, &format!("{users}token: u7@pbs!new\n\n"));
    bench.write(
        SECRETS,
        &format!("{{{},\"u7@pbs!new\":\"$5$n\"}}", entries.join(",").replace("$5$9\"", "$5$nine\"")),
    );
    let outcome = bench.look();
    assert_eq!((outcome.added, outcome.changed, outcome.removed), (1, 1, 0));
    assert_eq!(bench.token("u7@pbs", "new").unwrap().verifier, Verifier::Crypt("$5$n".into()));
    assert_eq!(bench.token("u9@pbs", "t").unwrap().verifier, Verifier::Crypt("$5$nine".into()));
    // `has_seen` ignores a file if the facts were not taken from its content.
    bench.write(USERS, &users);
    bench.restart();
    bench.mirror.has_seen(&bench.source, at(LATE)).unwrap();
    bench.write(USERS, &users.replace("user: u7@pbs\n\n", "user: u7@pbs\n\tenable false\n\n"));
    let outcome = bench.look();
    assert_eq!((outcome.added, outcome.changed, outcome.removed), (0, 1, 1));
    assert!(!bench.user("u7@pbs").unwrap().1.enabled && bench.token("u7@pbs", "new").is_none());
}

/// Before an editor writes the files, it asks which change the look after the edit would commit. The look after the edit still compares only the
/// changed entries.
#[test]
fn the_question_what_a_look_would_commit_forgets_nothing_that_was_seen() {
    let mut bench = Bench::new();
    let users: String = (0..9).map(|n| format!("user: u{n}@pbs\n\ntoken: u{n}@pbs!t\n\n")).collect();
    let entries: Vec<String> = (0..9).map(|n| format!("\"u{n}@pbs!t\":\"$5${n}\"")).collect();
    let secrets = format!("{{{}}}", entries.join(","));
    bench.write(USERS, &users);
    bench.write(SECRETS, &secrets);
    bench.look();
    bench.restart();
    bench.mirror.has_seen(&bench.source, at(LATE)).unwrap();
    let edited = secrets.replace("\"$5$7\"", "\"$5$new\"");
    let editor = Editor { who: "ann@pbs", what: "token regenerate" };
    for _ in 0..2 {
        let contents = [(SECRETS, edited.as_bytes())].into_iter();
        let change = bench.source.read(|view| bench.mirror.would_commit(view, at(LATE), editor, contents));
        assert!(!change.unwrap().unwrap().is_empty());
        assert!(bench.mirror.secrets.is_some(), "otherwise the next look compares every entry");
    }
    bench.write(SECRETS, &edited);
    let outcome = bench.look();
    assert_eq!((outcome.added, outcome.changed, outcome.removed), (0, 1, 0));
    assert_eq!(bench.token("u7@pbs", "t").unwrap().verifier, Verifier::Crypt("$5$new".into()));
}
