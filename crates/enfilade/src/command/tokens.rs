//! `enfilade token`.

use super::{enabled, or_dash, until};
use crate::cli::Token;
use crate::home::Home;
use crate::output;
use anyhow::Context;
use enfilade_facts::vocabulary::{Authid, TokenName, Userid};
use serde_json::json;

pub(super) fn run(home: &Home, command: Token, json: bool) -> anyhow::Result<()> {
    let source = home.source();
    match command {
        Token::Create { token, expires, comment } => {
            let (owner, name) = parts(&token)?;
            let key = home.hash_key();
            let new = enfilade_admin::create_token(&home.desk(), &key, owner, name, expires, comment)?;
            let tokenid = new.tokenid.to_string();
            if json {
                output::json_line(
                    &json!({ "tokenid": tokenid, "value": new.value, "revision": new.at.revision.0 }),
                );
            } else {
                output::line(&format!("token   {tokenid}\nsecret  {}   (shown this once)", new.value));
            }
        }
        Token::List { user } => {
            let tokens = enfilade_admin::list_tokens(source, user.as_ref())?;
            if json {
                tokens.iter().for_each(|token| {
                    output::json_line(&json!({
                        "tokenid": token.tokenid, "id": token.id.to_string(), "enabled": token.enabled,
                        "expires": token.expires, "created": token.created, "comment": token.comment,
                    }));
                });
                return Ok(());
            }
            let rows: Vec<Vec<String>> = tokens
                .into_iter()
                .map(|token| {
                    vec![token.tokenid, enabled(token.enabled), until(token.expires), or_dash(token.comment)]
                })
                .collect();
            output::table(&["TOKEN", "ENABLED", "EXPIRES", "COMMENT"], &rows);
        }
        Token::Delete { token } => {
            let (owner, name) = parts(&token)?;
            let at = enfilade_admin::delete_token(&home.desk(), owner, name)?;
            let value = json!({ "tokenid": token.to_string(), "revision": at.revision.0 });
            output::done(
                json,
                &value,
                &format!("token {token} is gone; the next request with it is refused"),
            );
        }
    }
    Ok(())
}

fn parts(token: &Authid) -> anyhow::Result<(&Userid, &TokenName)> {
    let name = token
        .token
        .as_ref()
        .with_context(|| format!("`{token}` names no token; expected USER@REALM!NAME"))?;
    Ok((&token.user, name))
}
