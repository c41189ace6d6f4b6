//! Credentials that services store for users: `/credentials`, and EC2 keys, which are credentials of type `ec2`.

use super::listing::{self, Filters, plain};
use super::request_body::{RequestBody, invalid};
use super::resource::{Record, Resource, Store, add, answer, described_whole};
use super::schema::{Schema, Type};
use super::{ApiError, ApiResponse, Call, Outcome, forbidden, query, users};
use aws_lc_rs::digest::{SHA256, digest};
use enfilade_admin::Error;
use enfilade_admin::keystone::{create_blob, delete_blob, has_role_on, random_id, update_blob};
use enfilade_facts::View;
use enfilade_facts::tables::{
    Blob, BlobId, Ec2Key, Key as _, Project, ResourceKind, Reverse, ReverseKey, User,
};
use enfilade_facts::vocabulary::{CredentialId, ProjectId, UserId};
use enfilade_passage::{About, ApiPermit, Lends};
use hyper::StatusCode;
use serde_json::{Value, json};
use std::ops::ControlFlow;

/// The id of an EC2 credential: the SHA-256 of its access key (as in Keystone).
pub fn ec2_id(access: &str) -> BlobId {
    let mut id = BlobId([0; 32]);
    id.0.iter_mut().zip(digest(&SHA256, access.as_bytes()).as_ref()).for_each(|(to, byte)| *to = *byte);
    id
}

/// The access key in the blob of an EC2 credential.
pub fn access_key(blob: &str) -> Option<String> {
    keys_of(blob).ok().map(|(access, _)| access)
}

/// Completes a credential that is imported from another server. If the credential has the type `ec2`, this function copies the secret key from the
/// blob into the record. If the blob names an application credential, the function also copies its id. As on the other server, the EC2 key then has
/// only the rights of this application credential.
///
/// # Errors
/// When the blob contains no EC2 key, refers to a trust or an access token, or contains a malformed id of an application credential.
pub fn with_key(mut row: Blob) -> Result<Blob, Error> {
    if row.kind == "ec2" {
        let (_, secret) = keys_of(&row.blob)?;
        let value: Value = serde_json::from_str(&row.blob).unwrap_or_default();
        let by = value.get("app_cred_id").and_then(Value::as_str).filter(|id| !id.is_empty());
        let by = by.map(str::parse::<CredentialId>).transpose()?;
        row.ec2 = Some(Ec2Key { secret, by });
        if !has_no_other_reference(&row) {
            return Err(invalid(
                "the blob of the key contains a trust or an OAuth access token (`trust_id`, `access_token_id`), or an `app_cred_id` that is not a string; \
                 this server accepts no such key: let the user create a new one (`openstack ec2 credentials create`)",
            ));
        }
    }
    Ok(row)
}

/// The application credential with which an EC2 key was made. Empty if the key was made without an application credential.
fn lineage_of(row: &Blob) -> &[CredentialId] {
    row.ec2.as_ref().map_or(&[], |key| key.by.as_slice())
}

/// Whether the permit allows the caller to list this credential.
fn is_listed(permit: &ApiPermit, row: &Blob) -> bool {
    permit.only_made_by().is_none_or(|by| lineage_of(row).contains(&by))
}

impl Resource for Blob {
    const SCHEMA: Schema = Schema {
        one: "credential",
        many: "credentials",
        attributes: &[
            ("id", Type::Text, Type::None),
            ("user_id", Type::Text, Type::TextOrNull),
            ("type", Type::Text, Type::Text),
            ("blob", Type::Text, Type::Text),
            ("project_id", Type::TextOrNull, Type::TextOrNull),
            ("links", Type::Object, Type::None),
        ],
    };
    const KIND: Option<ResourceKind> = None;
    const STORE: Store<Self> = Store {
        change: |ctx, before, given| {
            let row = edited(given, before)?;
            update_blob(ctx, &before.id, &before.row, &row)?;
            Ok(Record::bare(before.id, row))
        },
        delete: |ctx, found| delete_blob(ctx, &found.id, &found.row),
    };
    const HAS_OPTIONS: bool = false;

