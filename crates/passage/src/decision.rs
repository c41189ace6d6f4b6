//! Decisions for other servers: whether a visitor may send a request to an application. Doors 2 and 4 decide. If the application serves the files of
//! a datastore, door 3 decides about the datastore, and door 4 about the file. All protocols that ask for decisions use these functions, so all
//! protocols get the same answer.

use crate::house::House;
use crate::modes::Explain;
use crate::per_minute::Counted;
use crate::reach::{Inside as _, Onlooker};
use crate::refuse::Refusal;
use crate::walk::Visit;
use enfilade_access::{
    ApplicationAsk, Ask, ManyUses, NodeKind, Wanted, counts_if_both, group_names, needs_credential,
    use_application,
};
use enfilade_content::{Blocking, Patience, Root};
use enfilade_facts::tables::{Assignment, AssignmentKey, CountsIfBoth, Domain, Key, User};
use enfilade_facts::vocabulary::{
    AccessMask, ApplicationName, Authid, DatastoreName, GroupName, OperationKind, Role, RolePath, StorePath,
    UserId, Userid,
};
use enfilade_facts::{Clocks, Door, Read, Refuse as _, SourceError, View};
use enfilade_identity::fernet::AssertionPublicKey;
use enfilade_identity::{Principal, Refusal as IdentityRefusal};
use std::ops::ControlFlow;

/// A permitted request to an application.
#[derive(Clone, Debug)]
pub struct Decision {
    /// The authenticated user or token; `None` if the request was judged without a credential, because everybody may make it.
    pub visitor: Option<Visitor>,
    /// The number of the revision of the facts on which the request was judged.
    pub revision: u64,
    /// The application, if it gets a signed token with the visitor's name, groups and roles.
    pub signed_for: Option<ApplicationName>,
}

/// The facts about a visitor that the application may know.
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
    /// Permits a request that everybody may make. `None` if the request needs a credential.
    ///
    /// # Errors
    /// The refusal of door 4 if no application has the host of the request, or if the facts cannot be read.
    pub fn decide_for_everybody(&self, ask: &ApplicationAsk) -> Result<Option<Decision>, Refusal> {
        // Most requests need a credential. If the memo shows for the newest revision that this request needs a credential, this function returns
        // `None` without opening a view.
        if needs_credential(self.parts.source.newest(), ask, &self.parts.access_memo) {
            return Ok(None);
        }
        let now = self.now();
        let permit =
            self.parts.source.read(|view| use_application(view, now, None, ask, &self.parts.access_memo))?;
        match permit {
            Ok(permit) => {
                let revision = permit.at().revision.0;
                Ok(Some(Decision { visitor: None, revision, signed_for: None }))
            }
            Err(enfilade_access::Refusal::NotPublic(_)) => Ok(None),
            Err(why) => Err(why.into()),
        }
    }
}

impl House {
    /// Decides which credential the application accepts if a request contains two credentials: one in a cookie, and one in a header. `None` if the
    /// application refuses a request with two credentials.
    ///
    /// # Errors
    /// The refusal of door 4 if no application has the host of the request, or if the facts cannot be read.
    pub fn counts_if_both(&self, ask: &ApplicationAsk) -> Result<Option<CountsIfBoth>, Refusal> {
        let now = self.now();
        let found = self.parts.source.read(|view| counts_if_both(view, now, ask, &self.parts.access_memo))?;
        Ok(found?)
    }
}

/// A part of the results of a search.
#[derive(Clone, Debug)]
pub struct Page<T, K> {
    /// The results.
    pub found: Vec<T>,
    /// The last key that was examined: the next part of the search begins after this key. `None` if there is no next part.
    pub after: Option<K>,
}

