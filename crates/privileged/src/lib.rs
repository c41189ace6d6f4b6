//! What a server may do only with a capability of the kernel: write `security.NTACL`, be told of every change on a file system, listen on a port below
//! 1024, give a new file to its maker. A small process, the helper, does it for the server, which has no capability itself.
//!
//! [`client`] asks, the other modules are the helper: [`serve`] answers each connection, [`act`] is the only code that uses a capability, and
//! [`ntacl`] checks what it writes. The crate depends on no other crate of the server, so that little code runs with capabilities.

pub mod act;
pub mod client;
pub mod ntacl;
pub mod protocol;
pub mod serve;