    fn attributes(&self) -> Value {
        let project = self.project.map(|id| id.to_string());
        json!({ "user_id": self.user.to_string(), "type": self.kind, "blob": self.blob, "project_id": project })
    }

    fn change(&mut self, given: &RequestBody) -> Result<(), Error> {
        self.blob = given.needed("blob")?;
        Ok(())
    }

    /// Only the blob can be changed (as in Keystone 30). A body may repeat the stored values of the other attributes, because OpenStack's command
    /// line client always sends all attributes.
    fn keeps(&self, given: &RequestBody) -> Result<(), Error> {
        given.only(&["blob", "type", "user_id", "project_id"])?;
        let (user, project) = (self.user.to_string(), self.project.map(|id| id.to_string()));
        for (name, is) in [
            ("type", Some(self.kind.as_str())),
            ("user_id", Some(user.as_str())),
            ("project_id", project.as_deref()),
        ] {
            if !given.keeps(name, is)? {
                return Err(invalid(format!(
                    "Invalid input for field/attribute {name} of credential: it cannot be changed; create another credential."
                )));
            }
        }
        Ok(())
    }

    fn about<'a>(&'a self, _: &'a BlobId) -> About<'a> {
        About { user: Some(&self.user), lineage: Some(lineage_of(self)), ..About::default() }
    }

    fn about_missing() -> About<'static> {
        About { lineage: Some(&[]), ..About::default() }
    }

    /// Only the user of the credential and administrators see the blob.
    fn described(base: &str, record: Record<Self>, permit: &ApiPermit) -> Value {
        let is_told = permit.tells_secrets_of(&record.row.user);
        let mut body = described_whole(base, record);
        if !is_told {
            add(&mut body, "blob", Value::Null);
        }
        body
    }

    /// Lists the credentials of the user in the query. If the query names no user, the list depends on the caller. A caller who may see the
    /// credentials of all users gets all credentials. Any other caller gets only the caller's own credentials.
    fn list(call: &mut Call) -> Outcome {
        let own = call.visit.principal().user;
        let asked: Option<UserId> = match query(&call.head, "user_id").map(plain) {
            None => None,
            Some(text) => Some(
                text.parse()
                    .map_err(|_| invalid("Invalid input for field/attribute user_id: expected an id."))?,
            ),
        };
        let (permit, user) = match call.allow(&About { user: asked.as_ref(), ..About::default() }) {
            Ok(permit) => (permit, asked),
            Err(why) if asked.is_some() => return Err(why),
            Err(_) => (call.allow(&About { user: Some(&own), ..About::default() })?, Some(own)),
        };
        let base = call.base.clone();
        let after = call.marker(|text| {
            let id: BlobId = text.parse().ok()?;
            Some(user.map_or_else(|| id.bytes(), |user| ReverseKey::Blob(user, id).bytes()))
        })?;
        let bounds = permit.clone();
        let source = move |view: &View<'_>, after: Option<&[u8]>, each: listing::Each<'_>| match user {
            None => listing::records::<Blob>(view, &[], after, |id, row| match is_listed(&bounds, &row) {
                true => Ok(each(id.bytes(), Blob::described(&base, Record::bare(id, row), &bounds))),
                false => Ok(ControlFlow::Continue(())),
            }),
            Some(user) => listing::records::<Reverse>(view, &ReverseKey::blobs_of(&user), after, |key, _| {
                let ReverseKey::Blob(_, id) = key else { return Ok(ControlFlow::Continue(())) };
                match view.get::<Blob>(&id)?.filter(|row| is_listed(&bounds, row)) {
                    Some(row) => {
                        Ok(each(key.bytes(), Blob::described(&base, Record::bare(id, row), &bounds)))
                    }
                    None => Ok(ControlFlow::Continue(())),
                }
            }),
        };
        listing::answer(
            call,
            Self::SCHEMA.many,
            &permit,
            Filters::of(&call.head, &[]),
            after,
            Box::new(source),
        )
    }

    fn create(call: &mut Call) -> Outcome {
        let given = RequestBody::of(call, "credential")?;
        let own = call.visit.principal().user;
        let user = given.id::<UserId>("user_id")?.flatten().unwrap_or(own);
        let mut about = About { user: Some(&user), ..About::default() };
        call.allow(&about)?;
        let (kind, blob) = (given.needed("type")?, given.needed("blob")?);
        let project = given.id::<ProjectId>("project_id")?.flatten();
        match (kind.as_str(), &project) {
            ("ec2", Some(project)) => about.lends = Some(Lends { project, roles: &[] }),
            // Only EC2 keys record the application credential with which they were made.
            _ => about.lineage = Some(&[]),
        }
        let permit = call.allow(&about)?;
        let (id, ec2) = match (kind.as_str(), &project) {
            ("ec2", None) => return Err(invalid("project_id: an EC2 credential needs a project").into()),
            ("ec2", Some(_)) => {
                let (access, secret) = keys_of(&blob)?;
                (ec2_id(&access), Some(Ec2Key { secret, by: lender(call) }))
            }
            _ => (random_id()?, None),
        };
        check_project(call, &permit, &user, project.as_ref())?;
        let row = Blob { user, project, kind, blob, ec2 };
        if row.ec2.is_some() {
            refuse_references(&row)?;
        }
        call.save(&permit, |ctx| create_blob(ctx, &id, &row))?;
        Ok(answer(call, StatusCode::CREATED, Record::bare(id, row), &permit))
    }
}

