//! Building a change on a view and committing it, again when somebody else was faster.

use crate::error::Error;
use enfilade_facts::{At, Change, CommitError, Read, Source, View};

/// More than this many writers in a row being faster means something else is wrong.
const TRIES: usize = 64;

pub(crate) fn commit<R>(
    source: &dyn Source,
    build: impl Fn(&View<'_>, &mut Change) -> Result<R, Error>,
) -> Result<(R, At), Error> {
    let mut conflict = None;
    for _ in 0..TRIES {
        let mut change = Change::new();
        let result = source.read(|view| build(view, &mut change))??;
        match source.commit(&change) {
            Ok(at) => return Ok((result, at)),
            Err(why @ CommitError::Conflict { .. }) => conflict = Some(why),
            Err(other) => return Err(other.into()),
        }
    }
    Err(conflict.map_or_else(|| Error::Invalid("nothing was tried".into()), Error::Commit))
}

/// Random bytes from the kernel.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .map_err(|why| Error::Invalid(format!("the kernel gives no random bytes: {why}")))?;
    Ok(bytes)
}
