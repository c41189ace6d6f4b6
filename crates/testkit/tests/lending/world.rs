//! The users, the lent credential, and all facts that admit a user or grant a right.

use crate::http::{Http, Shown};
use crate::ways::Way;
use enfilade_admin::keystone::{self as admin, NewApplicationCredential, NewTrust, WantedRule};
use enfilade_admin::{Target, TokenTerms};
use enfilade_faces::Faces;
use enfilade_facts::tables::{
    AccessToken, Blob, BlobId, Consumer, Credential, Delegation, Ec2Key, Extra, Grant, GrantKey, GrantScope,
    Grantee, Project, ResourceKind, Reverse, ReverseKey, SharedSecret, Table, Trust, Who,
};
use enfilade_facts::vocabulary::{
    AccessTokenId, ConsumerId, CredentialId, DatastoreName, DomainId, MICROS_PER_SECOND, ProjectId, Realm,
    RoleId, TrustId, UserId, Userid,
};
use enfilade_facts::{AuditRecord, Change, Read};
use enfilade_identity::HashKey;
use enfilade_passage::KeyRing;
use enfilade_testkit::{Remembering, TestHouse, new_application_credential, new_trust};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

pub(crate) const PASSWORD: &str = "pw";
/// A text that is a part of every secret that was never lent.
pub(crate) const CANARY: &str = "canary-of-alice";
/// The roles. Each of them implies the roles after it.
pub(crate) const ROLES: [&str; 4] = ["admin", "manager", "member", "reader"];
pub(crate) const USERS: [&str; 4] = ["alice", "mallory", "bob", "service"];

pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self, sides: usize) -> usize {
        // This is xorshift64*.
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize) % sides
    }

    pub(crate) fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.roll(all.len())]
    }

    pub(crate) fn once_in(&mut self, sides: usize) -> bool {
        self.roll(sides) == 0
    }
}

/// The scope and roles of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rights {
    pub(crate) user: String,
    /// The project; `domain`, `system` and so on for other scopes; `None` if unscoped.
    pub(crate) on: Option<String>,
    pub(crate) roles: BTreeSet<String>,
}

/// The kind of the first lent credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum First {
    Unrestricted,
    Restricted,
    WithRules,
    Trust,
    Key,
    AccessToken,
    ApiToken,
}

pub(crate) struct World {
    pub(crate) house: TestHouse,
    pub(crate) http: Http,
    pub(crate) users: BTreeMap<&'static str, UserId>,
    pub(crate) roles: BTreeMap<&'static str, RoleId>,
    /// The project on which rights are lent, another project, and Mallory's project.
    pub(crate) a: ProjectId,
    pub(crate) b: ProjectId,
    pub(crate) m: ProjectId,
    pub(crate) first: First,
    /// The record that must be deleted to end the first lent credential.
    ends: Ends,
    /// The roles that are lent on the project, including implied roles.
    pub(crate) lent: BTreeSet<String>,
    /// A session of the service that validates tokens.
    asker: String,
    powers: Powers,
}

#[derive(Clone, Copy)]
enum Ends {
    Credential(CredentialId),
    Trust(TrustId),
    Key(BlobId),
    AccessToken(AccessTokenId),
    ApiToken,
}

fn closure(role: &str) -> BTreeSet<String> {
    let at = ROLES.iter().position(|one| *one == role).unwrap();
    ROLES[at..].iter().map(|role| (*role).to_owned()).collect()
}

pub(crate) fn key() -> HashKey {
    HashKey::new(&[42; 32])
}

