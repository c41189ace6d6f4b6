//! Explanations: what each door would decide for a principal, and by which rule. An explanation goes through the doors like a request (`walk.rs`,
//! `reach.rs`), and records the answers of the doors. Door 4 grants no permit for an explanation.
//!
//! The principal of an explanation is the principal of a request with one of these credentials: the password of the named user, the secret of the
//! named token or application credential, or a session of the user for the named project.

mod applications;

use crate::house::House;
use crate::modes::Explain;
use crate::reach::{Inside, Onlooker};
use crate::refuse::Refusal;
use crate::walk::Stay;
use enfilade_access::{
    Ask, Judgement, NodeKind, Step, Subject, Wanted, Ways, least_role, least_role_on_project,
};
use enfilade_content::{Blocking, Root};
use enfilade_datastore::DatastorePermit;
use enfilade_facts::tables::AccessRules;
use enfilade_facts::vocabulary::{
    AccessMask, Authid, DatastoreName, OperationKind, ProjectId, Role, RolePath, StorePath,
};
use enfilade_facts::{Door, Read, Refuse, View};
use enfilade_identity::{Principal, Reach};

/// The answer of one door to the question of an explanation.
#[derive(Clone, Debug)]
pub struct DoorAnswer {
    /// The door.
    pub door: Door,
    /// Whether the door grants the request.
    pub opens: bool,
    /// The code of the refusal, if the door refuses.
    pub code: Option<&'static str>,
    /// The refusal, if the door refuses.
    pub why: Option<Refusal>,
    /// The result of the door, or the reason for its refusal, in one line.
    pub says: String,
    /// The roles and ACL entries, in the order in which the door checked them. If a read of a directory is refused, the last line can describe what a
    /// listing of the directory shows.
    pub walk: Vec<String>,
}

/// The answers of the doors, up to the first refusal. There is one exception: if the principal has no secret, nobody can log in as the principal, so
/// door 2 refuses. After this refusal, the list contains the answers that the next doors would give if the principal had a secret.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The answers, in the order of the walk.
    pub doors: Vec<DoorAnswer>,
    /// The remedy for the last refusal.
    pub remedy: Remedy,
}

