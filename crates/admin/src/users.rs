//! Users.

use crate::activities::{all_activities, put_activity};
use crate::change_context::{ChangeContext, random};
use crate::chosen::Chosen;
use crate::comment::check_comment;
use crate::error::{Error, missing};
use crate::keystone::keep_password_out;
use crate::passwords::ChosenBy;
use crate::resolve::{Names, dangling, domain_id, user_id};
use enfilade_facts::tables::{
    Activity, Assignment, AssignmentKey, Blob, Credential, Domain, Extra, ExtraKey, FileName, Grant,
    GrantKey, Grantee, Member, Membership, Name, NameKey, Password, Profile, ResourceKind, Reverse,
    ReverseKey, SidSpace, SidSpaceKey, UsedPasscode, User, Who,
};
use enfilade_facts::vocabulary::{Authid, Secret, Sid, Ugid, UserId, Userid};
use enfilade_facts::{At, Change, Effect, Read, Source, View};
use enfilade_sources::files::user_cfg::{self, Entry};

/// A user to create.
#[derive(Clone, Debug)]
pub struct NewUser {
    /// The name of the user.
    pub userid: Userid,
    /// The password, if the user gets one.
    pub password: Option<Secret>,
    /// The SID; `None` for the next free SID of this store.
    pub sid: Option<Sid>,
    /// The user number, for files without an ACL and for NFSv4 ACLs.
    pub uid: Option<u32>,
    /// The primary group number, for files without an ACL.
    pub gid: Option<u32>,
    /// When the user expires, in seconds since the epoch; 0 means never.
    pub expires: i64,
    /// The comment.
    pub comment: Option<String>,
}

impl NewUser {
    /// A user with only a name.
    pub fn named(userid: Userid) -> Self {
        NewUser { userid, password: None, sid: None, uid: None, gid: None, expires: 0, comment: None }
    }
}

/// Attributes of a user in Identity v3 that are not in the user's record.
#[derive(Clone, Debug, Default)]
pub struct UserAttributes {
    /// The default project, the email address, the options for passwords and locks, and the rules for multi-factor authentication.
    pub profile: Profile,
    /// The additional attributes: a JSON object, or an empty text.
    pub extra: String,
}

/// The new state of a user.
#[derive(Clone, Debug)]
pub struct UserSave {
    /// The name of the user in the domain.
    pub name: String,
    /// Whether the user and all tokens of the user are accepted.
    pub enabled: bool,
    /// The comment.
    pub comment: Option<String>,
    /// A new password, and whether the user or an administrator chose it.
    pub password: Option<(Secret, ChosenBy)>,
    /// Whether an administrator explicitly lets the user in. This ends a lock, and makes an inactive user active again. A password that an
    /// administrator sets has the same effect.
    pub is_let_in: bool,
    /// The other attributes.
    pub attributes: UserAttributes,
}

