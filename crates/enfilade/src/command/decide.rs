//! `enfilade decide`: questions and decisions as lines of JSON, for scripts and tests.

use crate::cli::RequestLine;
use crate::home::Home;
use crate::output;
use anyhow::Context;
use enfilade_facts::Refuse as _;
use enfilade_facts::vocabulary::Authid;
use serde::Deserialize;
use serde_json::json;
use std::io::BufRead as _;

/// A question: may this user or token make this request?
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Question {
    /// USER@REALM or USER@REALM!TOKEN.
    auth_id: String,
    /// The method and the URL, such as `POST https://wiki.example.com/admin`.
    request: String,
}

/// Answers each line of standard input with one line. A question that cannot be read gets an answer with `error`, and no decision.
pub(super) fn run(home: &Home) -> anyhow::Result<()> {
    let house = home.house_to_ask()?;
    for (number, line) in (1_u64..).zip(std::io::stdin().lock().lines()) {
        let line = line.context("standard input cannot be read")?;
        if line.trim().is_empty() {
            continue;
        }
        let answer = match read(&line) {
            Ok((authid, request)) => {
                let explained = house.explain_use(&authid, &request.ask);
                let refused = explained.doors.iter().find_map(|door| door.why.as_ref());
                json!({
                    "auth_id": authid.to_string(), "request": request.text, "decision": explained.permits(),
                    "code": refused.map(|why| why.code()), "reason": refused.map(ToString::to_string),
                })
            }
            Err(why) => json!({ "line": number, "error": why }),
        };
        output::json_line(&answer);
    }
    Ok(())
}

fn read(line: &str) -> Result<(Authid, RequestLine), String> {
    const EXAMPLE: &str =
        r#"expected for example {"auth_id": "alice@local", "request": "GET https://wiki.example.com/"}"#;
    let Question { auth_id, request } =
        serde_json::from_str(line).map_err(|why| format!("the question cannot be read: {why}; {EXAMPLE}"))?;
    let authid = auth_id.parse::<Authid>().map_err(|why| why.to_string())?;
    Ok((authid, request.parse()?))
}