/// The remedy for a refusal of door 4: a change that would give the principal the right.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Remedy {
    /// No additional remedy. Only the general advice for the code of the refusal applies (docs/refusals.md).
    #[default]
    OfTheCode,
    /// Another credential is needed. No role on a path gives rights to the credential of the principal.
    OtherCredential,
    /// The datastore must be bound to this project, the project of the credential or session.
    Binding(ProjectId),
    /// A session or credential for this project is needed, because the datastore is bound to this project.
    OfOtherProject(ProjectId),
    /// A session or credential for this project is needed instead of a login without a project. The datastore is bound to this project, and the user
    /// has a role on this project.
    OfProject(ProjectId),
    /// This role on this project is needed. It is the least role that grants the rights.
    RoleOnProject(ProjectId, &'static str),
    /// A new application credential for this project with this role is needed: the roles of an existing credential cannot be changed.
    NewCredential(ProjectId, &'static str),
    /// The role NoAccess on the path must be removed from these users and tokens. As long as they have NoAccess, no other role on the path has an
    /// effect for them.
    WithoutNoAccess(StorePath, Vec<Authid>),
    /// A role on the path that grants the rights is needed. If `of_token`, the token and its owner both need the role.
    Role {
        /// The path.
        path: StorePath,
        /// The least role that grants the rights.
        role: Role,
        /// Whether the principal is a token with roles of its own.
        of_token: bool,
    },
    /// An ACL of the path that grants the rights is needed.
    Acl(StorePath, AccessMask),
    /// This role on the path of an application is needed. It is the least role that permits the request. If `of_token`, the token and its owner both
    /// need the role.
    ApplicationRole {
        /// The path.
        path: RolePath,
        /// The least role that permits the request.
        role: Role,
        /// Whether the principal is a token with roles of its own.
        of_token: bool,
    },
}

impl Remedy {
    /// The project that the remedy is about; `None` for a remedy without a project.
    pub fn project(&self) -> Option<&ProjectId> {
        match self {
            Remedy::Binding(id)
            | Remedy::OfOtherProject(id)
            | Remedy::OfProject(id)
            | Remedy::RoleOnProject(id, _)
            | Remedy::NewCredential(id, _) => Some(id),
            _ => None,
        }
    }
}

impl Explanation {
    /// Whether every door grants the request.
    pub fn permits(&self) -> bool {
        self.doors.iter().all(|door| door.opens)
    }
}

/// The questions that a request for `right` asks door 4, in order. `parent` is the directory of the target. To create something in a directory, the
/// right to traverse the directory is needed as well, if the datastore checks traverse.
fn questions<'p>(
    right: AccessMask,
    kind: NodeKind,
    parent: Option<&'p Subject>,
    rules: &AccessRules,
) -> Vec<Wanted<'p>> {
    const BOTH: AccessMask = AccessMask::ADD_FILE.and(AccessMask::ADD_SUBDIRECTORY);
    let mut questions = Vec::new();
    let mut rest = right;
    if let (true, Some(parent)) = (right.covers(AccessMask::DELETE), parent) {
        questions.push(Wanted::Delete { parent });
        rest = rest & !AccessMask::DELETE;
        if rest.is_empty() {
            return questions;
        }
    }
    match kind {
        NodeKind::File if rest == AccessMask::WRITE_DATA => questions.push(Wanted::Overwrite),
        NodeKind::Directory if rest == AccessMask::TRAVERSE => questions.push(Wanted::Passing),
        NodeKind::Directory if !rest.is_empty() && BOTH.covers(rest) => {
            let making =
                [(AccessMask::ADD_FILE, NodeKind::File), (AccessMask::ADD_SUBDIRECTORY, NodeKind::Directory)];
            let asked = making.into_iter().filter(|(bit, _)| rest.covers(*bit));
            questions.extend(rules.checks_traverse.then_some(Wanted::Passing));
            questions.extend(asked.map(|(_, kind)| Wanted::Create(kind)));
        }
        _ => questions.push(Wanted::On(rest)),
    }
    questions
}

impl House {
    /// The answers that the doors would give if `authid`, with the correct secret, requested `right` on `path` of `datastore`. If `project` is given,
    /// `authid` makes the request in a session for the project.
    pub fn explain(
        &self,
        authid: &Authid,
        project: Option<&ProjectId>,
        datastore: &DatastoreName,
        path: &StorePath,
        right: AccessMask,
    ) -> Explanation {
        let mut explaining = Explaining { house: self, doors: Vec::new(), remedy: Remedy::default() };
        // If a door refuses, `walk` has already recorded the refusal as the last answer. So the result of `walk` is not needed here.
        let _ = explaining.walk((authid, project), datastore, path, right);
        Explanation { doors: explaining.doors, remedy: explaining.remedy }
    }

    pub(crate) fn who_would(
        &self,
        authid: &Authid,
        project: Option<&ProjectId>,
    ) -> Result<Principal, Refusal> {
        let memo = &self.parts.identity_memo;
        let now = self.now();
        let would = |view: &View<'_>| enfilade_identity::who_would(view, now, authid, project, memo);
        Ok(self.parts.source.read(would)??)
    }

    fn lacks_secret(&self, authid: &Authid, with_password: bool) -> Result<Option<Refusal>, Refusal> {
        let now = self.now();
        let lacks = |view: &View<'_>| enfilade_identity::lacks_secret(view, now, authid, with_password);
        Ok(self.parts.source.read(lacks)??.map(Refusal::from))
    }
}

/// A walk, and the answers of the doors so far.
struct Explaining<'h> {
    house: &'h House,
    doors: Vec<DoorAnswer>,
    remedy: Remedy,
}

