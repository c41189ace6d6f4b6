//! The holder of a lent credential. The holder derives more credentials, calls any route, and remembers each credential that a response contains.

use crate::bodies::Ids;
use crate::http::{Answer, Shown};
use crate::ways::Way;
use crate::world::{CANARY, Dice, PASSWORD, Rights, World};
use enfilade_facts::At;
use enfilade_keystone::V3;
use enfilade_proxmox::PROXMOX;
use serde_json::{Value, json};
use std::rc::Rc;

/// A known credential, and the length of the chain of credentials that leads to it, including the credential itself. Sessions do not count.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) way: Way,
    pub(crate) depth: usize,
    /// The rights, if the credential is a session.
    rights: Option<Rights>,
}

pub(crate) struct Holder {
    pub(crate) known: Vec<Known>,
    /// The calls so far, for the report of a failure.
    pub(crate) trace: Vec<String>,
    pub(crate) good: usize,
    /// The ids of existing records, with the revision at which they were read.
    ids: Option<(At, Rc<Ids>)>,
}

/// Half of the requests use a random one of this many newest credentials. At the end, all known credentials are tried.
const TRIED: usize = 24;

impl Holder {
    pub(crate) fn new(world: &World, first: Way) -> Self {
        let mallory = Way::Password { user: world.user("mallory"), password: PASSWORD.to_owned() };
        let known = |way, depth| Known { way, depth, rights: None };
        Holder { known: vec![known(mallory, 0), known(first, 1)], trace: Vec::new(), good: 0, ids: None }
    }

    fn ids(&mut self, world: &World) -> Rc<Ids> {
        let at = world.house.facts().at();
        match &self.ids {
            Some((read_at, ids)) if *read_at == at => Rc::clone(ids),
            _ => {
                let ids = Rc::new(Ids::of(world));
                self.ids = Some((at, Rc::clone(&ids)));
                ids
            }
        }
    }

    async fn learn(&mut self, world: &World, way: Way, depth: usize) -> Result<(), String> {
        if self.known.iter().any(|known| known.way == way) {
            return Ok(());
        }
        let mut rights = None;
        if let Way::Session(token) = &way {
            rights = world.rights(token).await;
            if let Some(rights) = rights.as_ref().filter(|rights| !world.may_be(rights, false)) {
                return Err(format!("a session that is more than was lent: {rights:?}"));
            }
        }
        self.known.push(Known { way, depth, rights });
        Ok(())
    }

    /// Makes one request with a known credential.
    pub(crate) async fn step(&mut self, world: &World, dice: &mut Dice) -> Result<(), String> {
        // The first lent credential stays among the credentials that are tried, and the end of the longest chain is tried more often than others.
        let from = self.known.len().saturating_sub(TRIED);
        let longest = self.known.iter().map(|known| known.depth).max().unwrap_or(0);
        let ends: Vec<usize> = (0..self.known.len()).filter(|at| self.known[*at].depth == longest).collect();
        let at = match dice.roll(8) {
            0 => dice.roll(2),
            1..=3 => *dice.of(&ends),
            _ => from + dice.roll(self.known.len() - from),
        };
        let Known { way, depth, rights } = self.known[at].clone();
        let ids = self.ids(world);
        match (&way, dice.roll(10)) {
            (Way::Session(_), 0..=4) => self.derive(world, &way, depth, rights.as_ref(), dice).await,
            (Way::Password { .. } | Way::Trust { .. } | Way::Key { .. } | Way::Access { .. }, _)
            | (Way::Credential { .. }, 0..=6)
            | (_, 4) => self.come_in(world, &way, depth, &ids, dice).await,
            _ => self.call(world, &way, depth, &ids, dice).await,
        }
    }

    /// Requests a session for a random scope.
    async fn come_in(
        &mut self,
        world: &World,
        way: &Way,
        depth: usize,
        ids: &Ids,
        dice: &mut Dice,
    ) -> Result<(), String> {
        let project =
            |id: enfilade_facts::vocabulary::ProjectId| json!({ "project": { "id": id.to_string() } });
        let usual = if matches!(way, Way::Password { .. }) { project(world.m) } else { Value::Null };
        // A lent credential is mostly used for its own scope.
        let is_lent = !matches!(way, Way::Password { .. } | Way::Session(_));
        let scope = match dice.roll(if is_lent { 30 } else { 8 }) {
            0 => project(world.a),
            1 => project(world.b),
            2 => json!({ "system": { "all": true } }),
            3 => json!({ "domain": { "id": "default" } }),
            4 => json!({ "unscoped": {} }),
            5 if !ids.trusts.is_empty() => json!({ "OS-TRUST:trust": { "id": dice.of(&ids.trusts) } }),
            _ => usual,
        };
        self.trace.push(format!("comes in by {way:?} for {scope}"));
        match way.login(world, scope).await {
            Some(token) => self.learn(world, Way::Session(token), depth).await,
            None => Ok(()),
        }
    }

