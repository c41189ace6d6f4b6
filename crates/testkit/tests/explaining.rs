//! Tests that explanations and reviews agree with the answers to real requests, with random trees, ACLs, roles, users and settings of a datastore.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
#![allow(clippy::print_stdout, reason = "a campaign says how far it is")]

use enfilade_admin::keystone::{self, On};
use enfilade_admin::{DatastoreEdit, NewAcl, NewUser, Target, UserEdit, user_access, withdraw_from};
use enfilade_content::{Blocking, Root};
use enfilade_facts::tables::AccessRules;
use enfilade_facts::vocabulary::{
    AccessMask, AclDialect, Authid, DatastoreName, Maintenance, OperationKind, ProjectId, Secret, StorePath,
    UserId, Userid,
};
use enfilade_facts::{Read as _, Refuse as _};
use enfilade_identity::fernet::frame;
use enfilade_identity::fernet::payload::Audit;
use enfilade_identity::{Claim, Methods, Scope, SecretAsk};
use enfilade_passage::{Explanation, KeyRing, Placing, Refusal, Stay, Visit};
use enfilade_testkit::{Remembering, TestHouse, hash_key, new_application_credential};
use std::collections::HashMap;
use std::fs::Metadata;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

const QUESTIONS_EACH: u64 = 50;

const PEOPLE: [(&str, Option<u32>); 4] =
    [("alice@local", Some(100)), ("bob@local", Some(101)), ("carol@local", None), ("dan@local", Some(103))];
/// All clients that send requests. A client uses the secret of a credential, or a session for the project.
const ASKING: [(&str, bool); 12] = [
    ("alice@local!test", false),
    ("alice@local!test", false),
    ("bob@local!test", false),
    ("bob@local!test", false),
    ("carol@local!test", false),
    ("carol@local!test", false),
    ("dan@local!test", false),
    ("dan@local!test", false),
    ("alice@local!ci", false),
    ("carol@local!ci", false),
    ("alice@local", true),
    ("carol@local", true),
];
/// A user without a password and without any other credential.
const EVE: &str = "eve@local";
const PROJECT_ROLES: [&str; 4] = ["reader", "member", "manager", "admin"];
const NODES: [&str; 6] =
    ["/", "/datastore", "/datastore/tank", "/datastore/tank/a", "/datastore/tank/a/b", "/datastore/tank/c"];
const WHO: [&str; 6] =
    ["alice@local", "bob@local", "carol@local", "@staff@local", "alice@local!test", "dan@local"];
const ROLES: [&str; 8] = [
    "DatastorePowerUser",
    "DatastorePowerUser",
    "DatastoreReader",
    "DatastoreBackup",
    "DatastoreAdmin",
    "NoAccess",
    "DatastoreAudit",
    "Admin",
];
const SPOKEN_OF: [&str; 5] = ["everyone", "everyone", "alice@local", "bob@local", "@staff@local"];
const GRANTED: [&str; 12] = [
    "full",
    "full",
    "modify",
    "read",
    "read",
    "write",
    "read-attributes,read-acl",
    "delete",
    "delete-child",
    "traverse",
    "read-data,read-attributes,read-acl,read-named-attributes",
    "add-file,add-subdirectory",
];
const INHERIT: [&str; 4] = ["", " inherit=files,dirs", " inherit=files,dirs,only", " inherit=dirs"];
const MODES: [u32; 10] = [0o755, 0o777, 0o1777, 0o1777, 0o700, 0o750, 0o711, 0o733, 0o644, 0o000];
const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
const VISIBLE: [AccessMask; 5] = [
    AccessMask::VISIBLE,
    AccessMask::VISIBLE,
    AccessMask::READ_ATTRIBUTES,
    AccessMask::READ_ATTRIBUTES.and(AccessMask::READ_ACL),
    AccessMask::READ,
];
const RIGHTS: [AccessMask; 18] = [
    AccessMask::READ_DATA,
    AccessMask::READ_DATA,
    AccessMask::WRITE_DATA,
    AccessMask::WRITE_DATA,
    AccessMask::APPEND,
    AccessMask::DELETE,
    AccessMask::DELETE,
    AccessMask::TRAVERSE,
    AccessMask::READ_NAMED_ATTRIBUTES,
    AccessMask::WRITE_NAMED_ATTRIBUTES,
    AccessMask::READ_ATTRIBUTES,
    AccessMask::WRITE_ATTRIBUTES,
    AccessMask::DELETE_CHILD,
    AccessMask::READ_ACL,
    AccessMask::WRITE_ACL,
    AccessMask::NONE,
    AccessMask::READ,
    AccessMask::WRITE,
];

struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        // This is xorshift64*.
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize) % sides
    }

    fn one_in(&mut self, sides: usize) -> bool {
        self.roll(sides) == 0
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.roll(from.len())]
    }
}

struct World {
    house: TestHouse,
    tank: DatastoreName,
    root: PathBuf,
    dice: Dice,
    /// Every path that was ever created.
    paths: Vec<String>,
    rules: AccessRules,
    is_open: bool,
    made: usize,
    project: ProjectId,
    ids: HashMap<String, UserId>,
    /// The secrets of the application credentials.
    secrets: HashMap<String, String>,
}

fn keys() -> KeyRing {
    KeyRing::new(&[(0, &[7; 32]), (1, &[8; 32])]).unwrap()
}

/// The code of the first refusal in an explanation; `None` if every door grants the request.
fn code_of(explanation: &Explanation) -> Option<&'static str> {
    explanation.doors.iter().find_map(|door| door.code)
}

fn plain(path: &str) -> StorePath {
    StorePath::from_plain(path).unwrap()
}

impl World {
    fn new(seed: u64) -> Self {
        let mut dice = Dice(seed | 1);
        let mut house =
            TestHouse::new(if dice.one_in(2) { Remembering::AsServed } else { Remembering::Hardly });
        let tank: DatastoreName = "tank".parse().unwrap();
        house.add_datastore(&tank);
        for (user, uid) in PEOPLE {
            house.add_user(&user.parse().unwrap(), uid);
        }
        let staff = "staff@local".parse().unwrap();
        enfilade_admin::add_group(&house.change_context(), &staff, None, Some(50), None).unwrap();
        for member in ["alice@local", "bob@local"] {
            enfilade_admin::add_member(&house.change_context(), &staff, &member.parse().unwrap()).unwrap();
        }
        house.house.set_keys(Some(keys()));
        let ctx = house.change_context();
        enfilade_admin::add_user(&ctx, &NewUser::named(EVE.parse().unwrap())).unwrap();
        let tenant = "tenant".parse().unwrap();
        keystone::add_domain(&ctx, &tenant, None).unwrap();
        let (project, _) = keystone::add_project(&ctx, &tenant, "p", None).unwrap();
        for role in PROJECT_ROLES {
            keystone::add_role(&ctx, role, None).unwrap();
        }
        let ids: HashMap<String, UserId> = ["alice@local", "carol@local", "dan@local"]
            .map(|name| {
                let access =
                    house.facts().read(|view| user_access(view, &name.parse().unwrap())).unwrap().unwrap();
                (name.to_owned(), access.id)
            })
            .into();
        let root = house.content(&tank);
        let rules = AccessRules::default();
        let (paths, secrets) = (vec!["/".into()], HashMap::new());
        let mut world =
            World { house, tank, root, dice, paths, rules, is_open: true, made: 0, project, ids, secrets };
        world.bind();
        for name in ["alice@local", "carol@local"] {
            world.add_application_credential(name);
        }
        world.set_rules();
        if !world.dice.one_in(4) {
            let (node, staff) = ("/datastore/tank".parse().unwrap(), "@staff@local".parse().unwrap());
            let role = "DatastorePowerUser".parse().unwrap();
            enfilade_admin::assign_role(&world.house.change_context(), &node, &staff, role, true).unwrap();
        }
        for _ in 0..1 + world.dice.roll(4) {
            world.assign();
        }
        for _ in 0..12 {
            world.make();
        }
        world
    }

