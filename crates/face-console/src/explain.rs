//! The page "Explain". For a person, a right and a path, the page shows the answer of each of the five doors. It also shows which change would give
//! the right. Every user can ask about their own rights on objects that they can see. The answer to any other question (about another person, or
//! about any path) can name objects that are hidden from the user. So the user needs two privileges for such a question. With `Sys.Audit` on
//! `/access`, the user may see the roles of everybody. With `Permissions.Modify` on the datastore, the user could also assign themselves every right
//! in the datastore.

use crate::click::{Click, Trouble, said};
use crate::icons::Icon;
use crate::page::{Notice, command};
use crate::place::Place;
use crate::section::Section;
use enfilade_admin::Names;
use enfilade_faces::{Answer, Failure, RequestError, blocking, blocking_failure};
use enfilade_facts::vocabulary::{
    AccessMask, Authid, DatastoreName, HostName, OperationKind, Privileges, RolePath, StorePath, shell_word,
};
use enfilade_facts::{Door, Read as _};
use enfilade_passage::{
    AdminAsk, ApplicationAsk, Blocking, DoorAnswer, Explanation, Lack, Lending, Method, OwnRights, Remedy,
    Site, Visit,
};
use maud::{Markup, html};

/// The rights that the form offers, each with the words that the page shows for the right.
const RIGHTS: [(&str, &str); 8] = [
    ("read", "read"),
    ("write", "write"),
    ("delete", "delete"),
    ("list", "list the folder"),
    ("add-file", "add files"),
    ("add-subdirectory", "add folders"),
    ("read-acl", "read the ACL"),
    ("write-acl", "change the ACL"),
];

/// The words that the page shows for a right.
fn words(right: AccessMask) -> String {
    let label = RIGHTS.iter().find(|(name, _)| name.parse() == Ok(right)).map(|(_, label)| *label);
    label.map_or_else(|| right.to_string(), str::to_owned)
}

/// Checks that the user may ask about the rights of any person in a datastore.
pub(crate) fn may_ask_about_others(click: &mut Click<'_>, datastore: &DatastoreName) -> Result<(), Failure> {
    may_review(&mut click.visit, datastore)
}

/// Makes the same check as [`may_ask_about_others`], without a [`Click`]. A response that is being sent repeats the check, because the user can lose
/// the right in the meantime.
pub(crate) fn may_review(visit: &mut Visit, datastore: &DatastoreName) -> Result<(), Failure> {
    let datastore = format!("/datastore/{datastore}");
    for (path, needed) in [("/access", Privileges::SYS_AUDIT), (&datastore, Privileges::PERMISSIONS_MODIFY)] {
        let path = path.parse().map_err(|_| RequestError::NoRoute)?;
        visit.administer(&AdminAsk { path: &path, needed, lending: Lending::Reads, own: None })?;
    }
    Ok(())
}

/// The question that the form sends.
struct Question {
    who: Authid,
    datastore: DatastoreName,
    path: StorePath,
    right: AccessMask,
}

impl Question {
    fn read(click: &Click<'_>) -> Result<Self, Trouble> {
        let parsed = |name| click.asked(name);
        Ok(Question {
            who: parsed("who").parse().map_err(said)?,
            datastore: parsed("datastore").parse().map_err(said)?,
            path: StorePath::from_plain(parsed("path")).map_err(said)?,
            right: parsed("right").parse().map_err(said)?,
        })
    }

    fn command(&self) -> String {
        format!(
            "enfilade explain {} {} {} {}",
            shell_word(&self.who.to_string()),
            self.datastore,
            shell_word(&self.path.to_string()),
            self.right
        )
    }
}

/// Shows the page.
pub(crate) async fn show(click: &mut Click<'_>) -> Result<Answer, Failure> {
    let is_about_url = !click.asked("url").is_empty();
    let mut result = html! {};
    if is_about_url || !click.asked("datastore").is_empty() {
        let answered = match is_about_url {
            true => about_url(click).await,
            false => match Question::read(click) {
                Ok(question) => answer(click, &question).await.map_err(Trouble::Failed),
                Err(trouble) => Err(trouble),
            },
        };
        match answered {
            Ok(answered) => result = answered,
            Err(Trouble::Failed(failure)) => return Err(failure),
            Err(Trouble::Said(why)) => click.notice = Some(Notice::Failed(why)),
        }
    }
    let form = form(click).await?;
    let content = html! {
        div.head { div {
            h1 { "Explain" }
            p { "What happens if somebody uses a file: each door that the request passes, and the reason for its decision." }
        } }
        (form)
        (result)
    };
    Ok(click.page(Section::Explain, "Explain", &content))
}