    /// Sends a request that derives a credential from a session. The request is likely to succeed.
    async fn derive(
        &mut self,
        world: &World,
        way: &Way,
        depth: usize,
        rights: Option<&Rights>,
        dice: &mut Dice,
    ) -> Result<(), String> {
        let Some(shown) = way.shown() else { return Ok(()) };
        let held: Vec<&String> = rights.map(|rights| rights.roles.iter().collect()).unwrap_or_default();
        let roles: Vec<Value> = match held.is_empty() {
            true => Vec::new(),
            false => (0..=dice.roll(2)).map(|_| json!({ "name": dice.of(&held) })).collect(),
        };
        let on = rights.and_then(|rights| rights.on.clone()).unwrap_or_default();
        let on = if dice.once_in(6) { world.b.to_string() } else { on };
        let user = rights.map(|rights| rights.user.clone()).unwrap_or_default();
        let n = world.now();
        let (path, body) = match dice.roll(5) {
            0 | 1 => {
                let name = format!("made{n}");
                let given = json!({ "name": name, "roles": roles, "unrestricted": !dice.once_in(4) });
                (
                    format!("/v3/users/{user}/application_credentials"),
                    json!({ "application_credential": given }),
                )
            }
            2 => (format!("/v3/users/{user}/credentials/OS-EC2"), json!({ "tenant_id": on })),
            3 => {
                let blob = json!({ "access": format!("own{n}"), "secret": "chosen" }).to_string();
                let given = json!({ "type": "ec2", "project_id": on, "user_id": user, "blob": blob });
                ("/v3/credentials".to_owned(), json!({ "credential": given }))
            }
            _ => {
                let trustee = world.user(if dice.once_in(4) { "bob" } else { "mallory" });
                let trustor = if dice.once_in(3) { user } else { world.user("alice") };
                let trust = json!({
                    "trustor_user_id": trustor, "trustee_user_id": trustee, "project_id": on, "roles": roles,
                    "impersonation": dice.once_in(2), "allow_redelegation": dice.once_in(2),
                    "redelegation_count": dice.roll(3),
                });
                ("/v3/OS-TRUST/trusts".to_owned(), json!({ "trust": trust }))
            }
        };
        self.ask(world, &shown, "POST", &path, &body, depth).await
    }

    /// Calls a random route with random values.
    async fn call(
        &mut self,
        world: &World,
        way: &Way,
        depth: usize,
        ids: &Ids,
        dice: &mut Dice,
    ) -> Result<(), String> {
        let Some(shown) = way.shown() else { return Ok(()) };
        let is_of_keystone = matches!(shown, Shown::Token(_)) && !dice.once_in(4);
        let (method, path, body) = if is_of_keystone {
            let route = dice.of(&V3);
            let path = format!("/v3{}", ids.path(route.path, dice));
            let body =
                if ["GET", "HEAD", "DELETE"].contains(&route.method) { Value::Null } else { ids.body(dice) };
            (route.method, path, body)
        } else {
            let route = dice.of(PROXMOX);
            let path = format!("/api2/json/{}", ids.path(route.path, dice));
            let place = world.house.content(&"of-a".parse().unwrap());
            let place = place.parent().unwrap().display().to_string();
            let body = match route.method {
                "POST" | "PUT" => ids.parameters(route.path, &place, dice),
                _ => Value::Null,
            };
            (route.method, path, body)
        };
        self.ask(world, &shown, method, &path, &body, depth).await
    }