    /// Binds the datastore to the project, or unbinds it.
    fn bind(&mut self) {
        let project = (!self.dice.one_in(4)).then_some(self.project);
        keystone::bind_datastore(&self.house.change_context(), &self.tank, project).unwrap();
    }

    /// Gives a user a role on the project, or takes a role away.
    fn assign_on_project(&mut self, name: &str) {
        let (who, on) = (Target::User(name.parse().unwrap()), On::Project(self.project));
        let (role, ctx) = (self.dice.pick(&PROJECT_ROLES), self.house.change_context());
        let _ = match self.dice.roll(2) {
            0 => keystone::grant_role(&ctx, &who, &on, role),
            _ => keystone::take_role(&ctx, &who, &on, role),
        };
        // The removal of a role ends the sessions that were issued before.
        self.house.clock.advance_seconds(120);
    }

    fn add_application_credential(&mut self, name: &str) {
        let role = self.dice.pick(&PROJECT_ROLES);
        let ctx = self.house.change_context();
        keystone::grant_role(&ctx, &Target::User(name.parse().unwrap()), &On::Project(self.project), role)
            .unwrap();
        let new = new_application_credential(self.ids[name], "ci", self.project, &[role]);
        let (_, secret, _) = keystone::create_application_credential(&ctx, &hash_key(), &new).unwrap();
        self.secrets.insert(format!("{name}!ci"), secret.unwrap());
    }

    /// A random client, and whether it uses a session for the project.
    fn somebody(&mut self) -> (Authid, Option<ProjectId>) {
        if self.dice.one_in(200) {
            return (EVE.parse().unwrap(), None);
        }
        let (who, has_session) = self.dice.pick(&ASKING);
        (who.parse().unwrap(), has_session.then_some(self.project))
    }

    async fn come_in(&self, who: &Authid, project: Option<ProjectId>) -> Result<Visit, Refusal> {
        let name = who.to_string();
        if let Some(project) = project {
            let now = self.house.clock.now().unix_seconds;
            let claim = Claim {
                user: self.ids[&name],
                methods: Methods::PASSWORD,
                scope: Scope::Project(project),
                lent: None,
                issued_at: now,
                expires_at: now + 3_600,
                audit: Audit { own: [1; 16], chain: None },
            };
            let sealed = frame::seal(&keys(), u64::try_from(now).unwrap(), [1; 16], &claim.to_payload());
            return self.house.come_in_by(sealed.unwrap().as_bytes());
        }
        let secret = match self.secrets.get(&name) {
            Some(secret) => secret.as_str(),
            None if who.token.is_none() => "a password",
            None => return self.house.admit(who).await,
        };
        let secret = Secret::new(secret.as_bytes()).unwrap();
        self.house.come_in(SecretAsk { authid: who.clone(), secret }).await
    }

    fn set_rules(&mut self) {
        let dice = &mut self.dice;
        self.rules = AccessRules {
            acls: if dice.one_in(3) { AclDialect::Nfs4 } else { AclDialect::Ntacl },
            visible: dice.pick(&VISIBLE),
            checks_traverse: dice.one_in(2),
            moved_inherits: dice.one_in(2),
            copy_keeps: dice.one_in(2),
        };
        let rules = self.rules;
        enfilade_admin::edit_profile(&self.house.change_context(), &self.tank, |profile| {
            profile.access = rules
        })
        .unwrap();
    }

    fn assign(&mut self) {
        let (node, who, role) =
            (self.dice.pick(&NODES), self.dice.pick(&WHO), self.dice.pick(&ROLES).parse().unwrap());
        let below = !self.dice.one_in(5);
        let (node, who) = (node.parse().unwrap(), who.parse().unwrap());
        enfilade_admin::assign_role(&self.house.change_context(), &node, &who, role, below).unwrap();
    }

