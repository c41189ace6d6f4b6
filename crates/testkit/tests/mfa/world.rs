//! The users of the tests, and their logins over the HTTP face.

use aws_lc_rs::hmac;
use bytes::Bytes;
use enfilade_admin::PasswordRules;
use enfilade_admin::keystone as admin;
use enfilade_faces::{Faces, Router};
use enfilade_facts::tables::{GrantKey, GrantScope, Grantee};
use enfilade_facts::vocabulary::DomainId;
use enfilade_passage::KeyRing;
use enfilade_testkit::{Remembering, TestHouse, connection};
use http_body_util::{BodyExt, Full};
use hyper::{HeaderMap, Request};
use serde_json::{Value, json};
use std::collections::BTreeMap;

pub(crate) const SECRET: &[u8] = b"12345678901234567890";
pub(crate) const SECRET_BASE32: &str = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ";
pub(crate) const RECEIPT: &str = "openstack-auth-receipt";

pub(crate) struct World {
    pub(crate) house: TestHouse,
    pub(crate) router: Router,
    pub(crate) ids: BTreeMap<&'static str, String>,
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> String {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap()).to_owned()
    }

    pub(crate) fn token(&self) -> String {
        assert_eq!(self.status, 201, "{}", self.body);
        self.header("x-subject-token")
    }

    /// The receipt in a refusal.
    pub(crate) fn receipt(&self) -> String {
        assert_eq!(self.status, 401, "{}", self.body);
        let receipt = self.header(RECEIPT);
        assert!(!receipt.is_empty(), "{}", self.body);
        receipt
    }

    pub(crate) fn is_refused(&self) {
        assert_eq!((self.status, self.header(RECEIPT).as_str()), (401, ""), "{}", self.body);
        assert_eq!(self.body["error"]["message"], "The request you have made requires authentication.");
    }
}

impl World {
    /// On the project `a`, the user `admin` has the role `admin`, `ann` has the role `member`, and `bob` has the role `reader`. `ann` has a
    /// credential of type `totp`.
    pub(crate) async fn new() -> World {
        let mut house = TestHouse::new(Remembering::AsServed);
        let bytes: [u8; 32] = [7; 32];
        house.house.set_keys(Some(KeyRing::new(&[(0, &bytes), (1, &bytes)]).unwrap()));
        let mut ids = BTreeMap::new();
        {
            let ctx = house.change_context();
            admin::add_domain(&ctx, &"Default".parse().unwrap(), Some(DomainId::DEFAULT)).unwrap();
            let project = admin::add_project(&ctx, &"Default".parse().unwrap(), "a", None).unwrap().0;
            ids.insert("a", project.to_string());
            for (name, role) in [("admin", "admin"), ("ann", "member"), ("bob", "reader")] {
                let role = admin::add_role(&ctx, role, None).unwrap().0;
                let user = house.add_login(name);
                let key = GrantKey { who: Grantee::User(user), scope: GrantScope::Project(project), role };
                admin::set_grant(&ctx, &key, true).unwrap();
                ids.insert(name, user.to_string());
            }
        }
        house.add_user(&"tom@Default".parse().unwrap(), None);
        let faces =
            Faces::new(house.house.clone(), house.files.clone(), PasswordRules::NONE.clone(), Vec::new());
        let main: [&[_]; 2] = [&enfilade_keystone::ROUTES, &enfilade_proxmox::ROUTES];
        let router = Router::new(faces, &main);
        let world = World { house, router, ids };
        let credential = json!({ "type": "totp", "blob": SECRET_BASE32, "user_id": world.ids["ann"] });
        let made = world.as_admin("POST", "/v3/credentials", &json!({ "credential": credential })).await;
        assert_eq!(made.status, 201, "{}", made.body);
        world
    }

    pub(crate) async fn send(
        &self,
        headers: &[(&str, &str)],
        method: &str,
        path: &str,
        body: &Value,
    ) -> Answer {
        let mut request = Request::builder().method(method).uri(path).header("host", "here");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = if body.is_null() { String::new() } else { body.to_string() };
        if !body.is_empty() {
            request = request.header("content-type", "application/json");
        }
        let request = request.body(Full::new(Bytes::from(body))).unwrap();
        let answer = self.router.answer(connection(), request).await;
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        let body = answer.into_body().collect().await.map(|whole| whole.to_bytes()).unwrap_or_default();
        Answer { status, headers, body: serde_json::from_slice(&body).unwrap_or_default() }
    }

    pub(crate) async fn as_admin(&self, method: &str, path: &str, body: &Value) -> Answer {
        let scope = json!({ "project": { "id": self.ids["a"] } });
        let token = self.login_as("admin", &["password"], "", Some(&scope), "").await.token();
        self.send(&[("x-auth-token", &token)], method, path, body).await
    }

    /// A login of a user with these methods. `given` is the passcode, or the token of the method `token`.
    pub(crate) async fn login_as(
        &self,
        user: &str,
        methods: &[&str],
        given: &str,
        scope: Option<&Value>,
        receipt: &str,
    ) -> Answer {
        let id = &self.ids[user];
        let mut identity = json!({ "methods": methods });
        for method in methods {
            identity[*method] = match *method {
                "password" => json!({ "user": { "id": id, "password": "pw" } }),
                "totp" => json!({ "user": { "id": id, "passcode": given } }),
                _ => json!({ "id": given }),
            };
        }
        let mut auth = json!({ "identity": identity });
        if let Some(scope) = scope {
            auth["scope"] = scope.clone();
        }
        let headers: &[(&str, &str)] = if receipt.is_empty() { &[] } else { &[(RECEIPT, receipt)] };
        self.send(headers, "POST", "/v3/auth/tokens", &json!({ "auth": auth })).await
    }

    pub(crate) async fn login(&self, methods: &[&str], given: &str) -> Answer {
        self.login_as("ann", methods, given, None, "").await
    }

    /// The passcode of the time step that is `steps` steps after the present one.
    pub(crate) fn passcode(&self, steps: i64) -> String {
        self.passcode_of(SECRET, steps)
    }

    pub(crate) fn passcode_of(&self, secret: &[u8], steps: i64) -> String {
        let step = u64::try_from(self.house.clock.now().unix_seconds.div_euclid(30) + steps).unwrap();
        let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, secret);
        let tag = hmac::sign(&key, &step.to_be_bytes());
        let offset = usize::from(tag.as_ref()[19] & 0xf);
        let part = <[u8; 4]>::try_from(&tag.as_ref()[offset..offset + 4]).unwrap();
        format!("{:06}", (u32::from_be_bytes(part) & 0x7fff_ffff) % 1_000_000)
    }

    /// Advances the clock by this number of time steps.
    pub(crate) fn wait(&self, steps: u64) {
        self.house.clock.advance_seconds(steps * 30);
    }

    pub(crate) async fn set_options(&self, options: &Value) -> Answer {
        let path = format!("/v3/users/{}", self.ids["ann"]);
        self.as_admin("PATCH", &path, &json!({ "user": { "options": options } })).await
    }

    pub(crate) fn project(&self) -> Value {
        json!({ "project": { "id": self.ids["a"] } })
    }

    /// Sets a rule for `ann`: a login needs a password and a passcode.
    pub(crate) async fn need_both(&self) {
        let options =
            json!({ "multi_factor_auth_enabled": true, "multi_factor_auth_rules": [["password", "totp"]] });
        let answer = self.set_options(&options).await;
        assert_eq!((answer.status, &answer.body["user"]["options"]), (200, &options), "{}", answer.body);
    }
}
