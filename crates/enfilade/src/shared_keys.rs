//! The keys with which a fleet signs the tokens of sessions. etcd stores the newest keys, encrypted for the members. Each member also stores the keys
//! in its directory of keys, and their id in the file `keys/shared-keys.id`.

use crate::config::Config;
use crate::fleet_log::{log, wait_for};
use crate::{clock, output, token_key};
use anyhow::{Context, ensure};
use enfilade_admin::{Error, FernetKeys, KeyList};
use enfilade_facts::StoreId;
use enfilade_facts::vocabulary::CredentialId;
use enfilade_fleet::{KeysDigest, KeysId, SharedKeys};
use enfilade_identity::HashKey;
use enfilade_identity::fernet::sealed_keys::{open_keys, seal_keys};
use enfilade_sources::files::{atomic, key};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The interval at which a command asks whether all servers use new keys.
const LOOK: Duration = Duration::from_millis(50);

/// The keys with which a member and its fleet sign the tokens of sessions.
pub(crate) struct KeysOfFleet {
    data: PathBuf,
    config: Config,
    store: StoreId,
    keys: FernetKeys,
}

impl KeysOfFleet {
    pub(crate) fn new(data: &Path, config: &Config, store: StoreId) -> Self {
        let keys = config.fernet_keys(data);
        KeysOfFleet { data: data.to_owned(), config: config.clone(), store, keys }
    }

    /// The id and the digest of the keys of the fleet, if these keys are in the directory of keys.
    pub(crate) fn installed(&self) -> Option<(KeysId, KeysDigest)> {
        let text = std::fs::read_to_string(id_file(&self.data)).ok()?;
        let (id, said) = text.trim().split_once(' ')?;
        let [id, said] = [id, said].map(|text| u64::from_str_radix(text, 16).ok().map(u64::to_be_bytes));
        // The configuration may name another directory now, or an operator may have changed the keys in the directory by hand. So the digest of the
        // keys in the directory is compared with the stored digest.
        let digest = digest(&self.keys.read().ok()?.list(), &self.hash_key().ok()?);
        (said? == digest).then_some((KeysId::from_bytes(id?), digest))
    }

    fn installed_id(&self) -> Option<KeysId> {
        self.installed().map(|(id, _)| id)
    }

    /// Gets the newest keys of the fleet, if this machine does not have them. Returns their id; `None` if no keys were shared yet.
    ///
    /// # Errors
    /// When etcd does not answer, or the keys cannot be decrypted or written.
    pub(crate) fn fetch(&self) -> anyhow::Result<Option<KeysId>> {
        let log = log(&self.config, self.store)?;
        let Some(shared) = wait_for(async { log.shared_keys().await })? else { return Ok(None) };
        if self.installed_id() != Some(shared.id) {
            let keys = self.open(&shared)?;
            self.install(shared.id, &keys)?;
            output::note(&format!(
                "this machine got the newest keys of sessions of the fleet, in `{}`",
                self.keys.directory().display()
            ));
        }
        Ok(Some(shared.id))
    }

    /// Decrypts keys of the fleet.
    fn open(&self, shared: &SharedKeys) -> anyhow::Result<KeyList> {
        let found = open_keys(&self.hash_key()?, &shared.sealed).ok();
        let (_, keys) = found.filter(|(found, _)| *found == shared.id.bytes()).with_context(|| {
            format!(
                "the keys of sessions of the fleet cannot be decrypted: `{}` differs from the file of the other members; copy the file from \
                 another member",
                token_key::path(&self.data).display()
            )
        })?;
        Ok(keys)
    }

    /// Makes new keys from the keys of the fleet, and gives them to all members. Before it makes the keys, this function waits until every server
    /// either uses the present keys or refuses all requests. Then each server that accepts requests knows the key that signs next. Returns the
    /// description of the change that `make` returns.
    ///
    /// # Errors
    /// When `make` refuses, when etcd does not answer, or when another member changed the keys at the same time.
    pub(crate) fn change<R>(
        &self,
        make: impl FnOnce(&FernetKeys) -> Result<(R, KeyList), Error>,
    ) -> anyhow::Result<R> {
        let before = self.fetch()?;
        self.lacking()?;
        let (said, keys) = make(&self.keys)?;
        self.share(before, &keys)?;
        Ok(said)
    }

    /// Gives the keys of this machine to all members.
    ///
    /// # Errors
    /// Fails in the same cases as [`KeysOfFleet::change`].
    pub(crate) fn share_own(&self) -> anyhow::Result<()> {
        let log = log(&self.config, self.store)?;
        let before = wait_for(async { log.shared_keys().await })?;
        // The key for the hashes of API tokens encrypts the shared keys. If the key of this machine differed from the key of the other members, the
        // other members could not decrypt the keys that this machine shares. So this function first decrypts the present keys of the fleet. If the
        // key differs, the decryption fails.
        before.as_ref().map(|before| self.open(before)).transpose()?;
        let before = before.map(|before| before.id);
        let found = self.keys.read().with_context(|| self.keys.directory().display().to_string())?;
        ensure!(
            !found.keys.is_empty(),
            "`{}` has no keys: run `enfilade keys init`",
            self.keys.directory().display()
        );
        self.share(before, &found.list())
    }

