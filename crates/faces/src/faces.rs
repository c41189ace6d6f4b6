//! The state that all protocols share, such as the counters, and the function that authenticates a request (door 2).

use crate::clock;
use crate::connection::Connection;
use crate::credential::Carried;
use crate::metrics::Metrics;
use crate::pass_on::{Elsewhere, PassOn, home_elsewhere};
use crate::rendered::Rendered;
use crate::served_certificates::ServedCertificates;
use crate::spans::TraceQueue;
use crate::trace::Trace;
use enfilade_admin::keystone::Catalog;
use enfilade_admin::{ChangeContext, FileSet, KeySummary, LimitModel, PasswordRules};
use enfilade_facts::limits::Limits;
use enfilade_facts::memo::KeyMaker;
use enfilade_facts::vocabulary::{DatastoreName, RequestId};
use enfilade_facts::{Index, Memo, MemoSeed, Requester, SourceError};
use enfilade_passage::{Credential, House, IdentityRefusal, Refusal, Visit};
use hyper::header::HeaderValue;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use tokio::sync::{mpsc, oneshot};

/// The state that all protocols share.
#[derive(Clone)]
pub struct Faces {
    pub(crate) house: Arc<House>,
    files: Arc<FileSet>,
    passwords: PasswordRules,
    limit_model: LimitModel,
    roots: Arc<[PathBuf]>,
    pub(crate) metrics: Arc<Metrics>,
    v3: Arc<V3Memo>,
    reloads: Arc<OnceLock<mpsc::Sender<Reload>>>,
    certificates: Arc<OnceLock<Arc<dyn ServedCertificates>>>,
    keys: Arc<OnceLock<ListKeys>>,
    pub(crate) transport_security: Option<HeaderValue>,
    sign_in: Option<Arc<str>>,
    /// The other members of the fleet, which serve datastores; `None` if this server is not in a fleet.
    others: Option<Arc<dyn PassOn>>,
    prove_first: Option<ProveFirst>,
    pub(crate) traces: Option<Arc<TraceQueue>>,
}

/// Proves that the facts are current: after the call of this function, the server asks etcd for the newest change. The error says why there is no
/// proof.
pub type ProveFirst =
    Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Result<(), SourceError>> + Send>> + Send + Sync>;

/// A request to reload configuration and certificates. The reply contains the result, or the reason why the reload failed.
pub type Reload = oneshot::Sender<Result<String, String>>;

/// Lists the keys that sign sessions.
pub type ListKeys = Arc<dyn Fn() -> Result<Vec<KeySummary>, enfilade_admin::Error> + Send + Sync>;

/// State of the Identity API: the index of the catalog, and the memo of rendered response bodies. Also the counter for the request ids of all
/// protocols.
struct V3Memo {
    catalog: Index<Catalog>,
    rendered: Memo<Rendered>,
    key: KeyMaker,
    request: KeyMaker,
    requests: AtomicU64,
}

/// The size of the memo of rendered response bodies, in bytes. With a catalog of 30 endpoints, the memo has space for the bodies of a few thousand
/// tokens.
const RENDERED_BYTES: usize = 16 << 20;

impl Faces {
    /// Makes the shared state. `files` are the files that people edit. `passwords` are the rules for new passwords. Datastores are created only below
    /// `roots`.
    pub fn new(house: Arc<House>, files: FileSet, passwords: PasswordRules, roots: Vec<PathBuf>) -> Self {
        let seed = MemoSeed(house.random().unwrap_or_default());
        let v3 = V3Memo {
            catalog: Index::new(),
            rendered: Memo::new(seed, RENDERED_BYTES),
            key: KeyMaker::new(&seed, "token body"),
            request: KeyMaker::new(&seed, "request id"),
            requests: AtomicU64::new(0),
        };
        let (files, metrics, reloads) = (Arc::new(files), Arc::default(), Arc::default());
        let (roots, transport_security, limit_model) = (roots.into(), None, LimitModel::default());
        let v3 = Arc::new(v3);
        let sign_in = None;
        Faces {
            house,
            files,
            passwords,
            limit_model,
            roots,
            metrics,
            v3,
            reloads,
            certificates: Arc::default(),
            keys: Arc::default(),
            transport_security,
            sign_in,
            others: None,
            prove_first: None,
            traces: None,
        }
    }

    /// The rules for passwords.
    pub fn passwords(&self) -> &PasswordRules {
        &self.passwords
    }

