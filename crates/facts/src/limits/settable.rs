//! The bounds an operator may set, as `[limits]` of the configuration has them.

use super::{NAME_BYTES_MAX, PATH_BYTES_MAX, PATH_DEPTH_MAX};

/// One of them.
#[derive(Clone, Copy, Debug)]
pub struct LimitRow {
    /// Its key under `[limits]`.
    pub key: &'static str,
    /// What holds unless it is set.
    pub usual: u64,
    /// The least and the most it may be set to.
    pub range: (u64, u64),
    /// What it bounds.
    pub what: &'static str,
    of: fn(&mut Limits) -> &mut u64,
}

/// Why a bound was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LimitError {
    /// There is none of that name.
    #[error("there is no limit `{0}`")]
    Unknown(String),
    /// The number is of no use.
    #[error("limit `{key}` is {value}; expected {least} to {most}")]
    OutOfRange {
        /// Which one.
        key: &'static str,
        /// What it was to be.
        value: u64,
        /// The least it may be.
        least: u64,
        /// The most it may be.
        most: u64,
    },
}

macro_rules! limits {
    ($($(#[doc = $what:literal])+ $key:ident = $usual:expr, $least:expr, $most:expr;)+) => {
        /// The bounds of a house.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Limits {
            $($(#[doc = $what])+ pub $key: u64,)+
        }

        impl Default for Limits {
            fn default() -> Self {
                Limits { $($key: $usual,)+ }
            }
        }

        /// All of them.
        pub const LIMITS: &[LimitRow] = &[$(LimitRow {
            key: stringify!($key),
            usual: $usual,
            range: ($least, $most),
            what: concat!($($what),+),
            of: |limits| &mut limits.$key,
        },)+];
    };
}

const HOUR: u64 = 3600;
const MIB: u64 = 1 << 20;
const MANY: u64 = 1_000_000_000;

limits! {
    /// Connections at once, in all.
    connections = 10_000, 1, MANY;
    /// Open connections from one address without a successful login so far. IPv6: for each /64; 4 times as many for a /56, 16 times as many for a /48.
    connections_per_address = 256, 1, MANY;
    /// How many connections without a login so far are served at once from one address. Others wait; a waiting one replaces one that has made no progress for 1 second.
    unauthenticated_per_address = 64, 1, MANY;
    /// Time until a new connection has its turn and says something, in seconds.
    first_byte_seconds = 5, 1, HOUR;
    /// Time for a TLS handshake, in seconds.
    handshake_seconds = 10, 1, HOUR;
    /// Time to send a whole request head, in seconds.
    head_seconds = 10, 1, HOUR;
    /// Request line and headers together, in bytes.
    head_bytes = 32 * 1024, 8192, MIB;
    /// One header field, in bytes.
    header_bytes = 8 * 1024, 256, MIB;
    /// Header fields of one request.
    headers = 100, 10, 10_000;
    /// Longest request target, in bytes.
    uri_bytes = 8 * 1024, 256, 65_000;
    /// Longest path inside a datastore, in bytes.
    path_bytes = PATH_BYTES_MAX as u64, 1, PATH_BYTES_MAX as u64;
    /// Names in such a path.
    path_parts = PATH_DEPTH_MAX as u64, 1, PATH_DEPTH_MAX as u64;
    /// One of these names, in bytes.
    name_bytes = NAME_BYTES_MAX as u64, 1, NAME_BYTES_MAX as u64;
    /// Streams at once on an HTTP/2 connection.
    streams = 100, 1, 10_000;
    /// Requests of an HTTP/2 connection; then its client is told to open another.
    requests_per_connection = 1000, 1, MANY;
    /// Age of an HTTP/2 connection at which its client is told to open another, in seconds.
    connection_seconds = HOUR, 1, 31 * 24 * HOUR;
    /// Streams of an HTTP/2 connection that its client may take back in half a minute; then it is told to open another, and at twice as many cut off.
    resets_per_connection = 200, 1, MANY;
    /// Longest wait for the body of a small request (XML, JSON), in seconds.
    body_seconds = 60, 1, HOUR;
    /// Minimum speed of an upload, averaged over `progress_seconds`, in bytes per second; 0 switches the check off.
    upload_bytes_per_second = 1024, 0, MANY;
    /// Minimum speed of a download, averaged over `progress_seconds`, in bytes per second; 0 switches the check off. Bytes in the kernel's send buffer count as sent.
    download_bytes_per_second = 1024, 0, MANY;
    /// Interval over which the speed of uploads and downloads is measured, in seconds; downloads use `idle_seconds` if that is shorter.
    progress_seconds = 30, 1, HOUR;
    /// A connection without requests is closed after this time, in seconds. An HTTP/1.1 connection also ends after `head_seconds` without a request head.
    idle_seconds = 60, 1, HOUR;
    /// JSON or form body, in bytes.
    json_bytes = 112 * 1024, 1024, 64 * MIB;
    /// Nesting of a JSON body, in objects and lists.
    json_depth = 32, 8, 100;
    /// Values in a JSON body, objects and lists included, or fields of a form.
    json_values = 10_000, 100, MANY;
    /// XML body, in bytes.
    xml_bytes = 64 * 1024, 1024, 64 * MIB;
    /// Nesting of an XML body, in elements.
    xml_depth = 32, 4, 1000;
    /// Attributes of one XML element, namespace declarations included.
    xml_attributes = 64, 4, 1000;
    /// Namespaces an XML body may name.
    xml_namespaces = 64, 2, 1000;
    /// The name of one of them, in bytes.
    xml_namespace_bytes = 1024, 16, 65_536;
    /// Properties one PROPFIND or PROPPATCH may name.
    xml_properties = 256, 1, 100_000;
    /// Ranges one GET may ask for; beyond that the whole file is sent.
    ranges = 16, 1, 1000;
    /// Entries of one listing; a 507 element says that there are more.
    listing_entries = 50_000, 1, MANY;
    /// Entries in one listing with `Depth: infinity` or without `Depth`. 0: such a PROPFIND on a directory is answered with 403 `propfind-finite-depth`.
    deep_listing_entries = 10_000, 0, MANY;
    /// How long may be worked on one of these before a 507 element ends it, in seconds.
    deep_listing_seconds = 2, 0, HOUR;
    /// Entries that one COPY, MOVE or DELETE of a tree may touch. Only entries that the user may see count.
    tree_entries = 100_000, 1, MANY;
    /// How long one of these may take, in seconds.
    tree_seconds = 60, 1, 24 * HOUR;
    /// Threads that wait for file systems.
    threads = 512, 4, 10_000;
    /// How many of `threads` may work for one user at once. Further work of this user waits.
    threads_per_user = 32, 1, 10_000;
    /// Directory pages that are generated or sent for one user at once. Further pages of this user wait.
    pages_per_user = 8, 1, 10_000;
    /// Bytes of large responses buffered for one user at once, over all connections. Further reads for this user wait until clients have received data.
    answer_bytes_per_user = 32 * MIB, MIB, 1024 * MIB;
    /// Locks on the files of one datastore.
    locks_per_store = 10_000, 1, MANY;
    /// Locks one user may have in one datastore.
    locks_per_user = 32, 1, MANY;
    /// Locks of whole trees that one directory may be under.
    deep_locks_per_tree = 1, 1, MANY;
    /// Longest time a lock lasts without being refreshed, in seconds.
    lock_seconds = HOUR, 1, 31 * 24 * HOUR;
    /// How long running requests may go on after SIGTERM, in seconds.
    drain_seconds = 30, 0, HOUR;
}

impl Limits {
    /// What one of them is.
    pub fn of(mut self, row: &LimitRow) -> u64 {
        *(row.of)(&mut self)
    }

    /// Sets one.
    ///
    /// # Errors
    /// When there is none of that name, or the number is of no use.
    pub fn set(&mut self, key: &str, value: u64) -> Result<(), LimitError> {
        let row = LIMITS.iter().find(|row| row.key == key);
        let &LimitRow { key, range: (least, most), of, .. } =
            row.ok_or_else(|| LimitError::Unknown(key.to_owned()))?;
        if value < least || value > most {
            return Err(LimitError::OutOfRange { key, value, least, most });
        }
        *of(self) = value;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_can_be_set_within_its_range() {
        for row in LIMITS {
            let (least, most) = row.range;
            assert!((least..=most).contains(&row.usual), "{}", row.key);
            let mut limits = Limits::default();
            limits.set(row.key, most).unwrap();
            assert_eq!(*(row.of)(&mut limits), most, "{}", row.key);
            limits.set(row.key, row.usual).unwrap();
            assert_eq!(limits, Limits::default(), "{}", row.key);
            assert!(limits.set(row.key, most + 1).is_err(), "{}", row.key);
        }
        let said = Limits::default().set("streams", 0).unwrap_err().to_string();
        assert_eq!(said, "limit `streams` is 0; expected 1 to 10000");
        assert_eq!(Limits::default().set("x", 1), Err(LimitError::Unknown("x".to_owned())));
    }
}
