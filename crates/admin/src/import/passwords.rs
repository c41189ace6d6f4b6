//! Decides which users of a Proxmox Backup Server get a password on this server, and says why the other users get no password.

use super::earlier::Earlier;
use super::source::{ProxmoxFiles, ProxmoxTerms};
use super::{Imported, NEEDS_FACTOR, removed};
use enfilade_facts::vocabulary::{Authid, Userid};
use std::collections::BTreeMap;

/// The realm of the users with passwords in `shadow.json`.
const REALM_OF_SHADOW: &str = "pbs";

const NO_SUCH_USER: &str = "user.cfg has no such user";

/// The passwords of the source, the options of the import, and what earlier imports added.
pub(super) struct Passwords<'f> {
    pub(super) files: &'f ProxmoxFiles,
    pub(super) terms: ProxmoxTerms,
    pub(super) earlier: Earlier<'f>,
}

impl<'f> Passwords<'f> {
    /// The hash of the user's password, or why the hash cannot be used. This function ignores second factors of the user.
    pub(super) fn usable(&self, user: &Userid) -> Result<&'f str, String> {
        let realm = user.realm().as_str();
        if realm != REALM_OF_SHADOW {
            return Err(match self.files.realms.realms.get(user.realm()).map(|found| found.kind.as_str()) {
                _ if realm == "pam" => {
                    "the password belongs to a system account of the Proxmox server".to_owned()
                }
                Some(kind) => {
                    format!(
                        "Proxmox checks passwords of the realm with {kind}, which this server does not support"
                    )
                }
                None => format!("the realm `{realm}` is not in domains.cfg"),
            });
        }
        let Some(known) = &self.files.passwords else {
            return Err("shadow.json is not in the directory".to_owned());
        };
        let hash = match known.get(user.name()) {
            None => return Err("shadow.json has no password of this user".to_owned()),
            Some(None) => return Err("the user's entry in shadow.json is not a string".to_owned()),
            Some(Some(hash)) => hash,
        };
        enfilade_identity::check_hash(hash)
            .map_err(|why| format!("the user's hash in shadow.json cannot be used: {why}"))?;
        Ok(hash)
    }

    /// Checks that the user may log in with the password alone. If not, returns the reason.
    pub(super) fn alone(&self, user: &Userid) -> Result<(), String> {
        match self.files.factors.get(user) {
            Some(kinds) if !self.terms.without_second_factor => {
                Err(format!("{NEEDS_FACTOR} ({}), and this server imports no second factors", counted(kinds)))
            }
            _ => Ok(()),
        }
    }

    /// The hash of the password that a new user gets here, or why a new user gets no password.
    pub(super) fn offered(&self, user: &Userid) -> Result<&'f str, String> {
        let hash = self.usable(user)?;
        if self.was_given(user) {
            return Err(removed("password"));
        }
        self.alone(user).map(|()| hash)
    }

    /// Whether an earlier import gave the user the password, or found that the user had a password.
    pub(super) fn was_given(&self, user: &Userid) -> bool {
        self.earlier.has("password", &user.to_string())
    }

    /// Whether the user has this hash in `shadow.json`.
    pub(super) fn is(&self, user: &Userid, hash: &str) -> bool {
        let known = self.files.passwords.as_ref().filter(|_| user.realm().as_str() == REALM_OF_SHADOW);
        known.is_some_and(|known| matches!(known.get(user.name()), Some(Some(there)) if there == hash))
    }

    /// Whether `shadow.json` has an entry for the user.
    pub(super) fn has(&self, user: &Userid) -> bool {
        let known = self.files.passwords.as_ref();
        user.realm().as_str() == REALM_OF_SHADOW && known.is_some_and(|known| known.contains_key(user.name()))
    }

    /// A result for each entry of `shadow.json` for a user who is not in `user.cfg`.
    pub(super) fn of_nobody(&self) -> Vec<Imported> {
        let names = self.files.passwords.iter().flatten().map(|(name, _)| name);
        let nobody =
            names.filter_map(|name| match Authid::from_proxmox(&format!("{name}@{REALM_OF_SHADOW}")) {
                Ok(user) => (!self.files.users.entries.contains_key(&user)).then(|| user.to_string()),
                Err(_) => Some(Authid::word_of_parts(name, REALM_OF_SHADOW, None).to_string()),
            });
        nobody.map(|name| Imported::left("password", name, NO_SUCH_USER)).collect()
    }

    /// A result for each user with a second factor, because second factors are not imported. `report` contains the results for passwords.
    pub(super) fn second_factors(&self, report: &[Imported]) -> Vec<Imported> {
        let has_one = |user: &Userid| {
            let name = user.to_string();
            let is_given = |item: &Imported| item.left_out.is_none() || item.has_password_here();
            report.iter().any(|item| item.kind == "password" && item.name == name && is_given(item))
        };
        let each = self.files.factors.iter().map(|(user, kinds)| {
            let is_user =
                self.files.users.entries.contains_key(&user.clone().into()) || *user == Userid::root_pam();
            let then = match () {
                () if !is_user => NO_SUCH_USER,
                () if has_one(user) => "the user can log in with the password alone",
                () if self.has(user) => "the user's password was left out, too",
                () => "no password was imported for the user",
            };
            let why = format!("{}: second factors are not imported; {then}", counted(kinds));
            Imported::left("second factor", user.to_string(), why)
        });
        each.collect()
    }
}

/// Kinds of second factors with their number, such as `recovery, 2 totp`.
fn counted(kinds: &BTreeMap<String, usize>) -> String {
    let each = kinds.iter().map(|(kind, count)| match count {
        1 => kind.clone(),
        count => format!("{count} {kind}"),
    });
    each.collect::<Vec<_>>().join(", ")
}