/// Changes a user by id. The change is in effect from the next request on. A new password ends the user's sessions, and so does disabling the user.
///
/// # Errors
/// When the user does not exist, the new name is taken, a user of `user.cfg` would get another name, or the facts cannot be changed.
pub fn save_user(
    ctx: &ChangeContext<'_>,
    id: &UserId,
    build: &dyn Fn(&User, &UserAttributes) -> Result<UserSave, Error>,
) -> Result<(User, UserAttributes), Error> {
    let (user, domain) = find_by_id(ctx, id)?;
    let save = build(&user, &ctx.facts.read(|view| user_attributes(view, id))??)?;
    let chosen = save
        .password
        .as_ref()
        .map(|(password, by)| Chosen::of(ctx, &user, &save.attributes.profile, (password, by)));
    let chosen = chosen.transpose()?;
    if user.mirrored.is_some() {
        if save.name != user.name {
            return Err(Error::Refused("the user is defined in user.cfg: rename it there".to_owned()));
        }
        let userid = Userid::new(&user.name, domain.name.clone())?;
        let comment = Some(save.comment.clone().unwrap_or_default());
        let enabled = (save.enabled != user.enabled).then_some(save.enabled);
        let edit = UserEdit { enabled, comment, ..UserEdit::default() };
        set_user(ctx, &userid, &edit)?;
    }
    let (saved, _) = ctx.commit(&format!("user {id} update"), |view, change| {
        let user = view.get::<User>(id)?.ok_or_else(|| missing("user", id))?;
        let before = user_attributes(view, id)?;
        let save = build(&user, &before)?;
        check_comment(save.comment.as_deref())?;
        let mut edited = user.clone();
        if user.name != save.name {
            let domain = view.get::<Domain>(&user.domain)?.ok_or_else(|| dangling("domain", user.domain))?;
            Userid::new(&save.name, domain.name)?;
            let (old, new) =
                (NameKey::user(&user.domain, &user.name), NameKey::user(&user.domain, &save.name));
            if view.get::<Name>(&new)?.is_some() {
                return Err(Error::Exists { what: "user", name: save.name, hint: "choose another name" });
            }
            change
                .delete::<Name>(&old)
                .expect_absent::<Name>(&new)
                .put(&new, &Name::new(id.stored(), save.name.as_str()));
            edited.name.clone_from(&save.name);
        }
        if user.mirrored.is_none() {
            (edited.enabled, edited.comment) = (save.enabled, save.comment.clone());
        }
        let profile = &save.attributes.profile;
        match (&chosen, &mut edited.password) {
            (Some(chosen), _) => chosen.put(ctx, &mut edited, profile)?,
            (None, Some(unchanged)) if !profile.has_rules_of(&before.profile) => {
                unchanged.until = ctx.passwords.until(unchanged, profile);
            }
            (None, _) => {}
        }
        change.replace(id, &user, &edited);
        put_attributes(change, id, &save.attributes)?;
        let is_let_in = save.is_let_in || matches!(save.password, Some((_, ChosenBy::Another)));
        put_activity(ctx, view, change, id, (&save.attributes.profile, is_let_in))?;
        Ok((edited, save.attributes))
    })?;
    Ok(saved)
}

/// Reads the attributes of Identity v3 that are not in the user's record.
///
/// # Errors
/// When the facts cannot be read.
pub fn user_attributes(view: &View<'_>, id: &UserId) -> Result<UserAttributes, Error> {
    let profile = view.get::<Profile>(id)?.unwrap_or_default();
    Ok(UserAttributes { profile, extra: crate::keystone::extra_of(view, ResourceKind::User, id)? })
}

/// Adds the attributes of Identity v3 to a change.
///
/// # Errors
/// When the additional attributes are too large.
fn put_attributes(change: &mut Change, id: &UserId, attributes: &UserAttributes) -> Result<(), Error> {
    match attributes.profile == Profile::default() {
        true => change.delete::<Profile>(id),
        false => change.put(id, &attributes.profile),
    };
    crate::keystone::put_extra(change, ResourceKind::User, id, &attributes.extra)
}

/// Creates a user with the attributes of Identity v3. A first change creates the enabled user, and a second change adds the attributes.
///
/// # Errors
/// As [`add_user`]. If only the second change fails, the user exists without the attributes.
pub fn create_user(
    ctx: &ChangeContext<'_>,
    new: &NewUser,
    enabled: bool,
    attributes: &UserAttributes,
) -> Result<UserId, Error> {
    let (id, _) = add_user(ctx, new)?;
    if !enabled || attributes.profile != Profile::default() || !attributes.extra.is_empty() {
        save_user(ctx, &id, &|user, _| {
            Ok(UserSave {
                name: user.name.clone(),
                enabled,
                comment: user.comment.clone(),
                password: None,
                is_let_in: false,
                attributes: attributes.clone(),
            })
        })?;
    }
    Ok(id)
}

/// Removes a user by id.
///
/// # Errors
/// As [`remove_user`].
pub fn delete_user(ctx: &ChangeContext<'_>, id: &UserId) -> Result<(), Error> {
    let (user, domain) = find_by_id(ctx, id)?;
    remove_user(ctx, &Userid::new(&user.name, domain.name)?)?;
    Ok(())
}

fn find_by_id(ctx: &ChangeContext<'_>, id: &UserId) -> Result<(User, Domain), Error> {
    ctx.facts.read(|view| {
        let missing = || crate::error::missing("user", id);
        let user = view.get::<User>(id)?.ok_or_else(missing)?;
        let domain = view.get::<Domain>(&user.domain)?.ok_or_else(missing)?;
        Ok((user, domain))
    })?
}

