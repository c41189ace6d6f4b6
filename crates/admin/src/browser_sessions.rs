//! Sessions of browsers: a user signs in at the page for signing in, and gets a session for each application that the browser visits.
//!
//! The cookie of one host is not sent to another host. So an application's session begins with a one-time code: the page for signing in redirects the
//! browser to the application's host with the code. At this host, the browser exchanges the code for a cookie.

use crate::change_context::{ChangeContext, random};
use crate::error::Error;
use crate::keystone::{revoke, userid_of};
use enfilade_facts::tables::{
    Application, ApplicationHost, Audience, BrowserProof, BrowserSession, BrowserSessionId, Revocation,
    Revoked, SecretDigest,
};
use enfilade_facts::vocabulary::{ApplicationName, HostName, UserId, Userid};
use enfilade_facts::{At, Change, Read, Source, View};
use enfilade_identity::{
    BROWSER_SECRET_BYTES, Refusal, Session, browser_text, is_same_digest, read_browser_text, secret_digest,
};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::ops::ControlFlow;

/// How long a one-time code can be exchanged, in seconds.
const CODE_SECONDS: i64 = 60;

/// The maximum number of records of ended sessions and codes that one change deletes. Each change that adds a session or code deletes up to this many
/// records, so the records of ended sessions and codes do not accumulate.
const DELETED_AT_ONCE: usize = 16;

/// How long the record of an ended session or code is kept, in seconds. The record is kept because the clock of another server may be slow. By that
/// clock, the session or code has possibly not ended yet.
const KEPT_SECONDS: i64 = 60;

/// A browser, and the host that it visits.
#[derive(Clone, Copy, Debug)]
pub struct BrowserAt<'a> {
    /// The application of the host.
    pub application: &'a ApplicationName,
    /// The host.
    pub host: &'a HostName,
    /// The digest of the secret that the browser got at this host.
    pub browser: SecretDigest,
}

/// A new session of a browser.
pub struct NewBrowserSession {
    /// The text of the cookie. It is a secret until the session ends.
    pub cookie: String,
    /// When the session ends, in seconds since the epoch.
    pub expires_at: i64,
}

impl std::fmt::Debug for NewBrowserSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewBrowserSession").field("expires_at", &self.expires_at).finish_non_exhaustive()
    }
}

/// Stores the session in which a user signed in, at the page for signing in or at the console.
///
/// # Errors
/// When the audience of the session is neither the page for signing in nor the console, or the facts cannot be changed.
pub fn store_sign_in(ctx: &ChangeContext<'_>, session: &Session) -> Result<NewBrowserSession, Error> {
    // The session of an application is not stored here: it begins with a one-time code ([`issue_code`]).
    let audience = match &session.audience {
        Some(audience @ (Audience::SignIn | Audience::Console)) => audience.clone(),
        Some(Audience::Application(_)) | None => return Err(Refusal::BrowserSession.into()),
    };
    let secret = random::<BROWSER_SECRET_BYTES>()?;
    let claim = &session.claim;
    let id = BrowserSessionId { expires_at: seconds(claim.expires_at), random: random()? };
    let row = BrowserSession {
        user: claim.user,
        methods: claim.methods.0,
        issued_at: claim.issued_at,
        audit: claim.audit.own,
        audience,
        proof: BrowserProof::Cookie(secret_digest(&secret)),
    };
    ctx.commit("sign in", |view, change| {
        change.expect_absent::<BrowserSession>(&id).put(&id, &row);
        delete_ended(view, change, ctx.now.unix_seconds)
    })?;
    Ok(NewBrowserSession { cookie: browser_text(id, &secret), expires_at: claim.expires_at })
}

