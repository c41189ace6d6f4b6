//! Asks door 2 about a credential. Delays the answers to failed logins, lets the gate compute slow hashes, and recognises clients that send the same
//! credential again.

use crate::gate::Asker;
use crate::house::House;
use crate::per_minute::Counted;
use crate::refuse::Refusal;
use crate::walk::Visit;
use enfilade_facts::limits::LINK_PASS_SECONDS;
use enfilade_facts::vocabulary::{Authid, UserId, Word};
use enfilade_facts::{MemoKey, Read as _, View};
use enfilade_identity::{
    Ask, Closed, IdentityPermit, LinkAsk, LinkProof, OAuthAsk, OAuthProof, Outcome, Passcode, PasskeyAsk,
    SecretAsk, Unfinished,
};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// The reason why a passcode is not judged.
const TOO_MANY: &str = "after too many wrong passcodes, no passcode of the user is checked for up to 10 minutes; wait, then try again";

/// The proof that a user presents after the password: a passcode, or the answer of an authenticator with a passkey.
#[derive(Clone)]
enum SecondAsk {
    Code(SecretAsk),
    Passkey(Authid, Arc<PasskeyAsk>),
}

impl SecondAsk {
    fn authid(&self) -> &Authid {
        match self {
            SecondAsk::Code(ask) => &ask.authid,
            SecondAsk::Passkey(authid, _) => authid,
        }
    }
}

impl House {
    /// Asks door 2 about a name and a secret. A failure is answered after a delay. An address that fails too often is blocked for a while. From a
    /// blocked address, the server refuses every password, and every token secret that needs a slow hash. Failures are counted under `named`: this is
    /// the name or id that the client sent. If `named` is `None`, failures are counted under the authid in `ask`.
    ///
    /// # Errors
    /// The door's refusal.
    pub(crate) async fn open_secret(
        &self,
        ask: &SecretAsk,
        named: Option<&Word>,
        from: IpAddr,
    ) -> Result<IdentityPermit, Refusal> {
        let opened = self.open_login(ask, named, from).await?;
        opened.map_err(|unfinished| unfinished.refuse().into())
    }

    /// Like [`House::open_secret`], but for a client that can present further methods. If the secret is right and the user's rules require further
    /// methods, the result is `Unfinished`, and not a refusal.
    ///
    /// # Errors
    /// The door's refusal.
    pub(crate) async fn open_login(
        &self,
        ask: &SecretAsk,
        named: Option<&Word>,
        from: IpAddr,
    ) -> Result<Result<IdentityPermit, Unfinished>, Refusal> {
        // A blocked address cannot log in with any password, not even with a password that door 2 remembers. Otherwise a blocked address could try
        // passwords without a delay until one password matches a remembered password.
        if ask.authid.token.is_none() {
            self.refuse_blocked(from)?;
        }
        match self.identify(Ask::Secret(ask)) {
            Ok(identity) => Ok(Ok(identity)),
            Err(Closed::Unfinished(unfinished)) => Ok(Err(unfinished)),
            // The future is boxed. Without the box, the future of every login would contain the state of a wait, and moving this larger future would
            // take time in every login.
            Err(closed) => Box::pin(self.prove(ask, closed, named, from)).await,
        }
    }

    /// Finishes a login that door 2 did not admit at once. Lets the gate compute the slow hash, if door 2 needs one, and delays the answer if the
    /// login fails.
    async fn prove(
        &self,
        ask: &SecretAsk,
        closed: Closed,
        named: Option<&Word>,
        from: IpAddr,
    ) -> Result<Result<IdentityPermit, Unfinished>, Refusal> {
        match self.prove_by_hash(Ask::Secret(ask), closed, from).await {
            Ok(proven) => Ok(proven),
            Err(refusal) => {
                let locking = self.lock_after_failure(&ask.authid, &refusal)?;
                let named = named.cloned().unwrap_or_else(|| ask.authid.to_word());
                let (refusal, late) = self.count_failure(refusal, &named, from);
                late.wait().await;
                if let Some(locking) = locking {
                    let _ = locking.await;
                }
                Err(refusal)
            }
        }
    }

    /// If the refusal is a failed login, counts the failure for the address and for the name that the client sent (`named`). Returns the refusal that
    /// the client gets, and the time at which to answer.
    fn count_failure(&self, refusal: Refusal, named: &Word, from: IpAddr) -> (Refusal, Late) {
        let is_failure = matches!(&refusal, Refusal::Identity(identity) if identity.is_failure());
        if !is_failure {
            return (refusal, Late(None));
        }
        if let Err(blocked) = self.refuse_blocked(from) {
            return (blocked, Late(None));
        }
        let delay = self.parts.penalties.failed(from, named, self.now());
        // If the delay is zero, there is no sleep: even the shortest sleep waits for a tick of the timer.
        (refusal, Late((!delay.is_zero()).then(|| Instant::now() + delay)))
    }