/// The credential after the changes that the body requests. The id of an EC2 credential is the digest of its first access key. The id does not
/// change, even if the blob gets another access key. So the server always finds the credential by its first access key, as in Keystone.
fn edited(given: &RequestBody, before: &Record<Blob>) -> Result<Blob, Error> {
    let mut edited = before.row.clone();
    edited.change(given)?;
    if let Some(key) = &mut edited.ec2 {
        key.secret = keys_of(&edited.blob)?.1;
        refuse_references(&edited)?;
    }
    Ok(edited)
}

/// The access key and the secret key in the blob of an EC2 credential. The id of a new credential is the digest of its access key ([`ec2_id`]).
fn keys_of(blob: &str) -> Result<(String, String), Error> {
    let value: Value = serde_json::from_str(blob)
        .map_err(|_| invalid("blob: expected a JSON object for an EC2 credential"))?;
    let text = |name: &str| {
        value.get(name).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
    };
    match (text("access"), text("secret")) {
        (Some(access), Some(secret)) => Ok((access, secret)),
        _ => Err(invalid("blob: expected `access` and `secret` for an EC2 credential")),
    }
}

/// Returns `false` if the blob of a key refers to a trust, an access token, or an application credential that did not create the key. Only the
/// application credential that created the key limits the sessions that are issued for the key. An id in the blob does not limit a session.
pub(super) fn has_no_other_reference(row: &Blob) -> bool {
    let value: Value = serde_json::from_str(&row.blob).unwrap_or_default();
    let by = row.ec2.as_ref().and_then(|key| key.by).map(|id| id.to_string());
    let is_none = |name: &str| value.get(name).is_none_or(|value| value.is_null() || value == "");
    // A value that is not a string is not the id of an application credential.
    let is_made_so = by.is_some() && value.get("app_cred_id").and_then(Value::as_str) == by.as_deref();
    is_none("trust_id") && is_none("access_token_id") && (is_none("app_cred_id") || is_made_so)
}

fn refuse_references(row: &Blob) -> Result<(), Error> {
    let why = "the blob of an EC2 credential contains `trust_id`, `app_cred_id` or `access_token_id`, which is not supported; leave this \
               attribute out, or make the key with a session of the application credential";
    if has_no_other_reference(row) { Ok(()) } else { Err(invalid(why)) }
}

/// The application credential for which the session was issued. A key that the session creates is limited to the rights of this credential.
fn lender(call: &Call) -> Option<CredentialId> {
    call.visit.identity().session().and_then(|session| session.claim.credential())
}

