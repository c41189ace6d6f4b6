//! `enfilade user access`: the credentials and sessions with which a user can log in, and whether each credential works.

use super::client_certificates;
use super::judge::Judge;
use super::{enabled, until};
use crate::clock;
use crate::home::Home;
use crate::output;
use enfilade_admin::{HeldRole, UserAccess, Way, WayKind, user_access};
use enfilade_facts::Read as _;
use enfilade_facts::tables::{Blob, BlobId};
use enfilade_facts::vocabulary::{UserId, Userid};
use enfilade_identity::{Refusal, check_secret};
use enfilade_keystone::{access_key, ec2_id};
use enfilade_sources::files::issued::{IssuedBy, IssuedSession};
use serde_json::{Value, json};

/// The kinds of credentials and trusts with which a user can log in. Each kind has a key in JSON, a name in the singular, and a name in the plural.
pub(super) const KINDS: [(WayKind, &str, &str, &str); 9] = [
    (WayKind::Password, "passwords", "password", "passwords"),
    (WayKind::ApiToken, "api_tokens", "API token", "API tokens"),
    (WayKind::ClientCertificate, "client_certificates", "client certificate", "client certificates"),
    (
        WayKind::ApplicationCredential,
        "application_credentials",
        "application credential",
        "application credentials",
    ),
    (WayKind::Ec2Key, "ec2_keys", "EC2 key", "EC2 keys"),
    (WayKind::TrustFromAnother, "trusts_from_others", "trust from another user", "trusts from other users"),
    (WayKind::TrustToAnother, "trusts_to_others", "trust to another user", "trusts to other users"),
    (WayKind::OAuthAccessToken, "oauth_access_tokens", "OAuth access token", "OAuth access tokens"),
    (WayKind::Link, "links", "link", "links"),
];

pub(super) fn name_of(kind: WayKind) -> &'static str {
    KINDS.iter().find(|row| row.0 == kind).map_or("", |row| row.2)
}

/// Replaces the ids of EC2 keys by their access keys. Programs, and reports about leaked keys, contain only the access key. The id is a digest of the
/// access key.
pub(super) fn name_access_keys(home: &Home, ways: &mut [Way]) -> anyhow::Result<()> {
    for way in ways.iter_mut().filter(|way| way.kind == WayKind::Ec2Key) {
        let Ok(id) = way.name.parse::<BlobId>() else { continue };
        let row = home.source().read(|view| view.get::<Blob>(&id))??;
        way.name = row.and_then(|row| login_key(&id, &row)).unwrap_or_else(|| id.to_string());
    }
    Ok(())
}

/// The access key with which clients log in. `None` if the id is not the digest of the access key in the blob. This is possible, because a client can
/// change the blob but not the id.
fn login_key(id: &BlobId, row: &Blob) -> Option<String> {
    access_key(&row.blob).filter(|access| ec2_id(access) == *id)
}

/// A credential or trust of a user, and the reason if this credential or trust does not work.
pub(super) type Judged = (Way, Option<String>);

/// Checks whether each credential and trust works now. A trust from another user works only if the trustee can log in with a password, or has a
/// session that is not lent.
pub(super) fn judged(
    home: &Home,
    judge: &Judge,
    ways: Vec<Way>,
    sessions: &[IssuedSession],
) -> anyhow::Result<Vec<Judged>> {
    let (now, context) = (clock::now(), judge.context());
    home.source().read(|view| {
        let mut judged = Vec::new();
        for way in ways {
            let needs_login = way.kind == WayKind::TrustFromAnother && !has_session(&way.user, sessions);
            let why_not = match way.check(view, now, &context) {
                Ok(()) if needs_login && check_secret(view, now, way.user, None).is_err() => {
                    Some("to use a trust, the trustee needs a working password, or a session from a login in person (without an application credential, trust or other lent credential)".to_owned())
                }
                Ok(()) => None,
                Err(Refusal::Facts(why)) => return Err(why.into()),
                Err(refusal) => Some(refusal.reason()),
            };
            judged.push((way, why_not));
        }
        Ok(judged)
    })?
}

fn has_session(user: &UserId, sessions: &[IssuedSession]) -> bool {
    sessions.iter().any(|session| session.user == *user && session.lent == IssuedBy::Nothing)
}

pub(super) fn run(home: &Home, user: &Userid, json: bool) -> anyhow::Result<()> {
    let mut access = home.source().read(|view| user_access(view, user))??;
    let judge = Judge::new(home)?;
    let mut sessions = judge.valid_sessions(home)?;
    sessions.retain(|session| session.user == access.id);
    name_access_keys(home, &mut access.ways)?;
    let found = Found {
        judged: judged(home, &judge, std::mem::take(&mut access.ways), &sessions)?,
        access,
        sessions,
        nobody_asks: client_certificates::nobody_asks(home),
    };
    match json {
        true => output::json_line(&found.described(user)),
        false => found.show(user),
    }
    Ok(())
}

