//! `enfilade explain`.

use super::keystone::find_project;
use crate::cli::Explain;
use crate::home::Home;
use crate::output::{self, word};
use crate::reference::action_of;
use enfilade_admin::{Names, user_access};
use enfilade_facts::vocabulary::{Authid, RolePath, StorePath};
use enfilade_facts::{Read as _, Refuse as _};
use enfilade_passage::{AccessRefusal, ContentRefusal, DatastoreRefusal, IdentityRefusal, Refusal, Remedy};
use serde_json::json;
use std::process::ExitCode;

/// The exit code for a refused access, so that scripts can tell it from a failed command, which exits with 1.
const REFUSED: u8 = 3;

pub(super) fn run(home: &Home, arguments: &Explain, json: bool) -> anyhow::Result<ExitCode> {
    let Explain { authid, datastore, path, right, project } = arguments;
    let path = StorePath::from_plain(path)?;
    let id = project.as_ref().map(|project| find_project(home, project)).transpose()?;
    let house = home.house_to_ask()?;
    let mut explanation = house.explain(authid, id.as_ref(), datastore, &path, *right);
    let names = home.source().read(Names::read)??;
    let is_user = home.source().read(|view| user_access(view, &authid.user))?.is_ok();
    let asked = Asked { arguments, is_user };
    for door in &mut explanation.doors {
        door.says = names.naming(&door.says);
        door.walk.iter_mut().for_each(|step| *step = names.naming(step));
    }
    let verdict = if explanation.permits() { "permit" } else { "refuse" };
    let next = |why: &Refusal| asked.next(why, &explanation.remedy);
    if json {
        let doors: Vec<_> = explanation
            .doors
            .iter()
            .map(|door| {
                json!({
                    "door": door.door.name(), "verdict": if door.opens { "permit" } else { "refuse" },
                    "code": door.code, "says": door.says, "walk": door.walk, "next": door.why.as_ref().map(next),
                })
            })
            .collect();
        output::json_line(&json!({
            "authid": authid.to_string(), "project": project, "datastore": datastore.to_string(),
            "path": path.to_string(), "right": right.to_string(), "verdict": verdict, "doors": doors,
        }));
    } else {
        for door in &explanation.doors {
            let mark = if door.opens { "opens" } else { "refuses" };
            let code = door.code.map(|code| format!(" {code}")).unwrap_or_default();
            output::line(&format!("{:<10} {mark}{code}: {}", door.door.name(), door.says));
            door.walk.iter().for_each(|step| output::line(&format!("           {step}")));
            door.why.iter().for_each(|why| output::line(&format!("           next: {}", next(why))));
        }
        let session = project.as_ref().map(|name| format!(" (a session for project {name})"));
        let session = session.unwrap_or_default();
        output::line(&format!("{verdict}: {authid}{session}, {right} on {path} of {datastore}"));
    }
    Ok(if explanation.permits() { ExitCode::SUCCESS } else { ExitCode::from(REFUSED) })
}

/// What the operator asked about.
struct Asked<'a> {
    arguments: &'a Explain,
    /// Whether the user exists.
    is_user: bool,
}