impl<T, K: Clone> Page<T, K> {
    /// Judges these candidates, and returns at most `most` results. `is_cut` says that further candidates can follow.
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

/// The answer to one question of a service: a grant or a refusal. A refusal contains its code. The code is `None` if the question is about something
/// that this server does not know.
pub type Judged = Result<(), Option<&'static str>>;

/// The maximum number of users or paths that one part of a search examines. So the time that a part takes does not grow with the number of users, or
/// with the number of paths on which roles are assigned.
const EXAMINED_MAX: usize = 10_000;

impl House {
    /// Judges requests of users that another service has authenticated. All roles are judged at one revision of the facts, and at one time. The
    /// results have the order of the questions. A question consists of the index of its subject in `subjects`, and the request. A question is `None`
    /// if it is about something that this server does not know. No credential is checked, so the results are not permits.
    ///
    /// # Errors
    /// When the facts cannot be read.
    pub fn judge_for_service(
        &self,
        subjects: &[Authid],
        questions: impl IntoIterator<Item = Option<(usize, ApplicationAsk)>>,
    ) -> Result<Vec<Judged>, Refusal> {
        let (mut principals, mut judged, mut files) = (Vec::new(), Vec::new(), Vec::new());
        self.parts.source.read(|view| {
            let now = self.now();
            principals.extend(subjects.iter().map(|subject| self.would_be(view, now, subject)));
            // The service has authenticated the users, so the kinds of their credentials are not known here.
            let mut uses = ManyUses::new(view, now, &self.parts.access_memo);
            for (at, question) in questions.into_iter().enumerate() {
                let asked = question.and_then(|(nth, ask)| Some((nth, principals.get(nth)?.as_ref(), ask)));
                judged.push(match asked {
                    None => Err(None),
                    Some((_, Err(why), _)) => Err(Some(why.code())),
                    Some((nth, Ok(principal), ask)) => match uses.would_use(principal, &ask) {
                        Ok(None) => Ok(()),
                        Ok(Some(datastore)) => {
                            files.push((at, nth, datastore.clone(), ask.path));
                            Ok(())
                        }
                        Err(why) => Err(Some(why.code())),
                    },
                });
            }
        })?;
        if files.is_empty() {
            return Ok(judged);
        }
        // Files are judged after the view above has ended, because the thread may have to wait until the ACL of a file is read from the disk.
        tokio::task::block_in_place(|| {
            for (at, nth, datastore, path) in files {
                if let (Some(verdict), Some(Ok(principal))) = (judged.get_mut(at), principals.get(nth)) {
                    let read = self.would_read(principal, &datastore, &path);
                    *verdict = read.map_err(|why| Some(why.code()));
                }
            }
        });
        Ok(judged)
    }

    /// The decision of doors 3 and 4 about reading a file of a datastore.
    pub(crate) fn would_read(
        &self,
        principal: &Principal,
        datastore: &DatastoreName,
        path: &StorePath,
    ) -> Result<(), Refusal> {
        let (permit, ()) = self.enter(&mut Explain(principal), datastore, OperationKind::Read)?;
        let root = Root::open(permit.root(), permit.access().acls, self.reserved())?;
        let mut onlooker = Onlooker::new(self, principal, (&permit, &root));
        let node = onlooker.reach(path, Blocking)?;
        let wanted = Wanted::On(AccessMask::READ_DATA);
        onlooker.ask(&Ask { path, target: &node.subject(), wanted })?;
        only_file(node.kind())
    }

    /// The users who may make a request, in the order of their ids. Returns at most `most` users.
    ///
    /// # Errors
    /// When the facts cannot be read.
    pub fn who_may(
        &self,
        ask: &ApplicationAsk,
        after: Option<&UserId>,
        most: usize,
    ) -> Result<Page<Userid, UserId>, Refusal> {
        let (candidates, names) = self.parts.source.read(|view| {
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
            let userid = |id: &UserId| {
                let Some(user) = view.get::<User>(id)? else { return Ok::<_, SourceError>(None) };
                let realm = view.get::<Domain>(&user.domain)?.map(|domain| domain.name);
                Ok(realm.and_then(|realm| Userid::new(&user.name, realm).ok()))
            };
            let names = candidates.iter().map(userid).collect::<Result<Vec<_>, _>>()?;
            Ok::<_, Refusal>((candidates, names))
        })??;
        let is_cut = candidates.len() == EXAMINED_MAX;
        let mut names = names.into_iter();
        Page::of(candidates, is_cut, most, |_| {
            let Some(userid) = names.next().flatten() else { return Ok(None) };
            Ok(self.may(&Authid::from(userid.clone()), ask.clone())?.then_some(userid))
        })
    }

    /// The paths of an application on which the user may make a request like `ask`. The function examines the root and the paths on which roles are
    /// assigned, and returns at most `most` paths.
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
        let paths = self.parts.source.read(|view| {
            if self.would_be(view, self.now(), authid).is_err() {
                return Ok(Vec::new());
            }
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
            Ok::<_, Refusal>(paths)
        })??;
        let is_cut = paths.len() == EXAMINED_MAX;
        Page::of(paths, is_cut, most, |path| {
            let may = self.may(authid, ApplicationAsk { path: path.clone(), ..ask.clone() })?;
            Ok(may.then(|| path.clone()))
        })
    }

