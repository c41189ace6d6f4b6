//! The limits that an operator can change in `[limits]` of the configuration. The parser, the program and the reference
//! (`enfilade reference limits`) use this table.

use super::{NAME_BYTES_MAX, PATH_BYTES_MAX, PATH_DEPTH_MAX};

/// A limit.
#[derive(Clone, Copy, Debug)]
pub struct LimitRow {
    /// The key of the limit in `[limits]`.
    pub key: &'static str,
    /// The default.
    pub usual: u64,
    /// The smallest and the largest number that can be set.
    pub range: (u64, u64),
    /// The unit of the number.
    pub unit: &'static str,
    /// A description of the limited quantity.
    pub what: &'static str,
    /// The effect of exceeding the limit.
    pub beyond: &'static str,
    of: fn(&mut Limits) -> &mut u64,
}

/// The reason why a limit was not set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LimitError {
    /// No limit has this name.
    #[error("there is no limit `{0}`")]
    Unknown(String),
    /// The number is outside the range.
    #[error("limit `{key}` is {value}; expected {least} to {most}")]
    OutOfRange {
        /// The key of the limit.
        key: &'static str,
        /// The number that was refused.
        value: u64,
        /// The smallest allowed number.
        least: u64,
        /// The largest allowed number.
        most: u64,
    },
}

