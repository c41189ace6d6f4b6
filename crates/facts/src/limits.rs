//! The limits that the reference (`docs/limits.md`) lists. If the number of a limit has a unit, the name contains the unit. Modules also have limits
//! of their own, such as the sizes of buffers. A request that exceeds a limit gets a refusal or a clear error, never a panic. [`Limits`] has the
//! limits that an operator can set.

mod settable;

pub use settable::{LIMITS, LimitError, LimitRow, Limits};

/// A limit that cannot be changed.
#[derive(Clone, Copy, Debug)]
pub struct FixedLimit {
    /// The name of the constant that contains the limit.
    pub name: &'static str,
    /// The number.
    pub value: u64,
    /// A description of the limited quantity.
    pub what: &'static str,
}

macro_rules! fixed {
    ($($(#[doc = $what:literal])+ pub const $name:ident: $type:ty = $value:expr;)+) => {
        $($(#[doc = $what])+ pub const $name: $type = $value;)+

        /// All fixed limits, in the order of the reference.
        pub const FIXED: &[FixedLimit] =
            &[$(FixedLimit { name: stringify!($name), value: $name as u64, what: concat!($($what),+) },)+];
    };
}

fixed! {
    /// Longest secret or password, in bytes. libxcrypt would ignore the end of a longer secret, so a longer secret is refused.
    pub const SECRET_BYTES_MAX: usize = 511;
    /// The number of bytes of a secret that bcrypt hashes. bcrypt ignores all further bytes, also in Keystone and in crypt(3).
    pub const BCRYPT_SECRET_BYTES_MAX: usize = 72;
    /// Longest name of a user, group, role, token or application credential, in characters (Keystone's API).
    pub const NAME_CHARS_MAX: usize = 255;
    /// Longest name of a domain or project, in characters (Keystone's API).
    pub const DOMAIN_NAME_CHARS_MAX: usize = 64;
    /// Longest id of a region, in bytes. Keystone allows 255 characters of up to 4 bytes each, which is too long for a key of LMDB. The longest key
    /// with the id of a region belongs to the policy of a service in a region, and also contains the id of the service.
    pub const REGION_ID_BYTES_MAX: usize = 490;
    /// Longest id of an identity provider, protocol, mapping or service provider, in characters (the columns of Keystone's database).
    pub const FEDERATION_ID_CHARS_MAX: usize = 64;
    /// Longest id of an identity provider, protocol, mapping or service provider, in bytes. A key of LMDB contains up to two of these ids.
    pub const FEDERATION_ID_BYTES_MAX: usize = 250;
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

    /// Longest name of a link with which people share a file or folder, in characters.
    pub const LINK_NAME_CHARS_MAX: usize = 100;
    /// Largest number that the maker of a link can set as the limit of its downloads or uploads.
    pub const LINK_USES_MAX: u32 = 1_000_000;
    /// Time in seconds after which a guest must enter the password of a link again.
    pub const LINK_PASS_SECONDS: i64 = 3600;

    /// Longest path inside a datastore, in bytes.
    pub const PATH_BYTES_MAX: usize = 4096;
    /// Longest single name in a path, in bytes.
    pub const NAME_BYTES_MAX: usize = 255;
    /// Largest number of names in a path.
    pub const PATH_DEPTH_MAX: usize = 64;
    /// Longest path of a role assignment, in bytes: an LMDB key holds the path and the id of the user or group.
    pub const ROLE_PATH_BYTES_MAX: usize = 370;

    /// Deepest nesting of groups in groups.
    pub const GROUP_DEPTH_MAX: usize = 32;
    /// How many times a trust can be delegated further (Keystone's `max_redelegation_count`).
    pub const REDELEGATIONS_MAX: u8 = 3;
    /// Largest number of request tokens of one OAuth consumer that have not expired.
    pub const REQUEST_TOKENS_MAX: usize = 1000;
    /// Largest number of access rules of one user. A new application credential that needs further access rules is refused.
    pub const ACCESS_RULES_OF_USER_MAX: usize = 1000;
    /// Longest chain of application credentials. Each credential in a chain was created with the previous credential of the chain.
    pub const CREDENTIAL_CHAIN_MAX: usize = 8;
    /// Deepest nesting of projects in projects (Keystone's `max_project_tree_depth`, without the domain).
    pub const PROJECT_DEPTH_MAX: usize = 4;
    /// Largest number of groups that one user may be in, nesting included.
    pub const GROUPS_PER_USER_MAX: usize = 65_536;
    /// Largest number of entries of one ACL.
    pub const ACE_COUNT_MAX: usize = 1024;
    /// Largest ACL on a file, in bytes.
    pub const ACL_BYTES_MAX: usize = 64 * 1024;

    /// Longest key of a record, in bytes: one less than LMDB allows. The key of a tally (the count and the digest of a group of records) begins with
    /// the number of the table, so it can be one byte longer.
    pub const KEY_BYTES_MAX: usize = 510;
    /// Largest value of a record, in bytes.
    pub const VALUE_BYTES_MAX: usize = 1024 * 1024;
    /// If a store uses more than this percentage of its LMDB map, new records and other changes that give rights are refused. The rest of the map is
    /// reserved for changes that take rights away.
    pub const MAP_PERCENT_MAX: u64 = 95;
    /// If a store uses more than this percentage of its LMDB map, changes that users make for themselves are refused: a new password, the revocation
    /// of one of their tokens, the use of a trust. The rest of the map is reserved for administrators. In the smallest map, the rest has 120 pages. A
    /// small change takes about 16 pages, and LMDB reuses a page after two more changes.
    pub const MAP_PERCENT_OF_USERS_MAX: u64 = 97;
    /// Smallest map of a store, in bytes.
    pub const MAP_BYTES_MIN: u64 = 16 << 20;
    /// Largest map of a store, in bytes. The address space of a process is 128 TiB, and also contains other mapped files.
    pub const MAP_BYTES_MAX: u64 = 1 << 44;
    /// Largest number of records of a store that a server upgrades to a new format or compacts at its start. The time of an upgrade grows with the
    /// number of records, and the server answers no request during this time. For a store with more records, run `enfilade facts upgrade` or
    /// `enfilade facts compact`.
    pub const UPGRADE_AT_START_RECORDS_MAX: u64 = 1_000_000;
    /// Smallest file of a store of facts that a server compacts at its start, in bytes.
    pub const COMPACT_WORTH_BYTES_MIN: u64 = 64 * 1024 * 1024;
    /// The largest number of keys that one record of the change log can list. If a change writes more keys, the log lists the keys in several records
    /// (pieces).
    pub const LOG_KEYS_MAX: usize = 1024;
    /// The largest number of pieces of one change. For a change of more than 262,144 records, the log lists no keys, and every server builds its
    /// indexes again.
    pub const LOG_PIECES_MAX: usize = 256;
    /// If at most this many keys were written since an index was last updated, the index is updated from the change log. If more keys were written,
    /// and if their number is also larger than the number of records in the tables of the index, the index is built again. An index that is more than
    /// 65,536 revisions older than the facts is always built again.
    pub const CATCH_UP_KEYS_MIN: u64 = 65_536;
    /// The minimum time that an entry of the change log is kept, in seconds. An entry is also kept until it is in the audit log.
    pub const LOG_SECONDS_MIN: i64 = 3600;
    /// Longest description of a change, in bytes.
    pub const LOG_TEXT_BYTES_MAX: usize = 32 * 1024;

    /// How long the server uses the last valid content of an edited file, such as `user.cfg`, while it cannot read the present content, in seconds,
    /// if `[facts] stale_limit` is not set.
    pub const STALE_LIMIT_SECONDS: i64 = 60;
    /// How long a verified password is remembered, in milliseconds.
    pub const PASSWORD_MEMO_MILLIS: u64 = 60_000;

    /// Largest number of credentials of type `totp` of one user that a login checks. Further credentials of this type are ignored.
    pub const TOTP_CREDENTIALS_MAX: usize = 16;
    /// Largest number of credentials of a user, of any type, that a login reads to find the credentials of type `totp`.
    pub const CREDENTIALS_OF_LOGIN_MAX: usize = 1024;
    /// Shortest secret of a credential of type `totp`, in bytes. A credential with a shorter secret is ignored.
    pub const TOTP_SECRET_BYTES_MIN: usize = 10;
    /// How many time steps a code of a second factor may be early or late (RFC 6238, section 5.2: at most one step for the delay of the network). A
    /// step has 30 seconds.
    pub const SECOND_FACTOR_STEPS: u64 = 1;
    /// Length of the secret of a second factor, in bytes (RFC 4226, section 4, R6: 20 bytes are recommended).
    pub const SECOND_FACTOR_SECRET_BYTES: usize = 20;
    /// How many recovery codes a user gets with a second factor. Each can be used once.
    pub const RECOVERY_CODES: usize = 10;
    /// Digits of a recovery code: 53 random bits, which nobody can guess with five attempts in ten minutes.
    pub const RECOVERY_CODE_DIGITS: usize = 16;
    /// How many passkeys a user can have.
    pub const PASSKEYS_MAX: usize = 10;
    /// How many answers of one passkey the server remembers at the same time. Each answer belongs to a challenge that the server computed from a
    /// receipt. The server remembers the answer until two minutes after this receipt has expired (`RECEIPT_SECONDS`).
    pub const PASSKEY_ANSWERS_MAX: usize = 32;
    /// Longest id of a passkey, in bytes (Web Authentication, level 3, section 7.1: a server refuses longer ids).
    pub const PASSKEY_ID_BYTES_MAX: usize = 1023;
    /// Longest public key of a passkey, in bytes. An RSA key of 4,096 bits has 550 bytes.
    pub const PASSKEY_KEY_BYTES_MAX: usize = 600;
    /// Longest text that a browser sends about a passkey (`clientDataJSON`, `authenticatorData`, the signature), in bytes.
    pub const PASSKEY_DATA_BYTES_MAX: usize = 4096;
    /// How long a user may take from the beginning of the set-up of a second factor to its first code, in seconds.
    pub const ENROLMENT_SECONDS: i64 = 900;
    /// Lifetime of a receipt, in seconds. A receipt proves that a user presented some methods of a login.
    pub const RECEIPT_SECONDS: i64 = 300;

    /// Highest cost of a bcrypt hash. A hash with a higher cost is refused and not computed.
    pub const BCRYPT_COST_MAX: u32 = 14;
    /// Largest number of rounds of a `$5$` or `$6$` hash.
    pub const SHA_CRYPT_ROUNDS_MAX: u32 = 200_000;
    /// Largest number of rounds of a `$pbkdf2-sha512$` hash.
    pub const PBKDF2_ROUNDS_MAX: u32 = 1_000_000;
    /// Largest memory of a yescrypt, scrypt or argon2 hash, in bytes.
    pub const HASH_MEMORY_BYTES_MAX: u64 = 64 * 1024 * 1024;
    /// Largest number of passes of an argon2 hash.
    pub const ARGON2_PASSES_MAX: u32 = 10;

    /// Largest size of all dead properties of one file or directory together, in bytes. They are stored in one extended attribute, and Linux allows
    /// no larger attribute.
    pub const PROPERTIES_BYTES_MAX: usize = 64 * 1024;
    /// Longest `owner` element of a lock, in bytes.
    pub const LOCK_OWNER_BYTES_MAX: usize = 4096;
    /// Longest time that a request waits until the computation of its slow hash begins, in milliseconds. At most `[identity] hash_slots` slow hashes
    /// are computed at the same time.
    pub const HASH_WAIT_MILLIS_MAX: u64 = 250;
    /// Largest number of slow hashes that may wait in the queue, for each of the `[identity] hash_slots`.
    pub const HASH_QUEUE_PER_SLOT: usize = 4;

    /// Largest number of attempts to issue one session. The server tries again after it has moved the horizon (`HORIZON_SECONDS`). A revocation or a
    /// step of the clock in the meantime can make another attempt necessary.
    pub const SESSION_TRIES_MAX: usize = 16;

    /// Lifetime of a Proxmox login ticket, in seconds.
    pub const TICKET_SECONDS: i64 = 7_200;

    /// Longest lifetime of a session, in seconds. A token of another server with the same keys is refused if its lifetime is longer. So revocations
    /// can be deleted after this time.
    pub const TOKEN_SECONDS_MAX: i64 = 31 * 86_400;
    /// Largest number of revocations that each process holds in memory. Each takes 25 bytes. If there are more revocations, the server reads
    /// revocations from the store: for each session, only the few that can end it.
    pub const REVOCATIONS_INDEXED_MAX: u64 = 10_000_000;
    /// How far ahead of the clock one commit moves the horizon (the latest issue time that a session may have), in seconds. So while users log in,
    /// the servers of a store together make about one such commit in this time, not one for each login. A revocation covers all seconds up to the
    /// horizon, so the next session gets an issue time about this far ahead of the clock. If revocations and logins alternate, the issue time can be
    /// even later.
    pub const HORIZON_SECONDS: i64 = 60;

    /// How far the issue time of a token of another server can be ahead of this server's clock, in seconds.
    pub const CLOCK_SKEW_SECONDS: i64 = 5;
}
