//! Programs that Enfilade is compared with, re-implemented from descriptions; each names the measurements of the real one.

pub(crate) mod datastore_cfg;
pub(crate) mod keystone;
pub(crate) mod libxcrypt;
pub(crate) mod token_cache;