/// A user, for listing.
#[derive(Clone, Debug)]
pub struct UserSummary {
    /// The name of the user.
    pub userid: String,
    /// The id of the user.
    pub id: UserId,
    /// The SID of the user.
    pub sid: Sid,
    /// Whether the user is enabled.
    pub enabled: bool,
    /// The last login, and the lock after failed logins.
    pub activity: Activity,
    /// When the user expires, in seconds since the epoch; 0 means never.
    pub expires: i64,
    /// When the password expires, in seconds since the epoch; 0 means never.
    pub password_until: i64,
    /// Whether the user has a password.
    pub has_password: bool,
    /// The user number.
    pub uid: Option<u32>,
    /// The primary group number.
    pub gid: Option<u32>,
    /// The comment.
    pub comment: Option<String>,
    /// Whether the user is mirrored from `user.cfg`.
    pub is_mirrored: bool,
    /// The problem of the user's section in `user.cfg`, if it has one.
    pub fault: Option<String>,
}

/// Creates a user.
///
/// # Errors
/// When the realm does not exist, the name is taken, the password, the SID or the comment is not allowed, or `user.cfg` or the facts cannot be
/// changed.
pub fn add_user(ctx: &ChangeContext<'_>, new: &NewUser) -> Result<(UserId, At), Error> {
    check_comment(new.comment.as_deref())?;
    let first = |password: &Secret| ctx.passwords.first(password, ctx.now.unix_seconds);
    let password = new.password.as_ref().map(first).transpose()?;
    // `user.cfg` can contain only plain names. A user with another name is stored only in the facts.
    if ctx.uses(FileName::Users)? && new.userid.is_plain() {
        return add_kept_user(ctx, new, password);
    }
    ctx.commit(&format!("user add {}", new.userid), |view, change| {
        let domain = domain_id(view, new.userid.realm())?;
        let name = NameKey::user(&domain, new.userid.name());
        if view.get::<Name>(&name)?.is_some() {
            return Err(exists(&new.userid));
        }
        let id = random()?;
        let user = User {
            domain,
            name: new.userid.name().to_owned(),
            sid: choose_sid(new.sid, view, change)?,
            also: Vec::new(),
            uid: new.uid,
            gid: new.gid,
            enabled: true,
            expires: new.expires,
            password: password.clone(),
            comment: new.comment.clone(),
            mirrored: None,
        };
        change.expect_absent::<Name>(&name).put(&name, &Name::new(id, new.userid.name()));
        change.put(&UserId::from_bytes(id), &user);
        Ok(UserId::from_bytes(id))
    })
}

/// Adds the user's section to `user.cfg`, and stores in the facts the attributes that the file cannot contain.
fn add_kept_user(
    ctx: &ChangeContext<'_>,
    new: &NewUser,
    password: Option<Password>,
) -> Result<(UserId, At), Error> {
    let (what, authid) = (format!("user add {}", new.userid), Authid::from(new.userid.clone()));
    let find = |view: &View<'_>| user_id(view, &new.userid);
    if ctx.facts.read(find)?.is_ok() {
        return Err(exists(&new.userid));
    }
    let at = ctx.write_through(&what, Effect::Gives, &[FileName::Users], |files| {
        files.sections(FileName::Users, |sections| {
            if sections.iter().any(|section| section.id == authid.to_proxmox()) {
                return Err(exists(&new.userid));
            }
            let entry = Entry { enabled: true, expires: new.expires, comment: new.comment.clone() };
            user_cfg::set(sections, &authid, &entry).map_err(Error::Invalid)
        })
    })?;
    let id = ctx.facts.read(find)??;
    if password.is_none() && new.sid.is_none() && new.uid.is_none() && new.gid.is_none() {
        return Ok((id, at));
    }
    let (_, at) =
        ctx.commit(&format!("{what}: store the attributes that user.cfg cannot contain"), |view, change| {
            let user = view.get::<User>(&id)?.ok_or_else(|| dangling("user", id))?;
            let sid = if new.sid.is_some() { choose_sid(new.sid, view, change)? } else { user.sid };
            let (uid, gid, password) = (new.uid, new.gid, password.clone());
            change.expect_same(&id, &user).put(&id, &User { sid, uid, gid, password, ..user.clone() });
            Ok(())
        })?;
    Ok((id, at))
}

