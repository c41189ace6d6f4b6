//! The member of a fleet that answers a request.

/// The member of a fleet that answers the requests of a route.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnsweredBy {
    /// The member that got the request.
    Any,
    /// The member that serves the datastore. The name of the datastore follows the path of the route.
    HomeOfDatastore,
    /// For requests that only read, the member that got the request. For all other requests, the files
    /// member.
    FilesMember,
}
