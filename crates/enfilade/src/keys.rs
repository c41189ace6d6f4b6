//! Follows the repository of Fernet keys.

use crate::home::{Home, key_terms, seed, server_change_context};
use crate::output;
use crate::shared_keys::{KeysOfFleet, digest};
use enfilade_admin::keystone::purge_revocations;
use enfilade_admin::{
    Error, FernetKeys, KeyLook, KeyNews, KeyTerms, KeyWatch, is_rotation_due, rotate_due_keys, rotated_keys,
};
use enfilade_faces::ListKeys;
use enfilade_facts::memo::KeyMaker;
use enfilade_fleet::Server;
use enfilade_identity::fernet::KeyRing;
use enfilade_passage::House;
use enfilade_sources::files::fernet_keys::Found;
use std::sync::Arc;
use std::time::Duration;

/// The interval at which the repository is read. A new key is in the repository long before it signs tokens. So every server has read the key before
/// that time, and refuses no token that was signed with the key.
const EVERY: Duration = Duration::from_millis(500);
/// After this number of reads of the key repository (10 minutes), the server deletes revocations that no longer match any token.
const PURGE_EVERY: u32 = 1_200;

/// The keys; `None` if the repository is empty.
pub(crate) fn read(keys: &FernetKeys) -> anyhow::Result<Option<KeyRing>> {
    match keys.read() {
        Ok(found) if found.keys.is_empty() => Ok(None),
        Ok(found) => ring(&found).map(Some),
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(why) => Err(why.into()),
    }
}

fn ring(found: &Found) -> anyhow::Result<KeyRing> {
    let keys: Vec<_> = found.keys.iter().map(|(index, key)| (*index, key.bytes())).collect();
    Ok(KeyRing::new(&keys)?)
}

/// Lists the keys for the console.
pub(crate) fn lister(home: &Home) -> ListKeys {
    let (keys, terms) = (home.fernet_keys(), key_terms(&home.config));
    Arc::new(move || enfilade_admin::list_keys(&keys, &terms))
}

/// Reads the keys now, and then periodically in a separate thread. The thread also rotates the keys when they are due, and deletes old revocations.
pub(crate) fn follow(home: &Home, house: &Arc<House>) -> anyhow::Result<()> {
    let (keys, house) = (home.fernet_keys(), Arc::clone(house));
    let (source, files) = (Arc::clone(&home.facts.source), home.files.clone());
    let terms = house.session_terms();
    let key_terms = key_terms(&home.config);
    let every = home.config.identity.rotate_every.as_ref().map(|every| every.seconds);
    let needed = every.map(|every| key_terms.keys_needed(every));
    if let Some(needed) =
        needed.filter(|needed| i64::try_from(key_terms.max_active).is_ok_and(|max| max < *needed))
    {
        output::note(&format!(
            "warning: the Fernet keys rotate less often than `[identity] rotate_every` says, because a rotation is delayed while sessions still need the key that it would delete. To keep more keys, set `[identity] max_active_keys = {needed}` (now {})",
            key_terms.max_active
        ));
    }
    let maker = KeyMaker::new(&seed()?, "keys");
    let mut watch = KeyWatch::new(keys.directory(), home.files.stale_limit(), maker);
    let (server, hash_key) = (home.facts.server.clone(), home.loaded_key());
    let tell = move |found: Option<&Found>| {
        if let (Some(server), Some(key)) = (&server, &hash_key) {
            server.show_keys(found.map(|found| digest(&found.list(), key)));
        }
    };
    let mut told = Vec::new();
    look(&house, &keys, &mut watch, &mut told, &tell);
    let mut fleet = OfFleet::new(home);
    let mut not_turned = String::new();
    std::thread::Builder::new().name("keys".into()).spawn(move || {
        fleet.begin();
        for turn in 1_u32.. {
            std::thread::park_timeout(EVERY);
            let got = fleet.get();
            // If the keys cannot be read, `look` has logged a warning.
            if let Some(every) = every.filter(|_| watch.is_readable()) {
                let rotated = match &fleet.keys {
                    None => rotate_due_keys(&keys, &key_terms, house.now().unix_seconds, every)
                        .map(|rotation| rotation.map(|rotation| rotation.primary))
                        .map_err(|why| (!matches!(why, Error::Invalid(_))).then(|| why.to_string())),
                    // In a fleet, only the files member rotates the keys.
                    Some(of_fleet) if files.is_followed() => {
                        rotate_in_fleet(of_fleet, &keys, &key_terms, (house.now().unix_seconds, every))
                    }
                    Some(_) => Ok(None),
                };
                match rotated {
                    Ok(None) => {}
                    Ok(Some(primary)) => {
                        output::note(&format!(
                            "the Fernet keys were rotated: key {primary} signs from now on"
                        ));
                        not_turned.clear();
                    }
                    // The rotation waits, because it would delete a key that is still needed. The server logged a warning about this at its start.
                    Err(None) => {}
                    Err(Some(why)) => {
                        let why = format!("warning: the Fernet keys were not rotated: {why}");
                        if why != not_turned {
                            output::note(&why);
                            not_turned = why;
                        }
                    }
                }
            }
            look(&house, &keys, &mut watch, &mut told, &tell);
            if got {
                fleet.uses_them();
            }
            // In a fleet, only the files member deletes revocations, because the time of the deletion depends on the clock of the machine.
            if turn % PURGE_EVERY == 0 && files.is_followed() {
                let ctx = server_change_context(&*source, &files, house.reserved(), house.now());
                // A failure is harmless: the deletion is tried again 10 minutes later.
                let _ = purge_revocations(&ctx, terms.expired_seconds + 1_800);
            }
        }
    })?;
    Ok(())
}