    /// Counts a wrong password or passcode for the user. If the user must be locked now, returns the task that stores the lock. The task runs while
    /// the answer is delayed. So the time of the answer does not tell whether the user exists.
    fn lock_after_failure(
        &self,
        authid: &Authid,
        refusal: &Refusal,
    ) -> Result<Option<JoinHandle<()>>, Refusal> {
        use enfilade_identity::Refusal::{WrongPasscode, WrongSecret};
        let accounts = Arc::clone(&self.parts.accounts);
        let is_wrong = matches!(refusal, Refusal::Identity(WrongSecret(_) | WrongPasscode { .. }));
        let is_guess = is_wrong && authid.token.is_none();
        if !accounts.counts() || !is_guess {
            return Ok(None);
        }
        let user = self.parts.source.read(|view| enfilade_identity::user_named(view, &authid.user))??;
        let now = self.now();
        let user = user.filter(|user| accounts.failed(user));
        Ok(user.map(|user| tokio::task::spawn_blocking(move || accounts.lock(&user, now))))
    }

    /// Checks a passcode (`ask.secret`). A wrong passcode counts as a failed login. A right passcode proves nothing until the caller has stored that
    /// the passcode was used. `proven` is the user that another method of this login proved.
    ///
    /// # Errors
    /// The refusal of door 2, also if the user had too many wrong passcodes.
    pub async fn check_passcode(
        self: &Arc<Self>,
        ask: &SecretAsk,
        proven: Option<UserId>,
        named: &Word,
        from: IpAddr,
    ) -> Result<Passcode, Refusal> {
        self.check_second(SecondAsk::Code(ask.clone()), proven, named, from).await
    }

    /// Whether `authid` is a name of the user.
    ///
    /// # Errors
    /// When the facts cannot be read.
    pub fn is_name_of(&self, authid: &Authid, user: &UserId) -> Result<bool, Refusal> {
        let named = self.parts.source.read(|view| enfilade_identity::user_named(view, &authid.user))??;
        Ok(named.as_ref() == Some(user))
    }

    /// Checks the answer of an authenticator with a passkey. A right or wrong answer counts like a right or wrong passcode
    /// ([`House::check_passcode`]).
    ///
    /// # Errors
    /// The refusal of door 2, also if the user had too many wrong passcodes.
    pub async fn check_passkey(
        self: &Arc<Self>,
        authid: Authid,
        ask: PasskeyAsk,
        proven: Option<UserId>,
        named: &Word,
        from: IpAddr,
    ) -> Result<Passcode, Refusal> {
        self.check_second(SecondAsk::Passkey(authid, Arc::new(ask)), proven, named, from).await
    }

    async fn check_second(
        self: &Arc<Self>,
        ask: SecondAsk,
        proven: Option<UserId>,
        named: &Word,
        from: IpAddr,
    ) -> Result<Passcode, Refusal> {
        let authid = ask.authid();
        let user = self.parts.source.read(|view| enfilade_identity::user_named(view, &authid.user))??;
        let mut turn = match user {
            Some(user) => self.passcodes.turn(user, proven == Some(user)).await,
            None => None,
        };
        // The address may have been blocked while this request waited for other passcodes of the user.
        self.refuse_blocked(from)?;
        let too_many = || enfilade_identity::Refusal::WrongPasscode { authid: authid.clone(), why: TOO_MANY };
        let judged = match turn.as_mut().is_none_or(|turn| turn.may_judge(self.now())) {
            true => self.judge_second(ask.clone()).await,
            false => Err(too_many().into()),
        };
        let refusal = match judged {
            Ok(passcode) => return Ok(passcode),
            Err(refusal) => refusal,
        };
        // The failure is counted, and the user is locked, before the next passcode of the user is judged.
        let is_wrong = matches!(refusal, Refusal::Identity(enfilade_identity::Refusal::WrongPasscode { .. }));
        if let Some(turn) = turn.as_mut().filter(|_| is_wrong) {
            turn.count(self.now());
        }
        let (locking, (refusal, late)) =
            (self.lock_after_failure(authid, &refusal)?, self.count_failure(refusal, named, from));
        if let Some(locking) = locking {
            let _ = locking.await;
        }
        drop(turn);
        late.wait().await;
        Err(refusal)
    }

