//! Looks up the account of a name, and a decoy account for a name that does not exist.
//!
//! For a name that does not exist, the door does the same lookups as for a name that exists, and computes a hash of the same kind. So the time of a
//! refusal does not reveal which names exist.

use crate::ask::SecretAsk;
use crate::memo::IdentityMemo;
use crate::refuse::Refusal;
use crate::view::View;
use enfilade_facts::limits::CREDENTIAL_CHAIN_MAX;
use enfilade_facts::tables::{
    Activity, Credential, Delegation, FileName, Link, Mirrored, Password, User, Verifier,
};
use enfilade_facts::vocabulary::{Authid, CredentialId, DomainId, UserId, Userid};
use enfilade_facts::{Clocks, SourceError};

/// The ids of an account: the id of the user and, if the account is an API token, the id of the token.
type Ids = (UserId, Option<CredentialId>);

/// The ids of the user or token with this name.
pub(crate) fn ids_of(view: &View<'_>, authid: &Authid) -> Result<Option<Ids>, SourceError> {
    // If the realm does not exist, the user is looked up in a domain that does not exist. If the user does not exist, the token is looked up under a
    // user that does not exist.
    let domain = view.domain_named(authid.user.realm())?;
    let in_domain = domain.unwrap_or(DomainId::from_bytes([0; 16]));
    let user = view.user_named(&in_domain, authid.user.name())?;
    let Some(name) = &authid.token else { return Ok(user.map(|user| (user, None))) };
    let token = view.token_named(&user.unwrap_or(UserId::from_bytes([0; 16])), name)?;
    Ok(user.zip(token).map(|(user, token)| (user, Some(token))))
}

/// The id of the user with this name; `None` if there is no such user.
///
/// # Errors
/// When the facts cannot be read.
pub fn user_named(view: &enfilade_facts::View<'_>, userid: &Userid) -> Result<Option<UserId>, SourceError> {
    Ok(ids_of(&View::new(view), &Authid::from(userid.clone()))?.map(|(user, _)| user))
}

/// A user or token that exists, chosen by a digest of the name that the client sent. `None` if there is no user or token, or the chosen record is
/// damaged. The error of a damaged record is ignored here, because a damaged record must not cause a refusal of a login with another name.
pub(crate) fn decoy(view: &View<'_>, ask: &SecretAsk, memo: &IdentityMemo) -> Option<Ids> {
    let by = memo.key("stand-in").bytes(ask.authid.to_string().as_bytes()).key().as_choice();
    match ask.authid.token {
        Some(_) => view.some_credential(by).ok().flatten().map(|(id, row)| (row.owner, Some(id))),
        None => view.some_user(by).ok().flatten().map(|(id, _)| (id, None)),
    }
}

/// The application credentials that created an application credential: its creator (`by`), then the creator of the creator, and so on. `None` if one
/// of these credentials was deleted, or if there are too many of these credentials. In both cases, the created credential is not valid.
fn makers(
    view: &View<'_>,
    owner: UserId,
    by: Option<CredentialId>,
) -> Result<Option<Vec<Credential>>, Refusal> {
    let mut found = Vec::new();
    let mut next = by;
    while let Some(id) = next {
        let row = view.credential(&id)?.filter(|row| row.owner == owner);
        let (Some(row), Some(delegation)) = (row, view.delegation(&id)?) else { return Ok(None) };
        found.push(row);
        if found.len() >= CREDENTIAL_CHAIN_MAX {
            return Ok(None);
        }
        next = delegation.by;
    }
    Ok(Some(found))
}

/// A stored user or API token. Its secret was not checked.
pub(crate) struct AccountState {
    pub(crate) authid: Authid,
    pub(crate) id: UserId,
    pub(crate) user: User,
    realm_enabled: bool,
    activity: Activity,
    pub(crate) credential: Option<(CredentialId, Credential)>,
    /// The record that makes `credential` an application credential; `None` for a password and for any other API token.
    pub(crate) delegation: Option<Delegation>,
    /// The application credentials that created `credential`: its creator, then the creator of the creator, and so on.
    makers: Vec<Credential>,
}

impl AccountState {
    /// Reads the account by its id, because an account that was deleted and created again under the same name is another account. `None` if no
    /// account has this id any more.
    pub(crate) fn of(
        view: &View<'_>,
        authid: &Authid,
        id: UserId,
        credential: Option<CredentialId>,
    ) -> Result<Option<AccountState>, Refusal> {
        let Some(user) = view.user(&id)? else { return Ok(None) };
        let credential = match credential {
            None => None,
            Some(credential) => match view.credential(&credential)?.filter(|row| row.owner == id) {
                Some(row) => Some((credential, row)),
                None => return Ok(None),
            },
        };
        let delegation = credential.as_ref().map(|(id, _)| view.delegation(id)).transpose()?.flatten();
        let by = delegation.as_ref().and_then(|delegation| delegation.by);
        let Some(makers) = makers(view, id, by)? else { return Ok(None) };
        let realm_enabled = view.domain(&user.domain)?.is_some_and(|domain| domain.enabled);
        let (authid, activity) = (authid.clone(), view.activity(&id)?);
        Ok(Some(AccountState { authid, id, user, realm_enabled, activity, credential, delegation, makers }))
    }