macro_rules! limits {
    ($($(#[doc = $what:literal])+ $key:ident = $usual:expr, $least:expr, $most:expr, $unit:literal, $beyond:literal;)+) => {
        /// The limits of a server.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Limits {
            $($(#[doc = $what])+ pub $key: u64,)+
        }

        impl Default for Limits {
            fn default() -> Self {
                Limits { $($key: $usual,)+ }
            }
        }

        /// All limits that an operator can set.
        pub const LIMITS: &[LimitRow] = &[$(LimitRow {
            key: stringify!($key),
            usual: $usual,
            range: ($least, $most),
            unit: $unit,
            what: concat!($($what),+),
            beyond: $beyond,
            of: |limits| &mut limits.$key,
        },)+];
    };
}

const HOUR: u64 = 3600;
const MIB: u64 = 1 << 20;
const MANY: u64 = 1_000_000_000;

limits! {
    /// Open connections, in all.
    connections = 10_000, 1, MANY, "connections", "a new connection is closed at once";
    /// Open connections from one address, not counting the connections on which a client has logged in. For IPv6, this is the limit of a /64; a /56
    /// may have 4 times as many, and a /48 16 times as many.
    connections_per_address = 256, 1, MANY, "connections", "a new connection is closed at once";
    /// Connections from one address that are served at the same time, not counting the connections on which a client has logged in.
    unauthenticated_per_address = 64, 1, MANY, "connections", "further connections wait; a waiting connection takes the place of a served connection that has made no progress for 1 second";
    /// Time until a new connection is served and its client sends the first byte.
    first_byte_seconds = 5, 1, HOUR, "seconds", "the connection is closed";
    /// Time for a TLS handshake.
    handshake_seconds = 10, 1, HOUR, "seconds", "the connection is closed";
    /// Time to send a whole request head.
    head_seconds = 10, 1, HOUR, "seconds", "the connection is closed";
    /// Request line and headers together.
    head_bytes = 32 * 1024, 8192, MIB, "bytes", "431 (`HT05`)";
    /// One header field. The default has room for `Authorization: Basic` with the longest name of a token and its secret: a percent-encoded character
    /// of a name has up to 12 bytes, and base64 adds a third.
    header_bytes = 16 * 1024, 256, MIB, "bytes", "431 (`HT05`)";
    /// Header fields of one request.
    headers = 100, 10, 10_000, "header fields", "431 (`HT05`)";
    /// The request target. The default has room for the longest names of a user and a token.
    uri_bytes = 16 * 1024, 256, 65_000, "bytes", "414 (`HT04`)";
    /// A path inside a datastore.
    path_bytes = PATH_BYTES_MAX as u64, 1, PATH_BYTES_MAX as u64, "bytes", "400 (`HT02`)";
    /// Names in a path inside a datastore.
    path_parts = PATH_DEPTH_MAX as u64, 1, PATH_DEPTH_MAX as u64, "names", "400 (`HT02`)";
    /// One name in a path inside a datastore.
    name_bytes = NAME_BYTES_MAX as u64, 1, NAME_BYTES_MAX as u64, "bytes", "400 (`HT02`)";
    /// Streams at the same time on an HTTP/2 connection.
    streams = 100, 1, 10_000, "streams", "the client has to wait until a stream ends; if the client opens a further stream nevertheless, the stream is refused";
    /// Requests of an HTTP/2 connection.
    requests_per_connection = 1000, 1, MANY, "requests", "the client is told to open another connection";
    /// Age of an HTTP/2 connection.
    connection_seconds = HOUR, 1, 31 * 24 * HOUR, "seconds", "the client is told to open another connection";
    /// Streams of an HTTP/2 connection that its client resets within 30 seconds.
    resets_per_connection = 200, 1, MANY, "streams", "the client is told to open another connection; after twice as many resets, the connection is closed";
    /// Longest wait for the body of a small request (XML, JSON).
    body_seconds = 60, 1, HOUR, "seconds", "408 (`HT25`)";
    /// Minimum speed of an upload, averaged over `progress_seconds`; 0 switches the check off.
    upload_bytes_per_second = 1024, 0, MANY, "bytes per second", "below it: 408 (`HT25`)";
    /// Minimum speed of a download, averaged over `progress_seconds`; 0 switches the check off. Bytes in the kernel's send buffer count as sent.
    download_bytes_per_second = 1024, 0, MANY, "bytes per second", "below it: the connection is closed; with HTTP/2, only the response ends";
    /// Interval over which the speed of uploads and downloads is measured; downloads use `idle_seconds` if that is shorter.
    progress_seconds = 30, 1, HOUR, "seconds", "";
    /// Time without requests on a connection. An HTTP/1.1 connection also ends after `head_seconds` without a request head.
    idle_seconds = 60, 1, HOUR, "seconds", "the connection is closed";
    /// JSON or form body.
    json_bytes = 112 * 1024, 1024, 64 * MIB, "bytes", "413 (`HT06`)";
    /// Nesting of a JSON body, in objects and lists.
    json_depth = 32, 8, 100, "levels", "400 (`HT20`)";
    /// Values in a JSON body, objects and lists included, or fields of a form.
    json_values = 10_000, 100, MANY, "values", "400 (`HT20`; form: `HT15`)";
    /// XML body.
    xml_bytes = 64 * 1024, 1024, 64 * MIB, "bytes", "413 (`HT06`)";
    /// Nesting of an XML body, in elements.
    xml_depth = 32, 4, 1000, "levels", "400 (`HT08`)";
    /// Attributes of one XML element, namespace declarations included.
    xml_attributes = 64, 4, 1000, "attributes", "400 (`HT08`)";
    /// Namespaces of an XML body.
    xml_namespaces = 64, 2, 1000, "namespaces", "400 (`HT08`)";
    /// The name of one XML namespace.
    xml_namespace_bytes = 1024, 16, 65_536, "bytes", "400 (`HT08`)";
    /// Properties in one PROPFIND or PROPPATCH.
    xml_properties = 256, 1, 100_000, "properties", "400 (`HT08`)";
    /// Ranges in one GET.
    ranges = 16, 1, 1000, "ranges", "the whole file is sent";
    /// Entries of one listing.
    listing_entries = 50_000, 1, MANY, "entries", "the listing ends with a 507 element";
    /// Entries in one listing with `Depth: infinity` or without `Depth`.
    deep_listing_entries = 10_000, 0, MANY, "entries", "the listing ends with a 507 element; if the limit is 0, every such PROPFIND on a directory gets 403 (`HT09`)";
    /// Time to work on one listing with `Depth: infinity` or without `Depth`.
    deep_listing_seconds = 2, 0, HOUR, "seconds", "the listing ends with a 507 element";
    /// Entries that one COPY, MOVE or DELETE of a tree may touch. Entries that the user may not see do not count.
    tree_entries = 100_000, 1, MANY, "entries", "507 (`CT17`)";
    /// Time for one COPY, MOVE or DELETE of a tree.
    tree_seconds = 60, 1, 24 * HOUR, "seconds", "507 (`CT17`)";
    /// Threads that wait for file systems.
    threads = 512, 4, 10_000, "threads", "further work waits";
    /// Threads that may work for one user at the same time.
    threads_per_user = 32, 1, 10_000, "threads", "further work of this user waits";
    /// Directory pages that are generated or sent for one user at the same time.
    pages_per_user = 8, 1, 10_000, "pages", "requests of this user for further pages wait until one of these pages is sent";
    /// Bytes of large responses that are buffered for one user at the same time, on all connections together.
    answer_bytes_per_user = 32 * MIB, MIB, 1024 * MIB, "bytes", "further reads for this user wait until clients have received data";
    /// Locks on the files of one datastore.
    locks_per_store = 10_000, 1, MANY, "locks", "507 (`CT20`)";
    /// Locks of one user in one datastore.
    locks_per_user = 32, 1, MANY, "locks", "507 (`CT20`)";
    /// Locks with `Depth: infinity` that cover the same directory.
    deep_locks_per_tree = 1, 1, MANY, "locks", "507 (`CT20`)";
    /// Time that a lock lasts without being refreshed.
    lock_seconds = HOUR, 1, 31 * 24 * HOUR, "seconds", "a longer `Timeout` is shortened";
    /// Time that a browser stays signed in to the console, and to applications (`[decisions] sign_in`).
    browser_session_seconds = 12 * HOUR, 1, 31 * 24 * HOUR, "seconds", "the user has to sign in again";
    /// Links with which one user shares files or folders at the same time. Expired links do not count; the server deletes them when the user makes another link.
    links_per_user = 200, 0, 10_000, "links", "the user cannot make a link; if the limit is 0, no user can make links, and links that exist stay valid";
    /// Longest lifetime of a link.
    link_seconds = 31 * 24 * HOUR, 60, 366 * 24 * HOUR, "seconds", "the link is refused; its maker has to choose an earlier end";
    /// Log lines about refused requests without a valid credential, for all clients together. Log lines about failed logins have a separate limit
    /// with the same number. A request that is not logged still counts in the metrics, and a failed login that is not logged still causes delays.
    refusals_logged_per_second = 200, 1, MANY, "lines per second", "the line is left out; `lost_before` in the next line is the number of lines that were left out";
    /// Longest time that the server waits after SIGTERM for the end of requests in progress.
    drain_seconds = 30, 0, HOUR, "seconds", "connections are closed";
}

impl Limits {
    /// The value of a limit.
    pub fn of(mut self, row: &LimitRow) -> u64 {
        *(row.of)(&mut self)
    }

    /// Sets a limit.
    ///
    /// # Errors
    /// When no limit has this name, or the number is outside its range.
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
