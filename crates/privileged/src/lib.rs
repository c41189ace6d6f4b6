//! The operations of a server that need a capability of the kernel: to write `security.NTACL`, to get a report of every change on a file system, to
//! listen on a port below 1024, and to give a new file to the user who made it. A small process, the helper, performs these operations for the
//! server. The server itself has no capabilities.
//!
//! [`client`] is used by the server, and the other modules are used by the helper: [`serve`] answers each connection, [`act`] is the only code that
//! uses a capability, and [`ntacl`] checks what it writes. The crate depends on no other crate of the server, so that little code runs with
//! capabilities.

pub mod act;
pub mod client;
pub mod ntacl;
pub mod protocol;
pub mod serve;
