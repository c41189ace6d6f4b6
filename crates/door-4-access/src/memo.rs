//! The memos of this door contain:
//!
//! - The mask that an ACL grants to a principal. The key consists of the full input: the id of the ACL's bytes (`AclId`), and the id of all data of
//!   the principal that an entry can match (`SetId`). The key needs no revision: if the groups of a principal change, the principal gets another
//!   `SetId`; if the ACL of a file changes, the file gets another `AclId`.
//! - The id of an ACL's bytes, and the ACL with this id. The same id is never assigned twice: if the memo forgot an ACL, the bytes of this ACL get a
//!   new id.
//! - The id of an object's ACL, by the state of the object. A change of the ACL changes the state.
//! - For a set of objects, which of these objects a principal sees. The key contains the `SetId`, the states of the objects and the decision of the
//!   roles. One lookup returns the results for all objects of the set.
//! - For a revision of the facts: which nodes of a path have role assignments, and which application a host belongs to.
//! - The roles on a node or below it, whether a principal has any role in a datastore, and the nodes in a datastore on which a principal has a role.
//!   The key contains the revision of the facts, whether the mirror is current, the user, the token if it has roles of its own, the reach, and the
//!   `SetId`. At one revision a user has one set of groups, but the principal can be from an older revision. Because the key contains the `SetId`,
//!   the results for such a principal are not used for principals of the newest revision.

use crate::ask::{States, StoredAcl, Subject};
use crate::roles::Resolved;
use crate::security_descriptor::{Ace, SecurityDescriptor};
use crate::sight::Sight;
use crate::site::Site;
use enfilade_facts::memo::KeyMaker;
use enfilade_facts::tables::Application;
use enfilade_facts::vocabulary::{AccessMask, ApplicationName, HostName, StorePath};
use enfilade_facts::{At, Clocks, Held, Memo, MemoKey, MemoSeed, Weigh, Word, WordMemo};
use enfilade_identity::{Principal, Reach};
use std::sync::atomic::{AtomicU64, Ordering};

/// The memos of door 4.
pub struct AccessMemo {
    states: WordMemo<AclId>,
    ids: WordMemo<AclId>,
    next: AtomicU64,
    acls: Memo<SecurityDescriptor>,
    granted: WordMemo<AccessMask>,
    sights: Memo<Sights>,
    pub(crate) roles: Memo<Resolved>,
    pub(crate) admitted: WordMemo<bool>,
    pub(crate) assigned: WordMemo<Assigned>,
    pub(crate) ends: Memo<Ends>,
    pub(crate) applications: Memo<KnownApplication>,
}

/// The id of the bytes of an ACL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AclId(pub(crate) u64);

impl AclId {
    /// The id for an object without an ACL.
    pub(crate) const NONE: AclId = AclId(0);
}

impl Word for AclId {
    fn to_word(self) -> u64 {
        self.0
    }
    fn from_word(word: u64) -> Self {
        AclId(word)
    }
}

/// Whether there are role assignments on a node and below it.
#[derive(Clone, Copy)]
pub(crate) struct Assigned {
    /// Whether there are role assignments on the node itself.
    pub(crate) on: bool,
    /// Whether there are role assignments strictly below the node.
    pub(crate) below: bool,
}

impl Word for Assigned {
    fn to_word(self) -> u64 {
        u64::from(self.on) << 1 | u64::from(self.below)
    }
    fn from_word(word: u64) -> Self {
        Assigned { on: word & 2 != 0, below: word & 1 != 0 }
    }
}

/// An application at one revision of the facts.
pub(crate) struct KnownApplication {
    pub(crate) name: ApplicationName,
    pub(crate) application: Application,
}

impl Weigh for KnownApplication {
    fn heap_bytes(&self) -> usize {
        let Application { hosts, public, open, administer, comment, .. } = &self.application;
        let paths = [public, open, administer].into_iter().flatten();
        let texts = hosts.iter().map(HostName::as_str).chain(paths.map(StorePath::as_str));
        let of_texts: usize = texts.map(|text| text.len() + size_of::<StorePath>()).sum();
        of_texts + comment.as_ref().map_or(0, String::capacity)
    }
}

