//! The keys that seal (encrypt) TLS session tickets. All servers of a data directory share one repository of these keys. The repository has the
//! layout and the rotation of the Fernet key repository. The next key is published long before it seals tickets. So every server can open the tickets
//! of all servers.

use crate::home::Home;
use crate::{clock, operations, output};
use enfilade_admin::FernetKeys;
use enfilade_sources::files::fernet_keys::{FernetKey, Found, STAGED};
use enfilade_tls::{TICKET_SECONDS, TicketKey, Tickets};
use std::time::Duration;

/// How long one key seals new tickets, in seconds.
const SEALS_SECONDS: i64 = 6 * 3600;
/// The number of kept keys: the next key, the key that seals new tickets, and the earlier keys that are needed for unexpired tickets.
const KEYS_MAX: usize = 2 + (TICKET_SECONDS as i64 / SEALS_SECONDS) as usize;
/// The interval at which the keys are read. A key is in the repository for hours before it seals tickets. So every server reads the key in time.
const EVERY: Duration = Duration::from_secs(30);

/// Reads the keys now, and then periodically in a separate thread. Rotates the keys when one key has sealed tickets for [`SEALS_SECONDS`].
pub(crate) fn follow(home: &Home, tickets: &Tickets) -> anyhow::Result<()> {
    let (keys, tickets) = (home.ticket_keys(), tickets.clone());
    // Only servers create these keys. Only servers also create the directory in which they count active operations. If this directory does not exist,
    // no server has run yet, and it is normal that there are no keys.
    if operations::place(&home.data).exists() && !keys.directory().exists() {
        output::note(&format!(
            "warning: the keys of TLS session tickets in `{}` are missing: the server makes new keys, and every client does one full handshake",
            keys.directory().display()
        ));
    }
    let mut told = String::new();
    let mut turn = move || {
        let why = match look(&keys, &tickets) {
            Ok(()) => String::new(),
            Err(why) => {
                format!(
                    "warning: TLS session tickets cannot be used ({}: {why}), so every client does a full handshake",
                    keys.directory().display()
                )
            }
        };
        if why != told && !why.is_empty() {
            output::note(&why);
        }
        told = why;
    };
    turn();
    std::thread::Builder::new().name("ticket keys".into()).spawn(move || {
        loop {
            std::thread::park_timeout(EVERY);
            turn();
        }
    })?;
    Ok(())
}

fn look(keys: &FernetKeys, tickets: &Tickets) -> Result<(), String> {
    keys.init().map_err(|why| why.to_string())?;
    let now = clock::now().unix_seconds;
    let is_due = |found: &Found| {
        let primary = found.primary().and_then(|number| found.keys.get(&number));
        primary.is_some_and(|key| key.since + SEALS_SECONDS <= now)
    };
    let mut found = keys.read().map_err(|why| why.to_string())?;
    if is_due(&found) {
        // If another server has already rotated the keys, the rotation is refused. This refusal is not an error.
        let agree = |found: &Found, _: &_| is_due(found).then_some(()).ok_or_else(String::new);
        let _ = keys.rotate(KEYS_MAX, agree);
        found = keys.read().map_err(|why| why.to_string())?;
    }
    let primary = found.primary().filter(|number| *number != STAGED).ok_or("the primary key is missing")?;
    let of = |key: &FernetKey| TicketKey::new(key.bytes());
    let current = found.keys.get(&primary).map(|key| of(key).id()).ok_or("the primary key is missing")?;
    let all = found.keys.values().map(of).collect();
    tickets.set(all, current);
    Ok(())
}
