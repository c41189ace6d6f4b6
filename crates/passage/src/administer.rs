//! Administration by clients. If the facts changed since door 2 admitted the visitor, door 2 checks the credential again. After that, door 4 decides
//! whether the call is allowed.

use crate::refuse::Refusal;
use crate::walk::Visit;
use enfilade_access::{About, AdminAsk, AdminPermit, ApiPermit, Lending, Rule};
use enfilade_facts::vocabulary::{Authid, Privileges, RolePath};
use enfilade_facts::{Door, Read};

impl Visit {
    /// Asks door 4 on a fresh view for a permit. The visitor's privileges on a path decide whether the visitor gets the permit. The Proxmox API, the
    /// console, and the decisions for proxies use this function.
    ///
    /// # Errors
    /// The refusal of door 2 or 4.
    pub fn administer(&mut self, ask: &AdminAsk<'_>) -> Result<AdminPermit, Refusal> {
        let house = std::sync::Arc::clone(&self.house);
        house.parts.source.read(|view| {
            self.ask_again(view)?;
            let judge = || enfilade_access::administer(view, house.now(), &self.identity, ask);
            Ok(self.timer.time(Door::Access, judge)?)
        })?
    }

    /// Checks that the visitor's credential may make an API call of the kind `lending`. A lent credential, such as an application credential, may
    /// make only some kinds of API calls.
    ///
    /// # Errors
    /// The refusal of door 4.
    pub fn lends(&self, lending: Lending) -> Result<(), Refusal> {
        Ok(enfilade_access::lends(&self.identity, lending)?)
    }

    /// Asks door 4 for the permit of a call of Identity v3, according to the rule of the call.
    ///
    /// # Errors
    /// The refusal of door 2 or 4.
    pub fn use_api(&mut self, rule: &'static Rule, about: &About<'_>) -> Result<ApiPermit, Refusal> {
        let house = std::sync::Arc::clone(&self.house);
        let now = house.now();
        if rule.is_bounded() {
            return house.parts.source.read(|view| {
                self.ask_again(view)?;
                let judge = || enfilade_access::use_api(Some((view, now)), &self.identity, rule, about);
                Ok(self.timer.time(Door::Access, judge)?)
            })?;
        }
        if !self.identity.validity().holds(house.parts.source.at(), now) {
            house.parts.source.read(|view| self.ask_again(view))??;
        }
        let judge = || enfilade_access::use_api(None, &self.identity, rule, about);
        Ok(self.timer.time(Door::Access, judge)?)
    }

    /// Checks that a running API call, which got this permit earlier, may continue. The facts may have changed during the call.
    ///
    /// # Errors
    /// The refusal of door 2 or 4.
    pub fn may_go_on(&mut self, permit: &ApiPermit) -> Result<(), Refusal> {
        let house = std::sync::Arc::clone(&self.house);
        if !self.identity.validity().holds(house.parts.source.at(), house.now()) {
            house.parts.source.read(|view| self.ask_again(view))??;
        }
        Ok(enfilade_access::may_go_on(&self.identity, permit)?)
    }

    /// Returns the visitor's privileges on a path, and the privileges that also apply below the path.
    ///
    /// # Errors
    /// The refusal of door 2 or 4.
    pub fn privileges(&mut self, path: &RolePath) -> Result<(Privileges, Privileges), Refusal> {
        let house = std::sync::Arc::clone(&self.house);
        house.parts.source.read(|view| {
            self.ask_again(view)?;
            Ok(enfilade_access::privileges(view, house.now(), self.identity.principal(), path)?)
        })?
    }

    /// The privileges of another user or token. The `AdminPermit` proves that the visitor may know these privileges.
    ///
    /// # Errors
    /// The refusal of door 2 or 4.
    pub fn privileges_of(
        &self,
        _permit: &AdminPermit,
        authid: &Authid,
        path: &RolePath,
    ) -> Result<(Privileges, Privileges), Refusal> {
        let (house, memo) = (&self.house, &self.house.parts.identity_memo);
        house.parts.source.read(|view| {
            let principal = enfilade_identity::who_would(view, house.now(), authid, None, memo)?;
            Ok(enfilade_access::privileges(view, house.now(), &principal, path)?)
        })?
    }
}
