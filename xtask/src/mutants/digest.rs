//! Digests of what a run of mutants is about.

use std::hash::{DefaultHasher, Hash, Hasher};

/// A digest that is the same in each run of the same program.
pub(super) fn digest(content: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    hasher.finish()
}
