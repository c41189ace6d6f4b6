//! What the visitor says before anything else: the name they came for.

/// The server name of a ClientHello, if it had one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ask {
    pub(crate) name: Option<String>,
}

impl Ask {
    /// From the name as sent. Names are compared in lower case, without a final dot.
    pub fn new(name: Option<&str>) -> Self {
        let name = name.map(|name| name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase());
        Ask { name }
    }
}
