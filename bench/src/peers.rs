//! What Enfilade is compared with, made again from descriptions of what it does; each says how the real one was measured.

pub(crate) mod datastore_cfg;
pub(crate) mod keystone;
pub(crate) mod libxcrypt;
pub(crate) mod token_cache;