    /// Whether a user may make a request.
    fn may(&self, authid: &Authid, ask: ApplicationAsk) -> Result<bool, Refusal> {
        let judged = self.judge_for_service(std::slice::from_ref(authid), [Some((0, ask))])?;
        Ok(judged.first().is_some_and(Result::is_ok))
    }

    fn would_be(&self, view: &View<'_>, now: Clocks, authid: &Authid) -> Result<Principal, Refusal> {
        Ok(enfilade_identity::who_would(view, now, authid, None, &self.parts.identity_memo)?)
    }
}

/// Refuses directories. If a proxy were allowed to serve a directory, it would deliver something else: for example, the file `index.html` in the
/// directory, or a list of all names in the directory.
fn only_file(kind: NodeKind) -> Result<(), Refusal> {
    match kind {
        NodeKind::File => Ok(()),
        NodeKind::Directory => {
            Err(enfilade_content::Refusal::WrongKind { what: "reading", needed: "file" }.into())
        }
    }
}

impl Visit {
    /// Judges the visitor's request to an application. If the facts changed since door 2 admitted the visitor, door 2 is asked again. If the
    /// application serves the files of a datastore, doors 3 and 4 judge whether the visitor may read the file. With [`CachedOnly`](crate::CachedOnly)
    /// the call does not wait for the disk.
    ///
    /// # Errors
    /// The refusal of door 4, or of door 2 if the credential was revoked meanwhile. For a file of a datastore, also the refusal of door 3 or 5.
    pub fn decide<P: Patience>(
        &mut self,
        ask: &ApplicationAsk,
        patience: P,
    ) -> Result<P::Of<Decision>, Refusal> {
        let house = std::sync::Arc::clone(&self.house);
        let (decision, datastore) = house.parts.source.read(|view| {
            self.ask_again(view)?;
            let (now, identity) = (house.now(), &self.identity);
            let judge = || use_application(view, now, Some(identity), ask, &house.parts.access_memo);
            let permit = self.timer.time(Door::Access, judge)?;
            let principal = identity.principal();
            let groups = if permit.hides_groups() { Vec::new() } else { group_names(view, principal)? };
            let (revision, signed_for) = (permit.at().revision.0, permit.signed_for().cloned());
            let datastore = permit.datastore().cloned();
            let (authid, roles) = (principal.authid.clone(), permit.into_roles());
            let visitor = Some(Visitor { authid, roles, groups });
            Ok::<_, Refusal>((Decision { visitor, revision, signed_for }, datastore))
        })??;
        let Some(datastore) = datastore else { return Ok(P::ready(decision)) };
        let entered = self.clone().enter(&datastore, OperationKind::Read, patience)?;
        P::and_then(entered, |mut stay| {
            let found = stay.find(&ask.path, AccessMask::READ_DATA, patience)?;
            P::and_then(found, |found| {
                only_file(found.kind())?;
                Ok(P::ready(decision))
            })
        })
    }
}

impl House {
    /// Counts a request of a user: for a one-time code, to sign in to the console, or to change the second factor or passkeys.
    ///
    /// # Errors
    /// When the user made too many of these requests in this minute.
    pub fn count_code(&self, user: &UserId) -> Result<(), Refusal> {
        let counted = self.per_minute.count(Counted::Codes(*user), self.now());
        counted.map_err(|seconds| IdentityRefusal::TooManySignIns { seconds }.into())
    }

    /// Signs a token that tells an application the name of the visitor. `payload` is a JSON object.
    ///
    /// # Errors
    /// When the server has no key for signing.
    pub fn sign_assertion(&self, payload: &str) -> Result<String, Refusal> {
        let signed = self.sessions.ring().and_then(|ring| ring.keys.sign_assertion(payload));
        signed.ok_or(Refusal::Identity(IdentityRefusal::NoKeys))
    }

    /// The public keys with which applications check the signed tokens.
    pub fn assertion_keys(&self) -> Vec<AssertionPublicKey> {
        self.sessions.ring().map(|ring| ring.keys.assertion_keys()).unwrap_or_default()
    }
}
