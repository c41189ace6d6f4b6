//! Calls doors 2 to 5 for each request, and calls doors again when the facts changed. This crate also contains the gate that computes slow hashes.
//!
//! Start with `walk.rs`: every request goes through its functions. `modes.rs` describes the differences for an explanation, a review and the server's
//! own tasks. `credential.rs` defines the credentials that clients present, `admission.rs` asks door 2 about a credential, `gate.rs` computes slow
//! hashes, `penalties.rs` delays the answers to failed logins and blocks addresses, `passcodes.rs` limits guesses at passcodes, `accounts.rs` locks
//! users. `per_minute.rs` limits other requests in each minute, and `shares.rs` limits the threads and the memory of each user. `sessions.rs` issues
//! and validates sessions, `logins.rs` judges logins with several methods, `tickets.rs` issues login tickets. `handles.rs` defines the state that the
//! server keeps in memory for each datastore, `stores.rs` keeps directories open and counts operations, `housekeeping.rs` contains the tasks of the
//! server itself. `reach.rs` opens a target, and checks the directories above the target. `verbs.rs` reads and uploads files, and makes directories.
//! `listing.rs` lists directories, `ways.rs` shows the way to a shared folder, and `entry.rs` defines one entry of a listing. `trees.rs` works on
//! whole trees and on the trash, and `kept_uploads.rs` continues uploads in pieces. `holding.rs` takes and checks WebDAV locks, and `properties.rs`
//! reads and changes dead properties. `path_state.rs` reads the state on which the conditions of a request are judged. `lock_owners.rs` ends a lock
//! if its owner may no longer change the locked resource. `decision.rs` judges requests to applications, and `administer.rs` judges administration by
//! clients. `explain.rs` and `review.rs` compute the answers that the doors would give. `audit.rs` defines the one event that every request records.
//!
//! The modules form layers, and no module imports from a later layer. The first layer is `credential.rs`, `refuse.rs`, `house.rs` and the modules
//! that define the types of the fields of `House`. Next come `modes.rs` and `reach.rs`, then `walk.rs`, then all other modules.

mod walk;
mod modes;
mod credential;
mod admission;
mod stay;
mod reach;
mod verbs;
mod entry;
mod door_times;
mod ways;
mod listing;
mod trees;
mod holding;
mod path_state;
mod properties;
mod lock_owners;
mod house;
mod handles;
mod shares;
mod stores;
mod housekeeping;
mod kept_uploads;
mod decision;
mod sessions;
mod logins;
mod tickets;
mod gate;
mod penalties;
mod passcodes;
mod per_minute;
mod accounts;
mod explain;
mod review;
mod administer;
mod audit;
mod refuse;

// These types of the doors are re-exported for the faces (the code of the protocols), because no face may depend on the crate of a door.
pub use enfilade_access::{
    About, Ace, AceFlags, AceType, AdminAsk, AdminPermit, ApiPermit, ApplicationAsk, KnownTo, Lending, Lends,
    Method, MethodClass, NodeKind, ObjectId, Other, POLICY, Party, Refusal as AccessRefusal, Rule,
    ScopeTypes, SecurityDescriptor, Site, Who, manager_gives, rule_named,
};
pub use enfilade_content::{
    Blocking, Cached, CachedOnly, ItemId, Lock, LockToken, Meta, Patience, Pipe, Property, PropertyChange,
    Rank, Refusal as ContentRefusal, Reserved, ReservedPaths, Touches, UploadRecord, Usage, Watch,
};
pub use enfilade_datastore::Refusal as DatastoreRefusal;
pub use enfilade_datastore::{
    Active, Entered, FilesMember, FleetPlace, Ledger, LedgerWords, Process, UNKNOWN, ledger_words,
};
pub use enfilade_identity::fernet::payload::audit_id_to_text;
pub use enfilade_identity::fernet::{AssertionPublicKey, KeyRing};
pub use enfilade_identity::{
    AWS4_HMAC_SHA256, Assertion, BROWSER_SECRET_BYTES, BrowserAsk, Ceremony, CertificateAsk, Claim,
    FactorSecret, HashKey, HeldRole, Lent, LinkAsk, LinkProof, NewPasskey, OAuthAsk, OAuthProof, OAuthToken,
    PASSKEY_ALGORITHMS, Passcode, PasskeyAsk, Receipt, Refusal as IdentityRefusal, Scope, SecretAsk, Session,
    SessionAsk, SignatureAsk, Signed, Signing, Upgrade, Validated, Verifier, Wanted, host_of_origin,
    is_same_digest, passkey_challenge, secret_digest,
};

pub use accounts::{Accounts, LockUser};
pub use admission::LastVisitor;
pub use audit::{Audit, Event};
pub use credential::{Credential, TicketAsk};
pub use decision::{Decision, Judged, Page, Visitor};
pub use door_times::{DoorTime, DoorTimer, DoorTimes};
pub use entry::{COLLECTION, Entry};
pub use explain::{DoorAnswer, Explanation, Lack, OwnRights, Remedy};
pub use gate::{Asker, GateCounts, HashGate};
pub use holding::{LockTerms, ShownLock};
pub use house::{AllowIssue, Clock, ClockSets, House, Parts, Random, SessionTerms, TrashTerms};
pub use kept_uploads::{KEPT_UPLOAD_DAYS, KEPT_UPLOADS_MAX, KeptUploading};
pub use listing::Listing;
pub use logins::{Arrival, IssuedReceipt};
pub use path_state::PathState;
pub use penalties::{Penalties, Penalty, PenaltyCounts};
pub use refuse::{Refusal, Stands};
pub use review::Reviewed;
pub use sessions::IssuedToken;
pub use shares::{Share, Turn};
pub use stores::DatastoreState;
pub use tickets::Ticket;
pub use trees::{Discarded, FailedMember, Placed, Placing, TrashItem, TrashPage, WhoseTrash};
pub use verbs::{Reading, Uploading};
pub use walk::{Found, Stay, Still, Visit};
