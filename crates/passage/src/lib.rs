//! The walk through doors two to five, the hash gate, and asking again.