/// The nodes on which roles give a principal access. All these nodes are below the node of a datastore.
pub(crate) struct Ends(pub(crate) Vec<String>);

impl Weigh for Ends {
    fn heap_bytes(&self) -> usize {
        of_texts(&self.0)
    }
}

fn of_texts(texts: &[String]) -> usize {
    texts.iter().map(|text| size_of::<String>() + text.capacity()).sum()
}

/// For each of many objects, whether the principal sees it.
struct Sights(Vec<Sight>);

impl Weigh for Sights {
    fn heap_bytes(&self) -> usize {
        self.0.capacity()
    }
}

impl Weigh for SecurityDescriptor {
    fn heap_bytes(&self) -> usize {
        self.dacl.as_ref().map_or(0, |entries| entries.capacity() * size_of::<Ace>())
    }
}

impl Weigh for Resolved {
    fn heap_bytes(&self) -> usize {
        let of_token =
            self.of_token.as_ref().map_or(0, |of_token| size_of::<Resolved>() + of_token.heap_bytes());
        let roles = size_of_val(self.roles.as_slice()) + of_texts(&self.of_project);
        roles + self.node.capacity() + size_of_val(self.to.as_slice()) + of_token
    }
}

/// A question about roles.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Question {
    /// Which roles apply on the node.
    On,
    /// Which roles apply on paths below the node that have no role assignment of their own.
    Below,
}

impl AccessMemo {
    /// Creates memos that use at most `bytes` bytes in total.
    pub fn new(seed: MemoSeed, bytes: usize) -> Self {
        // The key of some memos contains the revision of the facts. Each commit makes the entries of these memos useless, so these memos get little
        // memory.
        let (most, few, least) = (bytes / 4, bytes / 16, bytes / 32);
        AccessMemo {
            states: WordMemo::new(seed, most),
            ids: WordMemo::new(seed, few),
            next: AtomicU64::new(1),
            acls: Memo::new(seed, most - 3 * least),
            granted: WordMemo::new(seed, most),
            sights: Memo::new(seed, few),
            roles: Memo::new(seed, few),
            admitted: WordMemo::new(seed, least),
            assigned: WordMemo::new(seed, few),
            ends: Memo::new(seed, least),
            applications: Memo::new(seed, least),
        }
    }

