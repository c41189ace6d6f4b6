//! Users and their passwords.

use super::listing::plain;
use super::render::time;
use super::request_body::{RequestBody, has_option, invalid, mfa_rules};
use super::resource::{
    InDomain, Record, Resource, Selection, Store, add, answer, attributes, permitted_in_domain,
};
use super::schema::{Schema, Type};
use super::{ApiError, Call, Outcome, query};
use enfilade_admin::{
    ChangeContext, ChosenBy, Error, NewUser, UserAttributes, UserSave, create_user, delete_user, save_user,
    user_attributes,
};
use enfilade_facts::tables::{Activity, NameKind, Profile, ResourceKind, User};
use enfilade_facts::vocabulary::{DomainId, Secret, UserId, Userid, from_rfc3339};
use enfilade_facts::{Read as _, View};
use enfilade_passage::{About, Party};
use hyper::StatusCode;
use serde_json::{Map, Value, json};

impl Resource for User {
    const SCHEMA: Schema = Schema {
        one: "user",
        many: "users",
        attributes: &[
            ("id", Type::Text, Type::None),
            ("name", Type::Text, Type::Text),
            ("domain_id", Type::Text, Type::TextOrNull),
            ("description", Type::None, Type::TextOrNull),
            ("enabled", Type::Flag, Type::Flag),
            ("email", Type::None, Type::TextOrNull),
            ("password", Type::None, Type::TextOrNull),
            ("password_expires_at", Type::TextOrNull, Type::None),
            ("default_project_id", Type::None, Type::TextOrNull),
            ("options", Type::Object, Type::Object),
            ("links", Type::Object, Type::None),
            ("original_password", Type::None, Type::None),
        ],
    };
    const KIND: Option<ResourceKind> = Some(ResourceKind::User);
    const STORE: Store<Self> = Store {
        change: |ctx, user, given| {
            let (mut row, after) = save_user(ctx, &user.id, &|user, before| changed(given, user, before))?;
            let now = ctx.now.unix_seconds;
            ctx.facts.read(|view| disable_inactive(view, &user.id, &mut row, now))??;
            Ok(Record { id: user.id, row, extra: with_profile(&after) })
        },
        delete: |ctx, user| delete_user(ctx, &user.id),
    };
    const IN_DOMAIN: Option<InDomain<Self>> = Some(InDomain {
        names: NameKind::User,
        id: |name| name.user(),
        place: |row| (row.domain, &row.name),
    });
    const FILTERS: &'static [&'static str] = &[PASSWORD_END];

    fn attributes(&self) -> Value {
        let mut body = json!({
            "name": self.name, "domain_id": self.domain.to_keystone(), "enabled": self.enabled,
            "password_expires_at": password_end(self),
        });
        if let Some(description) = &self.comment {
            add(&mut body, "description", json!(description));
        }
        body
    }

    fn change(&mut self, given: &RequestBody) -> Result<(), Error> {
        given.set_or_remove("description", &mut self.comment)?;
        given.set("name", &mut self.name)?;
        given.set_flag("enabled", &mut self.enabled)
    }

    fn keeps(&self, given: &RequestBody) -> Result<(), Error> {
        match given.keeps("domain_id", Some(&self.domain.to_keystone()))? {
            true => Ok(()),
            false => Err(Error::Refused("the domain of a user cannot be changed".to_owned())),
        }
    }

    fn about<'a>(&'a self, id: &'a UserId) -> About<'a> {
        About { domain: Some(&self.domain), user: Some(id), ..About::default() }
    }

    fn party(id: &UserId) -> Option<Party<'_>> {
        Some(Party::User(id))
    }

    fn party_named(name: &str) -> Option<Party<'_>> {
        Some(Party::UserNamed(name))
    }

    fn selection(call: &Call) -> Result<Selection<Self>, ApiError> {
        match query(&call.head, PASSWORD_END) {
            None => Ok(Box::new(|_| true)),
            Some(text) => {
                let wanted = PasswordEnd::read(&plain(text))?;
                Ok(Box::new(move |row| wanted.is_of(row)))
            }
        }
    }

    fn see(&mut self, view: &View<'_>, id: &UserId, now: i64) -> Result<(), ApiError> {
        Ok(disable_inactive(view, id, self, now)?)
    }

    fn extra(view: &View<'_>, id: &UserId) -> Result<Map<String, Value>, ApiError> {
        Ok(with_profile(&user_attributes(view, id)?))
    }

    fn create(call: &mut Call) -> Outcome {
        let (permit, given, (_, domain)) = permitted_in_domain::<User>(call)?;
        let userid = Userid::new(&given.needed("name")?, domain.name);
        let userid =
            userid.map_err(|why| invalid(format!("Invalid input for field/attribute name: {why}")))?;
        let mut new = NewUser::named(userid);
        new.password = given.text("password")?.flatten().map(|text| secret(&text)).transpose()?;
        given.set_or_remove("description", &mut new.comment)?;
        let after = edited(&given, &UserAttributes::default())?;
        let enabled = given.flag("enabled")?.unwrap_or(true);
        let id = call.save(&permit, |ctx| create_user(ctx, &new, enabled, &after))?;
        let row = existing(call, &id)?;
        let user = Record { id, row, extra: with_profile(&after) };
        Ok(answer(call, StatusCode::CREATED, user, &permit))
    }
}

