//! The rows of the tables of routes. The handler of a guarded route takes a [`Visit`], which only door 2 can grant. `xtask/src/tidy/routes.rs` lists
//! all other routes (invariant E3).

use crate::answered_by::AnsweredBy;
use crate::connection::Connection;
use crate::faces::{Faces, Takes};
use crate::respond::Answer;
use crate::trace::Trace;
use crate::unread::Received;
use enfilade_passage::Visit;
use hyper::{Method, Request};
use std::pin::Pin;

/// The route of the links with which users share files and folders. The next segment of the path is the secret of a link.
pub const LINKS: &str = "/s/";

/// The path of a request, as the log contains it. The path of a link contains a secret, which is left out.
pub(crate) fn logged_path(path: &str) -> String {
    if path.starts_with(LINKS) { format!("{LINKS}-") } else { path.to_owned() }
}

/// The arguments of a handler: the request, its connection, and the shared state.
pub struct RequestContext<'f> {
    /// The state that all routes share.
    pub faces: &'f Faces,
    /// The connection of the request.
    pub connection: Connection,
    /// The request, after the check of its head.
    pub request: Request<Received>,
    /// The audit event of the request.
    pub trace: Trace,
}

/// The reply of a handler: a finished response, or a future.
pub enum Reply<'f> {
    /// The finished response.
    Now(Answer),
    /// A future that returns the response.
    Later(Pin<Box<dyn Future<Output = Answer> + Send + 'f>>),
}

impl<'f> Reply<'f> {
    /// A reply with the response that this future returns.
    pub fn later(answer: impl Future<Output = Answer> + Send + 'f) -> Self {
        Reply::Later(Box::pin(answer))
    }
}

/// A handler that does not need the identity of the client.
type Public = fn(&Faces) -> Answer;
/// A handler that needs the identity of the client.
type Guarded = for<'f> fn(Visit, RequestContext<'f>) -> Reply<'f>;
/// A handler that authenticates the client itself (door 2), or needs no identity.
type Own = for<'f> fn(RequestContext<'f>) -> Reply<'f>;

/// The requirement that a request must fulfil before the handler of its route is called.
#[derive(Clone, Copy)]
pub(crate) enum Need {
    /// The handler needs no identity of the client.
    Public(Public),
    /// The client needs a permit of door 2. Door 2 grants the permit for a credential of an accepted kind.
    Identity(Takes, Guarded),
    /// The handler authenticates the client itself (door 2).
    Own(Own),
}

/// A path, its methods, and the identity that the methods need.
#[derive(Clone, Copy)]
pub struct Route {
    /// A path with a slash at its end also matches every path below it. The root `/` matches only itself.
    pub(crate) path: &'static str,
    /// The methods, separated by `, `. `None` if the route takes every method, and the handler itself refuses methods.
    methods: Option<&'static str>,
    /// Whether the route answers only browsers: clients that accept HTML.
    for_browsers: bool,
    pub(crate) need: Need,
    pub(crate) answered_by: AnsweredBy,
    /// The summary of the route in docs/routes.md.
    what: &'static str,
}

impl Route {
    /// A route that needs an identity permit.
    pub const fn guarded(path: &'static str, takes: Takes, answer: Guarded) -> Self {
        let need = Need::Identity(takes, answer);
        Route { path, methods: None, for_browsers: false, need, answered_by: AnsweredBy::Any, what: "" }
    }

    /// A route that needs no identity. It takes GET and HEAD.
    pub const fn public(path: &'static str, answer: Public) -> Self {
        Route {
            path,
            methods: Some("GET, HEAD"),
            for_browsers: false,
            need: Need::Public(answer),
            answered_by: AnsweredBy::Any,
            what: "",
        }
    }

    /// A route with a handler that authenticates the client itself, such as the route of a login.
    pub const fn own(path: &'static str, answer: Own) -> Self {
        let need = Need::Own(answer);
        Route { path, methods: None, for_browsers: false, need, answered_by: AnsweredBy::Any, what: "" }
    }

    /// Returns this route, but only for these methods. The methods are separated by `, `. Several routes may have the same path with different
    /// methods.
    #[must_use]
    pub const fn only(self, methods: &'static str) -> Self {
        Route { methods: Some(methods), ..self }
    }

    /// Returns this route, but only for browsers: clients that accept HTML. Requests of other clients do not match the route.
    #[must_use]
    pub const fn for_browsers(self) -> Self {
        Route { for_browsers: true, ..self }
    }