/// Rotates the keys of a fleet if a rotation is due. Returns the number of the new primary key; `None` if no rotation is due. The error is `None` if
/// the rotation would delete a key that is still needed.
fn rotate_in_fleet(
    of_fleet: &KeysOfFleet,
    keys: &FernetKeys,
    terms: &KeyTerms,
    (now, every): (i64, i64),
) -> Result<Option<u32>, Option<String>> {
    let said = |why: Error| (!matches!(why, Error::Invalid(_))).then(|| why.to_string());
    if !is_rotation_due(keys, now, every).map_err(said)? {
        return Ok(None);
    }
    // A key that is still needed can delay the rotation for hours. During this time, this check of the local keys fails. So etcd is not asked again
    // and again.
    rotated_keys(keys, terms, now, false).map_err(said)?;
    let mut is_needed = false;
    let rotated = of_fleet.change(|keys| {
        rotated_keys(keys, terms, now, false).inspect_err(|why| is_needed = matches!(why, Error::Invalid(_)))
    });
    match rotated {
        Ok(rotation) => Ok(Some(rotation.primary)),
        Err(_) if is_needed => Err(None),
        Err(why) => Err(Some(format!("{why:#}"))),
    }
}

/// The keys of the fleet of this server. Empty if the server is not in a fleet.
struct OfFleet {
    keys: Option<Arc<KeysOfFleet>>,
    server: Option<Arc<Server>>,
    told: String,
}

impl OfFleet {
    fn new(home: &Home) -> Self {
        OfFleet { keys: home.facts.keys.clone(), server: home.facts.server.clone(), told: String::new() }
    }

    /// Arranges that the calling thread is woken when there are new keys.
    fn begin(&self) {
        self.server.as_ref().inspect(|server| server.get_keys_by(std::thread::current()));
    }

    /// Gets the newest keys, if this machine does not have them. Returns whether this call has put new keys into the directory.
    fn get(&mut self) -> bool {
        let (Some(server), Some(keys)) = (&self.server, &self.keys) else { return false };
        if server.lacks_keys().is_none() {
            return false;
        }
        match keys.fetch() {
            Ok(_) => {
                self.told.clear();
                true
            }
            Err(why) => {
                let why = format!(
                    "warning: this server refuses requests, because it cannot get the newest keys of sessions: {why:#}"
                );
                if why != self.told {
                    output::note(&why);
                    self.told = why;
                }
                false
            }
        }
    }

    /// Reports that the keys in the directory are in use.
    fn uses_them(&self) {
        if let (Some(server), Some(keys)) = (&self.server, &self.keys) {
            // If the keys could not be read, the server still uses earlier keys.
            if let Some((id, _)) = keys.installed().filter(|(_, digest)| server.used_keys() == Some(*digest))
            {
                server.use_keys(Some(id));
            }
        }
    }
}

/// Reads the keys and starts to use them. Logs each problem once. If the keys changed, calls `tell` with the keys.
fn look(
    house: &House,
    keys: &FernetKeys,
    watch: &mut KeyWatch,
    told: &mut Vec<String>,
    tell: &dyn Fn(Option<&Found>),
) {
    let KeyLook { news, mut problems } = watch.look(keys.read(), house.now().tick_millis);
    match news {
        KeyNews::Same => {}
        KeyNews::Nothing => {
            tell(None);
            house.set_keys(None);
        }
        KeyNews::Keys(found) => match ring(&found) {
            Ok(ring) => {
                tell(Some(&found));
                house.set_keys(Some(ring));
            }
            Err(why) => {
                tell(None);
                house.set_keys(None);
                problems.push(format!(
                    "the Fernet keys in `{}` cannot be used: {why}; no session token is accepted or issued; run `enfilade keys check` and restore \
                     the damaged key",
                    keys.directory().display()
                ));
            }
        },
    }
    if problems != *told {
        problems.iter().for_each(|problem| output::note(&format!("warning: {problem}")));
        *told = problems;
    }
}
