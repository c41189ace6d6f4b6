//! Fetches the certificates of the fleet for the server of a member. Also fetches the answers that all members must send to challenges.

use crate::acme::{self, Answers};
use crate::config::Config;
use crate::home::Home;
use crate::shared_certificates::{CertificatesOfFleet, Held, directory};
use crate::{output, self_made};
use enfilade_facts::Source as _;
use enfilade_fleet::Log;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The interval at which a server asks etcd for certificates and for answers to challenges.
const LOOK: Duration = Duration::from_millis(500);
/// After this number of intervals, a certificate that could not be used is tried again.
const AGAIN: u32 = 20;
/// How long the start of a server waits for the certificates.
const FIRST_MAX: Duration = Duration::from_secs(10);

/// Gets the certificates of the fleet before a server reads its certificates. If this fails, the server logs a warning, and begins with the
/// certificates that it has.
pub(crate) async fn first(home: &Home) -> Held {
    let mut held = Held::default();
    if home.facts.server.is_none() {
        return held;
    }
    let of = CertificatesOfFleet::new(&home.data, &home.config, home.store.at().store);
    let got = async {
        self_made::make_place(&home.data, &directory(&home.data))?;
        of.get(&of.log()?, &mut held).await
    };
    match tokio::time::timeout(FIRST_MAX, got).await {
        Ok(Ok(())) => {}
        Ok(Err(why)) => tell(&why),
        Err(_) => output::note(
            "warning: etcd did not send the certificates of the fleet in time: the server begins with the certificates that it has",
        ),
    }
    tell_faults(&BTreeMap::new(), &held.faults);
    held
}

/// Follows the certificates of the fleet, and the answers that all members must send to challenges, until the server ends.
pub(crate) fn follow(home: &Home, answers: &Arc<Answers>, held: Held) -> anyhow::Result<()> {
    if home.facts.server.is_none() {
        return Ok(());
    }
    answers.make(&home.data)?;
    let of = CertificatesOfFleet::new(&home.data, &home.config, home.store.at().store);
    let log = of.log()?;
    let (data, config) = (home.data.clone(), home.config.clone());
    let follower =
        Follower { data, config, of, log, held, answers: Arc::clone(answers), said: String::new() };
    tokio::spawn(follower.run());
    Ok(())
}

struct Follower {
    data: PathBuf,
    config: Config,
    of: CertificatesOfFleet,
    log: Log,
    held: Held,
    answers: Arc<Answers>,
    /// The last failure that was logged.
    said: String,
}

impl Follower {
    async fn run(mut self) {
        for look in 0_u32.. {
            match self.look(look).await {
                Ok(()) => self.said.clear(),
                Err(why) => {
                    let text = format!("{why:#}");
                    if text != self.said {
                        tell(&why);
                        self.said = text;
                    }
                }
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn look(&mut self, look: u32) -> anyhow::Result<()> {
        // An error is ignored here: if etcd does not answer, the member refuses requests, and the server logs this elsewhere.
        let Ok((id, given)) = self.log.certificate_news().await else { return Ok(()) };
        // The answers are handled before the certificates, because an authority may wait for the answers.
        if let Some(ids) = self.answers.give(given).await? {
            self.log.say_answered(&ids).await?;
        }
        let is_again = look.is_multiple_of(AGAIN) && !self.held.faults.is_empty();
        let is_new = id != self.held.id || self.is_changed()?;
        if id.is_none() || !is_new && !is_again {
            return Ok(());
        }
        let before = self.held.faults.clone();
        self.of.get(&self.log, &mut self.held).await?;
        tell_faults(&before, &self.held.faults);
        acme::learn(&self.config, &self.data, &self.log).await
    }

    /// Whether files were added to or removed from the directory of the fleet's certificates.
    fn is_changed(&self) -> anyhow::Result<bool> {
        let names = self.of.names()?;
        // The newest version of a certificate in `faults` cannot be used. The directory can contain an earlier version. That version is not in
        // `versions` if it was written before this server started.
        let is_known =
            |name: &String| self.held.versions.contains_key(name) || self.held.faults.contains_key(name);
        Ok(!names.iter().all(is_known) || !self.held.versions.keys().all(|name| names.contains(name)))
    }
}

fn tell(why: &anyhow::Error) {
    output::note(&format!("warning: the certificates of the fleet were not updated: {why:#}"));
}

fn tell_faults(before: &BTreeMap<String, String>, faults: &BTreeMap<String, String>) {
    for (name, why) in faults.iter().filter(|(name, why)| before.get(*name) != Some(*why)) {
        output::note(&format!(
            "warning: certificate `{name}` of the fleet cannot be used: {why}; if this machine has an earlier version, the server continues to use \
             the earlier version"
        ));
    }
}
