//! The data directory, and the [`House`] of a server on it.

use crate::access_log::NoLog;
use crate::config::{self, Config};
pub(crate) use crate::data_directory::{
    check_new, config_of, data_directory, file_set, is_house, make_directory, refuse_foreign, refuse_served,
    roots_of,
};
use crate::data_directory::{refuse_lost_store, refuse_unusable};
use crate::fleet::{Facts, Use};
use crate::look::look;
use crate::memos::Memos;
pub(crate) use crate::memos::seed;
use crate::reserved::{DATASTORES, reserved};
use crate::{clock, output, token_key};
use anyhow::{Context, bail};
use enfilade_admin::{
    CertificatePlace, ChangeContext, KeyTerms, LimitModel, PasswordRules, Reserved, ReservedPaths, TokenKey,
    judge_token_key, record_token_key, remove_lost_hashes,
};
use enfilade_facts::tables::DatastoreProfile;
use enfilade_facts::vocabulary::DatastoreName;
use enfilade_facts::{Clocks, LockStore, Read as _, Requester, Source};
use enfilade_identity::HashKey;
use enfilade_passage::{
    Accounts, Audit, Clock, HashGate, House, Ledger, Parts, Penalties, SessionTerms, UNKNOWN, Upgrade, Watch,
};
use enfilade_sources::files::directory;
use enfilade_sources::files::fernet_keys::FernetKeys;
use enfilade_sources::files::file_set::FileSet;
use enfilade_sources::files::issued::IssuedSessions;
use enfilade_sources::files::key::{self, SecretKey};
use enfilade_sources::files::last_used::LastUsed;
use enfilade_sources::files::mirror::Mirror;
use enfilade_sources::lmdb::Lmdb;
use enfilade_sources::locks::{LmdbLocks, MemoryLocks};
use enfilade_sources::mounts::MountWatch;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};

/// An open data directory: its configuration, store, files and keys.
pub(crate) struct Home {
    pub(crate) data: PathBuf,
    pub(crate) config: Config,
    /// The configuration file given with `--config`.
    pub(crate) config_file: Option<PathBuf>,
    /// Whether the configuration file existed at the last read, or at any time before.
    had_config_file: AtomicBool,
    /// The configuration of the file and the environment, without the options of the command line.
    pub(crate) written: Config,
    /// The store of this machine. It is used directly only for reads that need no proof that the facts are current, and for the maintenance of the
    /// store.
    pub(crate) store: Arc<Lmdb>,
    pub(crate) facts: Facts,
    pub(crate) files: FileSet,
    /// Whether a server of this machine reads the files. If this machine becomes the files member of its fleet, this is `false` until a server of
    /// this machine has read the files once.
    pub(crate) reads_files: Arc<AtomicBool>,
    /// The reserved paths, which no datastore may contain.
    pub(crate) reserved: Arc<ReservedPaths>,
    /// The key that makes the hashes of API tokens; `None` if it is lost.
    pub(crate) hash_key: Option<SecretKey>,
    /// The rules for new passwords.
    pub(crate) passwords: PasswordRules,
    /// The author of changes by this command, for the audit log.
    who: String,
}

/// The data directory and its configuration, before anything in it is opened.
#[derive(Clone)]
pub(crate) struct Installation {
    pub(crate) data: PathBuf,
    pub(crate) config: Config,
    /// The configuration file given with `--config`.
    config_file: Option<PathBuf>,
    /// Whether the configuration file existed when it was read, or at any time before.
    pub(crate) had_config_file: bool,
}

/// Whether a command creates the data directory and the store of facts if they do not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IfMissing {
    Create,
    /// Like [`IfMissing::Create`]. Also creates the store if the data directory belongs to an earlier server and only its store is missing. The
    /// command will fill the store.
    Refill,
    Refuse,
}

