//! Follows the directory of Fernet keys at run time, by the same rule as the files that people edit (`docs/files.md`). If no key can be read any
//! more, the last keys are used until the stale limit is over. After that, every request that needs a key is refused.

use enfilade_facts::MemoKey;
use enfilade_facts::memo::KeyMaker;
use enfilade_sources::files::fernet_keys::{FernetKey, Found};
use std::io;
use std::path::{Path, PathBuf};

const RESTORE: &str = "restore the directory or its permissions; only if the keys are lost, run `enfilade keys init`, which makes new keys and ends all sessions except those of browsers";

/// The keys of a server and their state.
pub struct KeyWatch {
    directory: PathBuf,
    stale_millis: u64,
    maker: KeyMaker,
    state: State,
}

enum State {
    /// The server has had no keys since its start.
    Never,
    /// The keys with this digest are in use.
    Good(MemoKey),
    /// The keys with this digest are in use, but no key has been readable since this time, in milliseconds since the machine started.
    Stale(MemoKey, u64),
    /// The stale limit is over: no keys are used.
    Gone,
}

/// The result of one check of the key directory.
pub struct KeyLook {
    /// The keys to use from now on, if they changed. While the directory is unreadable and the last good keys are used, the value is
    /// [`KeyNews::Same`].
    pub news: KeyNews,
    /// The problems, each with the next step. The text of a problem does not change while the problem lasts.
    pub problems: Vec<String>,
}

/// The keys to use from now on.
pub enum KeyNews {
    /// The keys did not change.
    Same,
    /// These keys are used from now on.
    Keys(Found),
    /// No key is used from now on.
    Nothing,
}

impl KeyWatch {
    /// Watches this directory, with the stale limit in seconds. `maker` computes digests of the keys. The server compares these digests to notice a
    /// change of the keys, so it need not keep a copy of the old keys.
    pub fn new(directory: &Path, stale_seconds: i64, maker: KeyMaker) -> Self {
        let stale_millis = u64::try_from(stale_seconds).unwrap_or(0).saturating_mul(1_000);
        KeyWatch { directory: directory.to_owned(), stale_millis, maker, state: State::Never }
    }

    /// Whether a key could be read at the last look.
    pub fn is_readable(&self) -> bool {
        matches!(self.state, State::Good(_))
    }

    /// Processes the result of reading the directory. `tick_millis` is the time of the reading, in milliseconds since the machine started.
    pub fn look(&mut self, found: io::Result<Found>, tick_millis: u64) -> KeyLook {
        let why = match found {
            Ok(found) if !found.keys.is_empty() => return self.take(found),
            // A server that never had keys reports no problem while the directory does not exist.
            Err(why) if why.kind() == io::ErrorKind::NotFound && matches!(self.state, State::Never) => {
                return KeyLook { news: KeyNews::Same, problems: Vec::new() };
            }
            // An empty directory may be the mount point of an unmounted file system.
            Ok(_) => "there is no key".to_owned(),
            Err(why) => why.to_string(),
        };
        let (good, since) = match self.state {
            State::Never | State::Gone => {
                return KeyLook { news: KeyNews::Same, problems: vec![self.refuses(&why)] };
            }
            State::Good(good) => (good, tick_millis),
            State::Stale(good, since) => (good, since),
        };
        if tick_millis.saturating_sub(since) < self.stale_millis {
            self.state = State::Stale(good, since);
            let problem = format!(
                "the Fernet keys in `{}` cannot be read: {why}; the last good keys are used for {} s from the first failed read; after this time, no session token is accepted or issued; {}",
                self.directory.display(),
                self.stale_millis / 1_000,
                RESTORE
            );
            return KeyLook { news: KeyNews::Same, problems: vec![problem] };
        }
        self.state = State::Gone;
        KeyLook { news: KeyNews::Nothing, problems: vec![self.refuses(&why)] }
    }

