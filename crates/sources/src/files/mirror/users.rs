//! Compares `user.cfg` and `token.shadow` with the facts. Both files are compared together, because each token has an entry in both.

use super::draft::Draft;
use super::ids::{Ids, unavailable};
use super::people::People;
use crate::files::section_config::LineError;
use crate::files::token_shadow::{Hashes, Secrets};
use crate::files::user_cfg::{Entry, UserCfg};
use enfilade_facts::tables::{
    Assignment, AssignmentKey, Credential, FileFault, FileName, Member, Membership, Mirrored, Name, NameKey,
    SidSpace, SidSpaceKey, User, Verifier, Who,
};
use enfilade_facts::vocabulary::{Authid, CredentialId, TokenName, UserId, Userid};
use enfilade_facts::{Row as _, SourceError};

/// The contents of `user.cfg` and `token.shadow`. A field is `None` if this look did not read the file, or if the file does not exist or cannot be
/// read.
pub(super) struct AccountFiles<'a> {
    pub(super) users: Option<&'a UserCfg>,
    pub(super) secrets: Option<&'a Secrets>,
    /// The users and tokens with an entry that changed in the files since the last look. Only these users and tokens are compared. `None` if it is
    /// not known which entries changed.
    pub(super) changed: Option<Vec<Authid>>,
}

impl AccountFiles<'_> {
    /// The hashes of all tokens, if `token.shadow` was read as a whole.
    fn hashes(&self) -> Option<&Hashes> {
        match self.secrets {
            Some(Secrets::Whole(hashes, _)) => Some(hashes),
            Some(Secrets::Alone(_)) | None => None,
        }
    }
}

pub(super) fn compare(said: &AccountFiles<'_>, draft: &mut Draft<'_, '_>) -> Result<(), SourceError> {
    let mut problems = Vec::new();
    let problem = |LineError { line, reason }: &LineError| format!("line {line}: {reason}");
    let of_users = said.users.map(|users| &users.problems).into_iter().flatten();
    problems.extend(of_users.map(|error| (FileName::Users, problem(error))));
    let of_secrets = said.hashes().map(|hashes| &hashes.problems).into_iter().flatten();
    problems.extend(of_secrets.map(|problem| (FileName::Secrets, problem.clone())));
    problems.into_iter().for_each(|(file, problem)| draft.problem(file, problem));
    // The lookup of one record takes as long as a scan of ten records. So records are looked up one by one only if at most a tenth of them is needed.
    let few = draft.view.tally(Credential::TABLE, &[])?.count / 10;
    let changed = match (said.secrets, &said.changed) {
        (_, None) => None,
        (Some(Secrets::Alone(changes)), Some(changed)) => Some(changed.len() + changes.len()),
        (_, Some(changed)) => Some(changed.len()),
    };
    let people = match changed {
        Some(changed) if changed as u64 <= few => People::one_by_one(draft.view),
        _ => match People::all(draft.view) {
            Err(why @ SourceError::Damaged { .. }) => {
                // The entries in the files are still mirrored, but no user is removed, because the list of all users cannot be read.
                draft.problem(FileName::Users, format!("{why}"));
                People::one_by_one(draft.view)
            }
            other => other?,
        },
    };
    Comparison { said, people, draft, space: None, ids: Ids::default() }.run()
}

struct Comparison<'a, 'd, 'v, 's> {
    said: &'a AccountFiles<'a>,
    people: People<'v, 's>,
    draft: &'d mut Draft<'v, 's>,
    /// Two versions of the record of unassigned SIDs: before this change, and after SIDs were assigned to the new users.
    space: Option<(SidSpace, SidSpace)>,
    ids: Ids,
}

