//! Programs that were rebuilt from descriptions, to be compared with Enfilade: parts of Proxmox Backup Server. Hashes are computed by libxcrypt, the
//! library that Proxmox Backup Server uses. The modules state the measurements of the original. No crate of the server may use this crate, and this
//! crate uses no crate of the server: `cargo xtask tidy` checks both rules.

pub mod datastore_cfg;
pub mod libxcrypt;
mod proxmox_files;
pub mod token_cache;
pub mod token_shadow;

/// Any error of a rebuilt program.
pub type Failure = Box<dyn std::error::Error>;
