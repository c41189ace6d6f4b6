//! `enfilade revoke`: ends sessions, deletes credentials, and reports what ended and what still works. For the report, the command judges sessions
//! and credentials before and after the change, as a server does.

use super::access::{Judged, KINDS, judged};
use super::judge::{Judge, known_sessions};
use super::keystone::{find_with_name, require_domain};
use super::or_dash;
use crate::cli::revoke::{Extent, Revoke};
use crate::home::Home;
use crate::issued::record_of;
use crate::output::{self, counted};
use anyhow::{Context, ensure};
use enfilade_admin::keystone::{self, RevocationSummary};
use enfilade_admin::{
    Names, Way, WayKind, contents_of_domain, end_locks_of, name_of_user, user_access, users_in_group,
    ways_for, ways_of, withdraw, withdraw_for, withdraw_from,
};
use enfilade_facts::tables::{AccessToken, Blob, BlobId, Domain, Group, NamedRole, Project, Revoked, User};
use enfilade_facts::vocabulary::{
    AccessTokenId, Authid, GroupName, NameInDomain, ProjectId, Realm, Secret, TrustId, UserId, Userid,
};
use enfilade_facts::{Read as _, SourceError, View};
use enfilade_identity::fernet::payload::{audit_id_from_text, audit_id_to_text};
use enfilade_identity::{Claim, SessionAsk};
use enfilade_keystone::ec2_id;
use enfilade_sources::files::issued::IssuedSession;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::io::{BufRead as _, Read as _};

pub(super) fn run(home: &Home, command: Revoke, json: bool) -> anyhow::Result<()> {
    let judge = Judge::new(home)?;
    let mut known = known_sessions(home)?;
    let subject = match command {
        Revoke::List => return list(home, json),
        Revoke::User { user, extent } => Subject::user(home, &user, &extent)?,
        Revoke::Group { group, extent } => Subject::group(home, &group, &extent)?,
        Revoke::Domain { domain, extent } => Subject::domain(home, &domain, &extent)?,
        Revoke::Project { project, extent } => Subject::project(home, &project, &extent)?,
        Revoke::Token { token } => match token.parse::<Authid>() {
            Ok(authid) if authid.token.is_some() => Subject::token(home, &authid)?,
            _ => Subject::session(home, &token, false, &mut known)?,
        },
        Revoke::Ec2Key { key } => Subject::key(home, &key)?,
        Revoke::Trust { trust } => Subject::trust(home, &trust)?,
        Revoke::AccessToken { access_token } => Subject::access_token(home, &access_token)?,
        Revoke::Session { session, chain } => {
            refuse_api_token(&session)?;
            Subject::session(home, &session, chain, &mut known)?
        }
        Revoke::Chain { session } => {
            refuse_api_token(&session)?;
            Subject::session(home, &session, true, &mut known)?
        }
    };
    let sessions = judge.still_valid(home, known)?;
    let ways = subject.ways(home)?;
    let locks = subject.revoke(home)?;
    let after = subject.ways(home)?;
    let stay: BTreeSet<(UserId, &str)> = after.iter().map(|way| (way.user, way.name.as_str())).collect();
    let taken = ways.into_iter().filter(|way| !stay.contains(&(way.user, way.name.as_str()))).collect();
    let valid = judge.still_valid(home, sessions.clone())?;
    let outcome = Outcome {
        sessions: sessions.len() - valid.len(),
        taken,
        locks,
        sessions_left: valid.iter().filter(|session| subject.users.contains(&session.user)).count(),
        left: judged(home, &judge, after, &valid)?,
    };
    match json {
        true => output::json_line(&outcome.described(&subject, home.source().at().revision.0)),
        false => outcome.lines(&subject).iter().for_each(|line| output::line(line)),
    }
    Ok(())
}

/// Refuses the name of an API token if a session is expected.
fn refuse_api_token(text: &str) -> anyhow::Result<()> {
    ensure!(
        !text.contains('!'),
        "`{text}` is the name of an API token, not the audit id of a session; to revoke the API token: enfilade revoke token {}",
        output::word(text)
    );
    Ok(())
}