fn exists(user: &Userid) -> Error {
    let hint = "choose another name, or change the user with `enfilade user set` or `enfilade user passwd`";
    Error::Exists { what: "user", name: user.to_string(), hint }
}

/// Sets the password of a user, as an administrator. This ends the user's sessions, ends a lock, and makes an inactive user active again.
///
/// # Errors
/// When the user does not exist, the rules do not allow the password, another request changed the password meanwhile, or the facts cannot be changed.
pub fn set_password(ctx: &ChangeContext<'_>, userid: &Userid, password: &Secret) -> Result<At, Error> {
    let (id, user) = find(ctx, userid)?;
    let profile = ctx.facts.read(|view| view.get::<Profile>(&id))??.unwrap_or_default();
    let chosen = Chosen::of(ctx, &user, &profile, (password, &ChosenBy::Another))?;
    edit(ctx, "passwd", userid, true, |user| chosen.put(ctx, user, &profile))
}

/// Removes the password of a user, and ends the user's sessions. The user can log in with a password again after [`set_password`].
///
/// # Errors
/// When the user does not exist, or the facts cannot be changed.
pub(crate) fn remove_password(ctx: &ChangeContext<'_>, userid: &Userid) -> Result<At, Error> {
    let ((), at) = ctx.commit(&format!("user password remove {userid}"), |view, change| {
        let id = user_id(view, userid)?;
        let user = view.get::<User>(&id)?.ok_or_else(|| dangling("user", id))?;
        change.replace(&id, &user, &User { password: None, ..user.clone() });
        Ok(keep_password_out(view, change, &id, user.password.is_some())?)
    })?;
    Ok(at)
}

/// Changes to a user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserEdit {
    /// Whether the user and all tokens of the user are accepted.
    pub enabled: Option<bool>,
    /// When the user expires, in seconds since the epoch; 0 means never.
    pub expires: Option<i64>,
    /// The new comment; an empty text removes the comment.
    pub comment: Option<String>,
    /// The user number, for files without an ACL and for NFSv4 ACLs.
    pub uid: Option<u32>,
    /// The primary group number, for files without an ACL.
    pub gid: Option<u32>,
}

/// Changes a user. The change is in effect from the next request on.
///
/// # Errors
/// When the user does not exist, or the facts or `user.cfg` cannot be changed.
pub fn set_user(ctx: &ChangeContext<'_>, userid: &Userid, edit: &UserEdit) -> Result<At, Error> {
    check_comment(edit.comment.as_deref())?;
    let set = |enabled: &mut bool, expires: &mut i64, comment: &mut Option<String>| {
        *enabled = edit.enabled.unwrap_or(*enabled);
        *expires = edit.expires.unwrap_or(*expires);
        if let Some(new) = &edit.comment {
            *comment = Some(new.clone()).filter(|comment| !comment.is_empty());
        }
    };
    let numbers = |user: &mut User| {
        user.uid = edit.uid.or(user.uid);
        user.gid = edit.gid.or(user.gid);
        Ok(())
    };
    let is_let_in = edit.enabled == Some(true);
    let (_, user) = find(ctx, userid)?;
    if user.mirrored.is_some() {
        let mut after = user.clone();
        set(&mut after.enabled, &mut after.expires, &mut after.comment);
        let effect = Effect::of(&user, &after);
        let at = ctx.write_through(&format!("user set {userid}"), effect, &[FileName::Users], |files| {
            files.sections(FileName::Users, |sections| {
                let change =
                    |entry: &mut Entry| set(&mut entry.enabled, &mut entry.expires, &mut entry.comment);
                user_cfg::change(sections, &userid.clone().into(), change).map_err(Error::Invalid)
            })
        })?;
        // Attributes that the file cannot express are stored in the facts.
        return match edit.uid.is_some() || edit.gid.is_some() || is_let_in {
            true => self::edit(ctx, "set", userid, is_let_in, numbers),
            false => Ok(at),
        };
    }
    self::edit(ctx, "set", userid, is_let_in, |user| {
        set(&mut user.enabled, &mut user.expires, &mut user.comment);
        numbers(user)
    })
}