impl Installation {
    /// Finds the data directory, or creates it if `if_missing` allows it, and reads the configuration.
    pub(crate) fn find(
        data: Option<PathBuf>,
        config: Option<&Path>,
        if_missing: IfMissing,
    ) -> anyhow::Result<Installation> {
        let data = data_directory(data)?;
        refuse_unusable(&data)?;
        match if_missing {
            IfMissing::Create | IfMissing::Refill => {
                check_new(&data)?;
                if if_missing == IfMissing::Create {
                    refuse_lost_store(&data)?;
                }
                make_directory(&data, None)?;
            }
            IfMissing::Refuse if is_house(&data) => {}
            IfMissing::Refuse => bail!(
                "`{}` is not a data directory of enfilade; nothing was created; give the right directory with --data or ENFILADE_DATA, or \
                 create a new one with `enfilade init --data '{}'`",
                data.display(),
                data.display()
            ),
        }
        // The path must be absolute, because the program writes paths below the data directory to `datastore.cfg`. A relative path in that file would
        // depend on the working directory of the process that reads the file.
        let data =
            std::fs::canonicalize(&data).with_context(|| format!("`{}` cannot be opened", data.display()))?;
        let config_file = config.map(Path::to_path_buf);
        let had_config_file = config::had(&data, config);
        let config = config::read(&data, config)?;
        Ok(Installation { data, config, config_file, had_config_file })
    }

    /// The path of the configuration file.
    pub(crate) fn config_path(&self) -> PathBuf {
        config::path(&self.data, self.config_file.as_deref())
    }

    /// The reserved paths, which no datastore may contain.
    pub(crate) fn reserved(&self) -> Reserved {
        reserved(&self.data, &self.config, self.config_file.as_deref())
    }

    /// The repository of Fernet keys.
    pub(crate) fn fernet_keys(&self) -> FernetKeys {
        self.config.fernet_keys(&self.data)
    }

    /// The directory of the store of facts.
    pub(crate) fn facts(&self) -> PathBuf {
        self.data.join("facts")
    }
}

/// The author of changes by this command, for the audit log.
pub(crate) fn caller() -> String {
    format!("command line, uid {}", rustix::process::getuid().as_raw())
}

impl Home {
    /// Opens the store and the keys of the data directory, and creates them if they are missing. Then reads the files that people edit. Refuses a
    /// data directory if its configuration file is lost.
    pub(crate) fn open(installation: Installation, usage: Use) -> anyhow::Result<Home> {
        config::refuse_lost(&installation.data, installation.config_file.as_deref())?;
        let store = Arc::new(Lmdb::open_for(&installation.facts(), installation.config.facts.terms())?);
        let facts = Facts::open(&installation.data, &store, &installation.config, usage)?;
        make_directory(&installation.data.join("keys"), installation.config.facts.group)?;
        let hash_key = token_key::find(&installation.data, installation.config.facts.group, &*store)?;
        let Installation { data, config, config_file, had_config_file } = installation;
        let who = caller();
        let written = config.clone();
        let files = file_set(&data, &config).followed_unless(facts.no_files.clone());
        let passwords = config.password_rules();
        let reserved = ReservedPaths::new(reserved(&data, &config, config_file.as_deref()));
        let home = Home {
            reads_files: Arc::new(AtomicBool::new(files.is_followed())),
            files,
            reserved: Arc::new(reserved),
            had_config_file: AtomicBool::new(had_config_file),
            data,
            config,
            config_file,
            written,
            store,
            facts,
            hash_key,
            passwords,
            who,
        };
        // The facts of a member contain the local realm already, because `fleet init` needs a data directory that is set up.
        if !home.store.is_replica() {
            enfilade_admin::ensure_local_realm(&home.change_context(), home.loaded_key().as_ref())?;
        }
        home.look_at_files()?;
        Ok(home)
    }