impl World {
    pub(crate) async fn new() -> World {
        let house = TestHouse::new(Remembering::AsServed);
        let bytes: [u8; 32] = [7; 32];
        house.house.set_keys(Some(KeyRing::new(&[(0, &bytes), (1, &bytes)]).unwrap()));
        let ctx = house.change_context();
        let realm: Realm = "Default".parse().unwrap();
        admin::add_domain(&ctx, &realm, Some(DomainId::DEFAULT)).unwrap();
        let roles: BTreeMap<&'static str, RoleId> = ROLES
            .iter()
            .chain(&["service"])
            .map(|role| (*role, admin::add_role(&ctx, role, None).unwrap().0))
            .collect();
        for pair in ROLES.windows(2) {
            admin::add_implication(&ctx, pair[0], pair[1]).unwrap();
        }
        let users: BTreeMap<&'static str, UserId> =
            USERS.iter().map(|name| (*name, house.add_login(name))).collect();
        let project = |name: &str| admin::add_project(&ctx, &realm, name, None).unwrap().0;
        let (a, b, m) = (project("a"), project("b"), project("m"));
        let row = Project {
            domain: DomainId::DEFAULT,
            parent: Some(a),
            name: "beneath".to_owned(),
            enabled: true,
            description: None,
            tags: Vec::new(),
        };
        admin::save::<Project>(&ctx, &admin::RecordId::New, &|_| Ok((row.clone(), String::new()))).unwrap();
        let (group, _) =
            enfilade_admin::add_group(&ctx, &"crew@Default".parse().unwrap(), None, None, None).unwrap();
        let user = |name: &str| Grantee::User(users[name]);
        for (who, scope, role) in [
            (user("alice"), GrantScope::Project(b), "admin"),
            (user("alice"), GrantScope::System, "admin"),
            (user("alice"), GrantScope::Domain(DomainId::DEFAULT), "admin"),
            (user("mallory"), GrantScope::Project(m), "member"),
            (user("bob"), GrantScope::Project(b), "member"),
            (user("service"), GrantScope::Project(m), "service"),
            (Grantee::Group(group), GrantScope::Project(b), "admin"),
        ] {
            admin::set_grant(&ctx, &GrantKey { who, scope, role: roles[role] }, true).unwrap();
        }
        for (store, project) in [("of-a", a), ("of-b", b)] {
            let name: DatastoreName = store.parse().unwrap();
            house.add_datastore(&name);
            admin::bind_datastore(&ctx, &name, Some(project)).unwrap();
        }
        house.assign("/", &"alice@Default".parse().unwrap(), "Admin");
        keep_secrets(&house, &users, b);
        let place = house.content(&"of-a".parse().unwrap()).parent().unwrap().to_path_buf();
        let passwords = enfilade_admin::PasswordRules::NONE.clone();
        let faces = Faces::new(house.house.clone(), house.files.clone(), passwords, vec![place]);
        let http = Http::new(faces);
        let mut world = World {
            http,
            users,
            roles,
            a,
            b,
            m,
            first: First::ApiToken,
            ends: Ends::ApiToken,
            lent: BTreeSet::new(),
            asker: String::new(),
            powers: Powers::default(),
            house,
        };
        let scope = json!({ "project": { "id": world.m.to_string() } });
        let asker = Way::Password { user: world.user("service"), password: PASSWORD.to_owned() };
        world.asker = asker.login(&world, scope).await.unwrap();
        world
    }

    /// Alice gets one random role on the project in place of her present roles. Then she lends Mallory a credential for the project.
    pub(crate) fn lend(&mut self, dice: &mut Dice) -> Way {
        let role = *dice.of(&ROLES);
        let ctx = self.house.change_context();
        let (who, scope) = (Grantee::User(self.users["alice"]), GrantScope::Project(self.a));
        for one in ROLES {
            admin::set_grant(&ctx, &GrantKey { who, scope, role: self.roles[one] }, one == role).unwrap();
        }
        let (first, way, ends) = lend((&self.house, &self.users, self.a), role, dice);
        (self.first, self.ends) = (first, ends);
        self.lent = if first == First::ApiToken { BTreeSet::new() } else { closure(role) };
        self.powers = self.powers_now();
        way
    }

    pub(crate) fn user(&self, name: &str) -> String {
        self.users[name].to_string()
    }

    pub(crate) fn now(&self) -> i64 {
        self.house.clock.now().unix_seconds
    }

    /// The credential of the service that validates tokens.
    pub(crate) fn asker(&self) -> Shown {
        Shown::Token(self.asker.clone())
    }

