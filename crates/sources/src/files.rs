//! Facts and other data in files: configuration files that people edit, certificates, keys and counters.

pub mod acl_cfg;
pub mod atomic;
pub mod attempts;
pub(crate) mod bounded;
pub mod certificates;
pub mod challenges;
pub mod datastore_cfg;
pub mod directory;
pub mod fernet_keys;
pub mod file_set;
pub mod issued;
pub mod key;
pub mod last_used;
pub mod lock;
pub mod mirror_leader;
pub mod owner;
pub mod mirror;
pub mod proxmox_logins;
pub mod section_config;
mod slots;
pub mod token_shadow;
pub mod user_cfg;