    /// How limits of domains restrict limits of projects.
    pub fn limit_model(&self) -> LimitModel {
        self.limit_model
    }

    /// Sets how limits of domains restrict limits of projects.
    #[must_use]
    pub fn with_limit_model(mut self, model: LimitModel) -> Self {
        self.limit_model = model;
        self
    }

    /// The limits of requests.
    pub fn limits(&self) -> Limits {
        self.house.limits()
    }

    /// Sets the channel to the task that reloads configuration and certificates.
    pub fn set_reloads(&self, to: mpsc::Sender<Reload>) {
        let _ = self.reloads.set(to);
    }

    /// Sets the object that answers questions about the served certificates.
    pub fn set_certificates(&self, certificates: Arc<dyn ServedCertificates>) {
        let _ = self.certificates.set(certificates);
    }

    /// The object that answers questions about the served certificates; `None` while the server starts.
    pub fn certificates(&self) -> Option<&Arc<dyn ServedCertificates>> {
        self.certificates.get()
    }

    /// Sets how the keys of sessions are listed.
    pub fn set_keys(&self, keys: ListKeys) {
        let _ = self.keys.set(keys);
    }

    /// Lists the keys of sessions; `None` while the server starts.
    pub fn keys(&self) -> Option<&ListKeys> {
        self.keys.get()
    }

    /// Reloads configuration and certificates. This function blocks until the reload has ended.
    ///
    /// # Errors
    /// The reason why the reload failed.
    pub fn reload(&self) -> Result<String, String> {
        let unavailable =
            || "this server cannot reload now: it is starting or stopping; try again".to_owned();
        let (reply, answer) = oneshot::channel();
        let asked = self.reloads.get().and_then(|to| to.blocking_send(reply).ok());
        asked.ok_or_else(unavailable)?;
        answer.blocking_recv().map_err(|_| unavailable())?
    }

    /// The index of services and endpoints.
    pub fn catalog(&self) -> &Index<Catalog> {
        &self.v3.catalog
    }

    /// The memo of rendered response bodies of the Identity API.
    pub fn rendered(&self) -> &Memo<Rendered> {
        &self.v3.rendered
    }

    /// Computes the keys under which the memo stores rendered response bodies.
    pub fn rendered_key(&self) -> KeyMaker {
        self.v3.key
    }

    /// A unique request id.
    pub(crate) fn request_id(&self) -> RequestId {
        let n = self.v3.requests.fetch_add(1, Ordering::Relaxed);
        RequestId(u128::from_be_bytes(self.v3.request.number(n).key().as_choice()))
    }

    /// A shared pointer to the house, which is the state of the running server.
    pub fn arc_house(&self) -> &Arc<House> {
        &self.house
    }

    /// The context in which a request changes the stored facts. `who` is the author of the change, and `requester` is the kind of author.
    pub fn change_context<'a>(
        &'a self,
        who: &'a str,
        requester: Requester,
        request: RequestId,
    ) -> ChangeContext<'a> {
        let house = &self.house;
        ChangeContext {
            facts: house.source(),
            files: &self.files,
            passwords: &self.passwords,
            limit_model: self.limit_model,
            reserved: house.reserved(),
            roots: Some(&self.roots),
            keeps_administrators: false,
            who,
            request: Some(request),
            requester,
            now: house.now(),
        }
    }

    /// The counters.
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// The house: the state of this running server.
    pub fn house(&self) -> &House {
        &self.house
    }

    /// The origin of the page for signing in, such as `https://files.example.com`; `None` if browsers cannot sign in.
    pub fn sign_in(&self) -> Option<&str> {
        self.sign_in.as_deref()
    }

    /// Sets the origin of the page for signing in.
    #[must_use]
    pub fn with_sign_in(self, origin: Option<&str>) -> Self {
        Faces { sign_in: origin.map(Arc::from), ..self }
    }

    /// Adds the other members of the fleet, to which requests for datastores are passed on.
    #[must_use]
    pub fn with_others(self, others: Option<Arc<dyn PassOn>>) -> Self {
        Faces { others, ..self }
    }

    /// Makes the server prove before each request that the facts are current (`[fleet] strict`).
    #[must_use]
    pub fn with_proof_first(self, prove_first: Option<ProveFirst>) -> Self {
        Faces { prove_first, ..self }
    }

    /// Waits until a request may use the facts. With `[fleet] strict`, the function waits for a proof. Without `strict`, the function returns at
    /// once.
    pub(crate) async fn prove_first(&self) -> Result<(), Refusal> {
        match &self.prove_first {
            None => Ok(()),
            Some(prove) => Ok(prove().await?),
        }
    }

    /// The other member of the fleet that serves a datastore; `None` if this member serves it, if the request cannot be passed on, or if the visitor
    /// has no role in the datastore.
    pub fn home_elsewhere(&self, visit: &mut Visit, name: &DatastoreName) -> Option<Elsewhere<'_>> {
        home_elsewhere(self.others()?, visit, name)
    }

    /// The other members that serve datastores.
    pub(crate) fn others(&self) -> Option<&dyn PassOn> {
        self.others.as_deref()
    }

    /// Makes the server export traces of requests.
    #[must_use]
    pub fn with_traces(self, traces: Option<Arc<TraceQueue>>) -> Self {
        Faces { traces, ..self }
    }

    /// The queue of the traces that wait to be sent; `None` if the server exports no traces.
    pub fn traces(&self) -> Option<&Arc<TraceQueue>> {
        self.traces.as_ref()
    }

    /// Makes the server send this value of `Strict-Transport-Security` with every response to a URL with `https` (RFC 6797 §6.1).
    #[must_use]
    pub fn with_transport_security(self, policy: Option<HeaderValue>) -> Self {
        Faces { transport_security: policy, ..self }
    }
}

