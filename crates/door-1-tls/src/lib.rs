//! Door 1: which certificate answers this name.
