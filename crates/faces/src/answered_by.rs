//! The member of a fleet that answers a request.

/// The member of a fleet that answers the requests of a route.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnsweredBy {
    /// The member that got the request.
    Any,
    /// The member that serves the datastore. The name of the datastore follows the path of the route.
    HomeOfDatastore,
    /// The member that got the request answers requests that only read. The files member answers all other requests.
    FilesMember,
}
