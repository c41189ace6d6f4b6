//! Users, their groups and their passwords.

use super::domains;
use super::given::{Given, has_option, invalid, unless_immutable, with_extra};
use super::listing::{self, plain};
use super::render::time;
use super::{Call, Outcome, Said, Trouble, query};
use enfilade_admin::{
    ChosenBy, Desk, Error, NewUser, UserAttributes, UserSave, create_user, delete_user, save_user,
    user_attributes,
};
use enfilade_facts::tables::{Domain, Name, NameKind, User};
use enfilade_facts::vocabulary::{DomainId, ProjectId, Secret, UserId, from_rfc3339};
use enfilade_facts::{Read as _, View};
use enfilade_passage::{About, ApiPermit, Party};
use hyper::StatusCode;
use serde_json::{Map, Value, json};

const KNOWN: [&str; 8] = [
    "name",
    "description",
    "enabled",
    "domain_id",
    "default_project_id",
    "email",
    "password",
    "original_password",
];

pub(super) fn body(base: &str, id: &UserId, row: &User, attributes: &UserAttributes) -> Value {
    let mut body = Map::new();
    body.insert("id".to_owned(), json!(id.to_string()));
    body.insert("name".to_owned(), json!(row.name));
    body.insert("domain_id".to_owned(), json!(row.domain.to_keystone()));
    body.insert("enabled".to_owned(), json!(row.enabled));
    body.insert("password_expires_at".to_owned(), password_end(row).map_or(Value::Null, Value::String));
    if let Some(project) = &attributes.profile.default_project {
        body.insert("default_project_id".to_owned(), json!(project.to_string()));
    }
    for (name, value) in [("email", &attributes.profile.email), ("description", &row.comment)] {
        if let Some(value) = value {
            body.insert(name.to_owned(), json!(value));
        }
    }
    with_extra(body, &attributes.extra, format!("{base}/v3/users/{id}"))
}

/// When a user's password has to be changed, in the form that filters compare.
pub(super) fn password_end(row: &User) -> Option<String> {
    row.password.as_ref().map(|password| password.until).filter(|until| *until != 0).map(time)
}

/// Finds a user by id; a user in a removed domain counts as removed.
pub(super) fn find(view: &View<'_>, id: &str) -> Result<Option<(UserId, User)>, Trouble> {
    let Ok(id) = id.parse::<UserId>() else { return Ok(None) };
    let Some(row) = view.get::<User>(&id)? else { return Ok(None) };
    Ok(view.get::<Domain>(&row.domain)?.is_some().then_some((id, row)))
}

/// The user a path names, there or not, and the domain of one that is.
pub(super) fn of_path(call: &Call, at: usize) -> Result<(UserId, Option<DomainId>), Trouble> {
    let said = call.parameter(at);
    let found = call.look(|view| find(view, said))?;
    match found {
        Some((id, row)) => Ok((id, Some(row.domain))),
        // The rule is judged before the 404: a caller without the right does not learn that the user does not exist.
        None => Ok((said.parse().unwrap_or(UserId::from_bytes([0; 16])), None)),
    }
}

/// The user, or 404; for callers that use [`of_path`].
pub(super) fn still_there(call: &Call, id: &UserId) -> Result<User, Trouble> {
    let found = call.look(|view| find(view, &id.to_string()))?;
    found.map(|(_, row)| row).ok_or_else(|| Trouble::missing("user", call.parameter(0)))
}

fn found(call: &mut Call) -> Result<(UserId, User, UserAttributes, ApiPermit), Trouble> {
    let said = call.parameter(0).to_owned();
    let found = call.look(|view| {
        let Some((id, row)) = find(view, &said)? else { return Ok(None) };
        let attributes = user_attributes(view, &id)?;
        Ok(Some((id, row, attributes)))
    })?;
    let changes = found.as_ref().map(|(id, ..)| [Party::User(id)]);
    let permit = call.allow(&About {
        domain: found.as_ref().map(|(_, row, _)| &row.domain),
        user: found.as_ref().map(|(id, ..)| id),
        changes: changes.as_ref().map_or(&[], |changes| changes),
        ..About::default()
    })?;
    let (id, row, attributes) = found.ok_or_else(|| Trouble::missing("user", &said))?;
    Ok((id, row, attributes, permit))
}

