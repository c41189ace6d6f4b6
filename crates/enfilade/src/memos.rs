//! The memos of doors 2 and 4.

use enfilade_access::AccessMemo;
use enfilade_facts::MemoSeed;
use enfilade_identity::IdentityMemo;

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
}

/// A random seed for the keys of memos.
pub(crate) fn seed() -> anyhow::Result<MemoSeed> {
    let mut seed = [0; 16];
    getrandom::fill(&mut seed).map_err(|why| anyhow::anyhow!("the kernel gives no random bytes: {why}"))?;
    Ok(MemoSeed(seed))
}