impl Asked<'_> {
    /// What to do about a refusal: with the names of the request where they are known, else what the table of refusals says.
    fn next(&self, why: &Refusal, remedy: &Remedy) -> String {
        let concrete = match why.parts().1 {
            Refusal::Identity(why) => self.about_login(why),
            Refusal::Datastore(why) => self.about_datastore(why),
            Refusal::Access(AccessRefusal::NoRole { note, .. }) if !note.is_empty() => {
                Some("check the name: enfilade datastore list".to_owned())
            }
            Refusal::Access(AccessRefusal::AclDamaged { path, .. }) => Some(format!(
                "replace the ACL: enfilade acl set {} {} LINES",
                self.arguments.datastore,
                word(&path.to_string())
            )),
            Refusal::Access(_) => self.about_rights(remedy),
            Refusal::Content(ContentRefusal::ParentAbsent(path)) => {
                let above = StorePath::from_plain(path).ok().and_then(|path| Some(path.split()?.0));
                above.map(|above| format!("create the folder {above} first (MKCOL)"))
            }
            Refusal::Content(_) | Refusal::About { .. } => None,
        };
        concrete.unwrap_or_else(|| action_of(why.code()).unwrap_or_default().replace('`', ""))
    }

    fn about_login(&self, why: &IdentityRefusal) -> Option<String> {
        let authid = &self.arguments.authid;
        let (user, token) = (word(&authid.user.to_string()), word(&authid.to_string()));
        let realm = authid.user.realm();
        Some(match why {
            IdentityRefusal::NoPassword(_) | IdentityRefusal::PasswordExpired { .. } => {
                format!("set a password: enfilade user passwd {user}")
            }
            IdentityRefusal::Unknown(_) if self.is_user => {
                format!(
                    "check the name: enfilade token list {user}; or create it: enfilade token create {token}"
                )
            }
            IdentityRefusal::Unknown(_) => {
                format!("check the name: enfilade user list; or create it: enfilade user add {user}")
            }
            IdentityRefusal::Disabled { what: "the user", .. } => {
                format!("enable the user: enfilade user enable {user}")
            }
            IdentityRefusal::Disabled { what: "the token", .. } => {
                format!("enable the token: enfilade token set {token} --enable")
            }
            IdentityRefusal::Disabled { what: "its realm", .. } => {
                format!("enable the domain: enfilade domain enable {realm}")
            }
            IdentityRefusal::Expired { what: "the user", .. } => {
                format!("set another time: enfilade user set {user} --expires never")
            }
            IdentityRefusal::Expired { what: "the token", .. } => {
                format!("set another time: enfilade token set {token} --expires never")
            }
            IdentityRefusal::NoScope(why) => self.about_scope(why)?,
            _ => return None,
        })
    }

    fn about_scope(&self, why: &str) -> Option<String> {
        let authid = &self.arguments.authid;
        let (project, user) = (word(self.arguments.project.as_ref()?), word(&authid.user.to_string()));
        let new = word(&format!("{}!NAME", authid.user));
        Some(match why {
            IdentityRefusal::PROJECT_CLOSED => format!(
                "enable the project: enfilade project set {project} --enable; or its domain: enfilade domain enable DOMAIN"
            ),
            IdentityRefusal::OF_OTHER_PROJECT => {
                "run explain without --project: a credential is not for another project than its own"
                    .to_owned()
            }
            _ if authid.token.is_some() => format!(
                "create a new application credential with a role that {user} has: enfilade token create {new} --project {project}"
            ),
            _ => format!(
                "give a role on the project: enfilade role assign --project {project} --auth-id {user} reader"
            ),
        })
    }

    fn about_datastore(&self, why: &DatastoreRefusal) -> Option<String> {
        let name = &self.arguments.datastore;
        Some(match why {
            DatastoreRefusal::Maintenance { .. } => {
                format!("end the maintenance: enfilade datastore maintenance {name} none")
            }
            DatastoreRefusal::UnknownMode { .. } => {
                format!("set a known mode: enfilade datastore maintenance {name} none")
            }
            DatastoreRefusal::NotMounted { point, .. } => format!("mount the file system at {}", word(point)),
            _ => return None,
        })
    }

    fn about_rights(&self, remedy: &Remedy) -> Option<String> {
        let Explain { authid, datastore, .. } = self.arguments;
        let (who, user) = (word(&authid.to_string()), word(&authid.user.to_string()));
        let new = word(&format!("{}!NAME", authid.user));
        Some(match remedy {
            Remedy::OfTheCode => return None,
            Remedy::OtherCredential => {
                "no role counts for this credential: it has access rules, or no role on its project; use another credential".to_owned()
            }
            Remedy::Binding(project) => {
                format!("bind the datastore to the project: enfilade datastore set {datastore} --project {project}")
            }
            Remedy::RoleOnProject(project, role) => format!(
                "give a role on the project: enfilade role assign --project {project} --auth-id {user} {role}"
            ),
            Remedy::NewCredential(project, role) => format!(
                "create a new application credential with the role {role}, which {user} must have on the project: enfilade token create {new} --project {project} --role {role}"
            ),
            Remedy::WithoutNoAccess(path, names) => {
                let path = RolePath::of(datastore, path);
                let path = word(path.as_str());
                let remove = |name: &Authid| {
                    let name = word(&name.to_string());
                    format!("enfilade role remove --path {path} --auth-id {name} NoAccess")
                };
                let commands: Vec<String> = names.iter().map(remove).collect();
                format!("remove NoAccess, which overrides all other roles there: {}; then explain again", commands.join("; "))
            }
            Remedy::Role { path, role, of_token } => {
                let path = RolePath::of(datastore, path);
                let path = word(path.as_str());
                let too = if *of_token { format!("; the owner {user} needs the right, too") } else { String::new() };
                format!("give a role: enfilade role assign --path {path} --auth-id {who} {role}{too}")
            }
            Remedy::Acl(path, missing) => {
                let path = word(&path.to_string());
                format!(
                    "the role suffices, but not the ACL: see enfilade acl get {datastore} {path}; then write it again with this line first: enfilade acl set {datastore} {path} 'allow {} {missing}' LINES",
                    authid.user
                )
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use enfilade_facts::vocabulary::{AccessMask, ProjectId, Role};

    #[test]
    fn every_code_of_a_door_that_explain_asks_has_a_next_step() {
        let doors = [
            enfilade_identity::CODES.as_slice(),
            &enfilade_datastore::CODES,
            &enfilade_access::CODES,
            &enfilade_content::CODES,
        ];
        for row in doors.into_iter().flatten() {
            assert!(action_of(row.code).is_some_and(|action| !action.is_empty()), "{}", row.code);
        }
    }

    /// What `explain` says for this token, or for a user without one.
    fn asked(authid: &str, test: impl FnOnce(&Asked<'_>)) {
        let arguments = Explain {
            authid: authid.parse().unwrap(),
            datastore: "tank".parse().unwrap(),
            path: "/a".into(),
            right: AccessMask::DELETE,
            project: Some("p".into()),
        };
        test(&Asked { arguments: &arguments, is_user: true });
    }

    #[test]
    fn the_next_step_fits_the_reason_why_the_project_is_no_scope() {
        let no_role = "the user has no role in the scope";
        for (authid, why, says) in [
            ("ann@local", no_role, "enfilade role assign --project p --auth-id ann@local reader"),
            ("ann@local!ci", no_role, "create a new application credential"),
            ("ann@local", IdentityRefusal::PROJECT_CLOSED, "enfilade project set p --enable"),
            ("ann@local!ci", IdentityRefusal::OF_OTHER_PROJECT, "without --project"),
        ] {
            asked(authid, |asked| {
                let next = asked.about_login(&IdentityRefusal::NoScope(why)).unwrap();
                assert!(next.contains(says), "{next}");
            });
        }
    }

    #[test]
    fn the_next_step_about_rights_helps_the_one_who_asked() {
        let project = ProjectId::from_bytes([1; 16]);
        let barred = Remedy::WithoutNoAccess(StorePath::root(), vec!["ann@local".parse().unwrap()]);
        let role = Remedy::Role { path: StorePath::root(), role: Role::DatastoreBackup, of_token: false };
        for (remedy, says) in [
            (
                Remedy::NewCredential(project, "member"),
                "create a new application credential with the role member",
            ),
            (Remedy::RoleOnProject(project, "member"), "--auth-id ann@local member"),
            (barred, "enfilade role remove --path /datastore/tank --auth-id ann@local NoAccess"),
            (role, "enfilade role assign --path /datastore/tank --auth-id 'ann@local!ci' DatastoreBackup"),
        ] {
            asked("ann@local!ci", |asked| {
                let next = asked.about_rights(&remedy).unwrap();
                assert!(next.contains(says), "{next}");
            });
        }
    }
}