/// `?password_expires_at=lt:2026-01-01T00:00:00Z`. A user whose password does not expire never matches.
struct PasswordEnd {
    holds: fn(&i64, &i64) -> bool,
    seconds: i64,
}

const PASSWORD_END: &str = "password_expires_at";

impl PasswordEnd {
    fn read(text: &str) -> Result<Self, Error> {
        let (how, date) = match text.split_once(':') {
            Some((how, date)) if how.bytes().all(|byte| byte.is_ascii_lowercase()) => (how, date),
            _ => ("eq", text),
        };
        let holds: Option<fn(&i64, &i64) -> bool> = match how {
            "lt" => Some(i64::lt),
            "lte" => Some(i64::le),
            "gt" => Some(i64::gt),
            "gte" => Some(i64::ge),
            "eq" => Some(i64::eq),
            "neq" => Some(i64::ne),
            _ => None,
        };
        match holds.zip(from_rfc3339(date)) {
            Some((holds, seconds)) => Ok(PasswordEnd { holds, seconds }),
            None => Err(invalid(format!(
                "{PASSWORD_END}: expected lt, lte, gt, gte, eq or neq, a colon, and a time as 2026-01-01T00:00:00Z"
            ))),
        }
    }

    fn is_of(&self, row: &User) -> bool {
        let until = row.password.as_ref().map_or(0, |password| password.until);
        until != 0 && (self.holds)(&until, &self.seconds)
    }
}

pub(super) fn list(call: &mut Call) -> Outcome {
    let base = call.base.clone();
    let kind = listing::Kind::<User> {
        many: "users",
        names: NameKind::User,
        id: Name::user,
        parse: |text| text.parse().ok(),
        place: |row| (row.domain, row.name.as_str()),
    };
    let wanted = query(&call.head, PASSWORD_END).map(|text| PasswordEnd::read(&plain(text))).transpose()?;
    listing::things(call, kind, &[PASSWORD_END], move |view, id, row| match &wanted {
        Some(wanted) if !wanted.is_of(row) => Ok(None),
        _ => Ok(Some(body(&base, id, row, &user_attributes(view, id)?))),
    })
}

pub(super) fn show(call: &mut Call) -> Outcome {
    let (id, row, attributes, _) = found(call)?;
    Ok(Said::json(StatusCode::OK, &json!({ "user": body(&call.base, &id, &row, &attributes) })))
}

fn secret(text: &str) -> Result<Secret, Error> {
    Secret::new(text.as_bytes())
        .ok_or_else(|| invalid("Invalid input for field/attribute password: expected 1 to 511 bytes."))
}

/// Copies the options that the password rules use into the profile.
fn heed_options(UserAttributes { profile, extra }: &mut UserAttributes) {
    profile.keeps_password = has_option(extra, "ignore_password_expiry");
    profile.takes_given_password = has_option(extra, "ignore_change_password_upon_first_use");
}

/// The user with the changes of the body.
fn changed(given: &Given, user: &User, before: &UserAttributes) -> Result<UserSave, Error> {
    let mut attributes = before.clone();
    if let Some(project) = given.id::<ProjectId>("default_project_id")? {
        attributes.profile.default_project = project;
    }
    if let Some(email) = given.text("email")? {
        attributes.profile.email = email.filter(|text| !text.is_empty());
    }
    attributes.extra = given.extra(&KNOWN, &before.extra)?;
    heed_options(&mut attributes);
    let comment = match given.text("description")? {
        Some(text) => text.filter(|text| !text.is_empty()),
        None => user.comment.clone(),
    };
    let password = given.text("password")?.flatten().map(|text| secret(&text)).transpose()?;
    let password = password.map(|password| (password, ChosenBy::Another));
    let name = given.name()?.unwrap_or_else(|| user.name.clone());
    let enabled = given.flag("enabled")?.unwrap_or(user.enabled);
    Ok(UserSave { name, enabled, comment, password, attributes })
}

