//! Additional attributes of a resource: a JSON object that clients store and this server does not interpret.

use crate::error::Error;
use enfilade_facts::tables::{Extra, ExtraKey, Key, ResourceKind};
use enfilade_facts::{Change, View};

/// The maximum size of the additional attributes of one resource, in bytes.
const EXTRA_BYTES_MAX: usize = 16 * 1024;

/// The additional attributes of a resource; empty if there are none.
///
/// # Errors
/// When the facts cannot be read.
pub fn extra_of(
    view: &View<'_>,
    kind: ResourceKind,
    key: &impl Key,
) -> Result<String, enfilade_facts::SourceError> {
    Ok(view.get::<Extra>(&ExtraKey::of(kind, key))?.map(|Extra(text)| text).unwrap_or_default())
}

/// The additional attributes of an immutable resource. The API neither changes nor deletes an immutable resource.
pub(crate) const IMMUTABLE: &str = r#"{"options":{"immutable":true}}"#;

pub(crate) fn put_extra(
    change: &mut Change,
    kind: ResourceKind,
    key: &impl Key,
    text: &str,
) -> Result<(), Error> {
    if text.len() > EXTRA_BYTES_MAX {
        return Err(Error::Invalid(format!(
            "the additional attributes of a resource may have at most {EXTRA_BYTES_MAX} bytes in total"
        )));
    }
    let at = ExtraKey::of(kind, key);
    match text.is_empty() {
        true => change.delete::<Extra>(&at),
        false => change.put(&at, &Extra(text.to_owned())),
    };
    Ok(())
}