impl Explaining<'_> {
    fn walk(
        &mut self,
        (authid, project): (&Authid, Option<&ProjectId>),
        name: &DatastoreName,
        path: &StorePath,
        right: AccessMask,
    ) -> Result<(), ()> {
        let who = self.identity(authid, project)?;
        self.walk_to_file(&who, name, path, right)
    }

    /// The walk through doors 3 to 5, after door 2 has been asked about the principal.
    fn walk_to_file(
        &mut self,
        who: &Principal,
        name: &DatastoreName,
        path: &StorePath,
        right: AccessMask,
    ) -> Result<(), ()> {
        let reads = AccessMask::READ.covers(right);
        let kind = if reads { OperationKind::Read } else { OperationKind::Write };
        let entered = self.house.enter(&mut Explain(who), name, kind);
        if let Err(Refusal::Access(enfilade_access::Refusal::NoRole { .. })) = &entered {
            // No object has been opened yet, so only the root is known to be a directory. A role that suffices for a file also suffices for a
            // directory.
            let kind = if path.is_root() { NodeKind::Directory } else { NodeKind::File };
            self.remedy = self.house.role_for(who, name, least_place(path, right), (right, kind));
        }
        let (permit, ()) = entered.or_else(|why| self.refused(why, Vec::new()))?;
        let (kind, at) = (permit.kind(), permit.root());
        let says = format!("datastore {name} exists and is open for {kind}; its content is in {at}");
        self.opens(Door::Datastore, says, Vec::new());
        let root =
            Root::open(permit.root(), permit.access().acls, self.house.reserved()).map_err(Refusal::from);
        let root = root.or_else(|why| self.refused(why, Vec::new()))?;
        let mut onlooker = Onlooker::new(self.house, who, (&permit, &root));
        let outcome = onlooker.request(path, right);
        let (target, outcome) = match outcome {
            Ok(found) => (found.judged.clone(), Ok(found)),
            Err(why) => match onlooker.refused.take() {
                Some(refused) => (refused, Err(why)),
                None => return self.refused(why, Vec::new()),
            },
        };
        let judged = onlooker.judgement(&target).ok();
        let mut walk: Vec<String> =
            judged.iter().flat_map(|judged| &judged.walk).map(ToString::to_string).collect();
        match outcome {
            Ok(found) => {
                self.opens(Door::Access, format!("{right} is granted"), walk);
                self.opens(Door::Content, found.says(path), Vec::new());
                Ok(())
            }
            Err(why) => {
                if let (Some(judged), Refusal::Access(refused)) = (judged, why.parts().1) {
                    self.remedy = self.house.remedy(who, &permit, target, &judged, refused);
                }
                walk.extend(self.house.ways_from(who, &permit, path).filter(|_| reads));
                self.refused(why, walk)
            }
        }
    }

    /// Asks door 2, and records its answer. Returns the principal.
    fn identity(&mut self, authid: &Authid, project: Option<&ProjectId>) -> Result<Principal, ()> {
        let who = self.house.who_would(authid, project).or_else(|why| self.refused(why, Vec::new()))?;
        match self
            .house
            .lacks_secret(authid, project.is_none())
            .or_else(|why| self.refused(why, Vec::new()))?
        {
            // The next doors are asked nevertheless, as if the principal had a secret. The reason: an operator may assign roles before the principal
            // gets a secret.
            Some(why) => {
                let _ = self.refused::<()>(why, Vec::new());
            }
            None => self.opens(Door::Identity, said_of(&who), Vec::new()),
        }
        Ok(who)
    }

    fn opens(&mut self, door: Door, says: String, walk: Vec<String>) {
        self.doors.push(DoorAnswer { door, opens: true, code: None, why: None, says, walk });
    }

    /// Records a refusal as the last answer.
    fn refused<T>(&mut self, why: Refusal, walk: Vec<String>) -> Result<T, ()> {
        let (door, code, says) = (why.door(), Some(why.code()), why.to_string());
        self.doors.push(DoorAnswer { door, opens: false, code, why: Some(why), says, walk });
        Err(())
    }
}

