//! Door 5: the bytes, and only with a permit.