    fn on_disk(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// Creates an entry in the tree.
    fn make(&mut self) {
        let parent = self.dice.roll(self.paths.len());
        let parent = self.paths[parent].clone();
        let path = format!("{}/{}", parent.trim_end_matches('/'), self.dice.pick(&NAMES));
        let place = self.on_disk(&path);
        // Links are not followed. Otherwise an entry that is made below a link to `/etc` would be made in the machine's own `/etc`.
        let is_directory = self.on_disk(&parent).symlink_metadata().is_ok_and(|meta| meta.is_dir());
        if !is_directory || place.symlink_metadata().is_ok() {
            return;
        }
        match self.dice.roll(40) {
            0 => std::os::unix::fs::symlink("/etc", &place).unwrap(),
            1 => assert!(std::process::Command::new("mkfifo").arg(&place).status().unwrap().success()),
            roll if roll % 2 == 0 => std::fs::write(&place, "content").unwrap(),
            _ => std::fs::create_dir(&place).unwrap(),
        }
        self.paths.push(path.clone());
        self.protect(&path);
    }

    /// Gives an entry random mode bits and owners, and often a random ACL.
    fn protect(&mut self, path: &str) {
        let place = self.on_disk(path);
        let Ok(meta) = place.symlink_metadata() else { return };
        if !meta.is_file() && !meta.is_dir() {
            return;
        }
        let (mode, uid, gid) =
            (self.dice.pick(&MODES), self.dice.pick(&[0, 0, 100, 101]), self.dice.pick(&[0, 50]));
        std::fs::set_permissions(&place, std::fs::Permissions::from_mode(mode)).unwrap();
        std::os::unix::fs::chown(&place, Some(uid), Some(gid)).unwrap();
        match self.dice.roll(20) {
            0 => {
                let root =
                    Root::open(self.root.to_str().unwrap(), self.rules.acls, self.house.house.reserved())
                        .unwrap();
                enfilade_content::set_acl_as_operator(
                    &root.find(&plain(path), Blocking).unwrap(),
                    b"damaged",
                )
                .unwrap();
            }
            roll if roll < 12 => {
                let dice = &mut self.dice;
                let lines = (0..1 + dice.roll(3)).map(|_| {
                    let verb = if dice.one_in(4) { "deny" } else { "allow" };
                    let (who, what) = (dice.pick(&SPOKEN_OF), dice.pick(&GRANTED));
                    format!("{verb} {who} {what}{}", dice.pick(&INHERIT))
                });
                let acl = NewAcl::Lines(lines.collect());
                // An ACL that this dialect cannot express is skipped.
                let _ = enfilade_admin::set_acl(&self.house.change_context(), &self.tank, &plain(path), &acl);
            }
            _ => {}
        }
    }

    /// Changes the rules, a role, the maintenance mode, a user, the project, or the permissions of an entry.
    fn change(&mut self) {
        match self.dice.roll(11) {
            8 => self.bind(),
            9 => {
                let name = self.dice.pick(&["alice@local", "carol@local"]);
                self.assign_on_project(name);
            }
            // Makes the same changes as `revoke user dan@local --everything`.
            10 if self.dice.one_in(4) => {
                withdraw_from(&self.house.change_context(), &self.ids["dan@local"]).unwrap();
            }
            0 => self.set_rules(),
            1 | 2 => self.assign(),
            3 => {
                let mode = self.dice.pick(&["none", "none", "none", "read-only", "offline"]);
                let maintenance = (mode != "none").then(|| Maintenance::from_property(mode));
                self.is_open = maintenance.is_none();
                let edit = DatastoreEdit::Maintenance(maintenance);
                enfilade_admin::edit_datastore(&self.house.change_context(), &self.tank, &edit).unwrap();
            }
            4 => {
                let dan: Userid = "dan@local".parse().unwrap();
                let edit = UserEdit { enabled: Some(!self.dice.one_in(3)), ..UserEdit::default() };
                enfilade_admin::set_user(&self.house.change_context(), &dan, &edit).unwrap();
            }
            _ => {
                let path = self.dice.roll(self.paths.len());
                let path = self.paths[path].clone();
                self.protect(&path);
            }
        }
    }

    /// The answer to a request: `permit` or the code of a refusal. `None` if no request needs only this right.
    async fn request(
        &mut self,
        (who, project): (&Authid, Option<ProjectId>),
        path: &str,
        right: AccessMask,
    ) -> Option<&'static str> {
        let (at, meta) = (plain(path), self.on_disk(path).symlink_metadata());
        let (is_file, is_directory) = meta.map_or((false, false), |meta| (meta.is_file(), meta.is_dir()));
        if is_directory && right == AccessMask::TRAVERSE && !self.rules.checks_traverse {
            return None;
        }
        let kind = if AccessMask::READ.covers(right) { OperationKind::Read } else { OperationKind::Write };
        self.made += 1;
        let below = plain(&format!("{}/new-{}", path.trim_end_matches('/'), self.made));
        let visit = match self.come_in(who, project).await {
            Ok(visit) => visit,
            Err(why) => return Some(why.code()),
        };
        let is_new = !is_file && !is_directory && !right.covers(AccessMask::DELETE);
        let put = |stay: Stay, path: StorePath| stay.upload(path, None)?.finish().map(drop);
        let done = visit.enter(&self.tank, kind, Blocking).and_then(|mut stay| match right {
            AccessMask::READ_DATA if is_file => stay.read(&at, Blocking).map(drop),
            AccessMask::LIST if is_directory => stay.list(at).map(drop),
            AccessMask::WRITE_DATA if is_file => put(stay, at),
            AccessMask::ADD_FILE if is_directory => put(stay, below),
            AccessMask::ADD_SUBDIRECTORY if is_directory => stay.make_collection(&below, &[]),
            // No file and no directory has this name, so a PUT or a MKCOL would create one with this name.
            _ if is_new && right.covers(AccessMask::WRITE_DATA) => put(stay, at),
            AccessMask::ADD_SUBDIRECTORY if is_new => stay.make_collection(&at, &[]),
            AccessMask::DELETE => stay.delete(&at, &[], &|| true).map(drop),
            AccessMask::TRAVERSE if is_directory => stay.find(&below, AccessMask::NONE, Blocking).map(drop),
            AccessMask::WRITE_NAMED_ATTRIBUTES => stay.change_properties(&at, &[], &[]),
            _ => stay.find(&at, right, Blocking).map(drop),
        });
        let code = done.map_or_else(|why: Refusal| why.code(), |()| "permit");
        Some(match (right, code) {
            // The request is permitted, but the name does not exist.
            (AccessMask::TRAVERSE, "CT01") if is_directory => "permit",
            // The user has the right to delete the directory. The request failed only because the directory contains entries that the user does not see.
            (AccessMask::DELETE, "CT05") => "permit",
            (_, code) => code,
        })
    }