async fn form(click: &mut Click<'_>) -> Result<Markup, Failure> {
    let visit = click.visit.clone();
    let stores = blocking(click.visit.share(), move || visit.stores()).await?;
    let who = match click.asked("who") {
        "" => click.user().to_string(),
        who => who.to_owned(),
    };
    let sees_roles = click.holds("/access", Privileges::SYS_AUDIT);
    let (datastore, right) = (click.asked("datastore"), click.asked("right"));
    Ok(html! {
        form.card.pad {
            div.row {
                div.field {
                    label for="who" { "User or token" }
                    input #who name="who" value=(who) required autocomplete="off" autocapitalize="none" spellcheck="false";
                }
                div.field {
                    label for="right" { "wants to" }
                    select #right name="right" {
                        @for (name, label) in RIGHTS { option value=(name) selected[name == right] { (label) } }
                    }
                }
                div.field {
                    label for="datastore" { "in the datastore" }
                    input #datastore name="datastore" value=(datastore) required list="stores" autocomplete="off";
                    datalist #stores { @for store in &stores { option value=(store.as_str()) {} } }
                }
                div.field {
                    label for="path" { "on the path" }
                    input #path name="path" value=(click.asked("path")) placeholder="/folder/file" autocomplete="off";
                }
                button.main { "Explain" }
            }
        }
        @if sees_roles {
            form.card.pad {
                div.row {
                    div.field {
                        label for="who-url" { "User or token" }
                        input #who-url name="who" value=(who) required autocomplete="off" autocapitalize="none" spellcheck="false";
                    }
                    div.field {
                        label for="method" { "sends" }
                        select #method name="method" {
                            @for method in ["GET", "POST", "PUT", "DELETE"] {
                                option value=(method) selected[method == click.asked("method")] { (method) }
                            }
                        }
                    }
                    div.field {
                        label for="url" { "to the URL of an application" }
                        input #url type="url" name="url" value=(click.asked("url")) required placeholder="https://wiki.example.com/page";
                    }
                    button.main { "Explain" }
                }
            }
        }
    })
}

async fn answer(click: &mut Click<'_>, question: &Question) -> Result<Markup, Failure> {
    if let Err(failure) = may_ask_about_others(click, &question.datastore) {
        let is_own = question.who == Authid::from(click.user());
        if !is_own {
            return Err(failure);
        }
        let place =
            Place { datastore: question.datastore.clone(), path: question.path.clone(), is_folder: false };
        let own = own_rights(click, &place, question.right).await?;
        return Ok(own_answer(&own, question.right));
    }
    let (faces, who) = (click.faces.clone(), question.who.clone());
    let (datastore, path, right) = (question.datastore.clone(), question.path.clone(), question.right);
    let explained = blocking_failure(click.visit.share(), move || {
        let house = faces.house();
        let mut explanation = house.explain(&who, None, &datastore, &path, right);
        let names = house.source().read(Names::read)??;
        for door in &mut explanation.doors {
            door.says = names.naming(&door.says);
            door.walk.iter_mut().for_each(|step| *step = names.naming(step));
        }
        Ok(explanation)
    });
    let explanation = explained.await?;
    let verdict = (explanation.permits(), &question.who, question.right, &question.path);
    Ok(html! {
        (verdict_of(verdict))
        (doors(&explanation))
        (remedy_of(&explanation.remedy, &shell_word(&question.who.to_string()), Some(&question.datastore)))
        (command(&[question.command()]))
    })
}

