//! Dead properties of WebDAV. Clients set these properties.

use crate::refuse::Refusal;
use crate::walk::{Found, Stay};
use enfilade_content::{Blocking, LockToken, Property, PropertyChange, Touches};
use enfilade_facts::vocabulary::{AccessMask, StorePath};

impl Stay {
    /// The dead properties of an object. The result is empty if the visitor may not read the properties.
    ///
    /// # Errors
    /// When the properties cannot be read.
    pub fn properties(&self, found: &Found) -> Result<Vec<Property>, Refusal> {
        match found.granted().covers(AccessMask::READ_NAMED_ATTRIBUTES) {
            true => Ok(enfilade_content::properties(found.permit(), &found.node)?),
            false => Ok(Vec::new()),
        }
    }

    /// Changes dead properties. The function makes all changes, or no change.
    ///
    /// # Errors
    /// The refusal of door 4 or 5.
    pub fn change_properties(
        &mut self,
        path: &StorePath,
        changes: &[PropertyChange],
        tokens: &[LockToken],
    ) -> Result<(), Refusal> {
        let found = self.find(path, AccessMask::WRITE_NAMED_ATTRIBUTES, Blocking)?;
        self.unless_locked(path, Touches::Content, tokens)?;
        enfilade_content::change_properties(found.permit(), &found.node, changes, || {
            self.unless_locked(path, Touches::Content, tokens)?;
            self.if_still()?;
            // The path may lead to another object now. That object does not have the new properties, so the request is refused.
            Ok(self.root.still_leads_to(path, &found.node)?)
        })
    }
}
