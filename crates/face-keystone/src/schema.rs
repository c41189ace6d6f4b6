//! The attributes of a kind of resource in responses and in requests.

/// The type of an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    /// The attribute does not exist.
    None,
    Text,
    TextOrNull,
    Flag,
    Number,
    NumberOrNull,
    Texts,
    Object,
    List,
}

/// An attribute: its name, its type in responses, and its type in requests. The type in responses is `None` for an attribute that not all responses
/// have. If both types are `None`, the attribute is ignored in requests, and not stored.
pub(super) type Attribute = (&'static str, Type, Type);

/// A kind of resource in bodies and in OpenAPI.
#[derive(Clone, Copy, Debug)]
pub(super) struct Schema {
    /// The name of one resource in a body.
    pub(super) one: &'static str,
    /// The name of a list of resources in a body, and of the collection in paths.
    pub(super) many: &'static str,
    pub(super) attributes: &'static [Attribute],
}

impl Schema {
    /// Whether the kind has this attribute. Any other attribute of a request is stored unchanged.
    pub(super) fn has(&self, name: &str) -> bool {
        self.attributes.iter().any(|(known, ..)| *known == name)
    }
}
