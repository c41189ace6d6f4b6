//! Looks up the users and tokens of the facts by name.

use super::draft::Draft;
use super::ids::Ids;
use enfilade_facts::tables::{Credential, Domain, Name, NameKey, User};
use enfilade_facts::vocabulary::{Authid, CredentialId, DomainId, Realm, TokenName, UserId, Userid};
use enfilade_facts::{SourceError, View};
use std::collections::HashMap;

/// The users and tokens of the facts. Either all of them are read at once ([`People::all`]), or each one when it is needed ([`People::one_by_one`]).
pub(super) struct People<'v, 's> {
    view: &'v View<'s>,
    domains: HashMap<Realm, DomainId>,
    users: HashMap<Userid, Option<(UserId, User)>>,
    tokens: HashMap<(UserId, TokenName), (CredentialId, Credential)>,
    is_all: bool,
}

impl<'v, 's> People<'v, 's> {
    pub(super) fn one_by_one(view: &'v View<'s>) -> Self {
        let (domains, users, tokens) = (HashMap::new(), HashMap::new(), HashMap::new());
        People { view, domains, users, tokens, is_all: false }
    }

    pub(super) fn all(view: &'v View<'s>) -> Result<Self, SourceError> {
        let realms: HashMap<DomainId, Realm> =
            view.list::<Domain>(&[])?.into_iter().map(|(id, domain)| (id, domain.name)).collect();
        let mut people = People { is_all: true, ..People::one_by_one(view) };
        for (id, user) in view.list::<User>(&[])? {
            let userid =
                realms.get(&user.domain).and_then(|realm| Userid::new(&user.name, realm.clone()).ok());
            people.users.extend(userid.map(|userid| (userid, Some((id, user)))));
        }
        for (id, token) in view.list::<Credential>(&[])? {
            people.tokens.insert((token.owner, token.name.clone()), (id, token));
        }
        people.domains = realms.into_iter().map(|(id, realm)| (realm, id)).collect();
        Ok(people)
    }

    /// All mirrored users and tokens.
    pub(super) fn mirrored(&self) -> Vec<Authid> {
        let named = self.users.iter().filter_map(|(userid, user)| Some((user.as_ref()?, userid)));
        let named: HashMap<UserId, (&Userid, bool)> =
            named.map(|((id, user), userid)| (*id, (userid, user.mirrored.is_some()))).collect();
        let users = named
            .values()
            .filter(|(_, is_mirrored)| *is_mirrored)
            .map(|(userid, _)| Authid::from((*userid).clone()));
        let tokens = self.tokens.iter().filter(|(_, (_, token))| token.mirrored.is_some());
        let tokens = tokens.filter_map(|((owner, name), _)| {
            let (userid, _) = named.get(owner)?;
            Some(Authid { user: (*userid).clone(), token: Some(name.clone()) })
        });
        users.chain(tokens).collect()
    }

    fn domain_named(&mut self, realm: &Realm) -> Result<Option<DomainId>, SourceError> {
        if let Some(id) = self.domains.get(realm) {
            return Ok(Some(*id));
        }
        let found = self.view.get::<Name>(&NameKey::domain(realm))?.map(|name| name.domain());
        self.domains.extend(found.map(|id| (realm.clone(), id)));
        Ok(found)
    }

    /// The domain of a realm. If the domain does not exist, it is created.
    pub(super) fn domain(
        &mut self,
        draft: &mut Draft<'_, '_>,
        realm: &Realm,
    ) -> Result<DomainId, SourceError> {
        if let Some(id) = self.domain_named(realm)? {
            return Ok(id);
        }
        let id = DomainId::from_bytes(Ids::default().next()?);
        let name = NameKey::domain(realm);
        draft.change.expect_absent::<Name>(&name).put(&name, &Name::new(id.stored(), realm.as_str()));
        draft.change.put(&id, &Domain::new(realm.clone()));
        self.domains.insert(realm.clone(), id);
        Ok(id)
    }

    pub(super) fn user(&mut self, userid: &Userid) -> Result<Option<(UserId, User)>, SourceError> {
        if let Some(known) = self.users.get(userid) {
            return Ok(known.clone());
        }
        if self.is_all {
            return Ok(None);
        }
        let found = self.look_up(userid)?;
        self.users.insert(userid.clone(), found.clone());
        Ok(found)
    }

    pub(super) fn user_id(&mut self, userid: &Userid) -> Result<Option<UserId>, SourceError> {
        if let Some(known) = self.users.get(userid) {
            return Ok(known.as_ref().map(|(id, _)| *id));
        }
        Ok(self.user(userid)?.map(|(id, _)| id))
    }

    fn look_up(&mut self, userid: &Userid) -> Result<Option<(UserId, User)>, SourceError> {
        let Some(domain) = self.domain_named(userid.realm())? else { return Ok(None) };
        let name = self.view.get::<Name>(&NameKey::user(&domain, userid.name()))?;
        let Some(id) = name.map(|name| name.user()) else { return Ok(None) };
        Ok(self.view.get::<User>(&id)?.map(|user| (id, user)))
    }

    /// Finds a token for a comparison. If all tokens were read at once, the token is also removed from the map, because each token is compared only
    /// once.
    pub(super) fn token(
        &mut self,
        owner: &UserId,
        name: &TokenName,
    ) -> Result<Option<(CredentialId, Credential)>, SourceError> {
        if self.is_all {
            return Ok(self.tokens.remove(&(*owner, name.clone())));
        }
        let found = self.view.get::<Name>(&NameKey::token(owner, name))?;
        let Some(id) = found.map(|name| name.credential()) else { return Ok(None) };
        Ok(self.view.get::<Credential>(&id)?.map(|token| (id, token)))
    }

    pub(super) fn is_new(&mut self, userid: &Userid, id: UserId, user: User) {
        self.users.insert(userid.clone(), Some((id, user)));
    }

    pub(super) fn is_gone(&mut self, userid: &Userid) {
        self.users.insert(userid.clone(), None);
    }
}