/// Checks the project of a new key. A session for the key gets the user's roles on this project. If the caller is not an administrator, and the user
/// has no role on this project, the call is refused. This refusal does not show whether the project exists.
fn check_project(
    call: &Call,
    permit: &ApiPermit,
    user: &UserId,
    project: Option<&ProjectId>,
) -> Result<(), ApiError> {
    let Some(project) = project else { return Ok(()) };
    call.look(|view| {
        if !permit.is_administrators() && !has_role_on(view, user, project)? {
            return Err(forbidden(&format!("identity:{}", call.route.rule)));
        }
        let missing = || ApiError::missing("project", &project.to_string());
        Project::find(view, &project.to_string())?.ok_or_else(missing)?;
        User::find(view, &user.to_string())?.ok_or_else(|| ApiError::missing("user", &user.to_string()))?;
        Ok(())
    })
}

fn ec2_body(base: &str, row: &Blob, permit: &ApiPermit) -> Value {
    let blob: Value = serde_json::from_str(&row.blob).unwrap_or_default();
    let text = |name: &str| blob.get(name).cloned().unwrap_or_default();
    let access = text("access");
    let link =
        format!("{base}/v3/users/{}/credentials/OS-EC2/{}", row.user, access.as_str().unwrap_or_default());
    let secret = permit.tells_secrets_of(&row.user).then(|| text("secret"));
    json!({
        "access": access, "secret": secret, "user_id": row.user.to_string(),
        "tenant_id": row.project.map(|id| id.to_string()), "trust_id": null, "links": { "self": link },
    })
}

/// The user in the path, and the permit for a call about all keys of the user.
fn owner(call: &mut Call) -> Result<(UserId, ApiPermit), ApiError> {
    let (user, domain) = users::of_path(call, 0)?;
    let permit = call.allow(&About { user: Some(&user), domain: domain.as_ref(), ..About::default() })?;
    users::existing(call, &user)?;
    Ok((user, permit))
}

pub(super) fn list_ec2(call: &mut Call) -> Outcome {
    let (user, permit) = owner(call)?;
    let rows = call.look(|view| {
        let mut rows = Vec::new();
        for (key, _) in view.list::<Reverse>(&ReverseKey::blobs_of(&user))? {
            if let ReverseKey::Blob(_, id) = key {
                rows.extend(
                    view.get::<Blob>(&id)?
                        .filter(|row| row.kind == "ec2" && is_listed(&permit, row))
                        .map(|row| ec2_body(&call.base, &row, &permit)),
                );
            }
        }
        Ok(rows)
    })?;
    Ok(super::listed(call, "credentials", rows))
}

/// The EC2 key in the path, if it belongs to the user in the path. As in Keystone, an administrator also finds the key of another user.
fn found_ec2(call: &mut Call) -> Result<(BlobId, Blob, ApiPermit), ApiError> {
    let access = call.decoded(1);
    let id = ec2_id(&access);
    let row = call.look(|view| Ok(view.get::<Blob>(&id)?.filter(|row| row.kind == "ec2")))?;
    let (user, domain) = users::of_path(call, 0)?;
    let lineage = Some(row.as_ref().map_or(&[][..], lineage_of));
    let about = About { user: Some(&user), domain: domain.as_ref(), lineage, ..About::default() };
    let missing = ApiError::missing("EC2 credential", &access);
    let permit = match call.allow(&about) {
        Err(_) if row.as_ref().is_none_or(|row| row.user != user) => {
            return Err(call.unseen(&about, true, missing));
        }
        judged => judged?,
    };
    users::existing(call, &user)?;
    let row = row.filter(|row| row.user == user || permit.is_administrators());
    Ok((id, row.ok_or(missing)?, permit))
}

pub(super) fn show_ec2(call: &mut Call) -> Outcome {
    let (_, row, permit) = found_ec2(call)?;
    Ok(ApiResponse::json(StatusCode::OK, &json!({ "credential": ec2_body(&call.base, &row, &permit) })))
}