    /// The link, if the token is one.
    pub(crate) fn link(&self) -> Option<&Link> {
        self.credential.as_ref().and_then(|(_, token)| token.link.as_deref())
    }

    /// The verifiers that a secret can match now, each with the last second in which the verifier is valid.
    pub(crate) fn verifiers(&self, now: Clocks) -> impl Iterator<Item = (Verifier, i64)> {
        let both = match &self.credential {
            Some((_, credential)) => {
                let previous =
                    credential.previous.as_ref().filter(|previous| now.unix_seconds < previous.until);
                let previous = previous.map(|previous| (previous.verifier.clone(), previous.until - 1));
                [Some((credential.verifier.clone(), i64::MAX)), previous]
            }
            None => {
                let until =
                    |password: &Password| if password.until == 0 { i64::MAX } else { password.until - 1 };
                let of = |password: &Password| (Verifier::Crypt(password.hash.clone()), until(password));
                [self.user.password.as_ref().map(of), None]
            }
        };
        both.into_iter().flatten().filter(|(verifier, _)| *verifier != Verifier::Missing)
    }

    /// Checks that the files which define the account are valid, and that the account is enabled, active and not expired. The result is cached only
    /// as part of a verdict, and a verdict is valid only at its revision.
    pub(crate) fn check(&self, view: &View<'_>, now: Clocks) -> Result<(), Refusal> {
        self.check_mirrored(view, now)?;
        let over = |expires: i64| expires != 0 && expires <= now.unix_seconds;
        let token = self.credential.as_ref().map(|(_, token)| token);
        let disabled = match () {
            () if !self.realm_enabled => Some("its realm"),
            () if !self.user.enabled => Some("the user"),
            () if self.activity.is_inactive(now.unix_seconds) => Some(Refusal::INACTIVE),
            () if token.is_some_and(|token| !token.enabled) => Some("the token"),
            () if self.makers.iter().any(|maker| !maker.enabled) => {
                Some("the application credential that created the token")
            }
            () => None,
        };
        if let Some(what) = disabled {
            return Err(Refusal::Disabled { authid: self.authid.clone(), what });
        }
        let expired = match () {
            () if over(self.user.expires) => Some("the user"),
            () if token.is_some_and(|token| over(token.expires)) => Some("the token"),
            () if self.makers.iter().any(|maker| over(maker.expires)) => {
                Some("the application credential that created the token")
            }
            () => None,
        };
        expired.map_or(Ok(()), |what| Err(Refusal::Expired { authid: self.authid.clone(), what }))
    }

    /// Checks that the user is not locked after failed logins. A lock has an effect only on logins with a password or a passcode, because other
    /// credentials cannot be guessed.
    pub(crate) fn check_lock(&self, now: Clocks) -> Result<(), Refusal> {
        match self.credential.is_none() && self.activity.is_locked(now.unix_seconds) {
            true => Err(Refusal::Locked(self.authid.clone())),
            false => Ok(()),
        }
    }

    /// Checks that the password has not expired. Only a client that sent the correct password may learn that the password has expired.
    pub(crate) fn check_password(&self, now: Clocks) -> Result<(), Refusal> {
        let password = self.user.password.as_ref().filter(|_| self.credential.is_none());
        match password.is_some_and(|password| password.until != 0 && password.until <= now.unix_seconds) {
            true => Err(Refusal::PasswordExpired { authid: self.authid.clone(), user: Box::new(self.id) }),
            false => Ok(()),
        }
    }

    /// Checks the files that define the account. If a file is unreadable or invalid, its last valid records stay valid until the stale limit.
    fn check_mirrored(&self, view: &View<'_>, now: Clocks) -> Result<(), Refusal> {
        let of_token = self.credential.as_ref().and_then(|(_, token)| token.mirrored.as_ref());
        let check = |mirrored: Option<&Mirrored>, files: &[FileName]| {
            let Some(mirrored) = mirrored else { return Ok(()) };
            let refused = |file: FileName, why: String| Refusal::File {
                authid: self.authid.clone(),
                file,
                why: why.into(),
            };
            for file in files {
                if !now.mirror.is_current() {
                    return Err(refused(*file, "for longer than the stale limit, no server has been able to read the file; see `enfilade doctor`".to_owned()));
                }
                let faults = [view.fault_of(*file)?, mirrored.fault.clone()];
                if let Some(fault) = faults.into_iter().flatten().find(|fault| fault.refuses) {
                    return Err(refused(*file, fault.to_string()));
                }
            }
            Ok(())
        };
        check(self.user.mirrored.as_ref(), &[FileName::Users])?;
        check(of_token, &[FileName::Users, FileName::Secrets])
    }

    /// The last second in which the user is active, and in which the user, the token and the application credentials that created the token have not
    /// expired.
    pub(crate) fn last_second(&self) -> i64 {
        let credentials = self.credential.iter().map(|(_, token)| token).chain(&self.makers);
        [self.user.expires, self.activity.inactive_from]
            .into_iter()
            .chain(credentials.map(|token| token.expires))
            .filter(|expires| *expires != 0)
            .min()
            .map_or(i64::MAX, |end| end - 1)
    }
}