fn find(ctx: &ChangeContext<'_>, userid: &Userid) -> Result<(UserId, User), Error> {
    ctx.facts.read(|view| {
        let id = user_id(view, userid)?;
        Ok((id, view.get::<User>(&id)?.ok_or_else(|| dangling("user", id))?))
    })?
}

/// Removes a user with all tokens, memberships and roles, from the facts and from the files. If a user with the same name is created later, the new
/// user has no token, membership or role of the removed user.
///
/// # Errors
/// When the user does not exist or is `root@pam`, or the facts or the files cannot be changed.
pub fn remove_user(ctx: &ChangeContext<'_>, userid: &Userid) -> Result<At, Error> {
    if *userid == Userid::root_pam() {
        return Err(Error::Invalid(
            "root@pam cannot be removed: every server that uses Proxmox's files has this user".into(),
        ));
    }
    let what = format!("user remove {userid}");
    let is_mirrored = find(ctx, userid)?.1.mirrored.is_some();
    let mut in_use = Vec::new();
    for file in [FileName::Users, FileName::Secrets, FileName::Acl] {
        if (is_mirrored || file == FileName::Acl) && ctx.uses(file)? {
            in_use.push(file);
        }
    }
    let forget = |view: &View<'_>, change: &mut Change| {
        let id = user_id(view, userid)?;
        let user = view.get::<User>(&id)?.ok_or_else(|| dangling("user", id))?;
        change.expect_same(&id, &user).delete::<Name>(&NameKey::user(&user.domain, &user.name));
        change.end_with::<User>(&id);
        forget_user(view, change, &id)
    };
    let mut at = ctx.facts.at();
    if !in_use.is_empty() {
        ctx.check(&what, forget)?;
        // The secrets are removed first. So after a power cut in between, the remaining tokens have no secret and are refused.
        at = ctx.write_through(&what, Effect::Takes, &in_use, |files| {
            if in_use.contains(&FileName::Secrets) {
                files.secrets(|secrets| secrets.remove_all_of(userid))?;
            }
            if in_use.contains(&FileName::Users) {
                files.sections(FileName::Users, |sections| {
                    user_cfg::remove_all_of(sections, userid);
                    Ok(())
                })?;
            }
            if in_use.contains(&FileName::Acl) {
                files.acl(|acl| {
                    let is_theirs =
                        |ugid: &Ugid| matches!(ugid, Ugid::Authid(authid) if authid.user == *userid);
                    acl.entries.retain(|(_, ugid), _| !is_theirs(ugid));
                    Ok(())
                })?;
            }
            Ok(())
        })?;
    }
    // Usually the user's record is deleted now, because its section was removed from `user.cfg`. If other sections of the file have errors, the
    // record was only marked as stale, and is deleted below.
    if is_mirrored && find(ctx, userid).is_err() {
        return Ok(at);
    }
    let ((), at) = ctx.commit(&what, forget)?;
    Ok(at)
}

/// Adds the removal of a user, with all dependent records, to a change.
pub(crate) fn forget_user(view: &View<'_>, change: &mut Change, id: &UserId) -> Result<(), Error> {
    let mut whose = vec![Who::User(*id)];
    change.delete::<User>(id).delete::<Profile>(id).delete::<Extra>(&ExtraKey::of(ResourceKind::User, id));
    change.delete::<Activity>(id);
    crate::second_factors::forget_second_factor(view, change, id)?;
    for (key, _) in view.list::<Grant>(&GrantKey::of(&Grantee::User(*id)))? {
        change.delete::<Grant>(&key);
    }
    for (key, name) in view.list::<Name>(&NameKey::tokens_of(id))? {
        change.delete::<Name>(&key).delete::<Credential>(&name.credential());
        crate::keystone::forget_delegation(view, change, &name.credential())?;
        whose.push(Who::Token(name.credential()));
    }
    for (key, _) in view.list::<Reverse>(&ReverseKey::blobs_of(id))? {
        change.delete::<Reverse>(&key);
        if let ReverseKey::Blob(_, blob) = key {
            change.delete::<Blob>(&blob).delete::<UsedPasscode>(&blob);
        }
    }
    crate::keystone::forget_access_rules(view, change, id)?;
    crate::keystone::remove_trusts(view, change, &ReverseKey::trusts_of(id))?;
    crate::keystone::remove_access_tokens(view, change, &ReverseKey::access_of(id))?;
    for (key, _) in view.list::<Membership>(&Member::User(*id).prefix())? {
        change.delete::<Membership>(&key);
    }
    for who in &whose {
        for key in AssignmentKey::all_of(view, who)? {
            change.delete::<Assignment>(&key);
        }
    }
    Ok(())
}