    /// The rights of a token, as a service sees them; `None` if it is not valid.
    pub(crate) async fn rights(&self, token: &str) -> Option<Rights> {
        let told =
            self.http.ask_about(&self.asker(), token, "GET", "/v3/auth/tokens?nocatalog", &Value::Null).await;
        assert!([200, 404].contains(&told.status), "{} {}", told.status, told.text);
        let told = told.json();
        let token = told.get("token")?;
        let on = ["project", "domain"].iter().find_map(|on| token[*on]["id"].as_str().map(str::to_owned));
        let on = on.or(token.get("system").map(|_| "system".to_owned()));
        let names = token["roles"].as_array().map_or(&[][..], Vec::as_slice).iter();
        let roles = names.map(|role| role["name"].as_str().unwrap().to_owned()).collect();
        Some(Rights { user: token["user"]["id"].as_str()?.to_owned(), on, roles })
    }

    /// Whether a session may have these rights. Mallory's own rights are always allowed. The lent rights are allowed unless `is_over` is set.
    pub(crate) fn may_be(&self, rights: &Rights, is_over: bool) -> bool {
        let is_mallorys = rights.user == self.user("mallory")
            && match &rights.on {
                None => true,
                Some(on) => *on == self.m.to_string() && rights.roles.is_subset(&closure("member")),
            };
        let is_lent = !is_over
            && rights.on == Some(self.a.to_string())
            && rights.roles.is_subset(&self.lent)
            && [self.user("alice"), self.user("mallory")].contains(&rights.user);
        is_mallorys || is_lent
    }

    /// Whether the three projects still exist and are enabled. A session with the role `admin` may delete or disable them.
    pub(crate) fn is_whole(&self) -> bool {
        let projects = [self.a, self.b, self.m];
        let is_there = |id: &ProjectId| self.house.facts().read(|view| view.get::<Project>(id)).unwrap();
        projects.iter().all(|id| is_there(id).unwrap().is_some_and(|row| row.enabled))
    }

    pub(crate) fn end_first(&self) {
        let ctx = self.house.change_context();
        let alice: Userid = "alice@Default".parse().unwrap();
        // The lent credential may have deleted itself.
        match &self.ends {
            Ends::Credential(id) => {
                drop(admin::delete_application_credential(&ctx, &self.users["alice"], id));
            }
            Ends::Trust(id) => drop(admin::delete_trust(&ctx, id)),
            Ends::Key(id) => {
                let row = self.house.facts().read(|view| view.get::<Blob>(id)).unwrap().unwrap();
                if let Some(row) = row {
                    admin::delete_blob(&ctx, id, &row).unwrap();
                }
            }
            Ends::AccessToken(id) => {
                admin::delete_access_token(&ctx, &self.users["alice"], id).unwrap();
            }
            Ends::ApiToken => {
                drop(enfilade_admin::delete_token(&ctx, &alice, &"lent".parse().unwrap()));
            }
        }
    }

