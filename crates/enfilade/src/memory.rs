//! What the allocator does with memory that is freed.
//!
//! The C library hands large blocks back to the system when they are freed, but after each it raises the size from which it does so, up to
//! 32 MiB, and keeps twice that in each of its arenas. So the 19 MiB of one password hash would let every thread keep what it frees.

/// Blocks of so many bytes are handed back when they are freed.
#[cfg(target_env = "gnu")]
const HANDED_BACK_BYTES: libc::c_int = 1 << 20;
/// So many free bytes may stay at the end of an arena.
#[cfg(target_env = "gnu")]
const KEPT_BYTES: libc::c_int = 2 << 20;

/// Has large blocks handed back to the system, whatever was freed before (mallopt(3)).
#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "a call of the C library that no library wraps")]
pub(crate) fn hand_back() {
    for (parameter, bytes) in
        [(libc::M_MMAP_THRESHOLD, HANDED_BACK_BYTES), (libc::M_TRIM_THRESHOLD, KEPT_BYTES)]
    {
        // SAFETY: it takes two numbers. Nothing else runs yet; a number it does not like leaves all as it was.
        let _ = unsafe { libc::mallopt(parameter, bytes) };
    }
}

/// Other C libraries do so by themselves.
#[cfg(not(target_env = "gnu"))]
pub(crate) fn hand_back() {}