/// The credentials that a revocation deletes, in addition to the sessions that it ends.
#[derive(Default)]
enum Deletes {
    #[default]
    Nothing,
    /// An API token, EC2 key, trust or OAuth access token.
    One(Box<Way>),
    Everything,
}

/// The subject of a revocation.
#[derive(Default)]
struct Subject {
    /// The kind of the subject: `user`, `group`, …
    kind: &'static str,
    /// The name of the subject.
    name: String,
    marks: Vec<Revoked>,
    deletes: Deletes,
    /// The users that the subject concerns: the user itself, the members of the group, the users of the domain, or the owner of the session,
    /// credential or trust. The report lists the credentials and trusts of these users that still work. For `projects`, the report also lists the
    /// credentials and trusts that other users have for these projects.
    users: BTreeSet<UserId>,
    projects: Vec<ProjectId>,
    /// The user that owns the subject, if there is one.
    owner: Option<Userid>,
    /// The command that lets a user log in again after everything was deleted. The text is empty for a domain or project. In this case the report
    /// contains no such command, and says how to refuse new sessions instead.
    again: String,
}

impl From<&Extent> for Deletes {
    fn from(extent: &Extent) -> Self {
        if extent.everything { Deletes::Everything } else { Deletes::Nothing }
    }
}

impl Subject {
    fn user(home: &Home, user: &Userid, extent: &Extent) -> anyhow::Result<Subject> {
        let id = home.source().read(|view| user_access(view, user))??.id;
        Ok(Subject {
            kind: "user",
            name: user.to_string(),
            marks: vec![Revoked::User(id)],
            deletes: extent.into(),
            users: BTreeSet::from([id]),
            owner: Some(user.clone()),
            again: format!("enfilade user passwd {}", output::word(&user.to_string())),
            ..Subject::default()
        })
    }

    fn group(home: &Home, group: &GroupName, extent: &Extent) -> anyhow::Result<Subject> {
        let (id, users) = home.source().read(|view| users_in_group(view, group))??;
        let marks = users.iter().map(|user| Revoked::User(*user)).chain([Revoked::Group(id)]);
        Ok(Subject {
            kind: "group",
            name: group.to_string(),
            marks: marks.collect(),
            deletes: extent.into(),
            users: users.into_iter().collect(),
            again: "enfilade user passwd NAME".to_owned(),
            ..Subject::default()
        })
    }

    fn domain(home: &Home, domain: &Realm, extent: &Extent) -> anyhow::Result<Subject> {
        require_domain(home, domain)?;
        let (id, users, projects) = home.source().read(|view| contents_of_domain(view, domain))??;
        Ok(Subject {
            kind: "domain",
            name: domain.to_string(),
            marks: vec![Revoked::Domain(id)],
            deletes: extent.into(),
            users: users.into_iter().collect(),
            projects,
            ..Subject::default()
        })
    }

    fn project(home: &Home, project: &str, extent: &Extent) -> anyhow::Result<Subject> {
        let (id, project) = find_with_name(home, project)?;
        Ok(Subject {
            kind: "project",
            name: project,
            marks: vec![Revoked::Project(id)],
            deletes: extent.into(),
            projects: vec![id],
            ..Subject::default()
        })
    }

    /// The subject for an API token.
    fn token(home: &Home, authid: &Authid) -> anyhow::Result<Subject> {
        let owner = home.source().read(|view| user_access(view, &authid.user))??;
        let way = owner.ways.into_iter().find(|way| way.name == authid.to_string());
        let way = way.with_context(|| {
            let user = output::word(&authid.user.to_string());
            format!("there is no token `{authid}`; see `enfilade token list {user}`")
        })?;
        Ok(Subject {
            kind: "token",
            name: authid.to_string(),
            deletes: Deletes::One(Box::new(way)),
            users: BTreeSet::from([owner.id]),
            owner: Some(authid.user.clone()),
            again: format!("enfilade token create {}", output::word(&authid.to_string())),
            ..Subject::default()
        })
    }

