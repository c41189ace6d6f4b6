//! Every bound in one place, units last. Passing one is a refusal or a clear error, never a panic. What an operator may set is in [`Limits`].

mod settable;

pub use settable::{LIMITS, LimitError, LimitRow, Limits};

/// Longest secret or password accepted, in bytes. libxcrypt cuts at 512 without a word; we refuse instead.
pub const SECRET_BYTES_MAX: usize = 511;
/// bcrypt looks at this many bytes only; a longer secret against a bcrypt hash is refused after the work is done.
pub const BCRYPT_SECRET_BYTES_MAX: usize = 72;
/// Shortest `user@realm`, in bytes (Proxmox `userid` schema).
pub const USERID_BYTES_MIN: usize = 3;
/// Longest `user@realm`, in bytes (Proxmox `userid` schema).
pub const USERID_BYTES_MAX: usize = 64;
/// Longest token name, in bytes (Proxmox `PROXMOX_TOKEN_NAME_SCHEMA`).
pub const TOKEN_NAME_BYTES_MAX: usize = 64;
/// Shortest realm, in bytes.
pub const REALM_BYTES_MIN: usize = 2;
/// Longest realm, in bytes.
pub const REALM_BYTES_MAX: usize = 32;
/// Shortest datastore name, in bytes.
pub const DATASTORE_NAME_BYTES_MIN: usize = 3;
/// Longest datastore name, in bytes.
pub const DATASTORE_NAME_BYTES_MAX: usize = 32;
/// Longest comment, in bytes.
pub const COMMENT_BYTES_MAX: usize = 1024;

/// Longest path inside a datastore, in bytes.
pub const PATH_BYTES_MAX: usize = 4096;
/// Longest single name in a path, in bytes.
pub const NAME_BYTES_MAX: usize = 255;
/// Most names in a path.
pub const PATH_DEPTH_MAX: usize = 64;
/// Longest path a role may be assigned on, in bytes (an LMDB key holds it, with room for who it is for).
pub const ROLE_PATH_BYTES_MAX: usize = 370;

/// Deepest nesting of groups in groups.
pub const GROUP_DEPTH_MAX: usize = 32;
/// How often a trust may be lent on (Keystone's `max_redelegation_count`).
pub const REDELEGATIONS_MAX: u8 = 3;
/// How many application credentials may be made one by the other, the first among them.
pub const CREDENTIAL_CHAIN_MAX: usize = 8;
/// Deepest nesting of projects in projects (Keystone's `max_project_tree_depth`, without the domain).
pub const PROJECT_DEPTH_MAX: usize = 4;
/// Most groups one user may be in, nesting included.
pub const GROUPS_PER_USER_MAX: usize = 65_536;
/// Most entries of one ACL.
pub const ACE_COUNT_MAX: usize = 1024;
/// Largest ACL on a file, in bytes.
pub const ACL_BYTES_MAX: usize = 64 * 1024;