/// Issues a one-time code for the browser of a user who is signed in. `session` is the session at the page for signing in. The application's session
/// ends when `session` ends.
///
/// # Errors
/// When `session` is not a session at the page for signing in, or the facts cannot be changed.
pub fn issue_code(ctx: &ChangeContext<'_>, session: &Session, at: BrowserAt<'_>) -> Result<String, Error> {
    if session.audience != Some(Audience::SignIn) {
        return Err(Refusal::BrowserSession.into());
    }
    let (secret, random) = (random::<BROWSER_SECRET_BYTES>()?, random()?);
    let claim = &session.claim;
    let id =
        BrowserSessionId { expires_at: seconds(ctx.now.unix_seconds.saturating_add(CODE_SECONDS)), random };
    let row = BrowserSession {
        user: claim.user,
        methods: claim.methods.0,
        // The issue time of the application's session is the issue time of the sign-in. So every revocation that ends the session of the sign-in also
        // ends the application's session.
        issued_at: claim.issued_at,
        audit: claim.audit.own,
        audience: Audience::Application(at.application.clone()),
        proof: BrowserProof::Code {
            code: secret_digest(&secret),
            browser: at.browser,
            host: at.host.clone(),
            session_until: seconds(claim.expires_at),
        },
    };
    ctx.commit(&format!("code for the application {}", at.application), |view, change| {
        change.expect_absent::<BrowserSession>(&id).put(&id, &row);
        delete_ended(view, change, ctx.now.unix_seconds)
    })?;
    Ok(browser_text(id, &secret))
}

/// Exchanges a one-time code for a cookie, and deletes the code. An attempt from another browser or host is refused, and deletes the code, too.
///
/// # Errors
/// When there is no such code, the code was already exchanged, the code is too old, the code was issued for another host or another browser, or the
/// facts cannot be changed.
pub fn exchange_code(
    ctx: &ChangeContext<'_>,
    code: &str,
    at: BrowserAt<'_>,
) -> Result<NewBrowserSession, Error> {
    let refused = || Error::from(Refusal::BrowserSession);
    let (id, shown) = read_browser_text(code.as_bytes()).ok_or_else(refused)?;
    let (secret, random) = (random::<BROWSER_SECRET_BYTES>()?, random()?);
    let what = format!("sign in to the application {}", at.application);
    let (made, _) = ctx.commit(&what, |view, change| {
        let row = shown_code(view, &id, &shown)?.ok_or_else(refused)?;
        let BrowserProof::Code { browser, host, session_until, .. } = &row.proof else {
            return Err(refused());
        };
        change.expect_unchanged(&id, Some(&row)).delete::<BrowserSession>(&id);
        let is_right = is_same_digest(browser, &at.browser)
            && *host == *at.host
            && row.audience == Audience::Application(at.application.clone())
            && seconds(ctx.now.unix_seconds) < id.expires_at;
        let made = BrowserSessionId { expires_at: *session_until, random };
        if is_right {
            let proof = BrowserProof::Cookie(secret_digest(&secret));
            change
                .expect_absent::<BrowserSession>(&made)
                .put(&made, &BrowserSession { proof, ..row.clone() });
        }
        Ok(is_right.then_some(made))
    })?;
    let made = made.ok_or_else(refused)?;
    let expires_at = i64::try_from(made.expires_at).unwrap_or(i64::MAX);
    Ok(NewBrowserSession { cookie: browser_text(made, &secret), expires_at })
}

/// The user of a one-time code; `None` if there is no such code.
///
/// # Errors
/// When the facts cannot be read.
pub fn user_of_code(source: &dyn Source, code: &str) -> Result<Option<Userid>, Error> {
    let Some((id, shown)) = read_browser_text(code.as_bytes()) else { return Ok(None) };
    source.read(|view| match shown_code(view, &id, &shown)? {
        Some(row) => userid_of(view, &row.user),
        None => Ok(None),
    })?
}

/// The record of a one-time code, if the digest of the secret in the code is right.
fn shown_code(
    view: &View<'_>,
    id: &BrowserSessionId,
    shown: &SecretDigest,
) -> Result<Option<BrowserSession>, Error> {
    let is_right = |row: &BrowserSession| match &row.proof {
        BrowserProof::Code { code, .. } => is_same_digest(code, shown),
        BrowserProof::Cookie(_) => false,
    };
    Ok(view.get::<BrowserSession>(id)?.filter(is_right))
}

/// Signs a user out: ends the session of the sign-in, and all sessions of applications that came from this sign-in.
///
/// # Errors
/// When the facts cannot be changed.
pub fn sign_out(ctx: &ChangeContext<'_>, session: &Session) -> Result<At, Error> {
    revoke(ctx, &[Revoked::Token(session.claim.audit.own)], Some(session.claim.expires_at), "a sign-in")
}