    /// The key that makes the hashes of API tokens.
    ///
    /// # Errors
    /// Fails if tokens need another key, or if the facts cannot be read.
    pub(crate) fn hash_key(&self) -> anyhow::Result<HashKey> {
        let key = self.loaded_key();
        let judged = judge_token_key(self.source(), key.as_ref())?;
        match (key, token_key::fault(&self.data, judged, self.hash_key.is_none())) {
            (Some(key), None) => {
                if judged == TokenKey::Unrecorded {
                    // An error is ignored, because the key works without a stored record, and a server must also run when the store is full.
                    let _ = record_token_key(&self.change_context(), &key);
                }
                Ok(key)
            }
            (_, why) => Err(anyhow::anyhow!(
                why.unwrap_or_else(|| "there is no key for the hashes of API tokens".to_owned())
            )),
        }
    }

    /// The key from the file `keys/token-hash.key`. The hashes in the facts may have been made with another key.
    pub(crate) fn loaded_key(&self) -> Option<HashKey> {
        self.hash_key.as_ref().map(|key| HashKey::new(key.bytes()))
    }

    /// The key for token hashes, for commands that need decisions of the doors but verify no secret. If the key is lost, the function returns a key
    /// of zeros. So these commands still work.
    pub(crate) fn hash_key_to_ask(&self) -> HashKey {
        self.loaded_key().unwrap_or_else(|| HashKey::new(&[0; 32]))
    }

    /// Accepts the loss of the key for token hashes. Makes a key if there is no key, and records the key in the facts. Removes the hashes that were
    /// made with the lost key, and returns the names of the tokens with these hashes. These tokens need a new secret.
    ///
    /// # Errors
    /// Fails if the key cannot be created or recorded.
    pub(crate) fn accept_lost_token_key(&self) -> anyhow::Result<Vec<String>> {
        let made = key::load_or_make(&token_key::path(&self.data), self.config.facts.group)?;
        let key = HashKey::new(made.bytes());
        let judged = judge_token_key(self.source(), self.loaded_key().as_ref())?;
        let tokens = match judged {
            TokenKey::Lost { .. } => remove_lost_hashes(&self.change_context())?,
            TokenKey::Known | TokenKey::Unrecorded => Vec::new(),
        };
        if judged != TokenKey::Known {
            record_token_key(&self.change_context(), &key)?;
        }
        Ok(tokens)
    }

    pub(crate) fn source(&self) -> &dyn Source {
        &*self.facts.source
    }

    /// The data directory and its configuration.
    pub(crate) fn installation(&self) -> Installation {
        let (data, config, config_file) = (self.data.clone(), self.config.clone(), self.config_file.clone());
        let had_config_file = self.had_config_file.load(Ordering::Relaxed);
        Installation { data, config, config_file, had_config_file }
    }