/// The kinds of credentials that a route takes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// Credentials in a header, and the certificate of the connection. For the visitor of an application, also the cookie of a browser's session.
    Everything,
    /// Credentials in a header, the certificate of the connection, and a login ticket in a cookie.
    Tickets,
    /// Only the token of a session.
    Sessions,
}

impl Faces {
    /// Authenticates the client: door 2 checks the credential in `carried`. If there is none, and the route takes more than sessions, door 2 checks
    /// the certificate of the connection.
    ///
    /// # Errors
    /// When door 2 refuses the credential, or the route does not accept credentials of this kind.
    pub async fn admit(
        &self,
        connection: &Connection,
        carried: Result<Carried<'_>, IdentityRefusal>,
        takes: Takes,
        trace: &mut Trace,
    ) -> Result<Visit, Refusal> {
        let began = clock::monotonic();
        let judged = self.judge(connection, carried, takes, trace).await;
        trace.judged(began, judged.is_ok());
        judged
    }

    async fn judge(
        &self,
        connection: &Connection,
        carried: Result<Carried<'_>, IdentityRefusal>,
        takes: Takes,
        trace: &mut Trace,
    ) -> Result<Visit, Refusal> {
        let from = connection.peer.ip();
        let takes_secrets = takes != Takes::Sessions;
        let carried = match (carried, &connection.certificate) {
            // A credential in a header takes precedence over the certificate.
            (Err(IdentityRefusal::NoCredential), Some(ask)) if takes_secrets => Carried::Certificate(ask),
            (carried, _) => carried?,
        };
        let recognised = carried.unread().map(|unread| self.house.recognise(&connection.last, unread, from));
        let mut visit = match recognised.transpose() {
            Ok(Some(visit)) if !takes_secrets && visit.identity().session().is_none() => {
                return Err(IdentityRefusal::NoCredential.into());
            }
            Ok(Some(visit)) => visit,
            Ok(None) => self.house.admit(&carried.read()?, from).await?,
            Err(brought) => {
                let credential = carried.read()?;
                match &credential {
                    Credential::Session(_) => {}
                    _ if !takes_secrets => return Err(IdentityRefusal::NoCredential.into()),
                    Credential::Secret(ask) => trace.event.authid = ask.authid.to_word(),
                    // For a failed login, the log contains the name in the spelling under which the failure is counted.
                    Credential::NamedSecret(_, named) => trace.event.authid = named.clone(),
                    Credential::Certificate(_)
                    | Credential::Browser(_)
                    | Credential::Link(_)
                    | Credential::Ticket { .. } => {}
                }
                let visit = self.house.admit(&credential, from).await?;
                connection.last.remember(brought, from, &visit);
                visit
            }
        };
        connection.anonymous.release();
        trace.time(&mut visit);
        trace.event.authid = visit.principal().authid.to_word();
        trace.event.revision = visit.identity().at().revision.0;
        Ok(visit)
    }
}