/// Describes the principal in one line.
fn said_of(who: &Principal) -> String {
    let reach = match &who.reach {
        Reach::Everything => String::new(),
        Reach::Project { roles, .. } if roles.is_empty() => {
            ", limited to one project, on which the credential has no role".to_owned()
        }
        Reach::Project { roles, .. } => {
            format!(", limited to one project, with the roles {}", roles.join(", "))
        }
        Reach::Nothing => ", without rights in any datastore".to_owned(),
    };
    format!("{} is user {}, groups: {}{reach}", who.authid, who.user, who.groups.len())
}

impl House {
    /// The remedy for missing rights. Depending on the credential and the datastore, it is for example a role, another credential, or a session for a
    /// project.
    fn role_for(
        &self,
        who: &Principal,
        name: &DatastoreName,
        path: StorePath,
        (missing, kind): (AccessMask, NodeKind),
    ) -> Remedy {
        match &who.reach {
            // No role gives a guest more rights than the link.
            _ if who.link.is_some() => Remedy::OfTheCode,
            Reach::Nothing => Remedy::OtherCredential,
            Reach::Project { project, .. } => {
                let bound = self.parts.source.read(|view| enfilade_access::bound_to(view, name));
                match bound {
                    Ok(Ok(Some(bound))) if bound == *project => {
                        role_on_project(who, *project, least_role_on_project(missing, kind))
                    }
                    Ok(Ok(Some(bound))) => Remedy::OfOtherProject(bound),
                    Ok(Ok(None)) => Remedy::Binding(*project),
                    Ok(Err(_)) | Err(_) => Remedy::OfTheCode,
                }
            }
            Reach::Everything => {
                // If the user has a role on the datastore's project, the remedy is a session for the project, and not a role on the path. A role on
                // the path would give the user additional rights.
                if let Some(project) = self.own_project(who, name) {
                    return Remedy::OfProject(project);
                }
                let now = self.now();
                let barred = |view: &View<'_>| enfilade_access::barred(view, now, who, name, &path);
                match self.parts.source.read(barred) {
                    Ok(Ok(barred)) if !barred.is_empty() => Remedy::WithoutNoAccess(path, barred),
                    _ => Remedy::Role {
                        path,
                        role: least_role(missing, kind),
                        of_token: who.narrowed_to.is_some(),
                    },
                }
            }
        }
    }

    /// Describes in one line what a listing of `directory` shows if no role makes the directory visible: the names that lead to objects on which the
    /// principal has a role (`ways.rs`). `None` if there are no such objects below the directory. This function checks neither whether these objects
    /// exist nor what their ACLs grant.
    fn ways_from(&self, who: &Principal, permit: &DatastorePermit, directory: &StorePath) -> Option<String> {
        const SHOWN: usize = 5;
        let (now, memo, store) = (self.now(), &self.parts.access_memo, (permit.name(), permit.access()));
        let ways = |view: &View<'_>| enfilade_access::ways(view, now, who, store, directory, memo);
        let Ways { ends, is_cut } = self.parts.source.read(ways).ok()?.ok()?;
        let shown: Vec<String> = ends.iter().take(SHOWN).map(ToString::to_string).collect();
        let at_least = if is_cut { "at least " } else { "" };
        let more = match ends.len().saturating_sub(SHOWN) {
            0 => String::new(),
            more => format!(" and {at_least}{more} more"),
        };
        (!ends.is_empty()).then(|| {
            format!(
                "in a listing of this directory, the user or token sees only the names that lead to paths on which it has a role ({}{more}); a name is not shown if its path does not exist, or if an ACL hides the path",
                shown.join(", ")
            )
        })
    }