    /// The subject for an EC2 key, by its access key or its id.
    fn key(home: &Home, text: &str) -> anyhow::Result<Subject> {
        let ids = text.parse::<BlobId>().ok().into_iter().chain([ec2_id(text)]);
        let found = home.source().read(|view| {
            for id in ids {
                if let Some(row) = view.get::<Blob>(&id)?.filter(|row| row.ec2.is_some()) {
                    return Ok(Some((id, row)));
                }
            }
            Ok::<_, SourceError>(None)
        })??;
        let (id, row) = found.with_context(|| {
            format!(
                "there is no EC2 key `{text}`; expected an access key; see `enfilade user access NAME@DOMAIN`"
            )
        })?;
        Self::one(home, ("EC2 key", text.to_owned()), row.user, &id.to_string())
    }

    fn trust(home: &Home, id: &TrustId) -> anyhow::Result<Subject> {
        let trust = keystone::find_trust(home.source(), id)?
            .with_context(|| format!("there is no trust `{id}`; see `enfilade user access NAME@DOMAIN`"))?;
        Self::one(home, ("trust", id.to_string()), trust.trustor, &id.to_string())
    }

    fn access_token(home: &Home, id: &AccessTokenId) -> anyhow::Result<Subject> {
        let row = home.source().read(|view| view.get::<AccessToken>(id))??.with_context(|| {
            format!("there is no OAuth access token `{id}`; see `enfilade user access NAME@DOMAIN`")
        })?;
        Self::one(home, ("OAuth access token", id.to_string()), row.user, &id.to_string())
    }