    fn explain(
        &self,
        (who, project): (&Authid, Option<ProjectId>),
        path: &str,
        right: AccessMask,
    ) -> Explanation {
        self.house.house.explain(who, project.as_ref(), &self.tank, &plain(path), right)
    }

    /// Sends a COPY or a MOVE. A COPY needs the right to read the source, and a MOVE needs the right to delete the source. Both need the right to add
    /// a file to the new directory.
    async fn transfer(&mut self, from: &str, to: &str) -> Result<&'static str, String> {
        let (who, project) = self.somebody();
        let is_move = self.dice.one_in(2);
        let right = if is_move { AccessMask::DELETE } else { AccessMask::READ_DATA };
        let explained = code_of(&self.explain((&who, project), from, right));
        let placed = || code_of(&self.explain((&who, project), to, AccessMask::ADD_FILE));
        let explained = explained.or_else(placed).unwrap_or("permit");
        self.made += 1;
        let goal = plain(&format!("{}/new-{}", to.trim_end_matches('/'), self.made));
        let done = match self.come_in(&who, project).await {
            Ok(visit) => visit.enter(&self.tank, OperationKind::Write, Blocking).and_then(|mut stay| {
                let placing = Placing { overwrite: false, is_deep: true, tokens: &[], keep_going: &|| true };
                match is_move {
                    true => stay.relocate(&plain(from), &goal, placing),
                    false => stay.copy(&plain(from), &goal, placing),
                }
            }),
            Err(why) => Err(why),
        };
        let answered = done.map_or_else(|why| why.code(), |_| "permit");
        let rules = self.rules;
        match explained == answered {
            true => Ok(answered),
            false => Err(format!(
                "{who} ({project:?}), {right} on {from} and something new in {to}: explained as {explained}, answered with {answered}; {rules:?}"
            )),
        }
    }

    /// Asks for an explanation and a review, then sends the request. An error describes a difference.
    async fn ask(&mut self) -> Result<&'static str, String> {
        let (who, project) = self.somebody();
        let path = self.dice.roll(self.paths.len());
        let mut path = self.paths[path].clone();
        if self.dice.one_in(12) {
            path = format!("{}/absent", path.trim_end_matches('/'));
        }
        let goal = self.dice.roll(self.paths.len());
        let goal = self.paths[goal].clone();
        let is = |path: &str, kind: fn(&Metadata) -> bool| {
            self.on_disk(path).symlink_metadata().is_ok_and(|meta| kind(&meta))
        };
        let fits = self.is_open && is(&path, Metadata::is_file) && is(&goal, Metadata::is_dir);
        if fits && self.dice.one_in(3) {
            return self.transfer(&path, &goal).await;
        }
        let (at, right) = (plain(&path), self.dice.pick(&RIGHTS));
        let explanation = self.explain((&who, project), &path, right);
        let explained = code_of(&explanation).unwrap_or("permit");
        let mut reviewed = None;
        let _ = self.house.house.review(std::slice::from_ref(&who), &self.tank, &at, &mut |met| {
            reviewed.get_or_insert_with(|| met.rights[0]);
            std::ops::ControlFlow::Break(())
        });
        let Some(answered) = self.request((&who, project), &path, right).await else { return Ok("nothing") };
        let rules = self.rules;
        if explained != answered {
            return Err(format!(
                "{who} ({project:?}), {right} on {path}: explained as {explained}, answered with {answered}; {rules:?}; {:#?}",
                explanation.doors.last()
            ));
        }
        match reviewed {
            Some(rights) if self.is_open && project.is_none() && right.0.count_ones() == 1 => {
                let is_granted = rights.covers(right);
                if is_granted != (answered == "permit") {
                    return Err(format!(
                        "{who}, {right} on {path}: reviewed as {rights}, answered with {answered}; {rules:?}"
                    ));
                }
            }
            _ => {}
        }
        Ok(answered)
    }
}

fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[tokio::test]
async fn an_explanation_and_a_review_say_what_the_request_is_answered() {
    let n = from_environment("ENFILADE_CAMPAIGN_N").unwrap_or(3_000);
    let seed = from_environment("ENFILADE_CAMPAIGN_SEED").unwrap_or(28);
    let mut counts = std::collections::BTreeMap::new();
    let mut asked = 0;
    let mut differences = Vec::new();
    for number in 0.. {
        if asked >= n {
            break;
        }
        let seed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(number);
        let mut world = World::new(seed);
        for _ in 0..QUESTIONS_EACH.min(n - asked) {
            asked += 1;
            if world.dice.one_in(3) {
                world.change();
            }
            if world.dice.one_in(3) {
                world.make();
            }
            match world.ask().await {
                Ok(answer) => *counts.entry(answer).or_insert(0) += 1,
                Err(why) => differences.push(format!("seed {seed}: {why}")),
            }
        }
        if number % 200 == 199 {
            println!("{asked} questions, {} differences", differences.len());
        }
    }
    println!("explain: {asked} questions, {} differences; answers: {counts:?}", differences.len());
    differences.truncate(5);
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    // Every kind of answer must occur.
    for code in ["permit", "AC01", "AC02", "AC03", "AC04", "AC06", "CT01", "CT02", "DS02", "ID04"] {
        assert!(n < 3_000 || counts.contains_key(code), "{code} did not come up: {counts:?}");
    }
}