    fn take(&mut self, found: Found) -> KeyLook {
        let each = |maker: KeyMaker, (index, key): (&u32, &FernetKey)| {
            maker.number((*index).into()).bytes(key.bytes())
        };
        let now = found.keys.iter().fold(self.maker, each).key();
        let is_same = matches!(self.state, State::Good(known) | State::Stale(known, _) if known == now);
        self.state = State::Good(now);
        // Only ignored keys are reported, not other ignored files.
        let is_key = |name: &str| name.parse::<u32>().is_ok();
        let problems = found.ignored.iter().filter(|(name, _)| is_key(name)).map(|(name, why)| {
            format!(
                "Fernet key `{name}` in `{}` is not used: {why}; session tokens that need this key are refused; correct the file, then run `enfilade keys check`",
                self.directory.display()
            )
        });
        let problems = problems.collect();
        KeyLook { news: if is_same { KeyNews::Same } else { KeyNews::Keys(found) }, problems }
    }

    fn refuses(&self, why: &str) -> String {
        format!(
            "the Fernet keys in `{}` cannot be read: {why}; no session token is accepted or issued; {RESTORE}",
            self.directory.display()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use enfilade_facts::MemoSeed;
    use enfilade_sources::files::fernet_keys::FernetKeys;

    #[test]
    fn the_last_good_keys_serve_for_the_stale_limit_and_then_none() {
        let place = std::env::temp_dir().join(format!("enfilade-key-watch-{}", std::process::id()));
        let keys = FernetKeys::new(place.join("keys"));
        let mut watch = KeyWatch::new(keys.directory(), 60, KeyMaker::new(&MemoSeed([1; 16]), "keys"));
        let mut step = |tick_millis: u64| {
            let look = watch.look(keys.read(), tick_millis);
            let news = match look.news {
                KeyNews::Same => "same".to_owned(),
                KeyNews::Keys(found) => format!("{:?}", found.keys.keys().collect::<Vec<_>>()),
                KeyNews::Nothing => "nothing".to_owned(),
            };
            let says = |problem: String| match problem {
                said if said.contains("keys init") && said.contains("are used for 60 s") => "stale",
                said if said.contains("keys init") && said.contains("no session token is accepted") => {
                    "refuses"
                }
                said if said.contains("is not used") => "left out",
                said => panic!("{said}"),
            };
            (news, look.problems.into_iter().map(says).collect::<Vec<_>>())
        };
        let is = |news: &str, problems: &[&'static str]| (news.to_owned(), problems.to_vec());
        assert_eq!(step(0), is("same", &[]), "keys that never existed are not reported");
        std::fs::create_dir_all(keys.directory()).unwrap();
        assert_eq!(step(0), is("same", &["refuses"]), "a directory without keys, from the start on");
        std::fs::remove_dir(keys.directory()).unwrap();
        keys.init().unwrap();
        assert_eq!([step(1), step(2)], [is("[0, 1]", &[]), is("same", &[])]);
        let away = place.join("away");
        let take_away = || std::fs::rename(keys.directory(), &away).unwrap();
        let put_back = || std::fs::rename(&away, keys.directory()).unwrap();
        take_away();
        assert_eq!([step(1_000), step(60_999)], [is("same", &["stale"]), is("same", &["stale"])]);
        put_back();
        assert_eq!(step(60_999), is("same", &[]), "the same keys");
        take_away();
        assert_eq!([step(70_000), step(129_999)], [is("same", &["stale"]), is("same", &["stale"])]);
        // An empty directory counts as a missing directory.
        std::fs::create_dir(keys.directory()).unwrap();
        assert_eq!([step(130_000), step(140_000)], [is("nothing", &["refuses"]), is("same", &["refuses"])]);
        std::fs::remove_dir(keys.directory()).unwrap();
        put_back();
        assert_eq!(step(150_000), is("[0, 1]", &[]), "taken again");
        std::fs::write(keys.directory().join("2"), "").unwrap();
        assert_eq!(step(150_000), is("same", &["left out"]));
        std::fs::remove_file(keys.directory().join("1")).unwrap();
        assert_eq!(step(150_000), is("[0]", &["left out"]), "the removal of a key takes effect at once");
        std::fs::remove_dir_all(place).unwrap();
    }
}