/// Shows an inactive user as disabled, as in Keystone.
fn disable_inactive(
    view: &View<'_>,
    id: &UserId,
    row: &mut User,
    now: i64,
) -> Result<(), enfilade_facts::SourceError> {
    let is_inactive = view.get::<Activity>(id)?.is_some_and(|activity| activity.is_inactive(now));
    row.enabled &= !is_inactive;
    Ok(())
}

/// The time at which a user's password expires, as text; `None` if it does not expire.
pub(super) fn password_end(row: &User) -> Option<String> {
    row.password.as_ref().map(|password| password.until).filter(|until| *until != 0).map(time)
}

/// The id of the user in the path, and the user's domain if the user exists.
pub(super) fn of_path(call: &Call, at: usize) -> Result<(UserId, Option<DomainId>), ApiError> {
    let said = call.parameter(at);
    let found = call.look(|view| User::find(view, said))?;
    match found {
        Some((id, row)) => Ok((id, Some(row.domain))),
        // The authorization rule is checked before a 404 response. Otherwise an unauthorized caller would learn that the user does not exist.
        None => Ok((said.parse().unwrap_or(UserId::from_bytes([0; 16])), None)),
    }
}

/// Returns the user with this id, or a 404 error if the user does not exist. This function is for callers that got the id from [`of_path`].
pub(super) fn existing(call: &Call, id: &UserId) -> Result<User, ApiError> {
    let found = call.look(|view| User::find(view, &id.to_string()))?;
    found.map(|(_, row)| row).ok_or_else(|| ApiError::missing("user", call.parameter(0)))
}

/// The filter `?password_expires_at=lt:2026-01-01T00:00:00Z`. The filter never matches a user without a password, or with a password that does not
/// expire.
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
                "{PASSWORD_END}: expected an operator (lt, lte, gt, gte, eq or neq), a colon, and a date and time, such as lt:2026-01-01T00:00:00Z"
            ))),
        }
    }

    fn is_of(&self, row: &User) -> bool {
        let until = row.password.as_ref().map_or(0, |password| password.until);
        until != 0 && (self.holds)(&until, &self.seconds)
    }
}

fn secret(text: &str) -> Result<Secret, Error> {
    Secret::new(text.as_bytes())
        .ok_or_else(|| invalid("Invalid input for field/attribute password: expected 1 to 511 bytes."))
}

/// The additional attributes of a user, and the attributes of the profile.
fn with_profile(UserAttributes { profile, extra }: &UserAttributes) -> Map<String, Value> {
    let mut all = attributes(extra);
    if let Some(project) = &profile.default_project {
        all.insert("default_project_id".to_owned(), json!(project.to_string()));
    }
    if let Some(email) = &profile.email {
        all.insert("email".to_owned(), json!(email));
    }
    all
}

/// The profile and the additional attributes, after the changes that the body requests. The options that door 2 and the password rules use are stored
/// both in the profile and in the additional attributes.
fn edited(given: &RequestBody, before: &UserAttributes) -> Result<UserAttributes, Error> {
    let mut profile: Profile = before.profile.clone();
    if let Some(project) = given.id("default_project_id")? {
        profile.default_project = project;
    }
    given.set_or_remove("email", &mut profile.email)?;
    let extra = given.extra(&User::SCHEMA, &before.extra)?;
    let options = attributes(&extra);
    profile.keeps_password = has_option(&options, "ignore_password_expiry");
    profile.takes_given_password = has_option(&options, "ignore_change_password_upon_first_use");
    profile.is_never_locked = has_option(&options, "ignore_lockout_failure_attempts");
    profile.is_always_active = has_option(&options, "ignore_user_inactivity");
    profile.mfa_rules = options.get("options").and_then(Value::as_object).map(mfa_rules).unwrap_or_default();
    Ok(UserAttributes { profile, extra })
}

/// The user after the changes that the body requests.
fn changed(given: &RequestBody, user: &User, before: &UserAttributes) -> Result<UserSave, Error> {
    let after = edited(given, before)?;
    let password = given.text("password")?.flatten().map(|text| secret(&text)).transpose()?;
    let password = password.map(|password| (password, ChosenBy::Another));
    let mut user = user.clone();
    user.change(given)?;
    let User { name, enabled, comment, .. } = user;
    let is_let_in = given.flag("enabled")? == Some(true);
    Ok(UserSave { name, enabled, comment, password, is_let_in, attributes: after })
}

/// Changes the password of a user at the request of that user. Door 2 (identity) has already verified the old password.
pub(super) fn set_own_password(
    ctx: &ChangeContext<'_>,
    id: &UserId,
    old: &Secret,
    new: &str,
) -> Result<(), ApiError> {
    let password = secret(new)?;
    save_user(ctx, id, &|user, before| {
        if has_option(&attributes(&before.extra), "lock_password") {
            return Err(invalid("only an administrator may change the password of this user"));
        }
        Ok(UserSave {
            name: user.name.clone(),
            enabled: user.enabled,
            comment: user.comment.clone(),
            password: Some((password.clone(), ChosenBy::User(old.clone()))),
            is_let_in: false,
            attributes: before.clone(),
        })
    })?;
    Ok(())
}