impl Comparison<'_, '_, '_, '_> {
    fn run(mut self) -> Result<(), SourceError> {
        let said = self.said;
        let (mirrored, root) = match &said.changed {
            Some(_) => (Vec::new(), None),
            None => (self.people.mirrored(), said.users.map(|_| Authid::from(Userid::root_pam()))),
        };
        let mut authids: Vec<&Authid> = match (&said.changed, said.users) {
            (Some(changed), _) => changed.iter().collect(),
            // A token that is only in `token.shadow` is ignored.
            (None, Some(users)) => users.entries.keys().chain(users.broken.keys()).collect(),
            (None, None) => Vec::new(),
        };
        authids.extend(mirrored.iter().chain(&root));
        // In sorted order a user comes before the user's tokens, so a new user exists when the tokens are compared.
        if said.users.is_some() {
            authids.sort();
            authids.dedup();
        }
        for authid in authids {
            self.told(authid, |comparison| match &authid.token {
                None => comparison.user(authid),
                Some(token) => comparison.token(authid, token),
            })?;
        }
        if let Some(Secrets::Alone(changes)) = said.secrets {
            for (authid, hash) in changes {
                self.told(authid, |comparison| comparison.hash_alone(authid, hash.as_deref()))?;
            }
        }
        if let Some((before, after)) = self.space {
            self.draft.change.expect_same(&SidSpaceKey, &before).put(&SidSpaceKey, &after);
        }
        Ok(())
    }

    /// Calls `compare` for a user or token. If a record is damaged, this function only reports a problem. The server refuses a user or token with a
    /// damaged record anyway. The other records are still updated from the files.
    fn told(
        &mut self,
        authid: &Authid,
        compare: impl FnOnce(&mut Self) -> Result<(), SourceError>,
    ) -> Result<(), SourceError> {
        match compare(self) {
            Err(why @ SourceError::Damaged { .. }) => {
                self.draft.problem(FileName::Users, format!("{authid}: {why}"));
                Ok(())
            }
            other => other,
        }
    }

    /// Puts the new hash of a token's secret into the facts. This function is called if a look (a check of the files) compares `token.shadow`, but
    /// not `user.cfg`.
    fn hash_alone(&mut self, authid: &Authid, hash: Option<&str>) -> Result<(), SourceError> {
        let (Some(name), Some(owner)) = (&authid.token, self.people.user_id(&authid.user)?) else {
            return Ok(());
        };
        let Some((id, before)) =
            self.people.token(&owner, name)?.filter(|(_, token)| token.mirrored.is_some())
        else {
            return Ok(());
        };
        let verifier = hash.map_or(Verifier::Missing, |hash| Verifier::Crypt(hash.to_owned()));
        let after = Credential { verifier, mirrored: Some(Mirrored::default()), ..before.clone() };
        self.draft.replace(&id, &before, &after);
        Ok(())
    }

    fn user(&mut self, authid: &Authid) -> Result<(), SourceError> {
        // An entry of `token.shadow` that has the name of a user, and not of a token, is ignored.
        let Some(users) = self.said.users else { return Ok(()) };
        let by_default = Entry::default();
        let is_root = authid.user == Userid::root_pam();
        let entry = users.entries.get(authid).or(is_root.then_some(&by_default));
        let known = self.people.user(&authid.user)?;
        if let Some((error, serves)) = users.broken.get(authid) {
            let Some((id, before)) = known else {
                self.nobody_yet(authid, error);
                return Ok(());
            };
            let fault =
                self.draft.fault(fault_of(before.mirrored.as_ref()), (error.line, &error.reason), *serves);
            self.tell(FileName::Users, authid, error, &fault);
            let after = User { mirrored: Some(Mirrored { fault: Some(fault) }), ..before.clone() };
            self.draft.put(&id, Some(&before), &after);
            return Ok(());
        }
        match (known, entry) {
            (None, None) => {}
            (Some((id, before)), Some(entry)) => {
                let after = User { mirrored: Some(Mirrored::default()), ..before.clone() };
                let Entry { enabled, expires, comment } = entry.clone();
                self.draft.replace(&id, &before, &User { enabled, expires, comment, ..after });
            }
            (None, Some(entry)) => self.new_user(&authid.user, entry)?,
            (Some((id, before)), None) => {
                let Some(mirrored) = &before.mirrored else { return Ok(()) };
                if is_whole(users) {
                    return self.remove_user(&authid.user, &id, &before);
                }
                let fault = self.gone(authid, mirrored);
                let after = User { mirrored: Some(Mirrored { fault: Some(fault) }), ..before.clone() };
                self.draft.put(&id, Some(&before), &after);
            }
        }
        Ok(())
    }