/// A user with all ways to log in.
struct Found {
    access: UserAccess,
    judged: Vec<Judged>,
    sessions: Vec<IssuedSession>,
    /// Whether no line of the crt-list requests client certificates.
    nobody_asks: bool,
}

impl Found {
    /// Says on which connections a way to log in works, if it works only on some connections.
    fn only_where(&self, way: &Way) -> Option<String> {
        (way.kind == WayKind::ClientCertificate).then(|| match self.nobody_asks {
            true => format!("{}, but there is no such line", client_certificates::ONLY_WHERE),
            false => format!("{}{}", client_certificates::ONLY_WHERE, client_certificates::AND_ACCEPTS),
        })
    }

    fn described(&self, user: &Userid) -> Value {
        let Found { access, judged, sessions, .. } = self;
        let way = |(way, why_not): &Judged| {
            json!({
                "way": name_of(way.kind), "name": way.name, "works": why_not.is_none(), "why_not": why_not,
                "only_where": self.only_where(way), "expires": way.expires, "gives": way.gives,
            })
        };
        let role =
            |role: &HeldRole| json!({ "role": role.role, "on": role.on, "assigned_to": role.assigned_to });
        json!({
            "user": user.to_string(), "id": access.id.to_string(), "enabled": access.enabled,
            "domain_enabled": access.domain_enabled, "expires": access.expires,
            "ways": judged.iter().map(way).collect::<Vec<_>>(), "sessions_at_least": sessions.len(),
            "roles": access.roles.iter().map(role).collect::<Vec<_>>(),
            "groups_of_disabled_domains": access.groups_off.iter().map(|group| format!("@{group}")).collect::<Vec<_>>(),
        })
    }

    fn show(&self, user: &Userid) {
        let Found { access, judged, sessions, .. } = self;
        let name = output::word(&user.to_string());
        output::line(&format!(
            "user {user}: enabled {}, domain enabled {}, expires {}",
            enabled(access.enabled),
            enabled(access.domain_enabled),
            until(access.expires)
        ));
        if !access.domain_enabled {
            output::line(&format!(
                "nothing works until you run: enfilade domain enable {}",
                output::word(user.realm().as_str())
            ));
        }
        if !access.enabled {
            output::line(&format!("nothing works until you run: enfilade user enable {name}"));
        }
        let way = |(way, why_not): &Judged| {
            let yes = || self.only_where(way).unwrap_or_else(|| "yes".to_owned());
            let works = why_not.as_ref().map_or_else(yes, |why| format!("no: {why}"));
            let name = if way.kind == WayKind::Password { "-" } else { way.name.as_str() };
            vec![name_of(way.kind).to_owned(), name.to_owned(), until(way.expires), works, way.gives.clone()]
        };
        let mut rows: Vec<Vec<String>> = judged.iter().map(way).collect();
        if let Some(last) = sessions.iter().map(|session| session.expires_at).max() {
            let (count, expires) = (format!("at least {}", sessions.len()), until(last));
            let see = format!("see: enfilade session list {name}");
            rows.push(vec!["sessions".into(), count, expires, "yes".into(), see]);
        }
        match rows.is_empty() {
            true => output::line(&format!(
                "this user has no password, token, key, trust or known session; to set a password: enfilade user passwd {name}"
            )),
            false => output::table(&["WAY IN", "NAME", "EXPIRES", "WORKS", "GIVES"], &rows),
        }
        let role = |role: &HeldRole| vec![role.role.clone(), role.on.clone(), role.assigned_to.clone()];
        if !access.roles.is_empty() {
            output::table(&["ROLE", "ON", "ASSIGNED TO"], &access.roles.iter().map(role).collect::<Vec<_>>());
        }
        let is_closed = access.groups_off.first();
        if access.roles.is_empty() && is_closed.is_none() {
            output::line("no role is assigned to the user or to a group of the user");
        }
        if let Some(first) = is_closed {
            let off: Vec<String> = access.groups_off.iter().map(|group| format!("@{group}")).collect();
            let off: Vec<&str> = off.iter().map(String::as_str).collect();
            output::line(&format!(
                "these groups of the user give no roles while their domain is disabled: {}; to enable the domain of the first group: enfilade domain \
                 enable {}",
                output::some(&off),
                output::word(first.realm().as_str())
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ec2_key_has_the_access_key_with_which_clients_log_in() {
        let of_blob = |blob: &str| {
            let user = UserId::from_bytes([1; 16]);
            let row = Blob { user, project: None, kind: "ec2".into(), blob: blob.to_owned(), ec2: None };
            login_key(&ec2_id("first"), &row)
        };
        assert_eq!(of_blob("{\"access\":\"first\",\"secret\":\"a\"}").as_deref(), Some("first"));
        for blob in ["{\"access\":\"other\",\"secret\":\"a\"}", "{}", "no JSON"] {
            assert_eq!(of_blob(blob), None, "{blob}");
        }
    }
}
