//! Settings of the allocator for freed memory.
//!
//! The C library (glibc) returns freed blocks above a threshold to the system. After glibc returns a block, the threshold rises to the size of the
//! block, up to 32 MiB. Each arena may keep free memory of up to twice the threshold. So after one password hash of 19 MiB, each arena could keep
//! 38 MiB of free memory.

/// Freed blocks of this many bytes or more are returned to the system.
#[cfg(target_env = "gnu")]
const HANDED_BACK_BYTES: libc::c_int = 1 << 20;
/// The maximum number of free bytes at the end of an arena.
#[cfg(target_env = "gnu")]
const KEPT_BYTES: libc::c_int = 2 << 20;

/// Sets fixed thresholds, which the C library no longer raises (mallopt(3)).
#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "a function of libc for which no crate has a safe wrapper")]
pub(crate) fn hand_back() {
    for (parameter, bytes) in
        [(libc::M_MMAP_THRESHOLD, HANDED_BACK_BYTES), (libc::M_TRIM_THRESHOLD, KEPT_BYTES)]
    {
        // SAFETY: `mallopt` takes two numbers. No other thread runs yet. An invalid number changes nothing.
        let _ = unsafe { libc::mallopt(parameter, bytes) };
    }
}

/// Other C libraries need no setting.
#[cfg(not(target_env = "gnu"))]
pub(crate) fn hand_back() {}
