//! `enfilade acl`.

use crate::cli::Acl;
use crate::home::Home;
use crate::output;
use anyhow::Context;
use enfilade_facts::vocabulary::StorePath;
use serde_json::json;
use std::io::Read as _;

pub(super) fn run(home: &Home, command: Acl, json: bool) -> anyhow::Result<()> {
    let source = home.source();
    match command {
        Acl::Get { datastore, path } => {
            let path = StorePath::from_plain(&path)?;
            let acl = enfilade_admin::get_acl(source, &datastore, &path)?;
            let value = json!({
                "datastore": datastore.to_string(), "path": path.to_string(), "acl": acl.lines, "mode": acl.mode,
            });
            let text = match &acl.lines {
                Some(lines) => lines.join("\n"),
                None => {
                    format!("no ACL; mode bits {:o}, owner {}, group {}", acl.mode & 0o7777, acl.uid, acl.gid)
                }
            };
            output::done(json, &value, &text);
        }
        Acl::Set { datastore, path, mut lines } => {
            let path = StorePath::from_plain(&path)?;
            if lines.is_empty() {
                let mut text = String::new();
                std::io::stdin().lock().read_to_string(&mut text).context("the ACL cannot be read")?;
                lines =
                    text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect();
            }
            let place = enfilade_admin::set_acl(source, &datastore, &path, &lines)?;
            let value = json!({
                "datastore": datastore.to_string(), "path": path.to_string(), "acl": lines, "attribute": place,
            });
            output::done(json, &value, &format!("{path} of {datastore} has the ACL, in {place}"));
        }
    }
    Ok(())
}
