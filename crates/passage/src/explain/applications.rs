//! Explanations of requests to applications.

use super::{Explaining, Explanation, Remedy};
use crate::house::House;
use crate::refuse::Refusal;
use enfilade_access::{ApplicationAsk, ApplicationUse, least_application_role, would_use};
use enfilade_facts::tables::CredentialKind;
use enfilade_facts::vocabulary::{AccessMask, Authid};
use enfilade_facts::{Door, Read};
use enfilade_identity::Reach;

impl House {
    /// The answers that the doors would give if `authid`, with the correct secret, made a request to an application.
    pub fn explain_use(&self, authid: &Authid, ask: &ApplicationAsk) -> Explanation {
        let mut explaining = Explaining { house: self, doors: Vec::new(), remedy: Remedy::default() };
        let _ = explaining.walk_to_application(authid, ask);
        Explanation { doors: explaining.doors, remedy: explaining.remedy }
    }
}

impl Explaining<'_> {
    /// The walk of a request to an application: doors 2 and 4. If the application serves the files of a datastore, doors 3, 4 and 5 follow, as for a
    /// request to the datastore.
    fn walk_to_application(&mut self, authid: &Authid, ask: &ApplicationAsk) -> Result<(), ()> {
        let who = self.identity(authid, None)?;
        // As in every explanation, the user logs in with the password, or with the secret of the token.
        let kinds = [authid.token.as_ref().map_or(CredentialKind::Password, |_| CredentialKind::Token)];
        let (now, memo) = (self.house.now(), &self.house.parts.access_memo);
        let judged = self.house.parts.source.read(|view| would_use(view, now, (&who, &kinds), ask, memo));
        match judged.map_err(Refusal::from).and_then(|judged| judged.map_err(Refusal::from)) {
            Ok(ApplicationUse { application, datastore: Some(datastore), .. }) => {
                let says = format!("application {application} serves the files of datastore {datastore}");
                self.opens(Door::Access, says, Vec::new());
                self.walk_to_file(&who, &datastore, &ask.path, AccessMask::READ_DATA)
            }
            Ok(ApplicationUse { application, roles, .. }) => {
                let roles: Vec<&str> = roles.iter().map(|role| role.name()).collect();
                let request = format!("{} on {} of application {application}", ask.method.name(), ask.path);
                let says = match roles.is_empty() {
                    true => format!("{request} is permitted to everybody"),
                    false => format!("{request} is permitted; the roles on this path: {}", roles.join(", ")),
                };
                self.opens(Door::Access, says, Vec::new());
                Ok(())
            }
            Err(why) => {
                if let Refusal::Access(enfilade_access::Refusal::NotPermitted { class, path, .. }) = &why {
                    let role = least_application_role(*class);
                    let (path, of_token) = (path.clone(), who.narrowed_to.is_some());
                    self.remedy = match who.reach {
                        Reach::Everything => Remedy::ApplicationRole { path, role, of_token },
                        Reach::Project { .. } | Reach::Nothing => Remedy::OtherCredential,
                    };
                }
                self.refused(why, Vec::new())
            }
        }
    }
}