    async fn ask(
        &mut self,
        world: &World,
        shown: &Shown,
        method: &str,
        path: &str,
        body: &Value,
        depth: usize,
    ) -> Result<(), String> {
        let revision = world.house.facts().at();
        let answer = world.http.ask(shown, method, path, body).await;
        self.trace.push(format!("{method} {path} {body} by {shown:?}: {} {}", answer.status, answer.text));
        self.good += usize::from(answer.is_good());
        if answer.status >= 500 && answer.status != 501 {
            return Err(format!("{method} {path} was answered {}: {}", answer.status, answer.text));
        }
        if answer.text.contains(CANARY) {
            return Err("a response shows a secret that was never lent".to_owned());
        }
        if world.house.facts().at() != revision {
            if !world.is_whole() {
                return Ok(());
            }
            world.check_powers()?;
        }
        if answer.is_good() { self.harvest(world, path, &answer, depth + 1).await } else { Ok(()) }
    }

    /// Collects credentials from a response.
    async fn harvest(
        &mut self,
        world: &World,
        path: &str,
        answer: &Answer,
        depth: usize,
    ) -> Result<(), String> {
        if let Some(token) = &answer.subject {
            self.learn(world, Way::Session(token.clone()), depth - 1).await?;
        }
        let told = answer.json();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let made = &told["application_credential"];
        if made["secret"].is_string() {
            let owner = world.users.iter().find(|(_, id)| id.to_string() == text(&made["user_id"]));
            let owner = owner.map_or("nobody", |(name, _)| *name);
            let authid = format!("{owner}@Default!{}", text(&made["name"]));
            let way = Way::Credential { id: text(&made["id"]), secret: text(&made["secret"]), authid };
            self.learn(world, way, depth).await?;
        }
        let one = told["credential"].as_object().map(|_| told["credential"].clone());
        let many = told["credentials"].as_array().cloned().unwrap_or_default();
        for row in one.into_iter().chain(many) {
            let blob: Value =
                row["blob"].as_str().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
            let keys = if row["access"].is_string() { &row } else { &blob };
            if keys["access"].is_string() {
                let way = Way::Key { access: text(&keys["access"]), secret: text(&keys["secret"]) };
                self.learn(world, way, depth).await?;
            }
        }
        let trust = &told["trust"];
        if text(&trust["trustee_user_id"]) == world.user("mallory") {
            let way = Way::Trust { id: text(&trust["id"]), trustee: world.user("mallory") };
            self.learn(world, way, depth).await?;
        }
        let data = &told["data"];
        if data["value"].is_string() && data["tokenid"].is_string() {
            let way = Way::ApiToken { authid: text(&data["tokenid"]), secret: text(&data["value"]) };
            self.learn(world, way, depth).await?;
        }
        if data["secret"].is_string() {
            let parts: Vec<&str> = path.split('/').collect();
            let authid = format!("{}!{}", parts[5], parts[7]);
            self.learn(world, Way::ApiToken { authid, secret: text(&data["secret"]) }, depth).await?;
        }
        if data["ticket"].is_string() {
            let way = Way::Ticket { ticket: text(&data["ticket"]), csrf: text(&data["CSRFPreventionToken"]) };
            self.learn(world, way, depth).await?;
        }
        Ok(())
    }

    /// Checks that no derived credential works after the first lent credential has ended.
    pub(crate) async fn nothing_works(&self, world: &World) -> Result<(), String> {
        let is_mallorys = |authid: &str| authid.starts_with("mallory@");
        for Known { way, .. } in &self.known {
            let token = match way {
                Way::Session(token) => Some(token.clone()),
                _ => way.login(world, Value::Null).await,
            };
            if let Some(token) = token
                && let Some(rights) = world.rights(&token).await
                && !world.may_be(&rights, true)
            {
                return Err(format!("{way:?} works after the lent credential ended: {rights:?}"));
            }
            if let Some(shown @ Shown::Basic(..)) = way.shown() {
                let answer = world.http.ask(&shown, "GET", "/whoami", &Value::Null).await;
                let Shown::Basic(authid, _) = &shown else { continue };
                if answer.is_good() && !is_mallorys(authid) {
                    return Err(format!("{way:?} works after the lent credential ended: {}", answer.text));
                }
            }
        }
        // A new trust of another user must not work for any trustee. So the trusts that the holder did not use are also checked.
        for (id, trust) in world.new_trusts() {
            let way = Way::Trust { id: id.to_string(), trustee: trust.trustee.to_string() };
            if trust.trustor != world.users["mallory"] && way.login(world, Value::Null).await.is_some() {
                return Err(format!("{trust:?} works after the lent credential ended"));
            }
        }
        Ok(())
    }
}