    fn new_user(&mut self, userid: &Userid, entry: &Entry) -> Result<(), SourceError> {
        let domain = self.people.domain(self.draft, userid.realm())?;
        let id = self.ids.next()?;
        let space = match self.space {
            Some((_, space)) => space,
            None => {
                let space = self.draft.view.get::<SidSpace>(&SidSpaceKey)?;
                let space = space.ok_or_else(|| unavailable("the record of free SIDs is missing"))?;
                self.space = Some((space, space));
                space
            }
        };
        let (sid, rest) = space
            .take(self.draft.view.at().store)
            .ok_or_else(|| unavailable("this store has no free SID left"))?;
        self.space = self.space.map(|(before, _)| (before, rest));
        let Entry { enabled, expires, comment } = entry.clone();
        let user = User {
            domain,
            name: userid.name().to_owned(),
            sid,
            also: Vec::new(),
            uid: None,
            gid: None,
            enabled,
            expires,
            password: None,
            comment,
            mirrored: Some(Mirrored::default()),
        };
        let name = NameKey::user(&domain, userid.name());
        self.draft.change.expect_absent::<Name>(&name).put(&name, &Name::new(id, userid.name()));
        self.draft.put_new(&UserId::from_bytes(id), &user);
        self.people.is_new(userid, UserId::from_bytes(id), user);
        Ok(())
    }

    /// Removes a user with all records of the user, because a later user of this name is a different user.
    fn remove_user(&mut self, userid: &Userid, id: &UserId, before: &User) -> Result<(), SourceError> {
        self.draft.delete(id, before);
        self.draft.change.end_with::<User>(id).delete::<Name>(&NameKey::user(&before.domain, userid.name()));
        for (key, name) in self.draft.view.list::<Name>(&NameKey::tokens_of(id))? {
            let id = name.credential();
            if let Some(token) = self.draft.view.get::<Credential>(&id)? {
                self.draft.change.delete::<Name>(&key);
                self.remove_token(&id, &token)?;
            }
        }
        for (key, _) in self.draft.view.list::<Membership>(&Member::User(*id).prefix())? {
            self.draft.change.delete::<Membership>(&key);
        }
        self.unassign(&Who::User(*id))?;
        self.people.is_gone(userid);
        Ok(())
    }

    /// Removes the role assignments that are stored only in the facts, because a later user or token of the same name must not get them. Assignments
    /// in `acl.cfg` are not removed.
    fn unassign(&mut self, who: &Who) -> Result<(), SourceError> {
        for key in AssignmentKey::all_of(self.draft.view, who)? {
            self.draft.change.delete::<Assignment>(&key);
        }
        Ok(())
    }

    fn token(&mut self, authid: &Authid, name: &TokenName) -> Result<(), SourceError> {
        let Some(owner) = self.people.user_id(&authid.user)? else {
            if let Some(users) = self.said.users
                && users.entries.contains_key(authid)
            {
                let problem =
                    format!("token {authid} is skipped, because there is no user `{}`", authid.user);
                self.draft.problem(FileName::Users, problem);
            }
            return Ok(());
        };
        let known = self.people.token(&owner, name)?;
        let Some(users) = self.said.users else {
            // This look did not read `user.cfg`, so only the hash is compared.
            if let Some((id, before)) = known.filter(|(_, token)| token.mirrored.is_some()) {
                let after = self.with_hash(authid, before.clone());
                self.draft.replace(&id, &before, &after);
            }
            return Ok(());
        };
        if let Some((error, serves)) = users.broken.get(authid) {
            let Some((id, before)) = known else {
                self.nobody_yet(authid, error);
                return Ok(());
            };
            let fault =
                self.draft.fault(fault_of(before.mirrored.as_ref()), (error.line, &error.reason), *serves);
            self.tell(FileName::Users, authid, error, &fault);
            let after = Credential { mirrored: Some(Mirrored { fault: Some(fault) }), ..before.clone() };
            self.draft.put(&id, Some(&before), &after);
            return Ok(());
        }
        match (known, users.entries.get(authid)) {
            (None, None) => {}
            (Some((id, before)), Some(entry)) => {
                let Entry { enabled, expires, comment } = entry.clone();
                let mirrored = Some(before.mirrored.clone().unwrap_or_default());
                let after =
                    Credential { enabled, expires, comment, mirrored, own_roles: true, ..before.clone() };
                let after = self.with_hash(authid, after);
                self.draft.replace(&id, &before, &after);
            }
            (None, Some(entry)) => {
                let id = CredentialId::from_bytes(self.ids.next()?);
                let Entry { enabled, expires, comment } = entry.clone();
                let token = Credential {
                    owner,
                    name: name.clone(),
                    verifier: Verifier::Missing,
                    previous: None,
                    enabled,
                    expires,
                    created: self.draft.now().unix_seconds,
                    comment,
                    own_roles: true,
                    mirrored: Some(Mirrored::default()),
                    link: None,
                };
                let token = self.with_hash(authid, token);
                let by_name = NameKey::token(&owner, name);
                self.draft
                    .change
                    .expect_absent::<Name>(&by_name)
                    .put(&by_name, &Name::new(id.stored(), name.as_str()));
                self.draft.put_new(&id, &token);
            }
            (Some((id, before)), None) => {
                let Some(mirrored) = &before.mirrored else { return Ok(()) };
                if is_whole(users) {
                    self.draft.change.delete::<Name>(&NameKey::token(&owner, name));
                    return self.remove_token(&id, &before);
                }
                let fault = self.gone(authid, mirrored);
                let after = Credential { mirrored: Some(Mirrored { fault: Some(fault) }), ..before.clone() };
                self.draft.put(&id, Some(&before), &after);
            }
        }
        Ok(())
    }

