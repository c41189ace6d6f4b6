//! Following the files people edit, and what else is done once a second while serving.

use crate::home::Home;
use crate::{audit_log, clock, output};
use enfilade_faces::{Faces, FileLook};
use enfilade_facts::Source as _;
use enfilade_sources::files::mirror::Mirror;
use std::sync::Arc;
use std::time::Duration;

/// What `datastore.cfg` is called where files are counted.
pub(crate) const DATASTORES: &str = "datastore.cfg";

/// Follows `datastore.cfg`, clears what dead readers left behind in the store, and ships the log of changes.
pub(crate) fn follow(home: &Home, faces: Faces) -> anyhow::Result<()> {
    let source = Arc::clone(&home.source);
    let mut mirror = Mirror::new(home.datastore_file());
    std::thread::Builder::new().name("files".into()).spawn(move || {
        let mut told = Vec::new();
        let mut is_shipping = true;
        let mut last = FileLook::default();
        loop {
            // Read before the look: what is committed meanwhile was not looked at.
            let (now, before) = (clock::now(), source.at());
            let problems = match mirror.look(&*source, now) {
                Ok(outcome) => {
                    last.unix_seconds = now.unix_seconds;
                    if outcome.problems.is_empty() {
                        last.good_revision = outcome.committed.unwrap_or(before).revision.0;
                    }
                    outcome.problems
                }
                Err(why) => vec![why.to_string()],
            };
            last.problems = problems.len();
            faces.metrics().set_file(DATASTORES, last);
            if problems != told {
                problems.iter().for_each(|problem| output::note(&format!("warning: {problem}")));
                told = problems;
            }
            source.clear_stale_readers();
            match audit_log::ship(&source) {
                Ok(()) => is_shipping = true,
                Err(why) if is_shipping => {
                    output::note(&format!("warning: {why}"));
                    is_shipping = false;
                }
                Err(_) => {}
            }
            mirror.wait(Duration::from_secs(1));
        }
    })?;
    Ok(())
}
