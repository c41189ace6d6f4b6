//! The attributes of a kind of resource: what a response shows, and what a request may set.

/// The type of an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    /// The attribute does not exist.
    None,
    Text,
    TextOrNull,
    Flag,
    Texts,
    Object,
    #[cfg(test)]
    List,
}

/// An attribute: its name, its type in responses that always have it, and its type in requests. An attribute with neither is recognized
/// and ignored in requests.
pub(super) type Attribute = (&'static str, Type, Type);

/// A kind of resource in bodies and in OpenAPI.
#[derive(Clone, Copy, Debug)]
pub(super) struct Schema {
    /// Its name in the body.
    pub(super) one: &'static str,
    /// The name of its lists, and of its collection in paths.
    pub(super) many: &'static str,
    pub(super) attributes: &'static [Attribute],
}

impl Schema {
    /// Whether the attribute is one of the kind. Any other attribute of a request is stored as it is.
    pub(super) fn has(&self, name: &str) -> bool {
        self.attributes.iter().any(|(known, ..)| *known == name)
    }
}
