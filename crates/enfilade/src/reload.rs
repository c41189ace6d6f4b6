//! SIGHUP: the configuration is read first, and one error in it leaves everything as it was.
//!
//! Certificates that changed are exchanged for connections that come from now on; those that are open go on, and a file that cannot be
//! used leaves the certificate in its place that was there. Files that are mirrored are followed anyway, each section for itself: what is
//! wrong with them is told again, and holds nothing else up.

use crate::certificates::{Keeper, Served};
use crate::config::Check;
use crate::home::{Home, hash_slots};
use crate::{notify, output};
use enfilade_faces::Faces;
use std::sync::Arc;

/// Reads everything again.
pub(crate) fn reload(home: &Home, served: &Arc<Served>, faces: &Faces) -> Result<String, String> {
    notify::reloading();
    let reloaded = exchange_all(home, served, faces);
    faces.metrics().reloaded(reloaded.as_ref().is_ok_and(|(_, is_whole)| *is_whole));
    let said = match reloaded {
        Ok((count, _)) => Ok(format!("reloaded: {count} certificates are served from now on")),
        Err(why) => Err(format!("nothing was reloaded, everything is as it was: {why:#}")),
    };
    match &said {
        Ok(said) => output::note(said),
        Err(why) => output::note(&format!("warning: {why}")),
    }
    if let Err(why) = home.look_at_files() {
        output::note(&format!("warning: {why:#}"));
    }
    notify::ready();
    said
}

fn exchange_all(home: &Home, served: &Arc<Served>, faces: &Faces) -> anyhow::Result<(usize, bool)> {
    let config = home.read_config()?;
    let waiting = home.written.waits_for_restart(&config)?;
    let (tls, rules) = (&config.tls, config.tls.rules());
    let (count, is_whole) = match served.is_of(tls, &home.data) {
        true => served.look_again(rules)?,
        false => {
            let moved = served.move_to(Keeper::new(tls, &home.data, served.tickets())?, rules)?;
            if tls.check != Check::Lazy {
                served.verify()?;
            }
            moved
        }
    };
    faces.house().gate().set_slots(hash_slots(&config));
    let reserved = home.reserved_by(&config);
    faces.house().reserved().change(|now| {
        now.directories.extend(reserved.directories);
        now.files.extend(reserved.files);
    });
    let _ = faces.house().let_go();
    if !waiting.is_empty() {
        let waiting: Vec<String> = waiting.iter().map(|key| format!("`{key}`")).collect();
        output::note(&format!("warning: changed, and obeyed after a restart only: {}", waiting.join(", ")));
    }
    Ok((count, is_whole))
}