    /// The context of changes by the user of this command.
    pub(crate) fn change_context(&self) -> ChangeContext<'_> {
        ChangeContext {
            passwords: &self.passwords,
            limit_model: self.config.identity.limit_model.model(),
            roots: None,
            who: &self.who,
            ..server_change_context(self.source(), &self.files, &self.reserved, clock::now())
        }
    }

    /// The time of the last use of each token.
    pub(crate) fn last_used(&self) -> anyhow::Result<LastUsed> {
        let path = self.data.join("last-used");
        let seed = seed()?;
        self.shared(&path, |path| LastUsed::open(path, seed))
    }

    /// Refuses a command about the content of a datastore, if another member of the fleet serves the datastore.
    pub(crate) fn refuse_elsewhere(&self, name: &DatastoreName) -> anyhow::Result<()> {
        let profile = self.source().read(|view| view.get::<DatastoreProfile>(name))??;
        let home = profile.and_then(|profile| profile.home);
        match self.facts.place.elsewhere(home.as_ref()).as_deref() {
            Some(UNKNOWN) => bail!(
                "it is not known which member of the fleet serves datastore `{name}`: etcd does not answer, or the fleet follows the edited files of \
                 no member (`enfilade fleet status`)"
            ),
            Some(member) => bail!(
                "datastore `{name}` is served by member `{member}` of the fleet: run this command on that machine"
            ),
            None => Ok(()),
        }
    }

    /// The directories below which datastores can be created over HTTP.
    pub(crate) fn datastore_roots(&self) -> Vec<PathBuf> {
        let said = self.config.datastores.roots.clone();
        said.map_or_else(|| vec![self.data.join(DATASTORES)], |roots| roots.0)
    }

    /// The paths that the given configuration reserves. No datastore may contain a reserved path.
    pub(crate) fn reserved_by(&self, config: &Config) -> Reserved {
        reserved(&self.data, config, self.config_file.as_deref())
    }

    /// The record of issued sessions.
    pub(crate) fn sessions(&self) -> anyhow::Result<IssuedSessions> {
        let path = self.data.join("sessions");
        self.shared(&path, IssuedSessions::open)
    }

    /// Opens or creates a file that all servers of the data directory write.
    pub(crate) fn shared<F>(
        &self,
        path: &Path,
        open: impl FnOnce(&Path) -> std::io::Result<F>,
    ) -> anyhow::Result<F> {
        let shared = directory::open_for(path, self.config.facts.group, open);
        shared.with_context(|| format!("`{}` cannot be opened", path.display()))
    }

    /// The WebDAV locks, which all servers of the data directory share.
    pub(crate) fn locks(&self) -> anyhow::Result<Arc<dyn LockStore>> {
        let directory = self.data.join("locks");
        make_directory(&directory, self.config.facts.group)?;
        Ok(Arc::new(LmdbLocks::open(&directory, self.config.facts.group)?))
    }

    /// The repository of Fernet keys.
    pub(crate) fn fernet_keys(&self) -> FernetKeys {
        self.config.fernet_keys(&self.data)
    }

    /// The directory or crt-list of the certificates.
    pub(crate) fn certificates(&self) -> CertificatePlace {
        self.config.tls.place(&self.data)
    }

    /// The repository of keys with which all servers of the data directory encrypt TLS session tickets.
    pub(crate) fn ticket_keys(&self) -> FernetKeys {
        FernetKeys::new(self.data.join("keys/tickets")).shared_by(self.config.facts.group)
    }

    /// Reads the configuration again.
    ///
    /// # Errors
    /// Fails if the file cannot be used, or was removed. Without the file every key would have its default, such as `strict_sni = false`.
    pub(crate) fn read_config(&self) -> anyhow::Result<Config> {
        let path = config::path(&self.data, self.config_file.as_deref());
        let exists = || path.exists();
        let is_there = exists();
        let config = config::read(&self.data, self.config_file.as_deref())?;
        // The file may have been removed while it was read. The second check notices this.
        let is_there = is_there && exists();
        if !is_there && self.had_config_file.load(Ordering::Relaxed) {
            bail!(config::lost_file(&path));
        }
        self.remember_config_file();
        Ok(config)
    }

    /// Records that the configuration file exists, if it exists. From then on, a missing file is an error.
    pub(crate) fn remember_config_file(&self) {
        let file = self.config_file.as_deref();
        self.had_config_file.fetch_or(config::had(&self.data, file), Ordering::Relaxed);
        if let Err(why) = config::remember(&self.data, file, self.config.facts.group) {
            output::note(&format!("warning: {why:#}"));
        }
    }

    /// Updates the facts from the files that people edit. Problems in the files are printed as warnings, and the command continues.
    pub(crate) fn look_at_files(&self) -> anyhow::Result<()> {
        if !self.files.is_followed() {
            return Ok(());
        }
        let problems = look(&self.store, self.source(), &mut Mirror::new(self.files.clone()))?;
        problems.iter().for_each(|problem| output::note(&format!("warning: {problem}")));
        Ok(())
    }

    /// The clocks. They also check whether the records of edited files are current.
    fn clock(&self) -> Clock {
        let Some(server) = self.facts.server.clone() else {
            return match self.files.is_followed() {
                true => clock::of_server(Arc::clone(&self.store), self.files.stale_limit()),
                // A command on this machine cannot know whether the files member still follows the edited files. So the command shows the decisions
                // that servers make while the files member follows the files.
                false => clock::reading_mirror(|_| true),
            };
        };
        let (store, reads) = (Arc::clone(&self.store), Arc::clone(&self.reads_files));
        let limit = u64::try_from(self.files.stale_limit()).unwrap_or(0).saturating_mul(1_000);
        clock::reading_mirror(move |now| {
            let age = match reads.load(Ordering::Relaxed) {
                true => store.mirror_leader().age_millis(now.tick_millis),
                false => server.files_followed_ago(),
            };
            age.is_some_and(|age| age <= limit)
        })
    }

    /// The server state (house) for commands that only need decisions of the doors. The house serves no request and writes nothing.
    pub(crate) fn house_to_ask(&self) -> anyhow::Result<Arc<House>> {
        let locks = Arc::new(MemoryLocks::default()) as Arc<dyn LockStore>;
        let alone = (Memos::new()?, (Ledger::private(1, clock::now()), locks));
        let accounts = Accounts::free();
        self.house(self.hash_key_to_ask(), Arc::new(NoLog), sync_channel(1).0, accounts, alone, None)
    }

    /// The state (house) of a server that uses the store of facts in this data directory.
    pub(crate) fn house(
        &self,
        hash_key: HashKey,
        audit: Arc<dyn Audit>,
        upgrades: SyncSender<Upgrade>,
        accounts: Accounts,
        (memos, (ledger, locks)): (Memos, (Ledger, Arc<dyn LockStore>)),
        watch: Option<Watch>,
    ) -> anyhow::Result<Arc<House>> {
        let issuing = Arc::clone(&self.facts.source);
        let house = House::new(Parts {
            source: Arc::clone(&self.facts.source),
            clock: self.clock(),
            place: self.facts.place.clone(),
            clock_sets: clock::sets(),
            reserved: Arc::clone(&self.reserved),
            watch,
            hash_key,
            identity_memo: memos.identity,
            session_terms: terms(&self.config),
            allow_issue: Arc::new(move |now, second| {
                enfilade_admin::keystone::allow_issue(&*issuing, now, second)
            }),
            random: Arc::new(|bytes: &mut [u8]| getrandom::fill(bytes).is_ok()),
            access_memo: memos.access,
            gate: HashGate::new(hash_slots(&self.config)),
            penalties: match self.config.identity.penalties {
                false => Penalties::none(seed()?),
                true => Penalties::new(seed()?),
            },
            accounts: Arc::new(accounts),
            trash: self.config.console.trash(),
            limits: self.config.limits.0,
            ledger,
            locks,
            upgrades,
            audit,
        });
        let mounts = MountWatch::open().and_then(|mut watch| watch.read());
        house.set_mounts(mounts.context("/proc/self/mountinfo cannot be read")?);
        Ok(house)
    }
}