    /// The subject for the credential or trust with this id. The credential or trust must belong to `user`.
    fn one(
        home: &Home,
        (kind, name): (&'static str, String),
        user: UserId,
        id: &str,
    ) -> anyhow::Result<Subject> {
        let (ways, owner) = home.source().read(|view| {
            Ok::<_, enfilade_admin::Error>((ways_of(view, &user)?, name_of_user(view, &user)?))
        })??;
        let way = ways.into_iter().find(|way| way.name == id);
        let way = way.with_context(|| format!("{kind} {name} was deleted meanwhile"))?;
        let (deletes, users) = (Deletes::One(Box::new(way)), BTreeSet::from([user]));
        Ok(Subject { kind, name, deletes, users, owner, ..Subject::default() })
    }

    /// The subject for one session, or for its whole chain. The text is an audit id, or `-` to read the token of the session from standard input. If
    /// the token was issued by a server that has a separate list of sessions, the list of this data directory does not contain the session of the
    /// token. Then the session is added to `known`.
    fn session(
        home: &Home,
        text: &str,
        chain: bool,
        known: &mut Vec<IssuedSession>,
    ) -> anyhow::Result<Subject> {
        let found = match text {
            "-" => Some(record_of(&claim_of_input(home)?)),
            text => {
                let id = audit_id_from_text(text).with_context(|| {
                    format!(
                        "`{text}` is neither an API token USER@REALM!NAME nor an audit id of 22 characters; see `enfilade session list`"
                    )
                })?;
                let found = known.iter().find(|session| session.own == id);
                // If no session has this id, the id may be the id of a chain. The id of a chain is the audit id of its first session.
                let of_chain = known.iter().find(|session| session.chain == id);
                found.or(of_chain.filter(|_| chain)).copied()
            }
        };
        let (own, of_chain, user) = match &found {
            Some(session) => (session.own, session.chain, Some(session.user)),
            None => audit_id_from_text(text).map(|id| (id, id, None)).unwrap_or_default(),
        };
        known.extend(found.filter(|found| !known.contains(found)));
        let (kind, id, mark) = match chain {
            true => ("chain", of_chain, Revoked::Chain(of_chain)),
            false => ("session", own, Revoked::Token(own)),
        };
        let owner = user.map(|user| home.source().read(|view| name_of_user(view, &user)));
        Ok(Subject {
            kind,
            name: audit_id_to_text(&id),
            marks: vec![mark],
            users: user.into_iter().collect(),
            owner: owner.transpose()?.transpose()?.flatten(),
            ..Subject::default()
        })
    }

    /// The user that owns the subject, or the subject itself if no user owns it.
    fn whose(&self) -> String {
        match &self.owner {
            Some(owner) => format!("user {owner}"),
            None => format!("{} {}", self.kind, self.name),
        }
    }

    /// The command that deletes the remaining credentials and trusts.
    fn delete(&self) -> String {
        match &self.owner {
            Some(owner) => format!("enfilade revoke user {} --everything", output::word(&owner.to_string())),
            None => format!("enfilade revoke {} {} --everything", self.kind, output::word(&self.name)),
        }
    }

    /// The commands that end the remaining sessions, if there are any, and delete the remaining credentials and trusts.
    fn next(&self, has_sessions: bool) -> String {
        let sessions = if has_sessions { "ends the remaining sessions and " } else { "" };
        let delete = format!("{} {sessions}permanently deletes the remaining credentials", self.delete());
        match (&self.owner, self.kind) {
            (Some(owner), "session" | "chain") => {
                let owner = output::word(&owner.to_string());
                format!("enfilade user passwd {owner} replaces the password and ends all sessions; {delete}")
            }
            _ => delete,
        }
    }

    /// All credentials and trusts of the users, and all credentials and trusts for the projects.
    fn ways(&self, home: &Home) -> anyhow::Result<Vec<Way>> {
        home.source().read(|view| {
            let mut ways = Vec::new();
            for user in &self.users {
                ways.extend(ways_of(view, user)?);
            }
            for project in &self.projects {
                let others = ways_for(view, project)?;
                ways.extend(others.into_iter().filter(|way| !self.users.contains(&way.user)));
            }
            Ok(ways)
        })?
    }

    /// Makes the change. Returns the number of WebDAV locks that the change ended.
    fn revoke(&self, home: &Home) -> anyhow::Result<usize> {
        let ctx = home.change_context();
        let what = match self.deletes {
            Deletes::Everything => format!("everything of {} {}", self.kind, self.name),
            _ => format!("{} {}", self.kind, self.name),
        };
        for marks in self.marks.chunks(MARKS_AT_ONCE) {
            keystone::revoke(&ctx, marks, None, &what)?;
        }
        match &self.deletes {
            Deletes::Nothing => Ok(0),
            Deletes::One(way) => Ok(withdraw(&ctx, way).map(|()| 0)?),
            Deletes::Everything => {
                self.users.iter().try_for_each(|user| withdraw_from(&ctx, user))?;
                self.projects.iter().try_for_each(|project| withdraw_for(&ctx, project))?;
                // A server creates the store of locks, so the store may not exist yet.
                match home.data.join("locks").try_exists()? {
                    true => Ok(end_locks_of(&ctx, &*home.locks()?, home.config.limits.0, &self.users)?),
                    false => Ok(0),
                }
            }
        }
    }
}

/// The line under the list of revocations.
const UP_TO: &str = "sessions that were issued up to the time in the column ISSUED UP TO are refused. This time can be up to one minute in the \
    future. New sessions work, because the server gives them a later issue time";

/// The maximum number of revocation marks in one change.
const MARKS_AT_ONCE: usize = 256;

/// Reads a token from standard input, and returns the claim that the token contains.
fn claim_of_input(home: &Home) -> anyhow::Result<Claim> {
    let mut line = String::new();
    std::io::stdin()
        .lock()
        .take(2048)
        .read_line(&mut line)
        .context("the token cannot be read from standard input")?;
    let token = Secret::new(line.trim().as_bytes()).context("no token on standard input")?;
    let ring = crate::keys::read(&home.fernet_keys())?.context("there are no Fernet keys, so the token cannot be read; give the audit id of the session instead (`enfilade session list`)")?;
    Ok(Claim::read(&ring, &SessionAsk { token })?)
}

/// The result of a revocation: the sessions and credentials that ended, and those that still work.
struct Outcome {
    /// The number of known sessions that the revocation ended.
    sessions: usize,
    taken: Vec<Way>,
    locks: usize,
    /// The number of known sessions of the users that are still valid.
    sessions_left: usize,
    left: Vec<Judged>,
}

impl Outcome {
    fn working(&self) -> impl Iterator<Item = &Way> {
        self.left.iter().filter(|(_, why_not)| why_not.is_none()).map(|(way, _)| way)
    }

    fn described(&self, subject: &Subject, revision: u64) -> Value {
        let mut ended = numbers(self.taken.iter(), self.sessions);
        ended.insert("locks".to_owned(), json!(self.locks));
        json!({
            "revoked": subject.kind, "name": subject.name, "revision": revision, "ended": ended,
            "still_works": numbers(self.working(), self.sessions_left),
            "left_but_refused": self.left.iter().filter(|(_, why_not)| why_not.is_some()).count(),
        })
    }

