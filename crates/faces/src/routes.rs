//! Everything that can be asked for. Each route needs a permit or stands in the short public list (invariant E3);
//! a guarded route's handler takes a [`Visit`](enfilade_passage::Visit), which only door 2 gives out.

use hyper::Method;

/// A route that needs nobody to be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Public {
    /// What this is.
    WellKnown,
    /// Counters for Prometheus.
    Metrics,
    /// Proxmox clients ask whether anybody is there.
    Ping,
    /// How the page for people looks.
    Style,
    /// What it does beyond showing.
    Script,
    /// The process runs.
    Live,
    /// The house takes requests.
    Ready,
}

/// A route that needs an identity permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guarded {
    /// Who the credential is.
    Whoami,
    /// Files.
    WebDav,
    /// Users, tokens and roles, as Proxmox clients ask for them.
    Proxmox,
}

/// What a route needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Nothing.
    Public(Public),
    /// To know who asks.
    Identity(Guarded),
    /// Nothing: it is where one becomes known.
    Login,
    /// What the Identity API's own table says (`keystone/routes.rs`).
    V3,
}

/// A path and what it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The path; with a final slash everything below it, but for the root.
    pub path: &'static str,
    /// What it needs.
    pub need: Need,
}

impl Route {
    const fn guarded(path: &'static str, face: Guarded) -> Self {
        Route { path, need: Need::Identity(face) }
    }

    const fn public(path: &'static str, face: Public) -> Self {
        Route { path, need: Need::Public(face) }
    }

    const fn login(path: &'static str) -> Self {
        Route { path, need: Need::Login }
    }

    const fn v3(path: &'static str) -> Self {
        Route { path, need: Need::V3 }
    }

    /// The methods of a route that has only a few, where this is none of them. Other faces say for themselves which they take.
    pub fn methods_beside(&self, method: &Method) -> Option<&'static str> {
        let methods = match self.need {
            Need::Public(_) | Need::Identity(Guarded::Whoami) => "GET, HEAD",
            Need::V3 if self.path == "/" => "GET, HEAD, OPTIONS, PROPFIND",
            _ => return None,
        };
        (!methods.split(", ").any(|one| one == method.as_str())).then_some(methods)
    }

    /// The rest of `path` below this route, if it is one of its paths.
    pub fn matches<'p>(&self, path: &'p str) -> Option<&'p str> {
        let rest = path.strip_prefix(self.path)?;
        (self.path.len() > 1 && self.path.ends_with('/') || rest.is_empty()).then_some(rest)
    }
}

/// The routes of the main listener.
pub const MAIN: [Route; 12] = [
    Route::public("/.well-known/enfilade", Public::WellKnown),
    Route::public("/page.css", Public::Style),
    Route::public("/page.js", Public::Script),
    Route::guarded("/whoami", Guarded::Whoami),
    Route::guarded("/dav", Guarded::WebDav),
    Route::guarded("/dav/", Guarded::WebDav),
    Route::public("/api2/json/ping", Public::Ping),
    Route::login("/api2/json/access/ticket"),
    Route::guarded("/api2/json/", Guarded::Proxmox),
    Route::v3("/v3"),
    Route::v3("/v3/"),
    Route::v3("/"),
];

/// The routes of the operations listener.
pub const OPERATIONS: [Route; 4] = [
    Route::public("/metrics", Public::Metrics),
    Route::public("/livez", Public::Live),
    Route::public("/healthz", Public::Live),
    Route::public("/readyz", Public::Ready),
];