/// Longest key of a record, in bytes: one less than LMDB's default build takes, so that a tally's key holds it and its table.
pub const KEY_BYTES_MAX: usize = 510;
/// Largest value of a record, in bytes.
pub const VALUE_BYTES_MAX: usize = 1024 * 1024;
/// How much of its map a store may use, in percent, before new records and other changes that give rights are refused. The rest is kept for
/// changes that take rights away.
pub const MAP_PERCENT_MAX: u64 = 95;
/// How much of its map a store may use, in percent, before changes that users make for themselves are refused, also those that take rights
/// away: revoking own tokens, a new password, uses of a trust. The rest is kept for administrators. In the smallest map that is 120 pages: LMDB
/// uses the pages that a change gave back two changes later, and a small change takes about 16.
pub const MAP_PERCENT_OF_USERS_MAX: u64 = 97;
/// The smallest map a store may have, in bytes: what is left of it for changes that take rights away is enough for some thousands of them.
pub const MAP_BYTES_MIN: u64 = 16 << 20;
/// The largest map a store may have, in bytes: a process has 128 TiB of addresses, and maps other things, too.
pub const MAP_BYTES_MAX: u64 = 1 << 44;
/// So many records a server upgrades to a new format or compacts before it serves; more are left to `enfilade facts upgrade` and `enfilade
/// facts compact`. `cargo xtask upgrade` took
/// 9 to 15 s for them on two cores with other work, so a machine that is four to six times as slow takes a minute.
pub const UPGRADE_AT_START_RECORDS_MAX: u64 = 1_000_000;
/// A file of facts that is shorter than this is not worth compacting, in bytes.
pub const COMPACT_WORTH_BYTES_MIN: u64 = 64 * 1024 * 1024;
/// How many keys one record of the change log names; those of a larger change stand in pieces.
pub const LOG_KEYS_MAX: usize = 1024;
/// Most pieces of one change. A change of more than 262,144 records names none of them, and indexes are rebuilt after it.
pub const LOG_PIECES_MAX: usize = 256;
/// An index of any size takes in this many keys from the change log at once. Above that number it takes in at most as many keys as its tables have records.
pub const CATCH_UP_KEYS_MIN: u64 = 65_536;
/// How long an entry of the change log is kept at least, in seconds; and until it was shipped to the audit log.
pub const LOG_SECONDS_MIN: i64 = 3600;
/// Longest text that says what a change did, in bytes.
pub const LOG_TEXT_BYTES_MAX: usize = 1024;

/// How long the last good facts of a broken file are served, in seconds.
pub const STALE_LIMIT_SECONDS: i64 = 60;
/// How long a password that was right may be remembered, in milliseconds.
pub const PASSWORD_MEMO_MILLIS: u64 = 60_000;

/// Dearest bcrypt cost accepted: a planted hash is a denial of service.
pub const BCRYPT_COST_MAX: u32 = 14;
/// Most rounds of `$5$` and `$6$` accepted.
pub const SHA_CRYPT_ROUNDS_MAX: u32 = 200_000;
/// Most rounds of `$pbkdf2-sha512$` accepted.
pub const PBKDF2_ROUNDS_MAX: u32 = 1_000_000;
/// Most memory a yescrypt, scrypt or argon2 hash may ask for, in bytes.
pub const HASH_MEMORY_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Most passes an argon2 hash may ask for.
pub const ARGON2_PASSES_MAX: u32 = 10;

/// Dead properties of one object together, in bytes: the kernel keeps no larger attribute.
pub const PROPERTIES_BYTES_MAX: usize = 64 * 1024;
/// Longest `owner` of a lock, in bytes.
pub const LOCK_OWNER_BYTES_MAX: usize = 4096;
/// How long a request may wait for a hashing slot, in milliseconds.
pub const HASH_WAIT_MILLIS_MAX: u64 = 250;
/// Requests that may wait for each hashing slot.
pub const HASH_QUEUE_PER_SLOT: usize = 4;

/// How often a session is judged again because something was revoked, or more time passed than the facts knew, while it was made.
pub const SESSION_TRIES_MAX: usize = 16;

/// How long a login ticket of the Proxmox face is good, in seconds (as the original's).
pub const TICKET_SECONDS: i64 = 7_200;

/// The longest life of a session's token, in seconds: `[identity] token_seconds` may not be more, and a token of another server with the
/// same keys that lasts longer is refused. So a revocation that was kept for as long is about no token any more.
pub const TOKEN_SECONDS_MAX: i64 = 31 * 86_400;
/// So many revocations each process keeps in memory, 25 bytes each; where there are more, the store is asked for the handful that a
/// session may be ended by.
pub const REVOCATIONS_INDEXED_MAX: u64 = 10_000_000;
/// How far one commit moves the horizon ahead of the clock, in seconds. While users log in, there is about one such commit in this time.
/// A session that is issued after a mark has an issue time about this far ahead of the clock; more if marks and logins alternate.
pub const HORIZON_SECONDS: i64 = 60;

/// How much later than our clock says a token of another server may have been issued, in seconds: clocks differ.
pub const CLOCK_SKEW_SECONDS: i64 = 5;
