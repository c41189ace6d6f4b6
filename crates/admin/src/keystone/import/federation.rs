//! Imports identity providers, their protocols, mappings and service providers.

use super::{FederationRecord, Left, Taking};
use crate::error::Error;
use crate::import::Imported;
use crate::keystone::federation::{
    check_identity_provider, check_mapping, check_protocol, check_service_provider,
};
use enfilade_facts::tables::{
    Domain, IdentityProvider, IdentityProviderId, Protocol, ProtocolKey, RemoteId, RemoteIdOwner, Row,
};

impl Taking<'_, '_> {
    pub(super) fn federation(&mut self, record: &FederationRecord) -> Result<Imported, Error> {
        let (kind, name, left) = match record {
            FederationRecord::IdentityProvider(id, row) => {
                ("identity provider", id.to_string(), self.identity_provider(id, row)?)
            }
            FederationRecord::Mapping(id, row) => {
                ("mapping", id.to_string(), self.checked(check_mapping(id, row), id, row)?)
            }
            FederationRecord::Protocol(key, row) => ("protocol", key.to_string(), self.protocol(key, row)?),
            FederationRecord::ServiceProvider(id, row) => {
                ("service provider", id.to_string(), self.checked(check_service_provider(id, row), id, row)?)
            }
        };
        Ok(Imported::of(kind, name, left.err()))
    }

    /// Adds a record, if its check succeeded.
    fn checked<R: Row>(&mut self, check: Result<(), Error>, key: &R::Key, row: &R) -> Result<Left, Error> {
        match check {
            Ok(()) => self.add(key, row),
            Err(why) => Ok(Err(why.to_string())),
        }
    }

    fn identity_provider(&mut self, id: &IdentityProviderId, row: &IdentityProvider) -> Result<Left, Error> {
        // An empty id cannot be a key of the store, so the id is checked first.
        if let Err(why) = check_identity_provider(id, row) {
            return Ok(Err(why.to_string()));
        }
        if !self.has::<Domain>(&row.domain)? {
            return Ok(Err("the domain of the provider does not exist in this store".to_owned()));
        }
        if let Err(why) = self.once::<IdentityProvider>(id)? {
            return Ok(Err(why));
        }
        for remote in &row.remote_ids {
            if self.has::<RemoteIdOwner>(&RemoteId(remote.clone()))? {
                return Ok(Err(format!("another provider in this store has the remote id {remote}")));
            }
        }
        let left = self.add(id, row)?;
        if left.is_ok() {
            for remote in &row.remote_ids {
                // A remote id that occurs twice in the list of one provider has only one record.
                self.put_new(&RemoteId(remote.clone()), &RemoteIdOwner { provider: id.clone() });
            }
        }
        Ok(left)
    }

    fn protocol(&mut self, key: &ProtocolKey, row: &Protocol) -> Result<Left, Error> {
        match check_protocol(key, row) {
            Ok(()) if self.has::<IdentityProvider>(&key.provider)? => self.add(key, row),
            Ok(()) => Ok(Err("the identity provider does not exist in this store".to_owned())),
            Err(why) => Ok(Err(why.to_string())),
        }
    }
}
