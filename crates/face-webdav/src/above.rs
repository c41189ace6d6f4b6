//! The collections above the datastores: `/` contains `/dav/`, which contains the datastores visible to the user. Explorer and other clients request
//! every collection on the path to the collection that they mount.

use super::multistatus::{self, Form, More, Resource, multi_status, push_response};
use super::propfind::{Depth, depth};
use super::{AboveCall, PREFIX, end, options_answer, page, propfind_request};
use enfilade_faces::{Aim, Answer, Body, Failure, RequestError, accepts_html, blocking, collect_xml};
use enfilade_passage::{COLLECTION, NodeKind};
use hyper::header::{ALLOW, HeaderValue};

/// A collection above the datastores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Above {
    /// `/`
    Root,
    /// `/dav/`
    Stores,
}

impl Above {
    pub(crate) fn of(path: &str) -> Option<Self> {
        match path {
            "/" => Some(Above::Root),
            "/dav" | "/dav/" => Some(Above::Stores),
            _ => None,
        }
    }
}

pub(crate) async fn answer(call: AboveCall, above: Above) -> Answer {
    let AboveCall { visit, request, mut trace } = call;
    trace.event.path = request.uri().path().to_owned();
    match request.method().as_str() {
        "GET" if above == Above::Stores && accepts_html(request.headers()) => {
            page::stores(visit, trace).await
        }
        "OPTIONS" => end(trace, Ok(options_answer()), Aim::Target),
        "PROPFIND" => {
            let (head, body) = request.into_parts();
            let outcome = async {
                let (depth, limits) = (depth(&head.headers)?, visit.limits());
                let asked = propfind_request::read(&collect_xml(body, &limits).await?, &limits)?;
                let members = match (depth, above) {
                    (Depth::Infinity, _) => return Err(RequestError::Depth.into()),
                    (Depth::Zero, _) => Vec::new(),
                    (Depth::One, Above::Root) => vec!["dav".to_owned()],
                    (Depth::One, Above::Stores) => {
                        let names = blocking(visit.share(), move || visit.stores()).await?;
                        names.iter().map(ToString::to_string).collect()
                    }
                };
                let own = match above {
                    Above::Root => "/",
                    Above::Stores => PREFIX,
                };
                let form = Form::of(asked);
                let mut xml = form.begin();
                let more = More::default();
                let mut push = |href: &str, name: &str| {
                    let kind = NodeKind::Directory;
                    push_response(
                        &mut xml,
                        &Resource { href, name, kind, content_type: "", meta: &COLLECTION, more: &more },
                        &form,
                    );
                };
                push(own, own.trim_matches('/'));
                members.iter().for_each(|name| push(&format!("{own}{name}/"), name));
                xml.push_str(multistatus::END);
                Ok(multi_status(Body::from(xml)))
            };
            let outcome: Result<Answer, Failure> = outcome.await;
            end(trace, outcome, Aim::Target)
        }
        _ => {
            let mut answer = end(trace, Err(RequestError::Method.into()), Aim::Target);
            answer.headers_mut().insert(ALLOW, HeaderValue::from_static("OPTIONS, PROPFIND"));
            answer
        }
    }
}
