//! A refusal of a request by any door. The door determines the text and the code of the refusal.

use enfilade_content::Refusal as Content;
use enfilade_facts::vocabulary::StorePath;
use enfilade_facts::{Door, Fault, RefusalRow, Refuse, SourceError};

/// The object that a refusal is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stands {
    /// The target of the request, or the destination of COPY and MOVE.
    Itself,
    /// The directory in which an object would be created.
    Parent,
    /// The source of COPY and MOVE.
    Source,
}

/// A refusal of one of the doors 2 to 5. The enum is exhaustive: if a variant is added, a `match` that lists all variants does not compile until it
/// handles the new variant.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Refusal {
    /// A refusal of door 2.
    #[error(transparent)]
    Identity(#[from] enfilade_identity::Refusal),
    /// A refusal of door 3.
    #[error(transparent)]
    Datastore(#[from] enfilade_datastore::Refusal),
    /// A refusal of door 4.
    #[error(transparent)]
    Access(#[from] enfilade_access::Refusal),
    /// A refusal of door 5.
    #[error(transparent)]
    Content(#[from] enfilade_content::Refusal),
    /// A refusal that is not about the target of the request but about another object, such as the parent directory, or the source of a COPY. The
    /// refusal can come from any door.
    #[error("{why}")]
    About {
        /// The object that the refusal is about.
        stands: Stands,
        /// The path of the directory in which an object would be created, as in the request.
        directory: Option<StorePath>,
        /// The refusal.
        why: Box<Refusal>,
    },
}

impl Refusal {
    /// The row with this code in the tables of doors 2 to 5.
    pub fn row_of(code: &str) -> Option<&'static RefusalRow> {
        let tables: [&'static [RefusalRow]; 4] = [
            &enfilade_identity::CODES,
            &enfilade_datastore::CODES,
            &enfilade_access::CODES,
            &enfilade_content::CODES,
        ];
        tables.into_iter().flatten().find(|row| row.code == code)
    }

    /// Adds to the refusal the object that the refusal is about. A refusal that already has such an object stays unchanged.
    #[must_use]
    pub fn about(self, stands: Stands) -> Self {
        match self {
            Refusal::About { .. } => self,
            why => Refusal::About { stands, directory: None, why: Box::new(why) },
        }
    }

    /// Adds that the refusal is about the directory in which an object with this path would be created.
    pub(crate) fn of_parent(path: &StorePath) -> impl Fn(Refusal) -> Refusal {
        move |why| match why {
            Refusal::About { .. } => why,
            why => {
                let directory = path.split().map(|(directory, _)| directory);
                Refusal::About { stands: Stands::Parent, directory, why: Box::new(why) }
            }
        }
    }

    /// The directory in which an object would be created, if the refusal is about this directory. The path is the path in the request. So the path
    /// does not reveal whether the directory is absent or hidden.
    pub fn directory(&self) -> Option<&StorePath> {
        match self {
            Refusal::About { directory, .. } => directory.as_ref(),
            _ => None,
        }
    }

    /// Whether the reason for the refusal is that the path leads to no file or directory.
    pub(crate) fn is_absent(&self) -> bool {
        matches!(self, Refusal::Content(Content::Absent(_) | Content::Special(_) | Content::ParentAbsent(_)))
    }

    /// The object that the refusal is about, and the refusal of the door.
    pub fn parts(&self) -> (Stands, &Refusal) {
        match self {
            Refusal::About { stands, why, .. } => (*stands, why),
            why => (Stands::Itself, why),
        }
    }

    fn inner(&self) -> &dyn Refuse {
        match self {
            Refusal::Identity(refusal) => refusal,
            Refusal::Datastore(refusal) => refusal,
            Refusal::Access(refusal) => refusal,
            Refusal::Content(refusal) => refusal,
            Refusal::About { why, .. } => why.inner(),
        }
    }
}

impl Refuse for Refusal {
    fn door(&self) -> Door {
        self.inner().door()
    }
    fn code(&self) -> &'static str {
        self.inner().code()
    }
    fn fault(&self) -> Fault {
        self.inner().fault()
    }
}

impl From<SourceError> for Refusal {
    /// If the facts cannot be read, no principal is known. So the refusal is a refusal of door 2.
    fn from(error: SourceError) -> Self {
        Refusal::Identity(enfilade_identity::Refusal::Facts(error))
    }
}
