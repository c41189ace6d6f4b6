//! The operations of a server that need a capability of the kernel. A small process, the helper, performs these operations for the server. It writes
//! `security.NTACL`, and asks the kernel to report moves, deletions and changes of attributes on a whole file system. It listens on ports below 1024,
//! and changes the owner of a new file to the user who made the file. The server itself has no capabilities.
//!
//! The server uses [`client`], the helper uses [`serve`], [`act`] and [`ntacl`], and both use [`protocol`]. [`serve`] answers each connection.
//! [`act`] is the only code that uses a capability. [`ntacl`] checks each ACL before [`act`] writes the ACL. The crate depends on no other crate of
//! the server, so that little code runs with capabilities.

pub mod act;
pub mod client;
pub mod ntacl;
pub mod protocol;
pub mod serve;