    /// The project that the datastore is bound to, if the user has a role on the project.
    fn own_project(&self, who: &Principal, name: &DatastoreName) -> Option<ProjectId> {
        let found = |view: &View<'_>| -> Result<Option<ProjectId>, Refusal> {
            let Some(project) = enfilade_access::bound_to(view, name)? else { return Ok(None) };
            let held = enfilade_identity::roles_of(view, &who.user, &project, None)?;
            Ok((!held.is_empty()).then_some(project))
        };
        self.parts.source.read(found).ok()?.ok()?
    }

    /// The remedy for a refusal of door 4 about an object.
    fn remedy(
        &self,
        who: &Principal,
        permit: &DatastorePermit,
        (path, subject): (StorePath, Subject),
        judged: &Judgement,
        refused: &enfilade_access::Refusal,
    ) -> Remedy {
        let missing = match refused {
            enfilade_access::Refusal::NotGranted { missing, .. } => *missing,
            enfilade_access::Refusal::Hidden { .. } => permit.access().visible & !judged.granted,
            _ => return Remedy::OfTheCode,
        };
        match judged.rights.covers(missing) {
            true => Remedy::Acl(path, missing),
            false => self.role_for(who, permit.name(), path, (missing, subject.kind)),
        }
    }
}

/// The remedy if a role on the project is missing. A user needs the role on the project. An application credential must be replaced by a new
/// credential with the role, because the roles of an application credential cannot be changed.
fn role_on_project(who: &Principal, project: ProjectId, role: &'static str) -> Remedy {
    match who.authid.token {
        Some(_) => Remedy::NewCredential(project, role),
        None => Remedy::RoleOnProject(project, role),
    }
}

/// The object that a request acts on or creates.
struct FoundOrNew {
    /// The object on which door 4 judges the request: the target, or the directory in which the request creates the target.
    judged: (StorePath, Subject),
    /// The kind of object that the request creates; `None` if the object exists already.
    creates: Option<NodeKind>,
}

impl FoundOrNew {
    fn says(&self, path: &StorePath) -> String {
        match self.creates {
            None => format!("{path} exists"),
            Some(NodeKind::File) => format!("{path} does not exist; the request would create the file"),
            Some(NodeKind::Directory) => format!("{path} does not exist; MKCOL would create the directory"),
        }
    }
}

/// The deepest path on which a role can permit the request, if no object was opened yet. If a request for the right can create the target, this path
/// is the folder of the target.
fn least_place(path: &StorePath, right: AccessMask) -> StorePath {
    let above = creates(right).and_then(|_| path.split()).map(|(above, _)| above);
    above.unwrap_or_else(|| path.clone())
}

/// The kind of object that a request for this right creates if the path leads to no object; `None` if the request creates nothing.
fn creates(right: AccessMask) -> Option<NodeKind> {
    match right {
        _ if right.covers(AccessMask::DELETE) => None,
        _ if right.covers(AccessMask::WRITE_DATA) => Some(NodeKind::File),
        AccessMask::ADD_SUBDIRECTORY => Some(NodeKind::Directory),
        _ => None,
    }
}

impl Onlooker<'_> {
    /// Opens the target, and asks door 4 all questions of a request for this right. Returns the target if door 4 grants the right in all answers.
    fn request(&mut self, path: &StorePath, right: AccessMask) -> Result<FoundOrNew, Refusal> {
        if let (Some(kind), false) = (creates(right), path.is_root()) {
            let (directory, name) = self.reach_parent(path).map_err(Refusal::of_parent(path))?;
            if self.present_or_taken(path, &directory, name, kind)?.is_none() {
                self.may_create(path, &directory, kind).map_err(Refusal::of_parent(path))?;
                let above = path.split().map(|(above, _)| above).unwrap_or_default();
                return Ok(FoundOrNew { judged: (above, directory.subject()), creates: Some(kind) });
            }
        }
        // An object that is to be deleted is opened through its directory, because its deletion is also judged on the directory.
        let (node, parent) = match right.covers(AccessMask::DELETE) {
            true => {
                let (directory, name) = self.reach_parent(path)?;
                (directory.child(name)?, Some(directory.subject()))
            }
            false => (self.reach(path, Blocking)?, None),
        };
        let (target, rules) = (&node.subject(), *self.rules());
        for wanted in questions(right, node.kind(), parent.as_ref(), &rules) {
            match wanted {
                Wanted::Overwrite => {
                    let (directory, _) = self.reach_parent(path)?;
                    self.may_overwrite(path, &directory, &node)?;
                }
                Wanted::Create(kind) => self.may_create_in(path, &node, kind).map(drop)?,
                wanted => self.ask(&Ask { path, target, wanted })?,
            }
        }
        Ok(FoundOrNew { judged: (path.clone(), node.subject()), creates: None })
    }

    /// The judgement of door 4 on a target, with its steps.
    fn judgement(&self, (path, subject): &(StorePath, Subject)) -> Result<Judgement, Refusal> {
        let (parts, now) = (&self.house.parts, self.house.now());
        let (principal, memo) = (self.principal, &parts.access_memo);
        let store = (self.datastore.name(), self.datastore.access());
        let judge =
            |view: &View<'_>| enfilade_access::judge(view, now, principal, store, path, subject, memo);
        Ok(parts.source.read(judge)??)
    }
}

