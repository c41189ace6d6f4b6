//! Door 5 reads and writes the files of datastores. When door 5 acts for a client, it needs a permit of door 4. Some functions, such as
//! [`set_acl_as_operator`], are for the operator's commands or for tasks of the server itself. These functions need no permit.
//!
//! Unlike the crates of the other doors, this crate has no `ask.rs` and no `open.rs`, because it decides nothing. A caller passes a permit of door 4,
//! and this crate acts on the descriptor for which that permit was granted (invariant S5). Every function that gets a permit first checks that the
//! permit covers the object of the descriptor. If the permit does not cover the object, the caller has a bug, and the function does nothing.
//!
//! Every function of this crate may wait for the disk, unless the caller passes [`CachedOnly`]. So the passage (the crate that calls the doors) does
//! not call these functions on the threads of asynchronous tasks. Door 5 never follows a link, a `..` or a mount beneath a datastore's root.
//!
//! The calls for a request, in order: [`Root::find`] → [`Node::subject`] → *door 4* → [`read`](fn@read), [`list`](fn@list), [`Upload`],
//! [`make_collection`], [`delete`] or [`set_acl`].

mod patience;
mod reserved;
mod kinds;
mod beneath;
mod file_systems;
mod attributes;
mod acl_read;
mod directory_sync;
mod tree;
mod node;
mod capable;
mod turn;
mod root;
mod acl_write;
mod read;
mod pipe;
mod names;
mod order;
mod list;
mod tree_budget;
mod tree_walk;
mod acl_propagation;
mod watch;
mod temporary;
mod preserved;
mod upload;
mod emptying;
mod collection;
mod abandoned;
mod relocate;
mod properties;
mod locks;
mod items;
mod trash;
mod kept_upload;
mod quota;
mod refuse;

#[cfg(test)]
mod tests;

pub use abandoned::{is_abandoned, unless_others};
pub use acl_propagation::{Outcome, Propagator, propagate_acl, propagate_acl_beneath};
pub use acl_read::AclPlace;
pub use acl_write::{acl_place, seed_acl, set_acl, set_acl_as_operator};
pub use collection::{delete, make_collection};
pub use items::ItemId;
pub use kept_upload::{KeptUpload, UploadRecord};
pub use list::{Entry, Listing, list};
pub use locks::{Lock, LockAsk, LockToken, Locks, Touches};
pub use names::{LookedAt, NamesMemo, can_be_shown};
pub use node::{Meta, Node};
pub use order::Rank;
pub use patience::{Blocking, Cached, CachedOnly, Patience};
pub use pipe::Pipe;
pub use properties::{Property, PropertyChange, change_properties, properties};
pub use quota::{Fill, QuotaReservation};
pub use read::{Reader, read};
pub use refuse::{CODES, Refusal};
pub use relocate::{Draft, EntryRef, Relocated, copy_properties, rename};
pub use reserved::{Reserved, ReservedPaths, real_path};
pub use root::{Root, Usage};
pub use trash::{ThrownAway, TrashRecord, Trashed, restore, throw_away};
pub use tree_budget::TreeBudget;
pub use tree_walk::{Directory, Failed, In, Member, Met, TreePath, TreeWalk, Unopened};
pub use upload::Upload;
pub use watch::Watch;