    fn lines(&self, subject: &Subject) -> Vec<String> {
        [self.ended(subject), self.deleted(), self.left(subject)].into_iter().flatten().collect()
    }

    fn ended(&self, subject: &Subject) -> Option<String> {
        let Subject { kind, name, .. } = subject;
        match (self.sessions, *kind) {
            (0, "token" | "EC2 key" | "trust" | "OAuth access token") => None,
            (0, "session") => Some(format!(
                "no valid session with the audit id {name} is known; a session with this id is refused from now on"
            )),
            (0, "chain") => Some(format!(
                "no valid session of the chain {name} is known; its sessions are refused from now on"
            )),
            (0, _) => Some(format!(
                "no valid session of {kind} {name} is known; servers refuse every session of this {kind} that was issued until now"
            )),
            (_, "session") => Some(format!(
                "session {name} of {} ended; its running transfers stop at their next check",
                subject.whose()
            )),
            // A session that was issued for a trust belongs to the trustee, and not to the owner of the trust. So the text contains no user.
            (count, "EC2 key" | "trust" | "OAuth access token") => Some(format!(
                "ended at least {} that {} issued for {kind} {name}; their running transfers stop at their next check",
                counted(count, "session", "sessions"),
                if count == 1 { "was" } else { "were" }
            )),
            (count, _) => Some(format!(
                "ended at least {} of {}; running transfers of sessions that ended stop at their next check",
                counted(count, "session", "sessions"),
                subject.whose()
            )),
        }
    }

    fn deleted(&self) -> Option<String> {
        let mut parts = parts(self.taken.iter());
        parts.extend((self.locks > 0).then(|| counted(self.locks, "WebDAV lock", "WebDAV locks")));
        (!parts.is_empty()).then(|| {
            format!(
                "deleted for good: {}; running transfers with them stop at their next check",
                joined(&parts)
            )
        })
    }

    fn left(&self, subject: &Subject) -> Option<String> {
        let Subject { kind, name, again, .. } = subject;
        let mut working = parts(self.working());
        let sessions = counted(self.sessions_left, "session", "sessions");
        working.extend((self.sessions_left > 0).then(|| format!("at least {sessions}")));
        let count = self.working().count() + self.sessions_left;
        Some(match &subject.deletes {
            _ if count > 0 => {
                let verb = if count == 1 { "works" } else { "work" };
                format!("{} still {verb}: {}", joined(&working), subject.next(self.sessions_left > 0))
            }
            _ if !self.left.is_empty() => {
                let refused = joined(&parts(self.left.iter().map(|(way, _)| way)));
                format!(
                    "refused at present, but not deleted: {refused}; to delete them for good: {}",
                    subject.delete()
                )
            }
            // Users of other domains can have roles on the domain, and on its projects.
            _ if matches!(*kind, "project" | "domain") => format!(
                "users with a role on {kind} {name} can open new sessions; to refuse them: enfilade {kind} {}",
                match *kind {
                    "domain" => format!("disable {}", output::word(name)),
                    _ => format!("set {} --disable", output::word(name)),
                }
            ),
            _ if subject.users.is_empty() && matches!(*kind, "session" | "chain") => return None,
            Deletes::Everything => {
                format!(
                    "no credential, trust or session is left; roles and memberships stay; to let a user log in again: {again}"
                )
            }
            _ => format!("no other credential or trust of {} exists", subject.whose()),
        })
    }
}

fn numbers<'w>(ways: impl Iterator<Item = &'w Way>, sessions: usize) -> Map<String, Value> {
    let ways: Vec<WayKind> = ways.map(|way| way.kind).collect();
    let count = |kind| ways.iter().filter(|other| **other == kind).count();
    let kinds = KINDS.iter().map(|(kind, key, ..)| ((*key).to_owned(), json!(count(*kind))));
    kinds.chain([("sessions_at_least".to_owned(), json!(sessions))]).collect()
}

