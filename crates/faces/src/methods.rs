//! The methods of requests.

/// The known methods. For each path, the protocol defines which of these methods are allowed. The status for any other method is 501 (RFC 9110 §9.1,
/// §15.6.2).
pub const METHODS: [&str; 16] = [
    "GET",
    "PUT",
    "PROPFIND",
    "HEAD",
    "POST",
    "DELETE",
    "OPTIONS",
    "PATCH",
    "CONNECT",
    "TRACE",
    "PROPPATCH",
    "MKCOL",
    "COPY",
    "MOVE",
    "LOCK",
    "UNLOCK",
];