    /// Returns this route, for requests about one datastore. The member that serves the datastore answers them. The name of the datastore follows the
    /// path of the route.
    #[must_use]
    pub const fn of_datastore(self) -> Self {
        Route { answered_by: AnsweredBy::HomeOfDatastore, ..self }
    }

    /// Returns this route, for requests about `datastore.cfg`. The files member answers all of these requests except those that only read.
    #[must_use]
    pub const fn of_datastore_file(self) -> Self {
        Route { answered_by: AnsweredBy::FilesMember, ..self }
    }

    /// Returns this route with a summary for docs/routes.md and `enfilade reference routes`.
    #[must_use]
    pub const fn says(self, what: &'static str) -> Self {
        Route { what, ..self }
    }

    /// The path, the methods, the needed identity, and the summary, as `enfilade reference routes` shows them.
    pub fn described(&self) -> [&'static str; 4] {
        let need = match self.need {
            Need::Public(_) => "none",
            Need::Identity(..) => "any credential",
            Need::Own(_) => "depends on the call",
        };
        [self.path, self.methods.unwrap_or("depends on the protocol"), need, self.what]
    }

    /// Whether the route answers requests with this path.
    fn matches(&self, path: &str) -> bool {
        let rest = path.strip_prefix(self.path);
        rest.is_some_and(|rest| rest.is_empty() || self.path.len() > 1 && self.path.ends_with('/'))
    }

    fn takes(&self, method: &Method) -> bool {
        self.methods.is_none_or(|methods| methods.split(", ").any(|one| one == method.as_str()))
    }
}

/// The result of a lookup in a table of routes.
pub(crate) enum Found<'t> {
    /// The route of the request.
    Route(&'t Route),
    /// Some routes match the path of the request, but no matching route has its method. The text lists the methods of the matching routes, in
    /// alphabetical order.
    OtherMethods(String),
}

/// Finds the first route that matches the path. If that route does not take the method, finds a route with the same path that takes the method.
/// `is_browser` is called only if there is a route for browsers.
pub(crate) fn find<'t>(
    table: &'t [Route],
    path: &str,
    method: &Method,
    is_browser: impl Fn() -> bool,
) -> Option<Found<'t>> {
    let is_for = |route: &&Route| !route.for_browsers || is_browser();
    let first = table.iter().find(|route| route.matches(path) && is_for(route))?;
    if first.takes(method) {
        return Some(Found::Route(first));
    }
    let same = table.iter().filter(|route| route.path == first.path && is_for(route));
    if let Some(route) = same.clone().find(|route| route.takes(method)) {
        return Some(Found::Route(route));
    }
    let mut methods: Vec<&str> =
        same.filter_map(|route| route.methods).flat_map(|all| all.split(", ")).collect();
    methods.sort_unstable();
    Some(Found::OtherMethods(methods.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn never(_: RequestContext<'_>) -> Reply<'_> {
        Reply::Now(Answer::new(crate::body::Body::empty()))
    }

    /// The path of the route, or the methods.
    fn found(path: &str, method: Method, is_browser: bool) -> String {
        const TABLE: [Route; 6] = [
            Route::own("/", never).only("HEAD").for_browsers(),
            Route::own("/a/b", never).only("GET, HEAD"),
            Route::own("/a/", never),
            Route::own("/", never).only("PROPFIND"),
            Route::own("/", never).only("GET"),
            Route::own("*", never).only("OPTIONS"),
        ];
        match find(&TABLE, path, &method, || is_browser) {
            Some(Found::Route(route)) => route.path.to_owned(),
            Some(Found::OtherMethods(methods)) => methods,
            None => String::new(),
        }
    }

    #[test]
    fn the_first_path_counts_and_then_the_method() {
        for (path, method, expected) in [
            ("/a/b", Method::GET, "/a/b"),
            ("/a/b", Method::POST, "GET, HEAD"),
            ("/a/b/c", Method::POST, "/a/"),
            ("/a/", Method::GET, "/a/"),
            ("/a", Method::GET, ""),
            ("/", Method::GET, "/"),
            ("/", Method::PUT, "GET, PROPFIND"),
            ("/x", Method::GET, ""),
            ("*", Method::OPTIONS, "*"),
            ("*", Method::GET, "OPTIONS"),
            ("*/", Method::GET, ""),
        ] {
            assert_eq!(found(path, method.clone(), false), expected, "{method} {path}");
        }
        for (method, expected) in
            [(Method::HEAD, "/"), (Method::GET, "/"), (Method::PUT, "GET, HEAD, PROPFIND")]
        {
            assert_eq!(found("/", method.clone(), true), expected, "{method}");
        }
    }
}