/// The number of credentials or trusts of each kind, such as `the password` or `4 API tokens`.
fn parts<'w>(ways: impl Iterator<Item = &'w Way>) -> Vec<String> {
    let ways: Vec<WayKind> = ways.map(|way| way.kind).collect();
    let count = |kind| ways.iter().filter(|other| **other == kind).count();
    let kinds = KINDS.iter().map(|(kind, _, one, several)| (count(*kind), *one, *several));
    kinds
        .filter(|(count, ..)| *count > 0)
        .map(|(count, one, several)| match (count, one) {
            (1, "password") => "the password".to_owned(),
            _ => counted(count, one, several),
        })
        .collect()
}

/// Joins texts in the forms `a`, `a and b`, and `a, b and c`.
fn joined(parts: &[String]) -> String {
    match parts.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, first)) => format!("{} and {last}", first.join(", ")),
        None => String::new(),
    }
}

/// For each revocation, the name of the revoked user, group, project, domain or role, if it still exists.
fn names_of(home: &Home, rows: &[RevocationSummary]) -> anyhow::Result<Vec<Option<String>>> {
    let source = home.source();
    let names = source.read(Names::read)??;
    let name = |view: &View<'_>, mark: &Revoked| -> Result<Option<String>, SourceError> {
        Ok(match mark {
            Revoked::User(id) => view.get::<User>(id)?.map(|_| names.user(id)),
            Revoked::Group(id) => view.get::<Group>(id)?.map(|_| names.group(id)),
            Revoked::Project(id) => match view.get::<Project>(id)? {
                Some(project) => Some(match view.get::<Domain>(&project.domain)? {
                    Some(Domain { name: domain, .. }) => {
                        NameInDomain { name: project.name, domain }.to_string()
                    }
                    None => project.name,
                }),
                None => None,
            },
            Revoked::Domain(id) => view.get::<Domain>(id)?.map(|domain| domain.name.to_string()),
            Revoked::Role(id) => view.get::<NamedRole>(id)?.map(|role| role.name),
            _ => None,
        })
    };
    let found = source
        .read(|view| rows.iter().map(|row| name(view, &row.mark)).collect::<Result<Vec<_>, SourceError>>())?;
    Ok(found?)
}

fn list(home: &Home, json: bool) -> anyhow::Result<()> {
    let rows = keystone::list_revocations(home.source())?;
    let names = names_of(home, &rows)?;
    let described = |mark: &Revoked| match mark {
        Revoked::Token(id) => ("token", audit_id_to_text(id)),
        Revoked::Chain(id) => ("chain", audit_id_to_text(id)),
        Revoked::User(id) => ("user", id.to_string()),
        Revoked::Project(id) => ("project", id.to_string()),
        Revoked::Domain(id) => ("domain", id.to_keystone()),
        Revoked::Trust(id) => ("trust", id.to_string()),
        Revoked::Consumer(id) => ("OAuth consumer", id.to_string()),
        Revoked::AccessToken(id) => ("OAuth access token", id.to_string()),
        Revoked::Credential(id) => ("application credential", id.to_string()),
        Revoked::Group(id) => ("group", id.to_string()),
        Revoked::Role(id) => ("role", id.to_string()),
        Revoked::Link(id) => ("roles on a scope, or groups and roles of a domain", audit_id_to_text(id)),
        Revoked::Horizon | Revoked::Passed | Revoked::Last => ("nothing", String::new()),
    };
    if json {
        rows.iter().zip(names).for_each(|(row, name)| {
            let (kind, id) = described(&row.mark);
            output::json_line(&json!({
                "kind": kind, "id": id, "name": name, "issued_before": row.revocation.issued_before,
                "revoked_at": row.revocation.revoked_at,
            }));
        });
        return Ok(());
    }
    let row = |(row, name): (&RevocationSummary, Option<String>)| {
        let (kind, id) = described(&row.mark);
        vec![
            kind.to_owned(),
            id,
            or_dash(name),
            output::time(row.revocation.issued_before),
            output::time(row.revocation.revoked_at),
        ]
    };
    let rows: Vec<_> = rows.iter().zip(names).map(row).collect();
    output::table(&["WHAT", "ID", "NAME", "ISSUED UP TO", "REVOKED"], &rows);
    if !rows.is_empty() {
        output::line(UP_TO);
    }
    Ok(())
}
