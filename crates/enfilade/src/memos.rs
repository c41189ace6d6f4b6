//! The memos of doors 2 and 4.

use crate::home::seed;
use anyhow::{Context, anyhow};
use enfilade_access::AccessMemo;
use enfilade_identity::IdentityMemo;
use std::thread::{Builder, JoinHandle};

/// The maximum size of the memo for verified credentials, in bytes. This is enough for about 130,000 credentials of users in few groups. About a
/// tenth of this memory is allocated at the start, for the table of the memo. The rest is allocated when it is needed.
const IDENTITY_BYTES: usize = 128 << 20;
/// The maximum size of the memo for results of ACLs and roles, in bytes. This is enough for about 260,000 pairs of ACL and principal.
const ACCESS_BYTES: usize = 32 << 20;

/// The empty memos of a server that starts.
pub(crate) struct Memos {
    pub(crate) identity: IdentityMemo,
    pub(crate) access: AccessMemo,
}

impl Memos {
    pub(crate) fn new() -> anyhow::Result<Self> {
        Ok(Memos {
            identity: IdentityMemo::new(seed()?, IDENTITY_BYTES),
            access: AccessMemo::new(seed()?, ACCESS_BYTES),
        })
    }

    /// Makes the memos in another thread. The reason: this takes about as long as the start of a server without certificates, because the kernel must
    /// provide the memory of the tables. Meanwhile the caller can load the certificates.
    pub(crate) fn begin() -> anyhow::Result<Begun> {
        let thread = Builder::new().name("memos".into()).spawn(Self::new);
        thread.map(Begun).context("no thread can be started for the memos")
    }
}

/// Memos that another thread makes.
pub(crate) struct Begun(JoinHandle<anyhow::Result<Memos>>);

impl Begun {
    /// Waits until the memos are there.
    pub(crate) fn finish(self) -> anyhow::Result<Memos> {
        self.0.join().map_err(|_| anyhow!("the thread that makes the memos has ended with a panic"))?
    }
}
