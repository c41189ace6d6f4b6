//! SIGHUP: everything is read first, and one error in it leaves everything as it was.
//!
//! Certificates are exchanged for connections that come from now on; those that are open go on. Files that are mirrored are
//! followed anyway, each section for itself: what is wrong with them is told again, and holds nothing else up.

use crate::home::{Home, hash_slots};
use crate::listen::Tls;
use crate::{certificates, notify, output};
use anyhow::bail;
use enfilade_faces::Faces;
use tokio::sync::watch;

/// Reads everything again.
pub(crate) fn reload(home: &Home, exchange: &watch::Sender<Tls>, faces: &Faces) {
    notify::reloading();
    let reloaded = exchange_all(home, exchange, faces);
    faces.metrics().reloaded(reloaded.is_ok());
    if let Err(why) = reloaded {
        output::note(&format!("warning: nothing was reloaded, everything is as it was: {why:#}"));
    }
    if let Err(why) = home.look_at_files() {
        output::note(&format!("warning: {why:#}"));
    }
    notify::ready();
}

fn exchange_all(home: &Home, exchange: &watch::Sender<Tls>, faces: &Faces) -> anyhow::Result<()> {
    let config = home.read_config()?;
    let waiting = home.written.waits_for_restart(&config)?;
    let (tls, bad) = certificates::load(&home.certificates_of(&config))?;
    // At the start a server with the others is better than none. Now there is one, and it may be serving this name well.
    if !bad.is_empty() {
        let bad: Vec<String> = bad.iter().map(ToString::to_string).collect();
        bail!("{}", bad.join("; "));
    }
    output::note(&format!("reloaded: {} certificates are served from now on", tls.count));
    faces.metrics().set_bad_certificates(0);
    faces.house().gate().set_slots(hash_slots(&config));
    exchange.send_replace(tls);
    if !waiting.is_empty() {
        let waiting: Vec<String> = waiting.iter().map(|key| format!("`{key}`")).collect();
        output::note(&format!("warning: changed, and obeyed after a restart only: {}", waiting.join(", ")));
    }
    Ok(())
}
