//! The reload at SIGHUP. The configuration is read before everything else. If the configuration has an error, the certificates and settings do not
//! change.
//!
//! New connections use the changed certificates, and open connections continue. If a file is unusable, the old certificate stays in use. If a line of
//! a crt-list has options, and the file on this line is unusable, the reload fails and changes nothing.
//!
//! The server follows `user.cfg`, `token.shadow`, `acl.cfg` and `datastore.cfg` all the time, even without a reload. Each reload, even if it fails,
//! reads these files once more and logs their problems. These problems do not make the reload fail.

use crate::certificates::{Keeper, Served, count_of};
use crate::config::{Check, Config};
use crate::confinement::Confinement;
use crate::home::{Home, hash_slots};
use crate::{notify, output};
use enfilade_faces::Faces;
use std::sync::Arc;

/// Reads the configuration, the certificates and the edited files again.
pub(crate) fn reload(
    home: &Home,
    served: &Arc<Served>,
    faces: &Faces,
    limits: &Confinement,
) -> Result<String, String> {
    notify::reloading();
    let said = match exchange_all(home, served, faces, limits) {
        Ok([count, 0]) => Ok(format!("reloaded: {} from now on", count_of(count))),
        Ok([count, bad]) => Ok(format!(
            "reloaded: {} from now on; {} cannot be used (see the warnings in the log)",
            count_of(count),
            output::counted(bad, "certificate file", "certificate files")
        )),
        Err(why) => Err(format!("reload failed, nothing changed: {why:#}")),
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

/// Reads the configuration and the certificates again, and applies them. Returns the number of served certificates, and the number of files that
/// cannot be used.
fn exchange_all(
    home: &Home,
    served: &Arc<Served>,
    faces: &Faces,
    limits: &Confinement,
) -> anyhow::Result<[usize; 2]> {
    let configured = configure(home, served, limits);
    served.configured(configured.is_err());
    let (config, waiting, moved) = configured?;
    let counts = match moved {
        Some(counts) => counts,
        None => served.look_again(config.tls.rules())?,
    };
    faces.house().gate().set_slots(hash_slots(&config));
    let reserved = home.reserved_by(&config);
    faces.house().reserved().change(|now| {
        now.directories.extend(reserved.directories);
        now.files.extend(reserved.files);
    });
    let _ = faces.house().close_idle_roots();
    if !waiting.is_empty() {
        let waiting: Vec<String> = waiting.iter().map(|key| format!("`{key}`")).collect();
        output::note(&format!(
            "warning: restart the server to apply these changed configuration keys: {}",
            waiting.join(", ")
        ));
    }
    Ok(counts)
}

/// The configuration, and the changed configuration keys that need a restart. If the new configuration has another directory or crt-list of
/// certificates, also the number of served certificates, and the number of files that cannot be used.
type Configured = (Config, Vec<String>, Option<[usize; 2]>);

/// Reads the configuration. If it has another directory or crt-list of certificates, the server serves the certificates of that place from now on.
/// Then the result contains the two numbers that [`Configured`] describes. The configuration and the new certificates are read before anything is
/// replaced.
fn configure(home: &Home, served: &Arc<Served>, limits: &Confinement) -> anyhow::Result<Configured> {
    let config = home.read_config()?;
    let waiting = home.written.waits_for_restart(&config)?;
    let tls = &config.tls;
    limits.refuse_unreadable(tls, &home.data)?;
    if served.is_of(tls, &home.data) {
        return Ok((config, waiting, None));
    }
    let moved = served.move_to(Keeper::new(tls, &home.data, served.tickets())?, tls.rules())?;
    if tls.check != Check::Lazy {
        served.verify()?;
    }
    Ok((config, waiting, Some(moved)))
}