/// The maximum number of slow hashes that are computed at the same time.
pub(crate) fn hash_slots(config: &Config) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    config.identity.hash_slots.unwrap_or(cores / 2)
}

/// The context of changes by the server itself. The server sets no passwords and creates no datastores.
pub(crate) fn server_change_context<'a>(
    facts: &'a dyn Source,
    files: &'a FileSet,
    reserved: &'a ReservedPaths,
    now: Clocks,
) -> ChangeContext<'a> {
    let (passwords, requester) = (PasswordRules::NONE, Requester::Administrator);
    ChangeContext {
        facts,
        files,
        passwords,
        limit_model: LimitModel::default(),
        reserved,
        roots: Some(&[]),
        keeps_administrators: false,
        request: None,
        who: "enfilade serve",
        requester,
        now,
    }
}

/// The configured lifetimes of sessions.
pub(crate) fn terms(config: &Config) -> SessionTerms {
    let identity = &config.identity;
    SessionTerms {
        token_seconds: identity.token_seconds.seconds(),
        expired_seconds: identity.expired_seconds,
        passcode_steps: identity.totp_previous_windows.into(),
    }
}

/// The configuration that decides how long each Fernet key is needed.
pub(crate) fn key_terms(config: &Config) -> KeyTerms {
    let SessionTerms { token_seconds, expired_seconds, .. } = terms(config);
    KeyTerms { max_active: config.identity.max_active_keys, token_seconds, expired_seconds }
}
