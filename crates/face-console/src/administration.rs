//! The pages of administrators. If the API of Proxmox Backup Server has a call for the records of a page, the page asks door 4 for the same privilege
//! as that call.

pub(crate) mod applications;
pub(crate) mod certificates;
pub(crate) mod changes;
pub(crate) mod datastores;
pub(crate) mod groups;
pub(crate) mod health;
pub(crate) mod keys;
pub(crate) mod plot;
pub(crate) mod refusals;
pub(crate) mod roles;
pub(crate) mod users;

use crate::click::{Click, Trouble};
use crate::page::Notice;
use enfilade_faces::browser::redirect;
use enfilade_faces::{Answer, Failure, RequestError};
use enfilade_facts::vocabulary::Privileges;
use enfilade_passage::{AdminPermit, Lending};

/// Shows a page. Returns `Ok(None)` if no page has this name.
pub(crate) async fn show(click: &mut Click<'_>, area: &str) -> Result<Option<Answer>, Failure> {
    Ok(Some(match area {
        "users" => users::show(click).await?,
        "groups" => groups::show(click).await?,
        "roles" => roles::show(click).await?,
        "datastores" => datastores::show(click).await?,
        "applications" => applications::show(click).await?,
        "certificates" => certificates::show(click).await?,
        "keys" => keys::show(click).await?,
        "changes" => changes::show(click).await?,
        "refusals" => refusals::show(click).await?,
        "health" => health::show(click).await?,
        _ => return Ok(None),
    }))
}

/// Does the action that a form of a page requests. If the action fails, the page shows the reason.
pub(crate) async fn submit(click: &mut Click<'_>, area: &str, action: &str) -> Result<Answer, Failure> {
    let done = match area {
        "users" => users::act(click, action).await,
        "groups" => groups::act(click, action).await,
        "roles" => roles::act(click, action).await,
        "datastores" => datastores::act(click, action).await,
        "applications" => applications::act(click, action).await,
        _ => Err(RequestError::NoRoute.into()),
    };
    match done {
        Ok(to) => Ok(redirect(&to)),
        Err(Trouble::Failed(failure)) => Err(failure),
        Err(Trouble::Said(why)) => {
            click.notice = Some(Notice::Failed(why));
            show(click, area).await?.ok_or_else(|| RequestError::NoRoute.into())
        }
    }
}

/// The permit to see all records of a kind, such as all users.
fn may_see(click: &mut Click<'_>, path: &str) -> Result<AdminPermit, Failure> {
    click.permit(path, Privileges::SYS_AUDIT, Lending::Reads, None)
}

/// The permit to change accounts and their rights.
fn may_change(click: &mut Click<'_>, path: &str) -> Result<AdminPermit, Failure> {
    click.permit(path, Privileges::PERMISSIONS_MODIFY, Lending::People, None)
}