    async fn judge_second(self: &Arc<Self>, ask: SecondAsk) -> Result<Passcode, Refusal> {
        let house = Arc::clone(self);
        // To judge a passcode, door 2 reads the credentials of the user. This read may wait for the disk, so it does not run on an async worker.
        let judged = tokio::task::spawn_blocking(move || {
            let (now, previous) = (house.now(), house.session_terms().passcode_steps);
            let key = &house.parts.hash_key;
            let check = |view: &View<'_>| match &ask {
                SecondAsk::Code(ask) => enfilade_identity::check_passcode(view, now, ask, previous, key),
                SecondAsk::Passkey(authid, ask) => enfilade_identity::check_passkey(view, now, authid, ask),
            };
            Ok::<_, Refusal>(house.source().read(check)??)
        });
        judged.await.unwrap_or_else(|_| Err(enfilade_identity::Refusal::Busy.into()))
    }

    /// Asks door 2 whether an OAuth consumer signed a request. A failure counts as a failed login: it is counted under the name of the consumer
    /// (`named`), and its answer is delayed.
    ///
    /// # Errors
    /// The refusal of door 2, also if the address is blocked.
    pub async fn prove_oauth(
        &self,
        ask: &OAuthAsk,
        named: &Word,
        from: IpAddr,
    ) -> Result<OAuthProof, Refusal> {
        self.refuse_blocked(from)?;
        let context = self.identity_context();
        let proven = self.parts.source.read(|view| enfilade_identity::prove(view, self.now(), ask, &context));
        match proven.unwrap_or_else(|why| Err(why.into())) {
            Ok(proof) => {
                self.parts.penalties.succeeded(|| named.clone(), self.now());
                Ok(proof)
            }
            Err(refusal) => {
                let (refusal, late) = self.count_failure(refusal.into(), named, from);
                Box::pin(late.wait()).await;
                Err(refusal)
            }
        }
    }

    /// Asks door 2 about a link. A wrong password of a link counts as a failed login. The failure is counted for the address and under the name of
    /// the link. The answer is delayed.
    ///
    /// # Errors
    /// The door's refusal, also if the client presents a password from a blocked address.
    pub(crate) async fn open_link(&self, ask: &LinkAsk, from: IpAddr) -> Result<IdentityPermit, Refusal> {
        if matches!(ask.proof, LinkProof::Password(_)) {
            self.refuse_blocked(from)?;
        }
        match self.identify(Ask::Link(ask)) {
            Ok(identity) => Ok(identity),
            Err(closed @ Closed::NeedsWork(_)) => Box::pin(self.prove_link(ask, closed, from)).await,
            Err(closed) => Err(closed.refuse().into()),
        }
    }

    /// Lets the gate compute the slow hash of the password of a link.
    async fn prove_link(
        &self,
        ask: &LinkAsk,
        closed: Closed,
        from: IpAddr,
    ) -> Result<IdentityPermit, Refusal> {
        use enfilade_identity::Refusal::{LinkTooOften, WrongSecret};
        // The password is counted before its hash is computed, because a guest can send many passwords at the same time.
        let (counted, then) = (enfilade_identity::link_id(&ask.text).map(Counted::Guesses), self.now());
        if let Some(Err(seconds)) = counted.map(|counted| self.per_minute.count(counted, then)) {
            return Err(match closed.refuse() {
                WrongSecret(link) => LinkTooOften { link, seconds }.into(),
                other => other.into(),
            });
        }
        let refusal = match self.prove_by_hash(Ask::Link(ask), closed, from).await {
            Ok(Ok(identity)) => {
                counted.into_iter().for_each(|counted| self.per_minute.take_back(counted, then));
                return Ok(identity);
            }
            Ok(Err(unfinished)) => return Err(unfinished.refuse().into()),
            Err(refusal) => refusal,
        };
        let Refusal::Identity(WrongSecret(link)) = &refusal else {
            // No password was judged, so the count is reduced again.
            counted.into_iter().for_each(|counted| self.per_minute.take_back(counted, then));
            return Err(refusal);
        };
        let named = link.to_word();
        let (refusal, late) = self.count_failure(refusal, &named, from);
        late.wait().await;
        Err(refusal)
    }

    /// Counts a use of the guest's link, and refuses the use if the link was used too often in this minute. The caller checks that the visitor is a
    /// guest.
    ///
    /// # Errors
    /// When the link was used too often in this minute, or the visitor used neither a link nor an API token.
    pub fn limit_link_uses(&self, visit: &Visit) -> Result<(), Refusal> {
        use enfilade_identity::Refusal::{LinkTooOften, NoLink};
        let (id, link) = visit.identity.token().zip(Some(visit.principal().authid.clone())).ok_or(NoLink)?;
        let counted = self.per_minute.count(Counted::Uses(*id), self.now());
        counted.map_err(|seconds| LinkTooOften { link, seconds }.into())
    }

    /// A pass for the guest of a link, and the number of seconds for which the pass is valid. A guest who sends the pass does not need to send the
    /// password of the link again. `None` if the visitor is not a guest.
    pub fn link_pass(&self, visit: &Visit) -> Option<(String, i64)> {
        let link = visit.identity.principal().link.as_ref().and(visit.identity.token())?;
        let until = self.now().unix_seconds.saturating_add(LINK_PASS_SECONDS);
        Some((enfilade_identity::link_pass(&self.parts.hash_key, link, until), LINK_PASS_SECONDS))
    }

    /// Returns the refusal that `closed` contains, or lets the gate compute the slow hash. A matching hash alone does not admit a client: the match
    /// is remembered, and door 2 decides again on the current facts.
    ///
    /// # Errors
    /// The refusal of door 2, or `Busy` if the gate has no free slot in time.
    async fn prove_by_hash(
        &self,
        ask: Ask<'_>,
        mut closed: Closed,
        from: IpAddr,
    ) -> Result<Result<IdentityPermit, Unfinished>, Refusal> {
        let parts = &self.parts;
        // One iteration is enough, unless the stored hash changes during the computation.
        for _ in 0..4 {
            let work = match closed {
                Closed::Refused(refusal) => return Err(refusal.into()),
                Closed::NeedsWork(work) => work,
                Closed::Unfinished(unfinished) => return Ok(Err(unfinished)),
            };
            self.refuse_blocked(from)?;
            let asker = Asker { from, failures: parts.penalties.failures(from, self.now()) };
            match parts.gate.run(work.clone(), asker).await? {
                Outcome::Matches(key) => parts.identity_memo.remember_match(key, self.now()),
                Outcome::Differs => return Err(work.refuse().into()),
            }
            closed = match self.identify(ask) {
                Ok(identity) => return Ok(Ok(identity)),
                Err(closed) => closed,
            };
        }
        match closed {
            Closed::Refused(refusal) => Err(refusal.into()),
            Closed::NeedsWork(_) => Err(enfilade_identity::Refusal::Busy.into()),
            Closed::Unfinished(unfinished) => Ok(Err(unfinished)),
        }
    }

    /// Admits a client that sends the same credential bytes again on its connection, as long as the decision of door 2 is still valid. The server
    /// does not parse these bytes again. A proxy can send the requests of several clients on one connection. So the bytes are recognised only if they
    /// come from the same address.
    ///
    /// # Errors
    /// Returns the digest of the bytes if the last request had other bytes or came from another address, or if the verdict is no longer valid. Then
    /// the caller parses the credential, asks door 2, and gives the digest to [`LastVisitor::remember`].
    pub fn recognise(
        self: &Arc<Self>,
        last: &LastVisitor,
        (name, value): (&[u8], &[u8]),
        from: IpAddr,
    ) -> Result<Visit, MemoKey> {
        // The revision is read before the remembered identity. So a change that is acknowledged after the read of the revision takes effect at the
        // latest with the next request.
        let (at, keys) = (self.parts.source.at(), self.sessions.generation());
        let brought = self.parts.identity_memo.unread(name, value);
        let known = last.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*known {
            Some((key, then, identity))
                if *key == brought
                    && *then == from
                    && identity.validity().admits(at, keys, || self.now()) =>
            {
                Ok(self.welcome(identity.clone(), from))
            }
            _ => Err(brought),
        }
    }

    fn refuse_blocked(&self, from: IpAddr) -> Result<(), Refusal> {
        match self.parts.penalties.bar(from, self.now()) {
            Some(left) => Err(enfilade_identity::Refusal::Blocked { seconds: left.as_secs().max(1) }.into()),
            None => Ok(()),
        }
    }

    /// Asks door 2 at the newest revision. This call never waits.
    ///
    /// # Errors
    /// The refusal of door 2, the slow hash that must still be computed, or a login that needs further methods.
    pub fn identify(&self, ask: Ask<'_>) -> Result<IdentityPermit, Closed> {
        enfilade_identity::open(self.source(), || self.now(), ask, &self.identity_context())
    }
}

/// The time at which a failed login is answered; `None` means immediately.
struct Late(Option<Instant>);

impl Late {
    async fn wait(self) {
        if let Some(until) = self.0 {
            tokio::time::sleep_until(until).await;
        }
    }
}

/// The last principal that was admitted on a connection, with the digest of its credential.
///
/// Measured (`bench/runs/2026-11-29-passage-e627acfdbf.json`): if all requests of a connection have the same token, a request to `/whoami` needs 1.06
/// times the CPU time of a request to `/.well-known/enfilade`, which needs no token (goal `door`). If each request has a different token,
/// `LastVisitor` does not help, and the factor is 1.32 (goal `door-another`).
#[derive(Default)]
pub struct LastVisitor(Mutex<Option<(MemoKey, IpAddr, IdentityPermit)>>);

impl LastVisitor {
    /// Remembers a client, the digest of its credential and its address.
    pub fn remember(&self, brought: MemoKey, from: IpAddr, visit: &Visit) {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *last = Some((brought, from, visit.identity.clone()));
    }
}

impl std::fmt::Debug for LastVisitor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LastVisitor")
    }
}