    /// Looks up the id of each object's ACL by the object's state. The id is `None` if the caller has read the ACL, or if the memo has no ACL for
    /// this state.
    pub(crate) fn acls_of<'s>(&self, subjects: impl Iterator<Item = &'s Subject>) -> Vec<Option<AclId>> {
        let mut states = States::new(self.states.key("acl of"));
        // An object gets the default key if it has no state, or if its ACL was read. The memo stores nothing under the default key.
        let unread = subjects.map(|subject| Some(subject).filter(|subject| subject.acl == StoredAcl::Unread));
        let keys: Vec<MemoKey> =
            unread.map(|subject| states.each(subject?)).map(Option::unwrap_or_default).collect();
        self.states.get_all(&keys)
    }

    /// Which objects this principal sees. The key contains the states of the objects, and `shown`: the decision of the roles about the objects. Calls
    /// `judge` if the result is not remembered.
    pub(crate) fn sights<'s, E>(
        &self,
        principal: &Principal,
        shown: [u64; 2],
        subjects: impl Iterator<Item = &'s Subject>,
        judge: impl FnOnce() -> Result<Vec<Sight>, E>,
    ) -> Result<Vec<Sight>, E> {
        let key = self.sights.key("sights").number(principal.set.0).numbers(&shown);
        let Some(key) = States::new(key).all(subjects) else { return judge() };
        if let Some(known) = self.sights.get(key) {
            return Ok(known.0.clone());
        }
        let sights = judge()?;
        // The result is not remembered if an ACL must still be read.
        if !sights.contains(&Sight::Unread) {
            self.sights.put(key, Sights(sights.clone()));
        }
        Ok(sights)
    }

    /// Remembers the id of the ACL of each object, with the present state of the object as the key (docs/internals.md says what a state is).
    pub(crate) fn remember_acls(&self, read: &[(&Subject, AclId)]) {
        let mut states = States::new(self.states.key("acl of"));
        let each = read.iter().filter_map(|(subject, id)| Some((states.each(subject)?, *id)));
        self.states.put_all(&each.collect::<Vec<_>>());
    }

    /// The id of an object's ACL. The id depends on the bytes of the ACL. For an nfs4 ACL, the id also depends on the file's owner and group, because
    /// the ACL refers to the owner and group.
    pub(crate) fn id_of(&self, subject: &Subject) -> Option<AclId> {
        let key = match &subject.acl {
            StoredAcl::Ntacl(blob) => self.ids.key("ntacl").bytes(blob),
            StoredAcl::Nfs4(blob) => {
                let key = self.ids.key("nfs4").bytes(blob);
                key.number(subject.uid.into()).number(subject.gid.into())
            }
            StoredAcl::Absent | StoredAcl::Unreadable(_) | StoredAcl::Unread => return None,
        };
        let key = key.key();
        Some(self.ids.get(key).unwrap_or_else(|| {
            let id = AclId(self.next.fetch_add(1, Ordering::Relaxed));
            self.ids.put(key, id);
            id
        }))
    }

    /// The ACL with this id; `None` if the memo does not contain the ACL any more.
    pub(crate) fn acl(&self, id: AclId) -> Option<Held<SecurityDescriptor>> {
        self.acls.get(self.acls.key("acl").number(id.0).key())
    }

    /// Remembers the ACL with this id.
    pub(crate) fn put_acl(&self, id: AclId, acl: SecurityDescriptor) -> Held<SecurityDescriptor> {
        self.acls.put(self.acls.key("acl").number(id.0).key(), acl)
    }

    /// The mask that the ACL grants to the principal. Calls `evaluate` if the mask is not remembered.
    pub(crate) fn granted(
        &self,
        id: AclId,
        principal: &Principal,
        evaluate: impl FnOnce() -> Option<AccessMask>,
    ) -> Option<AccessMask> {
        let key = self.granted.key("granted").number(id.0).number(principal.set.0).key();
        if let Some(granted) = self.granted.get(key) {
            return Some(granted);
        }
        let granted = evaluate()?;
        self.granted.put(key, granted);
        Some(granted)
    }

    pub(crate) fn roles_key(
        &self,
        question: Question,
        when: (At, Clocks),
        principal: &Principal,
        node: &str,
    ) -> MemoKey {
        let step = if question == Question::On { "roles on" } else { "roles below" };
        Self::of(self.roles.key(step), when, principal, node)
    }

    pub(crate) fn admitted_key(&self, when: (At, Clocks), principal: &Principal, root: &str) -> MemoKey {
        Self::of(self.admitted.key("any role"), when, principal, root)
    }

    pub(crate) fn ends_key(&self, when: (At, Clocks), principal: &Principal, root: &str) -> MemoKey {
        Self::of(self.ends.key("ends of ways"), when, principal, root)
    }

    fn of(key: KeyMaker, (at, now): (At, Clocks), principal: &Principal, node: &str) -> MemoKey {
        let token = principal.narrowed_to.as_ref().map_or([].as_slice(), |token| token.bytes());
        let key =
            key.at(at).number(u64::from(now.mirror.is_current())).bytes(principal.user.bytes()).bytes(token);
        let key = key.number(principal.set.0);
        let key = match &principal.reach {
            Reach::Everything => key.number(0),
            Reach::Nothing => key.number(1),
            Reach::Project { project, roles } => {
                let key = key.number(2).bytes(project.bytes()).number(roles.len() as u64);
                roles.iter().fold(key, |key, role| key.bytes(role.as_bytes()))
            }
        };
        key.bytes(node.as_bytes()).key()
    }

    pub(crate) fn application_key(&self, at: At, site: &Site) -> MemoKey {
        let (step, text) = match site {
            Site::Host(host) => ("application of", host.as_str()),
            Site::Named(name) => ("application", name.as_str()),
        };
        self.applications.key(step).at(at).bytes(text.as_bytes()).key()
    }

    pub(crate) fn assigned_key(&self, at: At, node: &str) -> MemoKey {
        self.assigned.key("assigned").at(at).bytes(node.as_bytes()).key()
    }
}

#[cfg(test)]
mod tests;
