//! `enfilade explain`.

use crate::cli::Explain;
use crate::home::Home;
use crate::output;
use enfilade_admin::Names;
use enfilade_facts::Read;
use enfilade_facts::vocabulary::StorePath;
use serde_json::json;
use std::process::ExitCode;

/// The exit code for a refused access, so that scripts can tell it from a failed command, which exits with 1.
const REFUSED: u8 = 3;

pub(super) fn run(home: &Home, arguments: &Explain, json: bool) -> anyhow::Result<ExitCode> {
    let Explain { authid, datastore, path, right } = arguments;
    let path = StorePath::from_plain(path)?;
    let house = home.house_to_ask()?;
    let mut explanation = house.explain(authid, datastore, &path, *right);
    let names = home.source().read(Names::read)??;
    for door in &mut explanation.doors {
        door.says = names.naming(&door.says);
        door.walk.iter_mut().for_each(|step| *step = names.naming(step));
    }
    let verdict = if explanation.permits() { "permit" } else { "refuse" };
    if json {
        let doors: Vec<_> = explanation
            .doors
            .iter()
            .map(|door| {
                json!({
                    "door": door.door.name(), "verdict": if door.opens { "permit" } else { "refuse" },
                    "code": door.code, "says": door.says, "walk": door.walk,
                })
            })
            .collect();
        output::json_line(&json!({
            "authid": authid.to_string(), "datastore": datastore.to_string(), "path": path.to_string(),
            "right": right.to_string(), "verdict": verdict, "doors": doors,
        }));
    } else {
        for door in &explanation.doors {
            let mark = if door.opens { "opens" } else { "refuses" };
            let code = door.code.map(|code| format!(" {code}")).unwrap_or_default();
            output::line(&format!("{:<10} {mark}{code}: {}", door.door.name(), door.says));
            door.walk.iter().for_each(|step| output::line(&format!("           {step}")));
        }
        output::line(&format!("{verdict}: {authid}, {right} on {path} of {datastore}"));
    }
    Ok(if explanation.permits() { ExitCode::SUCCESS } else { ExitCode::from(REFUSED) })
}