    /// Compares the facts that admit a user or grant a right: the present facts with the facts at the time when the first credential was lent.
    pub(crate) fn check_powers(&self) -> Result<(), String> {
        let now = self.powers_now();
        let before = &self.powers;
        if before.fixed != now.fixed {
            let differs = |(key, value): &(&(u8, Vec<u8>), &Vec<u8>)| before.fixed.get(*key) != Some(*value);
            let new: Vec<_> = now.fixed.iter().filter(differs).map(|(key, _)| key).collect();
            let gone: Vec<_> = before.fixed.keys().filter(|key| !now.fixed.contains_key(*key)).collect();
            return Err(format!(
                "accounts, groups or roles differ from before: new or changed {new:?}, gone {gone:?}"
            ));
        }
        let mallory = self.users["mallory"];
        let lent_roles: BTreeSet<RoleId> =
            self.lent.iter().filter_map(|role| self.roles.get(role.as_str()).copied()).collect();
        for (id, (credential, delegation)) in &now.credentials {
            let is_within = |delegation: &Delegation| {
                delegation.project == self.a && delegation.roles.iter().all(|role| lent_roles.contains(role))
            };
            let is_alices = credential.owner == self.users["alice"];
            let may_be =
                credential.owner == mallory || is_alices && delegation.as_ref().is_some_and(is_within);
            if !before.credentials.contains_key(id) && !may_be {
                return Err(format!(
                    "a credential that is more than was lent: {credential:?} {delegation:?}"
                ));
            }
        }
        for (id, trust) in &now.trusts {
            let is_within = trust.trustor == self.users["alice"]
                && trust.project == self.a
                && trust.roles.iter().all(|role| lent_roles.contains(role));
            if !before.trusts.contains_key(id) && trust.trustor != mallory && !is_within {
                return Err(format!("a trust that is more than was lent: {trust:?}"));
            }
        }
        for (id, blob) in &now.blobs {
            let is_within = blob.project == Some(self.a) && blob.ec2.is_some();
            if !before.blobs.contains_key(id) && blob.user != mallory && !is_within {
                return Err(format!("a key that is more than was lent: {blob:?}"));
            }
        }
        // Mallory may change Mallory's own credentials, and the lent credential may delete itself.
        let is_first = |id: &CredentialId| matches!(&self.ends, Ends::Credential(first) if first == id);
        let is_api = |row: &Credential| self.first == First::ApiToken && row.name.as_str() == "lent";
        for (id, row) in &before.credentials {
            let is_changed = now.credentials.get(id) != Some(row);
            if is_changed && row.0.owner != mallory && !is_first(id) && !is_api(&row.0) {
                return Err(format!("a credential of another was changed: {row:?}"));
            }
        }
        let is_trust_changed =
            |(id, row): &(&TrustId, &Trust)| now.trusts.get(*id) != Some(*row) && row.trustor != mallory;
        let is_blob_changed =
            |(id, row): &(&BlobId, &Blob)| now.blobs.get(*id) != Some(*row) && row.user != mallory;
        let changed_trust = before.trusts.iter().find(is_trust_changed);
        let changed_blob = before.blobs.iter().find(is_blob_changed);
        match (changed_trust, changed_blob) {
            (None, None) => Ok(()),
            (trust, blob) => Err(format!("a trust or key of another was changed: {trust:?} {blob:?}")),
        }
    }

    /// The trusts that were created since the first credential was lent.
    pub(crate) fn new_trusts(&self) -> Vec<(TrustId, Trust)> {
        let now = self.powers_now();
        now.trusts.into_iter().filter(|(id, _)| !self.powers.trusts.contains_key(id)).collect()
    }

    fn powers_now(&self) -> Powers {
        let mallory = self.users["mallory"];
        let mut powers = Powers::default();
        self.house
            .facts()
            .read(|view| {
                let mallorys: BTreeSet<CredentialId> = view
                    .list::<Credential>(&[])?
                    .into_iter()
                    .filter(|(_, row)| row.owner == mallory)
                    .map(|(id, _)| id)
                    .collect();
                for table in [
                    Table::Domains,
                    Table::Users,
                    Table::Groups,
                    Table::Memberships,
                    Table::Roles,
                    Table::Profiles,
                    Table::DomainConfigs,
                    Table::IdentityProviders,
                    Table::RemoteIds,
                    Table::Protocols,
                    Table::Mappings,
                    Table::Consumers,
                    Table::RequestTokens,
                    Table::AccessTokens,
                ] {
                    view.scan_values(table, &[], &mut |key, value| {
                        powers.fixed.insert((table as u8, key.to_vec()), value.to_vec());
                        Ok(std::ops::ControlFlow::Continue(()))
                    })?;
                }
                for (key, Extra(text)) in view.list::<Extra>(&[])? {
                    if matches!(
                        key.kind,
                        ResourceKind::User | ResourceKind::Group | ResourceKind::Role | ResourceKind::Domain
                    ) {
                        let at = enfilade_facts::tables::Key::bytes(&key);
                        powers.fixed.insert((Table::Extras as u8, at), text.into_bytes());
                    }
                }
                for (key, _) in view.list::<Grant>(&[])? {
                    let at = enfilade_facts::tables::Key::bytes(&key);
                    powers.fixed.insert((Table::Grants as u8, at), Vec::new());
                }
                for (key, row) in view.list::<enfilade_facts::tables::Assignment>(&[])? {
                    // A user may give the user's own tokens the user's own rights.
                    if matches!(&key.who, Who::Token(id) if mallorys.contains(id)) {
                        continue;
                    }
                    let at = enfilade_facts::tables::Key::bytes(&key);
                    powers.fixed.insert((Table::Assignments as u8, at), format!("{row:?}").into_bytes());
                }
                for (id, row) in view.list::<Credential>(&[])? {
                    powers.credentials.insert(id, (row, view.get::<Delegation>(&id)?));
                }
                powers.trusts.extend(view.list::<Trust>(&[])?);
                powers.blobs.extend(view.list::<Blob>(&[])?);
                Ok::<_, enfilade_facts::SourceError>(())
            })
            .unwrap()
            .unwrap();
        // The uses of a trust are counted in its record, and may differ.
        powers.trusts.values_mut().for_each(|trust| trust.uses = None);
        powers
    }
}

