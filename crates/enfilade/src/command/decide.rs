//! `enfilade decide`. The command reads questions and writes decisions as lines of JSON, for scripts and tests.

use crate::cli::RequestLine;
use crate::home::Home;
use crate::output;
use anyhow::Context;
use enfilade_facts::Refuse as _;
use enfilade_facts::vocabulary::Authid;
use enfilade_passage::{House, IdentityRefusal, Refusal};
use serde::Deserialize;
use serde_json::json;
use std::io::BufRead as _;

/// The question whether a user or token may make a request.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Question {
    /// USER@REALM or USER@REALM!TOKEN; absent if the visitor does not log in.
    auth_id: Option<String>,
    /// The method and the URL, such as `POST https://wiki.example.com/admin`.
    request: String,
}

/// Answers each line of standard input with one line. If a question cannot be read, the answer contains `error`, and no decision. Returns whether
/// every question could be read.
pub(super) fn run(home: &Home) -> anyhow::Result<bool> {
    let (house, mut are_read) = (home.house_to_ask()?, true);
    for (number, line) in (1_u64..).zip(std::io::stdin().lock().lines()) {
        let line = line.context("standard input cannot be read")?;
        if line.trim().is_empty() {
            continue;
        }
        let answer = match read(&line) {
            Ok((authid, request)) => {
                let (code, reason) = refusal(&house, authid.as_ref(), &request);
                json!({
                    "auth_id": authid.map(|authid| authid.to_string()), "request": request.text,
                    "decision": code.is_none(), "code": code, "reason": reason,
                })
            }
            Err(why) => {
                are_read = false;
                json!({ "line": number, "error": why })
            }
        };
        output::json_line(&answer);
    }
    Ok(are_read)
}

/// The refusal of a request: the code and the reason. Both are `None` if the request is permitted.
fn refusal(
    house: &House,
    authid: Option<&Authid>,
    request: &RequestLine,
) -> (Option<&'static str>, Option<String>) {
    let ask = match &request.ask {
        Ok(ask) => ask,
        Err(error) => return (Some(error.code()), Some(error.to_string())),
    };
    let why = match authid {
        Some(authid) => house.explain_use(authid, ask).doors.into_iter().find_map(|door| door.why),
        None => match house.decide_for_everybody(ask) {
            Ok(Some(_)) => None,
            Ok(None) => Some(IdentityRefusal::NoCredential.into()),
            Err(why) => Some(why),
        },
    };
    (why.as_ref().map(|why: &Refusal| why.code()), why.as_ref().map(ToString::to_string))
}

fn read(line: &str) -> Result<(Option<Authid>, RequestLine), String> {
    const EXAMPLE: &str =
        r#"expected for example {"auth_id": "alice@local", "request": "GET https://wiki.example.com/"}"#;
    let Question { auth_id, request } =
        serde_json::from_str(line).map_err(|why| format!("the question cannot be read: {why}; {EXAMPLE}"))?;
    let authid = auth_id.map(|text| text.parse::<Authid>()).transpose().map_err(|why| why.to_string())?;
    Ok((authid, request.parse()?))
}