pub(super) fn create(call: &mut Call) -> Outcome {
    let given = Given::of(call, "user")?;
    let said = given.text("domain_id")?.flatten();
    let own = call.own_domain();
    let said = said.or(own.map(|own| own.to_keystone()));
    let found = call.look(|view| said.as_ref().map_or(Ok(None), |said| domains::find(view, said)))?;
    let name = given.text("name")?.flatten().unwrap_or_default();
    let changes = &[Party::UserNamed(&name)];
    let domain = found.as_ref().map(|(id, _)| id);
    // Judged first: a caller without the right does not learn whether the domain exists.
    let permit = call.allow(&About { domain, changes, ..About::default() })?;
    let said = said.ok_or_else(|| {
        invalid("Invalid input for field/attribute domain_id: expected the id of a domain.")
    })?;
    let (_, row) = found.ok_or_else(|| Trouble::missing("domain", &said))?;
    let userid = format!("{}@{}", given.needed("name")?, row.name).parse();
    let userid = userid.map_err(|why| invalid(format!("Invalid input for field/attribute name: {why}")))?;
    let mut new = NewUser::named(userid);
    new.password = given.text("password")?.flatten().map(|text| secret(&text)).transpose()?;
    new.comment = given.text("description")?.flatten().filter(|text| !text.is_empty());
    let profile = enfilade_facts::tables::Profile {
        default_project: given.id("default_project_id")?.flatten(),
        email: given.text("email")?.flatten().filter(|text| !text.is_empty()),
        ..Default::default()
    };
    let mut attributes = UserAttributes { profile, extra: given.extra(&KNOWN, "")? };
    heed_options(&mut attributes);
    let enabled = given.flag("enabled")?.unwrap_or(true);
    let id = call.save(&permit, |desk| create_user(desk, &new, enabled, &attributes))?;
    let row = still_there(call, &id)?;
    Ok(Said::json(StatusCode::CREATED, &json!({ "user": body(&call.base, &id, &row, &attributes) })))
}

pub(super) fn update(call: &mut Call) -> Outcome {
    let (id, row, attributes, mut permit) = found(call)?;
    let given = Given::of(call, "user")?;
    if let Some(name) = given.name()? {
        let changes = &[Party::User(&id), Party::UserNamed(&name)];
        permit = call.allow(&About { domain: Some(&row.domain), changes, ..About::default() })?;
    }
    unless_immutable(&attributes.extra, Some(&given))?;
    if given.text("domain_id")?.is_some_and(|said| said != Some(row.domain.to_keystone())) {
        return Err(Error::Refused("the domain of a user cannot be changed".to_owned()).into());
    }
    let (row, attributes) =
        call.save(&permit, |desk| save_user(desk, &id, &|user, before| changed(&given, user, before)))?;
    Ok(Said::json(StatusCode::OK, &json!({ "user": body(&call.base, &id, &row, &attributes) })))
}

pub(super) fn delete(call: &mut Call) -> Outcome {
    let (id, _, attributes, permit) = found(call)?;
    unless_immutable(&attributes.extra, None)?;
    call.save(&permit, |desk| delete_user(desk, &id))?;
    Ok(Said::nothing())
}

/// A user's own change of password, once the old one was proved.
pub(super) fn set_own_password(desk: &Desk<'_>, id: &UserId, old: &Secret, new: &str) -> Result<(), Trouble> {
    let before = desk.facts.read(|view| user_attributes(view, id))??;
    if has_option(&before.extra, "lock_password") {
        let why = "the password of this user is changed by an administrator only";
        return Err(Error::Refused(why.to_owned()).into());
    }
    let password = secret(new)?;
    save_user(desk, id, &|user, before| {
        Ok(UserSave {
            name: user.name.clone(),
            enabled: user.enabled,
            comment: user.comment.clone(),
            password: Some((password.clone(), ChosenBy::User(old.clone()))),
            attributes: before.clone(),
        })
    })?;
    Ok(())
}