/// The answer to a question about a request to an application. The user must be allowed to see the roles of everybody.
async fn about_url(click: &mut Click<'_>) -> Result<Markup, Trouble> {
    click.permit("/access", Privileges::SYS_AUDIT, Lending::Reads, None)?;
    let who: Authid = click.asked("who").parse().map_err(said)?;
    let (name, url) = (click.asked("method").to_owned(), click.asked("url").to_owned());
    let method = Method::named(&name).filter(|method| method.class_of_destination().is_none());
    let method = method.ok_or_else(|| said("choose a method"))?;
    let (host, path) = HostName::and_path_of(&url).map_err(said)?;
    let ask = ApplicationAsk {
        site: Site::Host(host),
        only: None,
        recurses: method.recurses(None),
        method,
        path,
        destination: None,
        upgrades: false,
        is_preflight: false,
    };
    let (faces, asked) = (click.faces.clone(), who.clone());
    let explained = blocking_failure(click.visit.share(), move || {
        let house = faces.house();
        let mut explanation = house.explain_use(&asked, &ask);
        let names = house.source().read(Names::read)??;
        explanation.doors.iter_mut().for_each(|door| door.says = names.naming(&door.says));
        Ok(explanation)
    });
    let explanation = explained.await?;
    let (who, request) = (shell_word(&who.to_string()), shell_word(&format!("{name} {url}")));
    let (class, icon, may) = match explanation.permits() {
        true => ("note good", Icon::Right, "may"),
        false => ("note bad", Icon::Wrong, "may not"),
    };
    Ok(html! {
        p class=(class) role="status" {
            (icon.show())
            span { strong { (click.asked("who")) } " " (may) " " (name) " " (url) "." }
        }
        (doors(&explanation))
        (remedy_of(&explanation.remedy, &who, None))
        (command(&[format!("enfilade explain {who} --url {request}")]))
    })
}

fn verdict_of((permits, who, right, path): (bool, &Authid, AccessMask, &StorePath)) -> Markup {
    let (class, icon, may) =
        if permits { ("note good", Icon::Right, "may") } else { ("note bad", Icon::Wrong, "may not") };
    html! {
        p class=(class) role="status" {
            (icon.show())
            span { strong { (who.to_string()) } " " (may) " " (words(right)) ": " (path.to_string()) }
        }
    }
}

/// The list of the five doors, each with its answer.
fn doors(explanation: &Explanation) -> Markup {
    let of = |door: Door| explanation.doors.iter().find(|answer| answer.door == door);
    html! {
        ol.doors.card {
            li.unasked { div {
                h3 { "TLS" }
                p.says { "The certificate is chosen at the handshake, before the server knows the user. So it does not depend on the user." }
            } }
            (door("Identity", of(Door::Identity)))
            (door("Datastore", of(Door::Datastore)))
            (door("Access", of(Door::Access)))
            (door("Content", of(Door::Content)))
        }
    }
}

fn door(title: &str, answer: Option<&DoorAnswer>) -> Markup {
    let Some(DoorAnswer { opens, code, says, walk, .. }) = answer else {
        return html! { li.unasked { div { h3 { (title) } p.says { "This door was not asked." } } } };
    };
    html! {
        li.shut[!opens] {
            div {
                h3 {
                    (title) " "
                    @match (opens, code) {
                        (true, _) => span.badge.good { (Icon::Right.show()) "opens" },
                        (false, Some(code)) => span.badge.bad { (Icon::Wrong.show()) "refuses " (code) },
                        (false, None) => span.badge.bad { (Icon::Wrong.show()) "refuses" },
                    }
                }
                p.says { (says) }
                @if !walk.is_empty() { ul { @for step in walk { li { (step) } } } }
            }
        }
    }
}

