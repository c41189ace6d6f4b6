//! Where truths live: LMDB, memory, and tables kept in files.
