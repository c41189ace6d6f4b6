//! Dead properties (RFC 4918 §4.1): values that clients store with a file or directory, and that the server returns unchanged. All properties of an
//! object are in one extended attribute. So one write changes all properties of the object, or none of them. When the object moves, its properties
//! move, too.

use crate::attributes::{attribute, set_attribute};
use crate::node::Node;
use crate::refuse::Refusal;
use enfilade_access::AccessPermit;
use enfilade_facts::codec::{Reader, Writer};
use enfilade_facts::limits::PROPERTIES_BYTES_MAX;
use enfilade_facts::vocabulary::AccessMask;
use rustix::fs::fremovexattr;
use rustix::io::{self, Errno};

/// The extended attribute that contains the dead properties of an object.
pub(crate) const ATTRIBUTE: &str = "user.enfilade.properties";

/// A dead property.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Property {
    /// The XML namespace of the name; empty if the name is in no namespace.
    pub namespace: String,
    /// The name in the namespace.
    pub name: String,
    /// The language of the value (`xml:lang`), if the client sent one.
    pub language: Option<String>,
    /// The value, as XML. This XML contains all namespace declarations that it needs.
    pub value: String,
}

/// A change to one property.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PropertyChange {
    /// Sets the property to this value.
    Set(Property),
    /// Removes the property.
    Remove {
        /// The XML namespace of the name.
        namespace: String,
        /// The name in the namespace.
        name: String,
    },
}

/// An object's dead properties.
///
/// # Refuses
/// [`Refusal::Io`] when the properties cannot be read, or are damaged.
pub fn properties(permit: &AccessPermit, node: &Node) -> Result<Vec<Property>, Refusal> {
    node.covered(permit, AccessMask::READ_NAMED_ATTRIBUTES)?;
    read(node)
}

/// Makes either all of the changes to an object's dead properties, or none of them. `judge` is the caller's last check. `judge` runs under the mutex
/// for name changes, right before the change.
///
/// # Refuses
/// [`Refusal::NoSpace`] when the properties take too much space, [`Refusal::Io`] when the properties cannot be read or written. Also the refusals of
/// `judge`.
pub fn change_properties<E: From<Refusal>>(
    permit: &AccessPermit,
    node: &Node,
    changes: &[PropertyChange],
    judge: impl FnOnce() -> Result<(), E>,
) -> Result<(), E> {
    node.covered(permit, AccessMask::WRITE_NAMED_ATTRIBUTES)?;
    change(node, changes, judge)
}

/// Does the same as [`properties`], but does not check the permit.
pub(crate) fn read(node: &Node) -> Result<Vec<Property>, Refusal> {
    let refuse = |errno| Refusal::io(errno, "reading the properties of", &node.label());
    let Some(bytes) = attribute(node.fd(), ATTRIBUTE, PROPERTIES_BYTES_MAX).map_err(refuse)? else {
        return Ok(Vec::new());
    };
    decode(&bytes).ok_or_else(|| Refusal::Io {
        what: format!("reading the properties of `{}`", node.label()),
        errno: format!("the attribute {ATTRIBUTE}, which contains the WebDAV properties of the file, is damaged; find the file in the directory of the datastore by its inode (`find DIRECTORY -xdev -inum INODE`), and run `setfattr -x {ATTRIBUTE} FILE`: this deletes the properties of the file, but not its content"),
    })
}

/// Does the same as [`change_properties`], but does not check the permit.
pub(crate) fn change<E: From<Refusal>>(
    node: &Node,
    changes: &[PropertyChange],
    judge: impl FnOnce() -> Result<(), E>,
) -> Result<(), E> {
    let refuse = |errno| match errno {
        // The kernel returns ERANGE or E2BIG when the attributes of one file take too much space.
        Errno::RANGE | Errno::TOOBIG => Refusal::io(Errno::NOSPC, "storing the properties of", &node.label()),
        errno => Refusal::io(errno, "storing the properties of", &node.label()),
    };
    // The mutex for name changes stays locked from the check to the write, because the new properties depend on the check and on the old properties.
    // The fsync is called after the mutex is unlocked, so that other threads do not wait for the fsync.
    let turn = node.turn().take();
    judge()?;
    let mut all = read(node)?;
    for change in changes {
        let (namespace, name) = match change {
            PropertyChange::Set(property) => (&property.namespace, &property.name),
            PropertyChange::Remove { namespace, name } => (namespace, name),
        };
        all.retain(|other| (&other.namespace, &other.name) != (namespace, name));
        if let PropertyChange::Set(property) = change {
            all.push(property.clone());
        }
    }
    if all.is_empty() {
        match io::retry_on_intr(|| fremovexattr(node.fd(), ATTRIBUTE)) {
            Ok(()) | Err(Errno::NODATA | Errno::OPNOTSUPP) => {}
            Err(errno) => return Err(refuse(errno).into()),
        }
    } else {
        let bytes = encode(&all);
        if bytes.len() > PROPERTIES_BYTES_MAX {
            return Err(refuse(Errno::NOSPC).into());
        }
        set_attribute(node.fd(), ATTRIBUTE, &bytes).map_err(refuse)?;
    }
    drop(turn);
    Ok(node.sync()?)
}

/// Copies the dead properties of an object to its copy.
pub(crate) fn copy(from: &Node, to: &Node) -> Result<(), Refusal> {
    let refuse = |errno| Refusal::io(errno, "copying the properties of", &from.label());
    match attribute(from.fd(), ATTRIBUTE, PROPERTIES_BYTES_MAX).map_err(refuse)? {
        Some(bytes) => set_attribute(to.fd(), ATTRIBUTE, &bytes).map_err(refuse),
        None => Ok(()),
    }
}

fn encode(all: &[Property]) -> Vec<u8> {
    let mut to = Writer::default();
    to.list(all, |to, Property { namespace, name, language, value }| {
        to.text(namespace).text(name).option(language.as_deref(), |to, language| {
            to.text(language);
        });
        to.text(value);
    });
    to.into_bytes()
}

fn decode(bytes: &[u8]) -> Option<Vec<Property>> {
    let mut from = Reader::new(bytes);
    let all = from.list(|from| {
        Some(Property {
            namespace: from.text()?,
            name: from.text()?,
            language: from.option(Reader::text)?,
            value: from.text()?,
        })
    })?;
    from.is_empty().then_some(all)
}
