//! Walking the doors without acting: what each would say, and which rule decides. No permit comes of it.

use crate::house::House;
use crate::refuse::Refusal;
use crate::walk::Stay;
use enfilade_access::Judgement;
use enfilade_content::Root;
use enfilade_datastore::{Ask as DatastoreAsk, DatastorePermit, Standing};
use enfilade_facts::vocabulary::{AccessMask, Authid, DatastoreName, OperationKind, StorePath};
use enfilade_facts::{Door, Read, Refuse};
use enfilade_identity::Principal;

/// What one door says.
#[derive(Clone, Debug)]
pub struct DoorAnswer {
    /// The door.
    pub door: Door,
    /// Whether it opens.
    pub opens: bool,
    /// The refusal's code, when it does not.
    pub code: Option<&'static str>,
    /// One line: what it found, or why not.
    pub says: String,
    /// How it got there: roles and ACL entries in the order they were looked at.
    pub walk: Vec<String>,
}

/// What all doors say, up to the first that does not open.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// In the order of the walk.
    pub doors: Vec<DoorAnswer>,
}

impl Explanation {
    /// Whether every door opens.
    pub fn permits(&self) -> bool {
        self.doors.iter().all(|door| door.opens)
    }
}

impl House {
    /// What would happen if `authid`, with the right secret, asked for `right` on `path` of `datastore`.
    pub fn explain(
        &self,
        authid: &Authid,
        datastore: &DatastoreName,
        path: &StorePath,
        right: AccessMask,
    ) -> Explanation {
        let mut doors = Vec::new();
        // The first refusal ends the walk, and is its last answer.
        let _ = self.explain_into(&mut doors, authid, datastore, path, right);
        Explanation { doors }
    }

    fn explain_into(
        &self,
        doors: &mut Vec<DoorAnswer>,
        authid: &Authid,
        name: &DatastoreName,
        path: &StorePath,
        right: AccessMask,
    ) -> Result<(), ()> {
        let principal = answer(doors, Door::Identity, self.who_would(authid), |principal| {
            format!("{} is user {}, groups: {}", principal.authid, principal.user, principal.groups.len())
        })?;
        let permit = answer(doors, Door::Datastore, self.would_enter(name, right), |permit| {
            format!(
                "datastore {name} is there and open for {}, its content is in {}",
                permit.kind(),
                permit.root()
            )
        })?;
        let root = Root::open(permit.root(), permit.access().acls).and_then(|root| root.find(path));
        let node = answer(doors, Door::Content, root.map_err(Refusal::from), |_| format!("{path} is there"))?;
        let subject = node.subject();
        let judged = self.parts.source.read(|view| {
            enfilade_access::judge(
                view,
                self.now(),
                &principal,
                (name, permit.access()),
                path,
                &subject,
                &self.parts.access_memo,
            )
            .map_err(Refusal::from)
        });
        let judged = judged.map_err(Refusal::from).and_then(|judged| judged);
        let judgement = answer(doors, Door::Access, judged, |_| String::new())?;
        // The walk asks door 4 before door 5 acts; opening the target is what door 4 needs to know the ACL.
        if let Some(access) = doors.last_mut() {
            *access = access_answer(&judgement, right);
        }
        if let [.., content, access] = doors.as_mut_slice() {
            std::mem::swap(content, access);
        }
        Ok(())
    }

    fn who_would(&self, authid: &Authid) -> Result<Principal, Refusal> {
        let memo = &self.parts.identity_memo;
        let now = self.now();
        Ok(self.parts.source.read(|view| enfilade_identity::who_would(view, now, authid, memo))??)
    }

    fn would_enter(&self, name: &DatastoreName, right: AccessMask) -> Result<DatastorePermit, Refusal> {
        let reads = AccessMask::READ.covers(right);
        let kind = if reads { OperationKind::Read } else { OperationKind::Write };
        let ask = DatastoreAsk { name, kind, standing: Standing::Entering };
        let (now, mounts) = (self.now(), self.mounts());
        let record = self.parts.source.read(|view| self.stores.record(view, name))??;
        Ok(enfilade_datastore::open(&record, now, &mounts, &ask)?)
    }
}

fn answer<T>(
    doors: &mut Vec<DoorAnswer>,
    door: Door,
    outcome: Result<T, Refusal>,
    says: impl FnOnce(&T) -> String,
) -> Result<T, ()> {
    let (opens, code, says) = match &outcome {
        Ok(found) => (true, None, says(found)),
        Err(refusal) => (false, Some(refusal.code()), refusal.to_string()),
    };
    doors.push(DoorAnswer { door, opens, code, says, walk: Vec::new() });
    outcome.map_err(drop)
}

fn access_answer(judgement: &Judgement, right: AccessMask) -> DoorAnswer {
    let refusal = judgement.refusal(right);
    let walk = judgement.walk.iter().map(ToString::to_string).collect();
    DoorAnswer {
        door: Door::Access,
        opens: refusal.is_none(),
        code: refusal.as_ref().map(Refuse::code),
        says: refusal.map_or_else(|| format!("{right} is granted"), |refusal| refusal.to_string()),
        walk,
    }
}

/// What somebody may do with something, as they may know it themselves.
#[derive(Clone, Debug)]
pub struct OwnRights {
    /// All of it.
    pub rights: AccessMask,
    /// Why not what was asked for, where that is so.
    pub refused: Option<String>,
    /// Roles and entries in the order they were looked at, for whoever may read the ACL.
    pub walk: Vec<String>,
}

impl Stay {
    /// Why the visitor may do something with what they see. What they do not see is not there.
    ///
    /// # Errors
    /// The refusal of door 4 or 5.
    pub fn why(mut self, path: &StorePath, right: AccessMask) -> Result<OwnRights, Refusal> {
        let found = self.find(path, AccessMask::NONE)?;
        let subject = found.node.subject();
        let judgement = self.on_view(|stay, view| {
            let house = &stay.visit.house;
            let (memo, store) = (&house.parts.access_memo, (stay.datastore.name(), stay.datastore.access()));
            let principal = stay.visit.principal();
            Ok(enfilade_access::judge(view, house.now(), principal, store, path, &subject, memo)?)
        })?;
        let knows = found.granted().covers(AccessMask::READ_ACL);
        let refused = judgement.refusal(right).map(|refusal| match knows {
            true => refusal.to_string(),
            false => "no role or entry of the ACL grants it".to_owned(),
        });
        let walk = if knows { judgement.walk.iter().map(ToString::to_string).collect() } else { Vec::new() };
        Ok(OwnRights { rights: found.granted(), refused, walk })
    }
}
