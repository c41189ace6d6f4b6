//! Sets the wall clock of a running program.
//!
//! - The environment variable `CLOCK_AHEAD` names a file of eight bytes. They contain the number of seconds by which the wall clock is ahead (little
//!   endian, signed). The test writes the number, which takes effect at the next read of the clock.
//!
//! Clocks that count from the start of the machine do not change, as when an operator sets the wall clock of a machine.

use super::real;
use libc::{c_int, clockid_t, timespec};
use std::ffi::CString;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};

static AHEAD: OnceLock<Option<&'static AtomicI64>> = OnceLock::new();

fn ahead() -> i64 {
    let map = || {
        let path = CString::new(std::env::var("CLOCK_AHEAD").ok()?).ok()?;
        // SAFETY: this is a shared mapping of eight bytes of a file, which is never unmapped. It begins at the start of a page, so it is aligned.
        unsafe {
            let file = libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
            let map = libc::mmap(std::ptr::null_mut(), 8, libc::PROT_READ, libc::MAP_SHARED, file, 0);
            libc::close(file);
            (map != libc::MAP_FAILED).then(|| &*map.cast::<AtomicI64>())
        }
    };
    AHEAD.get_or_init(map).map_or(0, |seconds| i64::from_le(seconds.load(Ordering::SeqCst)))
}

/// Like the C library's function, but wall clocks are ahead.
///
/// # Safety
/// The caller must meet the conditions of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(clock: clockid_t, time: *mut timespec) -> c_int {
    let call: unsafe extern "C" fn(clockid_t, *mut timespec) -> c_int = real(c"clock_gettime");
    // SAFETY: the caller's arguments are passed on. On success, `time` is initialized.
    unsafe {
        let result = call(clock, time);
        if result == 0 && matches!(clock, libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE) {
            (*time).tv_sec = (*time).tv_sec.saturating_add(ahead());
        }
        result
    }
}