/// The change that would give the right, as a sentence and a command.
fn remedy_of(remedy: &Remedy, who: &str, datastore: Option<&DatastoreName>) -> Markup {
    let name = datastore.map_or("NAME", DatastoreName::as_str);
    let on = |path: &StorePath| {
        let path = datastore.map(|datastore| RolePath::of(datastore, path).as_str().to_owned());
        shell_word(path.as_deref().unwrap_or("PATH"))
    };
    let (text, commands) = match remedy {
        Remedy::OfTheCode => return html! {},
        Remedy::OtherCredential => (
            "Use another credential: no role gives this credential rights in a datastore.".to_owned(),
            Vec::new(),
        ),
        Remedy::Role { path, role, of_token } => {
            let too = if *of_token { " The owner of the token needs the role, too." } else { "" };
            let text = format!("The role {} on the path would be enough.{too}", role.name());
            (text, vec![format!("enfilade role assign --path {} --auth-id {who} {role}", on(path))])
        }
        Remedy::WithoutNoAccess(path, from) => {
            let command = |from: &Authid| {
                let from = shell_word(&from.to_string());
                format!("enfilade role remove --path {} --auth-id {from} NoAccess", on(path))
            };
            ("The role NoAccess must be removed.".to_owned(), from.iter().map(command).collect())
        }
        Remedy::Acl(path, rights) => {
            let text =
                format!("The role is enough, but the ACL or the mode bits of {path} must grant {rights}.");
            let path = shell_word(&path.to_string());
            (text, vec![format!("enfilade acl get {name} {path}")])
        }
        Remedy::Binding(_) | Remedy::OfOtherProject(_) | Remedy::OfProject(_) => (
            "The datastore is bound to a project: use a session or a credential for this project.".to_owned(),
            vec![format!("enfilade datastore show {name}")],
        ),
        Remedy::RoleOnProject(_, role) | Remedy::NewCredential(_, role) => {
            (format!("The role {role} on the project of the datastore would be enough."), Vec::new())
        }
        Remedy::ApplicationRole { path, role, .. } => {
            let path = shell_word(path.as_str());
            let text = format!("The role {} on the path would be enough.", role.name());
            (text, vec![format!("enfilade role assign --path {path} --auth-id {who} {role}")])
        }
    };
    html! {
        div.card.pad {
            h2 { "What would have to change" }
            p { (text) }
            @if !commands.is_empty() { pre { code { (commands.join("\n")) } } }
        }
    }
}

/// Shows the page about the user's own rights on a file or folder.
pub(crate) async fn show_own(click: &mut Click<'_>, place: Place) -> Result<Answer, Failure> {
    let right = match click.asked("right") {
        "" => AccessMask::READ,
        text => text.parse().map_err(|_| RequestError::Parameter("`right`: expected the name of a right"))?,
    };
    let own = own_rights(click, &place, right).await?;
    let content = html! {
        (crate::files::crumbs(&place))
        div.head { div { h1 { "My rights on " (place.name()) } } }
        div.bar {
            @for (name, label) in RIGHTS { a.button.slim href={ "?right=" (name) } { (label) } }
        }
        (own_answer(&own, right))
        p { a href=(place.url("files")) { "Back to " (place.name()) } }
    };
    Ok(click.page(Section::Files, "My rights", &content))
}

async fn own_rights(click: &Click<'_>, place: &Place, right: AccessMask) -> Result<OwnRights, Failure> {
    let (visit, place) = (click.visit.clone(), place.clone());
    blocking(visit.share(), move || {
        visit.enter(&place.datastore, OperationKind::Lookup, Blocking)?.why(&place.path, right)
    })
    .await
}

fn own_answer(own: &OwnRights, right: AccessMask) -> Markup {
    let OwnRights { rights, lack, walk } = own;
    let (class, icon) = if lack.is_none() { ("note good", Icon::Right) } else { ("note bad", Icon::Wrong) };
    html! {
        div class=(class) role="status" {
            (icon.show())
            div {
                @match lack {
                    None => { "You may " (words(right)) "." },
                    Some(lack) => { "You may not " (words(right)) ". " (lack_of(lack)) },
                }
            }
        }
        div.card.pad {
            dl.pair { dt { "All your rights" } dd { code { (rights.to_string()) } } }
            @if !walk.is_empty() {
                h3 { "What was checked, in this order" }
                div.doors { ul { @for step in walk { li { (step) } } } }
            }
        }
    }
}

fn lack_of(lack: &Lack) -> String {
    let names = |roles: &[enfilade_facts::vocabulary::Role]| {
        let names: Vec<&str> = roles.iter().map(|role| role.name()).collect();
        if names.is_empty() {
            "You have no role here".to_owned()
        } else {
            format!("None of your roles ({}) includes the right", names.join(", "))
        }
    };
    match lack {
        Lack::Acl => "Your role includes the right, but the access control list (ACL) or the mode bits do not grant it. Ask the owner, or an administrator.".to_owned(),
        Lack::Role(roles) | Lack::TokenRole(roles) => {
            format!("{}. Ask an administrator for a role that includes the right.", names(roles))
        }
    }
}