/// All facts that admit a user or grant a right.
#[derive(Default)]
struct Powers {
    /// Accounts, groups, roles and assignments, by table and key.
    fixed: BTreeMap<(u8, Vec<u8>), Vec<u8>>,
    credentials: BTreeMap<CredentialId, (Credential, Option<Delegation>)>,
    trusts: BTreeMap<TrustId, Trust>,
    blobs: BTreeMap<BlobId, Blob>,
}

/// Creates credentials of alice and bob that are never lent.
fn keep_secrets(house: &TestHouse, users: &BTreeMap<&'static str, UserId>, b: ProjectId) {
    let ctx = house.change_context();
    for (name, n) in [("alice", 1), ("bob", 2)] {
        let secret = format!("{CANARY}-{name}");
        let blob = json!({ "access": format!("access-{name}"), "secret": secret }).to_string();
        let ec2 = Some(Ec2Key { secret, by: None });
        let row = Blob { user: users[name], project: Some(b), kind: "ec2".to_owned(), blob, ec2 };
        admin::create_blob(&ctx, &id_of_access(&format!("access-{name}")), &row).unwrap();
        let kind = "totp".to_owned();
        let row = Blob { user: users[name], project: None, kind, blob: CANARY.to_owned(), ec2: None };
        admin::create_blob(&ctx, &BlobId([n; 32]), &row).unwrap();
    }
    let other = NewApplicationCredential {
        unrestricted: true,
        ..new_application_credential(users["alice"], "other", b, &["admin"])
    };
    admin::create_application_credential(&ctx, &key(), &other).unwrap();
    let trust = new_trust(users["alice"], users["bob"], b, &["admin"]);
    admin::create_trust(&ctx, &trust).unwrap();
    let terms = TokenTerms { expires: 0, comment: None, own_roles: false };
    let alice: Userid = "alice@Default".parse().unwrap();
    enfilade_admin::create_token(&ctx, &key(), &alice, &"machine".parse().unwrap(), &terms).unwrap();
}

pub(crate) fn id_of_access(access: &str) -> BlobId {
    let mut id = BlobId([0; 32]);
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, access.as_bytes());
    id.0.copy_from_slice(digest.as_ref());
    id
}

/// Creates an access token of a consumer, with which Alice lends a role.
fn lend_access(
    (house, alice, a): (&TestHouse, UserId, ProjectId),
    role: &str,
    dice: &mut Dice,
) -> (Way, AccessTokenId) {
    let mut random = || std::array::from_fn(|_| dice.roll(256) as u8);
    let (consumer, id) = (ConsumerId::from_bytes(random()), AccessTokenId::from_bytes(random()));
    let [own, secret] = [random(), random()].map(SharedSecret::from_random);
    let way = Way::Access {
        consumer: (consumer.to_string(), own.text().unwrap()),
        token: (id.to_string(), secret.text().unwrap()),
    };
    let roles = admin::list_named_roles(house.facts()).unwrap();
    let roles = roles.into_iter().filter(|(_, row)| row.name == role).map(|(id, _)| id).collect();
    let row = AccessToken { consumer, secret, user: alice, project: a, roles, expires: i64::MAX };
    let audit =
        AuditRecord { who: "a test".into(), what: "an access token".into(), unix_seconds: 0, request: None };
    let mut change = Change::new(audit);
    change.put(&consumer, &Consumer { description: None, secret: own }).put(&id, &row);
    for key in
        [ReverseKey::AccessBy(consumer, id), ReverseKey::AccessOf(alice, id), ReverseKey::AccessFor(a, id)]
    {
        change.put(&key, &Reverse);
    }
    house.facts().commit(&change).unwrap();
    (way, id)
}

