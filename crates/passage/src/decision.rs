//! Decisions for other servers: whether a visitor may send a request to an application. Doors 2 and 4 decide. Every protocol that asks for decisions
//! asks here, so all of them get the same answer.

use crate::house::House;
use crate::refuse::Refusal;
use crate::walk::Visit;
use enfilade_access::{ApplicationAsk, group_names, use_application, would_use};
use enfilade_facts::tables::{Assignment, AssignmentKey, Domain, Key, User};
use enfilade_facts::vocabulary::{
    ApplicationName, Authid, GroupName, Role, RolePath, StorePath, UserId, Userid,
};
use enfilade_facts::{Read, View};
use enfilade_identity::Principal;
use std::collections::HashMap;
use std::ops::ControlFlow;

/// A permitted request to an application.
#[derive(Clone, Debug)]
pub struct Decision {
    /// The visitor; `None` if everybody may make the request.
    pub visitor: Option<Visitor>,
    /// The number of the revision of the facts on which the request was judged.
    pub revision: u64,
}

/// What the application may know of a visitor.
#[derive(Clone, Debug)]
pub struct Visitor {
    /// The name of the user or token.
    pub authid: Authid,
    /// The visitor's roles on the path of the request.
    pub roles: Vec<Role>,
    /// The names of the visitor's groups, sorted; empty if the application does not get them.
    pub groups: Vec<GroupName>,
}

impl House {
    /// Permits a request that everybody may make. `None` if the request needs a visitor.
    ///
    /// # Errors
    /// The refusal of door 4 if no application has the host, or if the facts cannot be read.
    pub fn decide_for_everybody(&self, ask: &ApplicationAsk) -> Result<Option<Decision>, Refusal> {
        let now = self.now();
        let permit =
            self.parts.source.read(|view| use_application(view, now, None, ask, &self.parts.access_memo))?;
        match permit {
            Ok(permit) => Ok(Some(Decision { visitor: None, revision: permit.at().revision.0 })),
            Err(enfilade_access::Refusal::NotPublic(_)) => Ok(None),
            Err(why) => Err(why.into()),
        }
    }
}

/// A part of the results of a search, and the key after which the next part begins; `None` if there is no next part.
#[derive(Clone, Debug)]
pub struct Page<T, K> {
    /// The results.
    pub found: Vec<T>,
    /// The last key that was examined.
    pub after: Option<K>,
}

impl<T, K: Clone> Page<T, K> {
    /// The results among these candidates, at most `most`. `is_cut` says that further candidates may follow.
    fn of(
        candidates: Vec<K>,
        is_cut: bool,
        most: usize,
        mut judge: impl FnMut(&K) -> Result<Option<T>, Refusal>,
    ) -> Result<Self, Refusal> {
        let mut page = Page { found: Vec::new(), after: None };
        for key in candidates {
            if page.found.len() == most {
                return Ok(page);
            }
            page.found.extend(judge(&key)?);
            page.after = Some(key);
        }
        page.after = page.after.filter(|_| is_cut);
        Ok(page)
    }
}

/// The most records that one part of a search examines. So the time of a part does not depend on the number of users or roles.
const EXAMINED_MAX: usize = 10_000;

impl House {
    /// Judges requests of users that another service has authenticated, all at one revision of the facts. The results have the order of the questions.
    /// No credential is checked, so nothing here is a permit.
    ///
    /// # Errors
    /// When the facts cannot be read.
    pub fn judge_for_service(
        &self,
        questions: &[(Authid, ApplicationAsk)],
    ) -> Result<Vec<Result<(), Refusal>>, Refusal> {
        let judged = self.parts.source.read(|view| {
            let mut known = HashMap::new();
            let mut judged = Vec::with_capacity(questions.len());
            for (authid, ask) in questions {
                let principal = known.entry(authid).or_insert_with(|| self.would_be(view, authid));
                judged.push(match principal {
                    Ok(principal) => self.would_use(view, principal, ask),
                    Err(why) => Err(why.clone()),
                });
            }
            judged
        })?;
        Ok(judged)
    }