/// The reason why the visitor does not have a right on an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lack {
    /// These roles of the visitor do not include the right.
    Role(Vec<Role>),
    /// These roles of the visitor's token do not include the right, but the roles of the token's owner include it.
    TokenRole(Vec<Role>),
    /// The roles include the right, but the ACL or the mode bits do not grant it.
    Acl,
}

/// The visitor's rights on an object, as far as the visitor may know them.
#[derive(Clone, Debug)]
pub struct OwnRights {
    /// All rights of the visitor on the object.
    pub rights: AccessMask,
    /// The reason why door 4 refuses the requested right; `None` if door 4 grants it.
    pub lack: Option<Lack>,
    /// The roles and ACL entries that door 4 checked, in order; empty if the visitor may not read the ACL. The lines contain only the names of the
    /// visitor and of the visitor's groups. All other users and groups are shown as SIDs.
    pub walk: Vec<String>,
}

impl Stay {
    /// The visitor's rights on an object, and the reason if door 4 refuses `right`. A hidden object looks absent.
    ///
    /// # Errors
    /// The refusal of door 4 or 5.
    pub fn why(mut self, path: &StorePath, right: AccessMask) -> Result<OwnRights, Refusal> {
        let found = self.find(path, AccessMask::NONE, Blocking)?;
        let subject = found.node.subject();
        let (judgement, names) = self.on_view(|stay, view| {
            let house = &stay.visit.house;
            let (memo, store) = (&house.parts.access_memo, (stay.datastore.name(), stay.datastore.access()));
            let principal = stay.visit.principal();
            let judged = enfilade_access::judge(view, house.now(), principal, store, path, &subject, memo)?;
            Ok((judged, enfilade_access::known_names(view, principal)?))
        })?;
        let parent = match path.is_root() {
            true => None,
            false => Some(self.reach_parent(path)?.0.subject()),
        };
        let rules = *self.datastore.access();
        let asked = questions(right, found.kind(), parent.as_ref(), &rules);
        let refusal =
            asked.into_iter().find_map(|wanted| self.may(&Ask { path, target: &subject, wanted }).err());
        let lack = refusal.map(|refusal| lack_of(refusal, &judgement, (right, subject.kind))).transpose()?;
        let named = |step: &Step| {
            let names = names.iter().map(|(sid, name)| (sid.to_string(), name));
            names.fold(step.to_string(), |text, (sid, name)| with_name(&text, &sid, name))
        };
        let knows = found.granted().covers(AccessMask::READ_ACL);
        let walk = if knows { judgement.walk.iter().map(named).collect() } else { Vec::new() };
        Ok(OwnRights { rights: found.granted(), lack, walk })
    }
}

