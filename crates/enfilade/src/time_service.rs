//! The state of the clock. A time service such as systemd-timesyncd or chrony sets the clock.

/// Whether the kernel's clock is synchronised with another clock (adjtimex(2)). `None` if the kernel does not report the synchronisation.
#[expect(unsafe_code, reason = "a system call that no library wraps")]
pub(crate) fn is_synchronised() -> Option<bool> {
    // SAFETY: `timex` consists of numbers, for which zero bytes are valid. With `modes` 0, the call only writes the state of the clock to `timex`.
    let (state, status) = unsafe {
        let mut timex: libc::timex = std::mem::zeroed();
        (libc::adjtimex(&raw mut timex), timex.status)
    };
    (state >= 0).then_some(state != libc::TIME_ERROR && status & libc::STA_UNSYNC == 0)
}