    fn remove_token(&mut self, id: &CredentialId, before: &Credential) -> Result<(), SourceError> {
        self.draft.delete(id, before);
        self.unassign(&Who::Token(*id))
    }

    /// Adds the hash in `token.shadow` to the token. If the file or the entry cannot be read, the last good hash is kept.
    fn with_hash(&mut self, authid: &Authid, mut token: Credential) -> Credential {
        let before = token.mirrored.take().and_then(|mirrored| mirrored.fault);
        let Some(secrets) = self.said.hashes() else {
            token.mirrored = Some(Mirrored::default());
            return token;
        };
        let mut fault = None;
        match (secrets.hashes.get(&authid.to_proxmox()), secrets.broken.get(authid)) {
            (_, Some(error)) => {
                let had = !matches!(token.verifier, Verifier::Missing);
                let found = self.draft.fault(before.as_ref(), (error.line, &error.reason), had);
                let means = self.draft.means(&found, had);
                self.draft.problem(FileName::Secrets, format!("{authid}: {}; {means}", error.reason));
                fault = Some(found);
            }
            (Some(hash), None) => token.verifier = Verifier::Crypt(hash.clone()),
            (None, None) => token.verifier = Verifier::Missing,
        }
        token.mirrored = Some(Mirrored { fault });
        token
    }

    fn nobody_yet(&mut self, authid: &Authid, LineError { line, reason }: &LineError) {
        let means = "not in effect, because there is no earlier valid entry";
        self.draft.problem(FileName::Users, format!("line {line}: {reason} ({authid}: {means})"));
    }

    fn tell(
        &mut self,
        file: FileName,
        authid: &Authid,
        LineError { line, reason }: &LineError,
        fault: &FileFault,
    ) {
        let means = self.draft.means(fault, true);
        self.draft.problem(file, format!("line {line}: {reason} ({authid}: {means})"));
    }

    fn gone(&mut self, authid: &Authid, mirrored: &Mirrored) -> FileFault {
        let reason = "the file has no section for the account, but the file also has errors, so it is unknown whether somebody removed the section: to keep the account, put the section back; to delete the account, correct the errors";
        let fault = self.draft.fault(mirrored.fault.as_ref(), (0, reason), true);
        let means = self.draft.means(&fault, true);
        self.draft.problem(FileName::Users, format!("{authid}: {reason}; {means}"));
        fault
    }
}

fn is_whole(users: &UserCfg) -> bool {
    users.broken.is_empty() && users.problems.is_empty()
}

fn fault_of(mirrored: Option<&Mirrored>) -> Option<&FileFault> {
    mirrored.and_then(|mirrored| mirrored.fault.as_ref())
}