/// The reason why the visitor does not have the right, according to a refusal of door 4.
///
/// # Errors
/// A refusal that is not about the rights: a refusal of another door, or a refusal because the facts or the ACL could not be read.
fn lack_of(
    refusal: Refusal,
    judgement: &Judgement,
    (right, kind): (AccessMask, NodeKind),
) -> Result<Lack, Refusal> {
    use enfilade_access::Refusal::{AclDamaged, Facts, NotGranted};
    let missing = match &refusal {
        Refusal::Access(Facts(_) | AclDamaged { .. }) => return Err(refusal),
        Refusal::Access(NotGranted { missing, .. }) if judgement.rights.covers(*missing) => {
            return Ok(Lack::Acl);
        }
        Refusal::Access(NotGranted { missing, .. }) => *missing,
        Refusal::Access(_) => right,
        _ => return Err(refusal),
    };
    let roles = &judgement.roles;
    Ok(match roles.limited_by_token(missing, kind) {
        Some(of_token) => Lack::TokenRole(of_token.to_vec()),
        None => Lack::Role(roles.roles.clone()),
    })
}

/// Replaces a SID in a text by a name. A longer SID that begins with this SID is not changed.
fn with_name(text: &str, sid: &str, name: &str) -> String {
    let mut parts = text.split(sid);
    let mut named = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let is_whole = !part.starts_with(|c: char| c.is_ascii_digit() || c == '-');
        named.push_str(if is_whole { name } else { sid });
        named.push_str(part);
    }
    named
}

#[cfg(test)]
mod tests {
    use super::{Lack, lack_of, least_place, with_name};
    use crate::refuse::Refusal;
    use enfilade_access::{GivenRoles, Judgement, NodeKind, Refusal as Access};
    use enfilade_facts::vocabulary::{AccessMask, Role, StorePath};

    #[test]
    fn only_a_refusal_of_door_4_is_a_lack() {
        let (reader, admin) = (Role::DatastoreReader, Role::Admin);
        let judged = |token: Option<Role>| Judgement {
            roles: GivenRoles {
                roles: vec![if token.is_some() { admin } else { reader }],
                of_token: token
                    .map(|role| Box::new(GivenRoles { roles: vec![role], ..GivenRoles::default() })),
                ..GivenRoles::default()
            },
            rights: AccessMask::READ,
            skips_acl: false,
            acl: AccessMask::NONE,
            granted: AccessMask::NONE,
            walk: Vec::new(),
        };
        let not_granted = |missing| {
            Refusal::from(Access::NotGranted { path: StorePath::root(), missing, decided_by: String::new() })
        };
        let lack =
            |refusal, judged: &Judgement| lack_of(refusal, judged, (AccessMask::DELETE, NodeKind::File)).ok();
        let (own, of_token) = (judged(None), judged(Some(reader)));
        assert_eq!(lack(not_granted(AccessMask::READ_DATA), &own), Some(Lack::Acl));
        assert_eq!(lack(not_granted(AccessMask::DELETE), &own), Some(Lack::Role(vec![reader])));
        assert_eq!(lack(not_granted(AccessMask::DELETE), &of_token), Some(Lack::TokenRole(vec![reader])));
        assert_eq!(lack(enfilade_identity::Refusal::SubjectDeleted.into(), &own), None);
    }

    #[test]
    fn a_role_is_proposed_for_the_path_or_its_folder_and_not_for_more() {
        for (path, right, place) in [
            ("/a/b", AccessMask::READ_DATA, "/a/b"),
            ("/a/b", AccessMask::DELETE, "/a/b"),
            ("/a/b", AccessMask::WRITE_DATA, "/a"),
            ("/a", AccessMask::ADD_SUBDIRECTORY, "/"),
            ("/", AccessMask::WRITE_DATA, "/"),
        ] {
            let path = StorePath::from_plain(path).unwrap();
            assert_eq!(least_place(&path, right).to_string(), place, "{path} {right}");
        }
    }

    #[test]
    fn a_name_replaces_only_its_own_sid() {
        let text = "allow S-1-5-10 read, allow S-1-5-101 read, allow S-1-5-10-1 read";
        let named = with_name(text, "S-1-5-10", "@family@local");
        assert_eq!(named, "allow @family@local read, allow S-1-5-101 read, allow S-1-5-10-1 read");
    }
}
