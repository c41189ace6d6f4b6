//! Door 4: may they, and what do they see.
