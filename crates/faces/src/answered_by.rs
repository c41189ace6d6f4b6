//! Which member of a fleet answers a request.

/// Which member of a fleet answers the requests of a route.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnsweredBy {
    /// The member that got the request.
    Any,
    /// The member that serves the datastore, whose name follows the path of the route.
    HomeOfDatastore,
    /// Requests that only read: the member that got the request. Others: the files member.
    FilesMember,
}
