//! Sends requests to the HTTP face in the process of the test, as the listener does after it has read a request.

use bytes::Bytes;
use enfilade_faces::{Faces, Router};
use enfilade_testkit::connection;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use serde_json::Value;

/// A credential in the form of a request.
#[derive(Clone, Debug)]
pub(crate) enum Shown {
    Nothing,
    Token(String),
    /// User and secret of HTTP Basic.
    Basic(String, String),
    /// A login ticket in a cookie, and the token that protects changes (`CSRFPreventionToken`).
    Ticket(String, String),
    /// A signed request: the header `Authorization`.
    Signed(String),
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    /// `X-Subject-Token`.
    pub(crate) subject: Option<String>,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn is_good(&self) -> bool {
        (200..300).contains(&self.status)
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_default()
    }
}

pub(crate) struct Http {
    router: Router,
}

impl Http {
    pub(crate) fn new(faces: Faces) -> Self {
        let main: [&[_]; 3] =
            [&enfilade_operations::MAIN, &enfilade_proxmox::ROUTES, &enfilade_keystone::ROUTES];
        Http { router: Router::new(faces, &main) }
    }

    pub(crate) async fn ask(&self, shown: &Shown, method: &str, path: &str, body: &Value) -> Answer {
        self.ask_about(shown, "", method, path, body).await
    }

    /// Like [`Http::ask`], with a token as the subject of the request.
    pub(crate) async fn ask_about(
        &self,
        shown: &Shown,
        about: &str,
        method: &str,
        path: &str,
        body: &Value,
    ) -> Answer {
        let content = if body.is_null() { String::new() } else { body.to_string() };
        let mut request = Request::builder().method(method).uri(path).header("host", "here");
        if !body.is_null() {
            request = request.header("content-type", "application/json");
        }
        request = match shown {
            Shown::Nothing => request,
            Shown::Token(token) => request.header("x-auth-token", token),
            Shown::Basic(user, secret) => {
                use base64::Engine as _;
                let login = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{secret}"));
                request.header("authorization", format!("Basic {login}"))
            }
            Shown::Signed(header) => request.header("authorization", header),
            Shown::Ticket(ticket, csrf) => request
                .header("cookie", format!("PBSAuthCookie={ticket}"))
                .header("csrfpreventiontoken", csrf),
        };
        if !about.is_empty() {
            request =
                request.header("x-subject-token", about).header("openstack-identity-access-rules", "1.0");
        }
        let request = request.body(Full::new(Bytes::from(content))).unwrap();
        let answer = self.router.answer(connection(), request).await;
        let status = answer.status().as_u16();
        let subject = answer.headers().get("x-subject-token");
        let subject = subject.map(|token| token.to_str().unwrap().to_owned());
        let body = answer.into_body().collect().await.map(|whole| whole.to_bytes()).unwrap_or_default();
        Answer { status, subject, text: String::from_utf8_lossy(&body).into_owned() }
    }
}
