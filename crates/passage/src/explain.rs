//! Explanations: what each door would decide for a principal, and by which rule. An explanation goes through the doors like a request (`walk.rs`,
//! `reach.rs`), and records their answers. Door 4 grants no permit for an explanation.

use crate::house::House;
use crate::modes::Explain;
use crate::reach::{Inside, Onlooker};
use crate::refuse::Refusal;
use crate::walk::Stay;
use enfilade_access::{Ask, Judgement, NodeKind, Subject, Wanted};
use enfilade_content::{Blocking, Node, Root};
use enfilade_facts::tables::AccessRules;
use enfilade_facts::vocabulary::{AccessMask, Authid, DatastoreName, OperationKind, StorePath};
use enfilade_facts::{Door, Read, Refuse, View};
use enfilade_identity::Principal;

/// The answer of one door.
#[derive(Clone, Debug)]
pub struct DoorAnswer {
    /// The door.
    pub door: Door,
    /// Whether the door grants.
    pub opens: bool,
    /// The code of the refusal, if the door refuses.
    pub code: Option<&'static str>,
    /// What the door found, or why it refuses, in one line.
    pub says: String,
    /// The roles and ACL entries, in the order in which the door checked them.
    pub walk: Vec<String>,
}

/// The answers of the doors, up to the first refusal.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The answers, in the order of the walk.
    pub doors: Vec<DoorAnswer>,
}

impl Explanation {
    /// Whether every door grants.
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
    /// What would happen if `authid`, with the correct secret, requested `right` on `path` of `datastore`.
    pub fn explain(
        &self,
        authid: &Authid,
        datastore: &DatastoreName,
        path: &StorePath,
        right: AccessMask,
    ) -> Explanation {
        let mut explaining = Explaining { house: self, doors: Vec::new() };
        // The walk ends at the first refusal, so the refusal is the last answer in the explanation.
        let _ = explaining.walk(authid, datastore, path, right);
        Explanation { doors: explaining.doors }
    }

    pub(crate) fn who_would(&self, authid: &Authid) -> Result<Principal, Refusal> {
        let memo = &self.parts.identity_memo;
        let now = self.now();
        Ok(self.parts.source.read(|view| enfilade_identity::who_would(view, now, authid, memo))??)
    }
}

/// A walk, and the answers of the doors so far.
struct Explaining<'h> {
    house: &'h House,
    doors: Vec<DoorAnswer>,
}

impl Explaining<'_> {
    fn walk(
        &mut self,
        authid: &Authid,
        name: &DatastoreName,
        path: &StorePath,
        right: AccessMask,
    ) -> Result<(), ()> {
        let principal = self.answer(Door::Identity, self.house.who_would(authid), |principal| {
            format!("{} is user {}, groups: {}", principal.authid, principal.user, principal.groups.len())
        })?;
        let reads = AccessMask::READ.covers(right);
        let kind = if reads { OperationKind::Read } else { OperationKind::Write };
        let entered = self.house.enter(&mut Explain(&principal), name, kind);
        let permit = self.answer(Door::Datastore, entered.map(|(permit, ())| permit), |permit| {
            let (kind, root) = (permit.kind(), permit.root());
            format!("datastore {name} exists and is open for {kind}; its content is in {root}")
        })?;
        let root =
            Root::open(permit.root(), permit.access().acls, self.house.reserved()).map_err(Refusal::from);
        let root = root.or_else(|why| self.refused(why, Vec::new()))?;
        let mut onlooker = Onlooker::new(self.house, &principal, (&permit, &root));
        let outcome = onlooker.request(path, right);
        let (target, why) = match outcome {
            Ok(node) => ((path.clone(), node.subject()), None),
            Err(why) => match onlooker.refused.take() {
                Some(refused) => (refused, Some(why)),
                None => return self.refused(why, Vec::new()),
            },
        };
        let judged = onlooker.judgement(&target);
        let walk = judged.map(|judged| judged.walk.iter().map(ToString::to_string).collect());
        let walk = walk.unwrap_or_default();
        if let Some(why) = why {
            return self.refused(why, walk);
        }
        let opens = |door, says, walk| DoorAnswer { door, opens: true, code: None, says, walk };
        self.doors.push(opens(Door::Access, format!("{right} is granted"), walk));
        self.doors.push(opens(Door::Content, format!("{path} exists"), Vec::new()));
        Ok(())
    }

    fn answer<T>(
        &mut self,
        door: Door,
        outcome: Result<T, Refusal>,
        says: impl FnOnce(&T) -> String,
    ) -> Result<T, ()> {
        let found = outcome.or_else(|why| self.refused(why, Vec::new()))?;
        self.doors.push(DoorAnswer { door, opens: true, code: None, says: says(&found), walk: Vec::new() });
        Ok(found)
    }

    /// Records a refusal as the last answer.
    fn refused<T>(&mut self, why: Refusal, walk: Vec<String>) -> Result<T, ()> {
        let (door, code, says) = (why.door(), Some(why.code()), why.to_string());
        self.doors.push(DoorAnswer { door, opens: false, code, says, walk });
        Err(())
    }
}

impl Onlooker<'_> {
    /// Opens the target, and asks door 4 all questions of a request for this right. Returns the target if door 4 grants all of them.
    fn request(&mut self, path: &StorePath, right: AccessMask) -> Result<Node, Refusal> {
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
        Ok(node)
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

/// The visitor's rights on an object, as far as the visitor may know them.
#[derive(Clone, Debug)]
pub struct OwnRights {
    /// All rights.
    pub rights: AccessMask,
    /// Why door 4 refuses the requested right; `None` if door 4 grants it.
    pub refused: Option<String>,
    /// The roles and ACL entries that door 4 checked, in order; empty if the visitor may not read the ACL.
    pub walk: Vec<String>,
}

impl Stay {
    /// The visitor's rights on an object, and why door 4 refuses `right`, if it does. A hidden object looks absent.
    ///
    /// # Errors
    /// The refusal of door 4 or 5.
    pub fn why(mut self, path: &StorePath, right: AccessMask) -> Result<OwnRights, Refusal> {
        let found = self.find(path, AccessMask::NONE, Blocking)?;
        let subject = found.node.subject();
        let judgement = self.on_view(|stay, view| {
            let house = &stay.visit.house;
            let (memo, store) = (&house.parts.access_memo, (stay.datastore.name(), stay.datastore.access()));
            let principal = stay.visit.principal();
            Ok(enfilade_access::judge(view, house.now(), principal, store, path, &subject, memo)?)
        })?;
        let parent = match path.is_root() {
            true => None,
            false => Some(self.reach_parent(path)?.0.subject()),
        };
        let rules = *self.datastore.access();
        let asked = questions(right, found.kind(), parent.as_ref(), &rules);
        let refusal =
            asked.into_iter().find_map(|wanted| self.may(&Ask { path, target: &subject, wanted }).err());
        let knows = found.granted().covers(AccessMask::READ_ACL);
        let refused = refusal.map(|refusal| match knows {
            true => refusal.to_string(),
            false => "no role and no entry of the ACL grants the right".to_owned(),
        });
        let walk = if knows { judgement.walk.iter().map(ToString::to_string).collect() } else { Vec::new() };
        Ok(OwnRights { rights: found.granted(), refused, walk })
    }
}
