//! Random ids for new records.

use enfilade_facts::SourceError;

/// Random ids. The bytes for 256 ids are read from the kernel at once.
#[derive(Default)]
pub(super) struct Ids(Vec<[u8; 16]>);

impl Ids {
    pub(super) fn next(&mut self) -> Result<[u8; 16], SourceError> {
        if self.0.is_empty() {
            let mut bytes = [0; 16 * 256];
            getrandom::fill(&mut bytes)
                .map_err(|why| unavailable(&format!("the kernel gives no random bytes: {why}")))?;
            self.0.extend(bytes.as_chunks::<16>().0);
        }
        self.0.pop().ok_or_else(|| unavailable("the kernel gives no random bytes"))
    }
}

pub(super) fn unavailable(why: &str) -> SourceError {
    SourceError::Unavailable(why.to_owned())
}