    fn share(&self, before: Option<KeysId>, keys: &KeyList) -> anyhow::Result<()> {
        let (id, key) = (KeysId::after(before)?, self.hash_key()?);
        let now = u64::try_from(clock::now().unix_seconds).unwrap_or(0);
        let sealed = seal_keys::<anyhow::Error>(&key, id.bytes(), now, keys, random)?;
        let log = log(&self.config, self.store)?;
        let is_shared = wait_for(async { log.share_keys(before, &SharedKeys { id, sealed }).await })
            .context(
                "it is not known whether the keys were changed: when etcd answers again, compare KEYS in `enfilade fleet status` with the earlier keys",
            )?;
        ensure!(is_shared, "another member changed the keys of sessions at the same time: try again");
        self.install(id, keys)
            .context("the keys of the fleet were changed, so do not run this command again. The server of this machine refuses requests until it can write the keys")
    }

    /// Waits until each registered server uses the keys of this machine, or refuses all requests. A server that has not got these keys yet refuses
    /// all requests after a short time. A warning names such servers.
    ///
    /// # Errors
    /// When etcd does not answer, or the keys cannot be read.
    pub(crate) fn wait_until_used(&self) -> anyhow::Result<()> {
        // The keys are changed already, and one slow answer of etcd must not look like a failed change. So after an error, this function tries once
        // more.
        let lacking =
            self.lacking().or_else(|_| self.lacking()).context(
            "the keys were changed; it is not known whether all servers use them: compare KEYS in `enfilade fleet status`",
        )?;
        if !lacking.is_empty() {
            output::note(&format!(
                "warning: these servers do not use the new keys yet (the member, a dot, and an id): {}. They refuse all requests until they do. Look at KEYS in \
                 `enfilade fleet status` in 10 s; if a server still differs, read its log. A server that stopped in the last 5 s can be in this list",
                lacking.join(", ")
            ));
        }
        Ok(())
    }

    /// Waits until every registered server uses the keys of this machine, but at most until the other servers refuse all requests. Returns the
    /// servers that do not use the keys.
    fn lacking(&self) -> anyhow::Result<Vec<String>> {
        let digest = digest(&self.keys.read()?.list(), &self.hash_key()?);
        // A server may use a proof that it requested before the change, for at most the lifetime Δ of a proof (`[fleet] proof_millis`). A quarter of
        // Δ is added for clocks with different speeds, and for the time of the call.
        let log_now = log(&self.config, self.store)?;
        let delta = wait_for(async { log_now.delta().await })?;
        let (began, most) = (clock::now().tick_millis, (delta + delta / 4).as_millis());
        loop {
            let log = log(&self.config, self.store)?;
            let lacking = wait_for(async { log.without_keys(digest).await })?;
            let waited = clock::now().tick_millis.saturating_sub(began);
            if lacking.is_empty() || u128::from(waited) >= most {
                return Ok(lacking);
            }
            std::thread::park_timeout(LOOK);
        }
    }

    /// Writes keys to the directory, and then stores their id and digest. A crash between these two steps, or two processes that write at the same
    /// time, can leave a digest that differs from the keys in the directory. Then [`KeysOfFleet::fetch`] repeats the steps.
    fn install(&self, id: KeysId, keys: &KeyList) -> anyhow::Result<()> {
        let directory = self.keys.directory();
        self.keys.install(keys).with_context(|| {
            format!("the keys of sessions of the fleet cannot be written to `{}`", directory.display())
        })?;
        let path = id_file(&self.data);
        let numbers = [id.bytes(), digest(keys, &self.hash_key()?)].map(u64::from_be_bytes);
        let text = numbers.map(|number| format!("{number:016x}")).join(" ") + "\n";
        atomic::write_shared(&path, text.as_bytes(), self.config.facts.group)
            .with_context(|| format!("`{}` cannot be written", path.display()))
    }

    fn hash_key(&self) -> anyhow::Result<HashKey> {
        let found = key::load(&token_key::path(&self.data), self.config.facts.group);
        let found =
            found.context("the key with which the fleet encrypts its keys of sessions cannot be read")?;
        Ok(HashKey::new(found.bytes()))
    }
}

/// A digest with which the members of a fleet compare their keys. The digest uses the key for the hashes of API tokens, because all members have this
/// key.
pub(crate) fn digest(keys: &KeyList, key: &HashKey) -> KeysDigest {
    let mut all = KeysDigest::default();
    for (number, bytes) in keys {
        // Tokens have random ids, so no hash of a token equals a digest of keys.
        let digest = key.digest(&CredentialId::from_bytes(u128::from(*number).to_be_bytes()), &**bytes);
        all.iter_mut().zip(digest).for_each(|(all, byte)| *all ^= byte);
    }
    all
}

/// Deletes the record of the keys of an earlier fleet. The keys themselves stay.
///
/// # Errors
/// When the file cannot be deleted.
pub(crate) fn forget(data: &Path) -> anyhow::Result<()> {
    let path = id_file(data);
    match std::fs::remove_file(&path) {
        Err(why) if why.kind() != std::io::ErrorKind::NotFound => {
            Err(why).with_context(|| format!("`{}` cannot be deleted", path.display()))
        }
        _ => Ok(()),
    }
}

fn id_file(data: &Path) -> PathBuf {
    data.join("keys/shared-keys.id")
}

fn random<const N: usize>() -> anyhow::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|why| anyhow::anyhow!("the kernel gives no random bytes: {why}"))?;
    Ok(bytes)
}