    /// The users who may make a request, in the order of their ids; at most `most`.
    ///
    /// # Errors
    /// When the facts cannot be read.
    pub fn who_may(
        &self,
        ask: &ApplicationAsk,
        after: Option<&UserId>,
        most: usize,
    ) -> Result<Page<Userid, UserId>, Refusal> {
        self.parts.source.read(|view| {
            let mut candidates = Vec::new();
            let after = after.map(Key::bytes);
            view.page::<User>(&[], after.as_deref(), |id, _| {
                candidates.push(id);
                if candidates.len() < EXAMINED_MAX {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            })?;
            let is_cut = candidates.len() == EXAMINED_MAX;
            Page::of(candidates, is_cut, most, |id| {
                let Some(user) = view.get::<User>(id)? else { return Ok(None) };
                let realm = view.get::<Domain>(&user.domain)?.map(|domain| domain.name);
                let userid = realm.and_then(|realm| Userid::new(&user.name, realm).ok());
                let may = |userid: &Userid| {
                    let principal = self.would_be(view, &Authid::from(userid.clone()));
                    principal.is_ok_and(|principal| self.would_use(view, &principal, ask).is_ok())
                };
                Ok(userid.filter(may))
            })
        })?
    }

    /// The paths of an application on which the user may make a request like `ask`: of those on which roles are assigned, and the root. At most `most`.
    ///
    /// # Errors
    /// When the facts cannot be read.
    pub fn where_may(
        &self,
        authid: &Authid,
        (application, ask): (&ApplicationName, &ApplicationAsk),
        after: Option<&StorePath>,
        most: usize,
    ) -> Result<Page<StorePath, StorePath>, Refusal> {
        self.parts.source.read(|view| {
            let Ok(principal) = self.would_be(view, authid) else {
                return Ok(Page { found: Vec::new(), after: None });
            };
            let root = RolePath::of_application(application, &StorePath::root());
            let mut paths = Vec::new();
            if after.is_none() {
                paths.push(StorePath::root());
            }
            let after = after.filter(|path| !path.is_root());
            let after = after
                .map(|path| AssignmentKey::node_prefix(RolePath::of_application(application, path).as_str()));
            view.page::<Assignment>(format!("{root}/").as_bytes(), after.as_deref(), |key, _| {
                let below = key.path.as_str().strip_prefix(root.as_str()).and_then(|path| path.parse().ok());
                if let Some(path) = below.filter(|path| paths.last() != Some(path)) {
                    paths.push(path);
                }
                if paths.len() < EXAMINED_MAX { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })?;
            let is_cut = paths.len() == EXAMINED_MAX;
            Page::of(paths, is_cut, most, |path| {
                let ask = ApplicationAsk { path: path.clone(), ..ask.clone() };
                Ok(self.would_use(view, &principal, &ask).is_ok().then_some(ask.path))
            })
        })?
    }

    fn would_be(&self, view: &View<'_>, authid: &Authid) -> Result<Principal, Refusal> {
        Ok(enfilade_identity::who_would(view, self.now(), authid, None, &self.parts.identity_memo)?)
    }

    fn would_use(&self, view: &View<'_>, principal: &Principal, ask: &ApplicationAsk) -> Result<(), Refusal> {
        // The service has authenticated the user, so the kind of the credential is not known here.
        would_use(view, self.now(), (principal, &[]), ask, &self.parts.access_memo)?;
        Ok(())
    }
}

impl Visit {
    /// Judges the visitor's request to an application. If the facts changed since door 2 admitted the visitor, door 2 is asked again.
    ///
    /// # Errors
    /// The refusal of door 4, or of door 2 if the credential was revoked meanwhile.
    pub fn decide(&mut self, ask: &ApplicationAsk) -> Result<Decision, Refusal> {
        let house = std::sync::Arc::clone(&self.house);
        house.parts.source.read(|view| {
            self.ask_again(view)?;
            let (now, identity) = (house.now(), &self.identity);
            let permit = use_application(view, now, Some(identity), ask, &house.parts.access_memo)?;
            let principal = identity.principal();
            let groups = if permit.hides_groups() { Vec::new() } else { group_names(view, principal)? };
            let (authid, roles) = (principal.authid.clone(), permit.roles().to_vec());
            let visitor = Visitor { authid, roles, groups };
            Ok(Decision { visitor: Some(visitor), revision: permit.at().revision.0 })
        })?
    }
}