pub(super) fn create_ec2(call: &mut Call) -> Outcome {
    let (user, _) = owner(call)?;
    let given = call.json()?;
    let said = given.get("tenant_id").and_then(Value::as_str);
    let own = call.visit.identity().session().and_then(|session| session.claim.scope.project());
    let project = match said {
        Some(text) => text.parse().map_err(|_| ApiError::missing("project", text))?,
        None => own.ok_or_else(|| ApiError::invalid("Expecting to find tenant_id in the body."))?,
    };
    let lends = Some(Lends { project: &project, roles: &[] });
    let permit = call.allow(&About { user: Some(&user), lends, ..About::default() })?;
    check_project(call, &permit, &user, Some(&project))?;
    let word = || {
        let bytes = call.faces.house().random().ok_or(enfilade_faces::RequestError::Worker)?;
        Ok::<_, ApiError>(format!("{:032x}", u128::from_ne_bytes(bytes)))
    };
    let (access, secret) = (word()?, word()?);
    let by = lender(call);
    let lent = by.map(|id| id.to_string());
    let blob = json!({ "access": access, "secret": secret, "trust_id": null, "app_cred_id": lent, "access_token_id": null });
    let ec2 = Some(Ec2Key { secret, by });
    let row = Blob { user, project: Some(project), kind: "ec2".to_owned(), blob: blob.to_string(), ec2 };
    call.save(&permit, |ctx| create_blob(ctx, &ec2_id(&access), &row))?;
    Ok(ApiResponse::json(StatusCode::CREATED, &json!({ "credential": ec2_body(&call.base, &row, &permit) })))
}

pub(super) fn delete_ec2(call: &mut Call) -> Outcome {
    let (id, row, permit) = found_ec2(call)?;
    call.save(&permit, |ctx| delete_blob(ctx, &id, &row))?;
    Ok(ApiResponse::no_content())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_obeyed_where_it_names_nothing_but_its_own_maker() {
        let maker = "01".repeat(16);
        for (by, blob, expected) in [
            (None, json!({ "access": "a", "secret": "s" }), true),
            (None, json!({ "trust_id": null, "app_cred_id": null, "access_token_id": "" }), true),
            (None, json!({ "trust_id": maker }), false),
            (None, json!({ "access_token_id": maker }), false),
            (None, json!({ "app_cred_id": maker }), false),
            (None, json!({ "trust_id": { "id": maker } }), false),
            (None, json!({ "app_cred_id": { "id": maker } }), false),
            (None, json!({ "app_cred_id": false }), false),
            (Some(&maker), json!({ "app_cred_id": [maker] }), false),
            (Some(&maker), json!({ "app_cred_id": maker }), true),
            (Some(&maker), json!({ "app_cred_id": "02".repeat(16) }), false),
            (Some(&maker), json!({ "app_cred_id": maker, "trust_id": maker }), false),
        ] {
            let by = by.map(|by| by.parse().unwrap());
            let ec2 = Some(Ec2Key { secret: "s".into(), by });
            let user = UserId::from_bytes([1; 16]);
            let row = Blob { user, project: None, kind: "ec2".into(), blob: blob.to_string(), ec2 };
            assert_eq!(has_no_other_reference(&row), expected, "{blob}");
        }
    }

    #[test]
    fn a_key_of_another_server_is_limited_as_there() {
        let row = |kind: &str, blob: &str| {
            let user = UserId::from_bytes([1; 16]);
            with_key(Blob { user, project: None, kind: kind.into(), blob: blob.into(), ec2: None })
        };
        let maker = "01".repeat(16);
        for (blob, by) in [
            (json!({ "access": "a", "secret": "s" }), None),
            (json!({ "access": "a", "secret": "s", "trust_id": null, "app_cred_id": null }), None),
            (json!({ "access": "a", "secret": "s", "app_cred_id": maker }), Some(&maker)),
        ] {
            let key = row("ec2", &blob.to_string()).unwrap().ec2.unwrap();
            assert_eq!((key.secret.as_str(), key.by.map(|id| id.to_string()).as_ref()), ("s", by), "{blob}");
        }
        for blob in [
            json!({ "access": "a", "secret": "s", "trust_id": maker }),
            json!({ "access": "a", "secret": "s", "access_token_id": maker }),
            json!({ "access": "a", "secret": "s", "app_cred_id": "x" }),
            json!({ "access": "a", "secret": "s", "app_cred_id": { "id": maker } }),
            json!({ "access": "a" }),
            json!("x"),
        ] {
            assert!(row("ec2", &blob.to_string()).is_err(), "{blob}");
        }
        assert_eq!(row("cert", "no JSON").unwrap().ec2, None);
    }
}
