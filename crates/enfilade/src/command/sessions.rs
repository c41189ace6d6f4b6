//! `enfilade session`.

use super::judge::Judge;
use crate::cli::revoke::{Extent, Revoke, Session};
use crate::clock;
use crate::home::Home;
use crate::output;
use enfilade_admin::keystone::{list_domains, list_projects};
use enfilade_admin::list_users;
use enfilade_facts::vocabulary::Userid;
use enfilade_identity::fernet::payload::audit_id_to_text;
use enfilade_sources::files::issued::IssuedFor;
use serde_json::json;

pub(super) fn run(home: &Home, command: Session, json: bool) -> anyhow::Result<()> {
    match command {
        Session::List { user } => list(home, user.as_ref(), json),
        Session::End { user } => {
            super::revoke::run(home, Revoke::User { user, extent: Extent { everything: false } }, json)
        }
    }
}

/// The line under the table if a session has an issue time in the future.
fn ahead(newest: i64, now: i64) -> Option<&'static str> {
    (now < newest).then_some(
        "an ISSUED time up to one minute in the future is normal: after a revocation, the server gives new sessions a later issue time, so that the \
         revocation does not end them",
    )
}

fn list(home: &Home, user: Option<&Userid>, json: bool) -> anyhow::Result<()> {
    user.map_or(Ok(()), |user| super::users::require(home, user))?;
    let users = list_users(home.source())?;
    let (domains, projects) = (list_domains(home.source())?, list_projects(home.source())?);
    let scope = |scope: &IssuedFor| match scope {
        IssuedFor::Nothing => "-".to_owned(),
        IssuedFor::System => "system".to_owned(),
        IssuedFor::Project(id) => match projects.iter().find(|row| row.id.bytes() == id) {
            Some(row) => format!("project {}", row.whole()),
            None => "a deleted project".to_owned(),
        },
        IssuedFor::Domain(id) => match domains.iter().find(|row| row.id.bytes() == id) {
            Some(row) => format!("domain {}", row.name),
            None => "a deleted domain".to_owned(),
        },
    };
    let (mut rows, mut newest) = (Vec::new(), i64::MIN);
    for session in Judge::new(home)?.valid_sessions(home)? {
        let Some(found) = users.iter().find(|row| row.id == session.user) else { continue };
        if user.is_some_and(|user| user.to_string() != found.userid) {
            continue;
        }
        let (own, chain) = (audit_id_to_text(&session.own), audit_id_to_text(&session.chain));
        if json {
            output::json_line(&json!({
                "user": found.userid, "for": scope(&session.scope), "issued_at": session.issued_at,
                "expires_at": session.expires_at, "audit_id": own, "chain": chain,
            }));
        }
        newest = newest.max(session.issued_at);
        let (issued, expires) = (output::time(session.issued_at), output::time(session.expires_at));
        rows.push(vec![found.userid.clone(), scope(&session.scope), issued, expires, own, chain]);
    }
    if !json {
        output::table(&["USER", "FOR", "ISSUED", "EXPIRES", "AUDIT ID", "CHAIN"], &rows);
        ahead(newest, clock::now().unix_seconds).into_iter().for_each(output::line);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::ahead;

    #[test]
    fn only_an_issue_time_in_the_future_is_explained() {
        assert_eq!((ahead(i64::MIN, 7), ahead(7, 7)), (None, None));
        assert!(ahead(8, 7).is_some_and(|says| says.contains("after a revocation")));
    }
}
