//! `enfilade penalties`.

use super::or_dash;
use crate::cli::Penalties;
use crate::control::{self, Penalised, Question};
use crate::output;
use anyhow::bail;
use serde_json::json;
use std::path::Path;

pub(super) fn run(data: &Path, command: Penalties, json: bool) -> anyhow::Result<()> {
    match command {
        Penalties::List => list(&control::ask(data, &Question::Penalties)?, json),
        Penalties::Clear { subject } => {
            let cleared = control::ask(data, &Question::Clear(subject.clone()))?;
            if let (Some(subject), true) = (&subject, cleared.is_empty()) {
                bail!(
                    "`{subject}` is neither delayed nor refused; `enfilade penalties list` prints every delayed or refused address and name"
                );
            }
            if json {
                output::json_line(&json!({ "cleared": cleared }));
                return Ok(());
            }
            match cleared.is_empty() {
                true => output::line("no address and no name is delayed or refused"),
                false => cleared
                    .iter()
                    .for_each(|one| output::line(&format!("{} is no longer {}", one.subject, one.state))),
            }
        }
    }
    Ok(())
}

fn list(all: &[Penalised], json: bool) {
    if json {
        all.iter().for_each(|one| output::json_line(&json!(one)));
        return;
    }
    let row = |one: &Penalised| {
        let until = output::time(one.until);
        // When a block begins, the number of failures starts again at 0. The number 0 is shown as a dash.
        let failures = or_dash(Some(one.failures).filter(|failures| *failures > 0));
        vec![one.subject.clone(), one.state.clone(), until, failures, one.server.to_string()]
    };
    let rows: Vec<_> = all.iter().map(row).collect();
    output::table(&["ADDRESS OR NAME", "STATE", "UNTIL", "FAILURES", "SERVER"], &rows);
}
