//! What the user must show before the second factor changes: the password and a code.

use super::password::prove_password;
use crate::click::{Click, Trouble, said};
use enfilade_faces::Failure;
use enfilade_faces::browser::{is_unauthorized, parameter};
use enfilade_faces::credential::password;
use enfilade_facts::vocabulary::{Privileges, Secret};
use enfilade_passage::{AdminPermit, Lending, Passcode, Refusal};

/// The permit to change the second factor of the user. The user needs no privilege for this permit.
pub(super) fn permit(click: &mut Click<'_>) -> Result<AdminPermit, Failure> {
    let user = click.user();
    click.permit("/access/users", Privileges::PERMISSIONS_MODIFY, Lending::People, Some(&user))
}

/// A code without the blanks and hyphens that people type.
pub(super) fn code_of(click: &Click<'_>) -> Result<Secret, Trouble> {
    let code: String = click.field("code").chars().filter(|c| !c.is_whitespace() && *c != '-').collect();
    Secret::new(code.as_bytes()).ok_or_else(|| said("enter the code of the authenticator app"))
}

/// Checks the password and the code in a form. The caller must store that the code was used.
pub(super) async fn proven(click: &mut Click<'_>) -> Result<Passcode, Trouble> {
    let present = parameter(&click.form, "present").unwrap_or_default().to_owned();
    prove_password(click, present.as_bytes()).await?;
    let (code, user) = (code_of(click)?, click.user().to_string());
    let Some((ask, named)) = password(&user, code.reveal()) else {
        return Err(said("enter the code of the authenticator app"));
    };
    let (from, proven) = (click.connection.peer.ip(), Some(click.visit.principal().user));
    click.faces.arc_house().check_passcode(&ask, proven, &named, from).await.map_err(|refusal| match refusal {
        refusal @ Refusal::Identity(_) if is_unauthorized(&refusal) => said(
            "the code is wrong or was used before, or there were too many wrong codes: try the next code; after five wrong codes, wait ten minutes",
        ),
        refusal => refusal.into(),
    })
}
