//! Advice for the operator about a refusal. It contains the names of the user, datastore and project in the question.

use crate::cli::Explain;
use crate::command::client_certificates;
use crate::output::word;
use crate::reference::action_of;
use enfilade_admin::AclLines;
use enfilade_facts::Refuse as _;
use enfilade_facts::vocabulary::{AccessMask, Authid, DatastoreName, Role, RolePath, StorePath};
use enfilade_passage::{AccessRefusal, ContentRefusal, DatastoreRefusal, IdentityRefusal, Refusal, Remedy};

/// The question of the operator.
pub(super) struct Asked<'a> {
    pub(super) arguments: &'a Explain,
    pub(super) datastore: &'a DatastoreName,
    /// Whether the user exists.
    pub(super) is_user: bool,
    /// The full name of the project that the operator named.
    pub(super) project: Option<String>,
    /// The full name of the project that the [`Remedy`] of the explanation names.
    pub(super) of_remedy: Option<String>,
    /// The ACL of the object that the [`Remedy`] names.
    pub(super) acl: Option<AclLines>,
    /// Advice if an entry on the path is never served, or if an entry is a file and the path continues below this file.
    pub(super) obstacle: Option<String>,
}

impl Asked<'_> {
    /// Advice about a refusal. If possible, the advice contains the names of the user, datastore and project in the question. Otherwise it is the
    /// general advice in the table of refusals.
    pub(super) fn next(&self, why: &Refusal, remedy: &Remedy) -> String {
        let concrete = match why.parts().1 {
            Refusal::Identity(why) => self.about_login(why),
            Refusal::Datastore(why) => self.about_datastore(why),
            Refusal::Access(AccessRefusal::NoRole { note, .. }) if !note.is_empty() => {
                Some("check the name: enfilade datastore list".to_owned())
            }
            Refusal::Access(AccessRefusal::AclDamaged { path, .. }) => Some(format!(
                "replace the ACL: enfilade acl set {} {} LINES",
                self.datastore,
                word(&path.to_string())
            )),
            Refusal::Access(_) => self.about_rights(remedy),
            Refusal::Content(ContentRefusal::Absent(_) | ContentRefusal::ParentAbsent(_))
                if self.obstacle.is_some() =>
            {
                self.obstacle.clone()
            }
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
        let realm = word(authid.user.realm().as_str());
        Some(match why {
            IdentityRefusal::NoCredential => client_certificates::ASK.to_owned(),
            IdentityRefusal::NoPassword(_) | IdentityRefusal::PasswordExpired { .. } => {
                format!("set a password: enfilade user passwd {user}")
            }
            IdentityRefusal::MoreMethods { .. } => {
                format!("use an API token: enfilade token create {}", word(&format!("{}!NAME", authid.user)))
            }
            IdentityRefusal::BadHash { .. } if authid.token.is_some() => {
                format!("set a new secret: enfilade token regenerate {token}")
            }
            IdentityRefusal::BadHash { .. } => format!("set a password: enfilade user passwd {user}"),
            IdentityRefusal::Unknown(_) if self.is_user => {
                format!(
                    "check the name: enfilade token list {user}; or create it: enfilade token create {token}"
                )
            }
            IdentityRefusal::Unknown(_) => {
                format!("check the name: enfilade user list; or create it: enfilade user add {user}")
            }
            IdentityRefusal::Disabled { what: "the user" | IdentityRefusal::INACTIVE, .. }
            | IdentityRefusal::Locked(_) => {
                format!("enable the user: enfilade user enable {user}")
            }
            IdentityRefusal::Disabled { what: "the token", .. } => {
                format!("enable the token: enfilade token set {token} --enable")
            }
            IdentityRefusal::Disabled { what: "its realm", .. } => {
                format!("enable the domain: enfilade domain enable {realm}")
            }
            IdentityRefusal::Expired { what: "the user", .. } => {
                format!("set another expiry: enfilade user set {user} --expires never")
            }
            IdentityRefusal::Expired { what: "the token", .. } => {
                format!("set another expiry: enfilade token set {token} --expires never")
            }
            IdentityRefusal::NoScope(why) => self.about_scope(why)?,
            _ => return None,
        })
    }

    fn about_scope(&self, why: &str) -> Option<String> {
        let authid = &self.arguments.authid;
        let (project, user) = (word(self.project.as_ref()?), word(&authid.user.to_string()));
        let new = word(&format!("{}!NAME", authid.user));
        Some(match why {
            IdentityRefusal::PROJECT_CLOSED => format!(
                "enable the project: enfilade project set {project} --enable; or its domain: enfilade domain enable DOMAIN"
            ),
            IdentityRefusal::OF_OTHER_PROJECT => {
                "run explain without --project: an application credential works only for its own project"
                    .to_owned()
            }
            _ if authid.token.is_some() => format!(
                "if {user} has a role on the project, create a new application credential, which gets all these roles: enfilade token create {new} --project {project}; otherwise assign a role first: enfilade role assign --project {project} --auth-id {user} reader"
            ),
            _ => format!(
                "give a role on the project: enfilade role assign --project {project} --auth-id {user} reader"
            ),
        })
    }

    fn about_datastore(&self, why: &DatastoreRefusal) -> Option<String> {
        let name = self.datastore;
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
        let (Explain { authid, .. }, datastore) = (self.arguments, self.datastore);
        let (who, user) = (word(&authid.to_string()), word(&authid.user.to_string()));
        let new = word(&format!("{}!NAME", authid.user));
        let project = word(self.of_remedy.as_deref().unwrap_or_default());
        Some(match remedy {
            Remedy::OfTheCode => return None,
            Remedy::OtherCredential => {
                "use another credential: this credential has access rules, or has no role on its project"
                    .to_owned()
            }
            Remedy::OfOtherProject(_) => format!(
                "use a session or an application credential for the project {project}: the datastore is bound to this project, and can be bound to \
                 only one project"
            ),
            Remedy::OfProject(_) => format!(
                "the datastore is bound to the project {project}, and {user} has a role on this project. Use a session for the project (to explain a \
                 request in such a session, add --project {project}), or create an application credential for the project: enfilade token create \
                 {new} --project {project}"
            ),
            Remedy::Binding(_) => {
                format!(
                    "bind the datastore to the project: enfilade datastore set {datastore} --project {project}"
                )
            }
            Remedy::RoleOnProject(_, role) => format!(
                "give a role on the project: enfilade role assign --project {project} --auth-id {user} {role}"
            ),
            Remedy::NewCredential(_, role) => format!(
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
                format!(
                    "NoAccess overrides all other roles on the path. Run `enfilade explain` again after you have removed NoAccess: {}",
                    commands.join("; ")
                )
            }
            Remedy::Role { path, role, of_token } => {
                let path = RolePath::of(datastore, path);
                let path = word(path.as_str());
                let too = if *of_token {
                    format!("the owner {user} also needs the right; ")
                } else {
                    String::new()
                };
                format!("{too}give a role: enfilade role assign --path {path} --auth-id {who} {role}")
            }
            Remedy::Acl(path, missing) => self.about_acl(path, *missing),
            Remedy::ApplicationRole { path, role, of_token } => {
                role_on_application((&who, &user), path, *role, *of_token)
            }
        })
    }

    /// Advice if the role allows the access, but the ACL does not: a command that keeps all lines of the ACL and adds a line. If the object has no
    /// ACL, the advice is to change the mode bits. The reason: a new ACL would take away the rights of the mode bits.
    fn about_acl(&self, path: &StorePath, missing: AccessMask) -> String {
        let (Explain { authid, .. }, datastore) = (self.arguments, self.datastore);
        let (user, path) = (&authid.user, word(&path.to_string()));
        let entry = word(&format!("allow {user} {missing}"));
        match &self.acl {
            Some(AclLines { lines: Some(lines), .. }) => {
                let lines: String = lines.iter().map(|line| format!(" {}", word(line))).collect();
                let inherit = match lines.contains("inherit=") {
                    true => {
                        "To include files and directories that are created later, append inherit=files,dirs to the new line in the following command. "
                    }
                    false => "",
                };
                format!(
                    "the role allows the access, but the ACL does not. {inherit}To add the line {entry} to the ACL: enfilade acl set {datastore} \
                     {path} {entry}{lines}"
                )
            }
            Some(AclLines { mode, uid, gid, .. }) => format!(
                "the role allows the access, but there is no ACL, and the mode bits {:o} (owner {uid}, group {gid}) do not allow the access. Change \
                 the mode bits with chmod, or the owner with chown, or set an ACL; an ACL replaces the mode bits, so it needs a line for each user who \
                 must have access. Or give {user} a uid: enfilade user set {} --uid NUMBER",
                mode & 0o7777,
                word(&user.to_string())
            ),
            None => format!(
                "the role allows the access, but the ACL does not. Set the ACL with the line {entry} before its other lines (enfilade acl set). To \
                 show the ACL: enfilade acl get {datastore} {path}"
            ),
        }
    }
}

/// Advice that gives a user or token a role on the path of an application.
pub(super) fn role_on_application(
    (who, owner): (&str, &str),
    path: &RolePath,
    role: Role,
    of_token: bool,
) -> String {
    let too =
        if of_token { format!("the token and its owner {owner} need the role; ") } else { String::new() };
    let path = word(path.as_str());
    format!("{too}give a role: enfilade role assign --path {path} --auth-id {who} {role}")
}

#[cfg(test)]
mod tests;
