//! Door 3: is this store there, and open for this kind of work?

mod permit;

pub use permit::DatastorePermit;
