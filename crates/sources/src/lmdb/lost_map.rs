//! A mapped file that was made shorter, or whose disk fails, cannot be read any more: the kernel sends `SIGBUS`. Then the
//! process ends with a message, and serves nothing that it cannot read.

use std::sync::Once;

const MESSAGE: &[u8] = b"enfilade: a mapped file of facts was cut short or its disk fails (SIGBUS); ending, so that \
nothing is served that cannot be read. See what `enfilade facts check` says, then `enfilade facts restore FILE --set-aside`.\n";
/// `EX_IOERR` (sysexits.h).
const EXIT_CODE: i32 = 74;

/// Installs the handler of `SIGBUS`, once for all environments.
#[expect(unsafe_code, reason = "a signal handler")]
pub(super) fn end_cleanly() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let end = || {
            let _ = rustix::io::write(rustix::stdio::stderr(), MESSAGE);
            signal_hook::low_level::exit(EXIT_CODE);
        };
        // SAFETY: the handler makes one `write` and one `_exit`, and touches no lock and no memory of other code.
        let _ = unsafe { signal_hook::low_level::register(signal_hook::consts::SIGBUS, end) };
    });
}
