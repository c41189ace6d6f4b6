//! Programs that were rebuilt from descriptions, to be compared with Enfilade: parts of Proxmox Backup Server, and the library that it hashes with. Each
//! module has the measurements of the original. No crate of the server may use this one, and this one uses none of them: `cargo xtask tidy` checks
//! both.

pub mod datastore_cfg;
pub mod libxcrypt;
mod proxmox_files;
pub mod token_cache;
pub mod token_shadow;

/// Any error of a rebuilt program.
pub type Failure = Box<dyn std::error::Error>;