/// Every user, sorted by name.
///
/// # Errors
/// When the facts cannot be read.
pub fn list_users(source: &dyn Source) -> Result<Vec<UserSummary>, Error> {
    source.read(|view| {
        let (names, activities) = (Names::read(view)?, all_activities(view)?);
        let summary = |(id, user): (UserId, User)| UserSummary {
            userid: names.user(&id),
            id,
            sid: user.sid,
            enabled: user.enabled,
            activity: activities.get(&id).copied().unwrap_or_default(),
            expires: user.expires,
            password_until: user.password.as_ref().map_or(0, |password| password.until),
            has_password: user.password.is_some(),
            uid: user.uid,
            gid: user.gid,
            comment: user.comment,
            is_mirrored: user.mirrored.is_some(),
            fault: user.mirrored.and_then(|mirrored| mirrored.fault).map(|fault| fault.to_string()),
        };
        let mut users: Vec<_> = view.list::<User>(&[])?.into_iter().map(summary).collect();
        users.sort_by(|a, b| a.userid.cmp(&b.userid));
        Ok(users)
    })?
}

fn edit(
    ctx: &ChangeContext<'_>,
    verb: &str,
    userid: &Userid,
    is_let_in: bool,
    edit: impl Fn(&mut User) -> Result<(), Error>,
) -> Result<At, Error> {
    let ((), at) = ctx.commit(&format!("user {verb} {userid}"), |view, change| {
        let id = user_id(view, userid)?;
        let user = view.get::<User>(&id)?.ok_or_else(|| dangling("user", id))?;
        let mut edited = user.clone();
        edit(&mut edited)?;
        change.replace(&id, &user, &edited);
        if is_let_in {
            let profile = view.get::<Profile>(&id)?.unwrap_or_default();
            put_activity(ctx, view, change, &id, (&profile, true))?;
        }
        Ok(())
    })?;
    Ok(at)
}

/// Returns the given SID, if a new user or group is allowed to have it. If no SID is given, takes the next free SID of this store.
pub(crate) fn choose_sid(given: Option<Sid>, view: &View<'_>, change: &mut Change) -> Result<Sid, Error> {
    let Some(sid) = given else { return take_sid(view, change) };
    is_free(&sid, view)?;
    Ok(sid)
}

/// Refuses a SID that is not allowed for users and groups, and a SID in use.
pub(crate) fn is_free(sid: &Sid, view: &View<'_>) -> Result<(), Error> {
    // SIDs of users and groups begin with `S-1-5-21-`. Other SIDs stand for everyone, for owners, or for the machine itself.
    if !sid.to_string().starts_with("S-1-5-21-") || sid.subs().len() != 5 {
        return Err(Error::Invalid(format!(
            "`{sid}` is not a SID of a user or group; expected S-1-5-21-a-b-c-rid"
        )));
    }
    match Names::read(view)?.sid(sid) {
        Some(name) => {
            Err(Error::Exists { what: "SID", name: format!("{sid} ({name})"), hint: "choose another SID" })
        }
        None => Ok(()),
    }
}

/// Takes the next SID of this store that is not in use.
fn take_sid(view: &View<'_>, change: &mut Change) -> Result<Sid, Error> {
    let space = view.get::<SidSpace>(&SidSpaceKey)?.ok_or_else(|| {
        Error::Invalid(
            "the store has no record of its free SIDs; the facts are damaged: run `enfilade facts check`"
                .into(),
        )
    })?;
    let (sid, rest) =
        space.take(view.at().store).ok_or_else(|| Error::Invalid("this store has no SID left for new users and groups, because SIDs of removed users and groups are not used again: choose a SID that no user or group has or had, and give it with `--sid`".into()))?;
    change.expect_same(&SidSpaceKey, &space).put(&SidSpaceKey, &rest);
    Ok(sid)
}
