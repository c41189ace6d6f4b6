//! `enfilade explain USER --url REQUEST`.

use super::advice::role_on_application;
use super::{REFUSED, print, rows};
use crate::cli::RequestLine;
use crate::home::Home;
use crate::output::{self, word};
use crate::reference::action_of;
use enfilade_admin::Names;
use enfilade_faces::RequestError;
use enfilade_facts::vocabulary::Authid;
use enfilade_facts::{Read as _, Refuse as _};
use enfilade_passage::{Refusal, Remedy};
use serde_json::json;
use std::process::ExitCode;

pub(super) fn run(
    home: &Home,
    authid: &Authid,
    request: &RequestLine,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let ask = match &request.ask {
        Ok(ask) => ask,
        Err(error) => return Ok(refused_at_once(authid, request, *error, json)),
    };
    let mut explanation = home.house_to_ask()?.explain_use(authid, ask);
    let names = home.source().read(Names::read)??;
    explanation.doors.iter_mut().for_each(|door| door.says = names.naming(&door.says));
    let verdict = if explanation.permits() { "permit" } else { "refuse" };
    let next = |why: &Refusal| match &explanation.remedy {
        Remedy::ApplicationRole { path, role, of_token } if why.code() == "AC12" => {
            let (who, owner) = (word(&authid.to_string()), word(&authid.user.to_string()));
            role_on_application((&who, &owner), path, *role, *of_token)
        }
        Remedy::OtherCredential if why.code() == "AC12" => {
            "use another credential: a credential that is limited to a project has no roles on applications"
                .to_owned()
        }
        _ => action_of(why.code()).unwrap_or_default().replace('`', ""),
    };
    if json {
        let doors = rows(&explanation, next);
        output::json_line(&json!({
            "authid": authid.to_string(), "request": request.text, "verdict": verdict, "doors": doors,
        }));
    } else {
        print(&explanation, next);
        output::line(&format!("{verdict}: {authid}, {}", request.text));
    }
    Ok(if explanation.permits() { ExitCode::SUCCESS } else { ExitCode::from(REFUSED) })
}

/// Explains a request that is refused before any door is asked, because of its path or its method.
fn refused_at_once(authid: &Authid, request: &RequestLine, error: RequestError, json: bool) -> ExitCode {
    let (code, next) = (error.code(), action_of(error.code()).unwrap_or_default().replace('`', ""));
    if json {
        output::json_line(&json!({
            "authid": authid.to_string(), "request": request.text, "verdict": "refuse",
            "doors": [{ "door": "face", "verdict": "refuse", "code": code, "says": error.to_string(), "next": next }],
        }));
    } else {
        output::line(&format!("{:<10} refuses {code}: {error}", "face"));
        output::line(&format!("           next: {next}"));
        output::line(&format!("refuse: {authid}, {}", request.text));
    }
    ExitCode::from(REFUSED)
}