/// A sign-in of a user that has not ended.
#[derive(Clone, Debug)]
pub struct SignInSummary {
    /// The audit id of all sessions of the sign-in.
    pub audit: [u8; 16],
    /// When the user signed in, in seconds since the epoch.
    pub issued_at: i64,
    /// When the last session of the sign-in ends, in seconds since the epoch.
    pub expires_at: i64,
    /// The audiences of the sessions of the sign-in.
    pub audiences: Vec<Audience>,
}

/// The sign-ins of a user in browsers, the newest first. The list does not contain sign-ins that have expired, that were ended, or that began before
/// all sessions of the user were revoked. Other revocations, such as the revocation of a domain, do not change the list.
///
/// # Errors
/// When the facts cannot be read.
pub fn sign_ins_of(source: &dyn Source, user: &UserId, now: i64) -> Result<Vec<SignInSummary>, Error> {
    source.read(|view| {
        let mut found: HashMap<[u8; 16], SignInSummary> = HashMap::new();
        view.page::<BrowserSession>(&[], None, |id, row| {
            let is_one = row.user == *user && seconds(now) < id.expires_at;
            if is_one && matches!(row.proof, BrowserProof::Cookie(_)) {
                let expires_at = i64::try_from(id.expires_at).unwrap_or(i64::MAX);
                let known = found.entry(row.audit).or_insert_with(|| SignInSummary {
                    audit: row.audit,
                    issued_at: row.issued_at,
                    expires_at,
                    audiences: Vec::new(),
                });
                known.expires_at = known.expires_at.max(expires_at);
                known.audiences.push(row.audience);
            }
            ControlFlow::Continue(())
        })?;
        let ended =
            |mark: Revoked| Ok::<_, Error>(view.get::<Revocation>(&mark)?.map(|row| row.issued_before));
        let of_user = ended(Revoked::User(*user))?;
        let mut open = Vec::with_capacity(found.len());
        for sign_in in found.into_values() {
            let is_over = |before: Option<i64>| before.is_some_and(|before| sign_in.issued_at <= before);
            if !is_over(of_user) && !is_over(ended(Revoked::Token(sign_in.audit))?) {
                open.push(sign_in);
            }
        }
        // The sort key contains the audit id, so that sign-ins of the same second have the same order on all pages of a list.
        open.sort_by_key(|sign_in| (Reverse(sign_in.issued_at), sign_in.audit));
        Ok(open)
    })?
}

/// Ends a sign-in, and all its sessions.
///
/// # Errors
/// When the facts cannot be changed.
pub fn end_sign_in(ctx: &ChangeContext<'_>, sign_in: &SignInSummary) -> Result<At, Error> {
    revoke(ctx, &[Revoked::Token(sign_in.audit)], Some(sign_in.expires_at), "a sign-in")
}

/// The application to which a host belongs. Also returns the host as the application's URLs contain it: followed by the port, if the URLs have a
/// port.
///
/// # Errors
/// When the facts cannot be read.
pub fn application_of(
    source: &dyn Source,
    host: &HostName,
) -> Result<Option<(ApplicationName, String)>, Error> {
    source.read(|view| {
        let Some(ApplicationHost(name)) = view.get::<ApplicationHost>(host)? else { return Ok(None) };
        let authority = view.get::<Application>(&name)?.map(|application| application.authority(host));
        Ok(authority.map(|authority| (name, authority)))
    })?
}

fn seconds(time: i64) -> u64 {
    u64::try_from(time).unwrap_or(0)
}

/// Adds the deletion of some records of ended sessions and codes to a change.
fn delete_ended(view: &View<'_>, change: &mut Change, now: i64) -> Result<(), Error> {
    let mut ended = Vec::new();
    view.page::<BrowserSession>(&[], None, |id, _| {
        if ended.len() < DELETED_AT_ONCE && id.expires_at <= seconds(now.saturating_sub(KEPT_SECONDS)) {
            ended.push(id);
            return ControlFlow::Continue(());
        }
        ControlFlow::Break(())
    })?;
    for id in &ended {
        change.delete::<BrowserSession>(id);
    }
    Ok(())
}