/// Alice lends Mallory a credential of a random kind, for a project.
fn lend(
    (house, users, a): (&TestHouse, &BTreeMap<&'static str, UserId>, ProjectId),
    role: &str,
    dice: &mut Dice,
) -> (First, Way, Ends) {
    let ctx = house.change_context();
    let firsts = [
        First::Unrestricted,
        First::Unrestricted,
        First::Restricted,
        First::WithRules,
        First::Trust,
        First::Trust,
        First::Key,
        First::AccessToken,
        First::ApiToken,
    ];
    let first = *dice.of(&firsts);
    match first {
        First::Unrestricted | First::Restricted | First::WithRules => {
            let (service, method, path) = ("identity".to_owned(), "GET".to_owned(), "/v3/users".to_owned());
            let rule = WantedRule::Request { service, method, path };
            let soon = house.clock.now().unix_seconds + 100_000;
            let new = NewApplicationCredential {
                unrestricted: first != First::Restricted,
                rules: if first == First::WithRules { vec![rule] } else { Vec::new() },
                expires_micros: i64::from(dice.once_in(3)) * soon * MICROS_PER_SECOND,
                ..new_application_credential(users["alice"], "lent", a, &[role])
            };
            let (made, secret, _) = admin::create_application_credential(&ctx, &key(), &new).unwrap();
            let authid = "alice@Default!lent".to_owned();
            let way = Way::Credential { id: made.id.to_string(), secret: secret.unwrap(), authid };
            (first, way, Ends::Credential(made.id))
        }
        First::Trust => {
            let redelegations = dice.roll(4) as u8;
            let trust = new_trust(users["alice"], users["mallory"], a, &[role]);
            let new = NewTrust { redelegations, impersonation: dice.once_in(2), ..trust };
            let (id, ..) = admin::create_trust(&ctx, &new).unwrap();
            (first, Way::Trust { id: id.to_string(), trustee: users["mallory"].to_string() }, Ends::Trust(id))
        }
        First::Key => {
            let (access, secret) = ("lent".to_owned(), "a secret that is lent".to_owned());
            let blob = json!({ "access": access, "secret": secret }).to_string();
            let ec2 = Some(Ec2Key { secret: secret.clone(), by: None });
            let id = id_of_access(&access);
            let row = Blob { user: users["alice"], project: Some(a), kind: "ec2".to_owned(), blob, ec2 };
            admin::create_blob(&ctx, &id, &row).unwrap();
            (first, Way::Key { access, secret }, Ends::Key(id))
        }
        First::AccessToken => {
            let (way, id) = lend_access((house, users["alice"], a), role, dice);
            (first, way, Ends::AccessToken(id))
        }
        First::ApiToken => {
            let terms = TokenTerms { expires: 0, comment: None, own_roles: true };
            let alice: Userid = "alice@Default".parse().unwrap();
            let name: enfilade_facts::vocabulary::TokenName = "lent".parse().unwrap();
            let made = enfilade_admin::create_token(&ctx, &key(), &alice, &name, &terms).unwrap();
            let (path, role) =
                *dice.of(&[("/", "Admin"), ("/", "Audit"), ("/datastore/of-a", "DatastoreAdmin")]);
            let (path, role) = (path.parse().unwrap(), role.parse().unwrap());
            enfilade_admin::assign_role(&ctx, &path, &Target::Token(alice, name), role, true).unwrap();
            (first, Way::ApiToken { authid: made.tokenid.to_string(), secret: made.value }, Ends::ApiToken)
        }
    }
}
