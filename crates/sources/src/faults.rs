//! Ends the process with a message when LMDB causes a fatal signal.
//!
//! A store is checked when it is opened (`structure`). Its file can still be damaged or cut short while the store is open, and LMDB may then read or
//! write at invalid addresses. In this case the kernel sends `SIGSEGV` or `SIGBUS`, or LMDB or the C library calls `abort`. The signal handler of
//! this module writes a message, makes the file [`FAULTED`] in the directory of the store, and ends the process. If the directory of a store contains
//! the file [`FAULTED`], the store is not opened until it was checked or replaced.
//!
//! The address of the failed access does not show whether LMDB is the cause, because a damaged length can result in any address. So each thread
//! records which store it reads or writes now ([`within`]). If the thread has recorded a store, the handler treats a signal on the thread as damage
//! of that store. Any other fatal signal, except `SIGBUS`, is passed to the previous handler, and ends the process as usual. `SIGBUS` always comes
//! from a mapped file, and this program maps only files of the data directory. So for a `SIGBUS` without a recorded store, the handler makes no file,
//! writes a general message, and ends the process.

use std::cell::Cell;
use std::ffi::{CStr, CString, c_int, c_void};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;

/// The name of the file that the handler makes in the directory of a damaged store.
pub(crate) const FAULTED: &str = "faulted";
/// `EX_IOERR` (sysexits.h).
const EXIT_CODE: c_int = 74;

const SIGNALS: [c_int; 3] = [libc::SIGBUS, libc::SIGSEGV, libc::SIGABRT];
/// The previous handlers of the signals, in the order of `SIGNALS`.
static BEFORE: OnceLock<[libc::sigaction; 3]> = OnceLock::new();

thread_local! {
    /// The store that this thread reads or writes now. The initial value is constant, and the type has no destructor, so a signal handler may read
    /// the variable.
    static NOW: Cell<Option<Store>> = const { Cell::new(None) };
}

/// The path and the advice that the handler needs for its message about a store. The path is never freed, because a signal can come at any time.
#[derive(Clone, Copy)]
pub(crate) struct Store {
    faulted: &'static CStr,
    /// The advice at the end of the message, with a line break.
    advice: &'static str,
}

impl Store {
    /// The store in this directory, with the advice for the message.
    ///
    /// # Errors
    /// When the path contains a NUL byte.
    pub(crate) fn new(directory: &Path, advice: &'static str) -> io::Result<Self> {
        let faulted = CString::new(directory.join(FAULTED).as_os_str().as_bytes())?;
        Ok(Store { faulted: Box::leak(faulted.into_boxed_c_str()), advice })
    }
}

/// Resets `NOW` to the previous store when this value is dropped, even if `work` panics.
struct Back(Option<Store>);

impl Drop for Back {
    fn drop(&mut self) {
        NOW.set(self.0);
    }
}

/// Calls `work`, which reads or writes this store. A fatal signal on this thread during the call counts as damage of the store.
pub(crate) fn within<R>(store: Store, work: impl FnOnce() -> R) -> R {
    let _back = Back(NOW.replace(Some(store)));
    work()
}

/// Installs the handler for all stores. A second call has no effect.
pub(crate) fn end_with_a_message() {
    BEFORE.get_or_init(|| SIGNALS.map(install));
}

#[expect(unsafe_code, reason = "a signal handler")]
fn install(signal: c_int) -> libc::sigaction {
    // SAFETY: an all-zero `sigaction` is valid. It means the default action, and blocks no signals.
    let (mut ours, mut before): (libc::sigaction, libc::sigaction) = unsafe { std::mem::zeroed() };
    ours.sa_sigaction = handle as *const () as usize;
    // The handler runs on a stack of its own, because the signal may come from an overflow of the thread's stack.
    ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: both structures are valid, and the handler makes only calls that are safe in a handler (signal-safety(7)).
    unsafe { libc::sigaction(signal, &raw const ours, &raw mut before) };
    before
}

#[expect(unsafe_code, reason = "a signal handler")]
extern "C" fn handle(signal: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    // SAFETY: the kernel passes a valid structure. If a process sent the signal, the structure contains the id of that process.
    let (code, sender) = unsafe { ((*info).si_code, (*info).si_pid()) };
    // `abort` sends the signal to its own process. The kernel's own signals have a code above 0.
    let is_own =
        code > 0 || (signal == libc::SIGABRT && sender == rustix::process::getpid().as_raw_nonzero().get());
    let store = NOW.try_with(Cell::get).ok().flatten().filter(|_| is_own);
    if store.is_some() || (signal == libc::SIGBUS && is_own) {
        end(store);
    }
    let before = SIGNALS.iter().zip(BEFORE.get().into_iter().flatten()).find(|(this, _)| **this == signal);
    if let Some((_, before)) = before {
        // SAFETY: `sigaction` returned this structure.
        unsafe { libc::sigaction(signal, before, std::ptr::null_mut()) };
    }
    if code <= 0 {
        // If the kernel sent the signal, the failed access is repeated after the return, and the previous handler is called. If a process sent the
        // signal, the handler must send the signal again. SAFETY: `raise` is safe in a handler.
        unsafe { libc::raise(signal) };
    }
}

/// Writes the message and ends the process, with calls that are safe in a handler.
#[expect(unsafe_code, reason = "ends the process in a signal handler")]
fn end(store: Option<Store>) -> ! {
    use rustix::fs::{CWD, Mode, OFlags, openat};
    let say = |text: &[u8]| {
        let _ = rustix::io::write(rustix::stdio::stderr(), text);
    };
    match store {
        Some(Store { faulted, advice }) => {
            let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
            let _ = openat(CWD, faulted, flags, Mode::RUSR | Mode::WUSR);
            let directory = faulted.to_bytes().strip_suffix(FAULTED.as_bytes()).unwrap_or_default();
            say(b"enfilade: damaged pages in `");
            say(directory);
            say(b"data.mdb`, or a failing disk; this process ends, so that it does not serve damaged data; ");
            say(advice.as_bytes());
        }
        None => say(
            b"enfilade: a mapped file of the data directory was cut short, or the disk fails (SIGBUS); this process ends, so that it does not serve damaged data; run `enfilade doctor`\n",
        ),
    }
    // SAFETY: `_exit` ends the process at once, and runs no exit handlers.
    unsafe { libc::_exit(EXIT_CODE) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    const KIND: &str = "ENFILADE_FAULT_KIND";
    const PLACE: &str = "ENFILADE_FAULT_PLACE";

    /// Causes the fatal signal that an environment variable selects. The test below starts this test in a separate process.
    #[expect(unsafe_code, reason = "it has to fault")]
    #[test]
    fn fault() {
        let (Ok(kind), Ok(place)) = (std::env::var(KIND), std::env::var(PLACE)) else { return };
        end_with_a_message();
        let store = Store::new(Path::new(&place), "do this\n").unwrap();
        let fault = || match kind.split('-').next() {
            // SAFETY: the read is invalid on purpose, because the test needs the signal that the read causes.
            Some("read") => drop(unsafe { std::ptr::without_provenance::<u64>(64).read_volatile() }),
            _ => std::process::abort(),
        };
        match kind.ends_with("within") {
            true => within(store, fault),
            false => {
                within(store, || ());
                fault();
            }
        }
    }

    #[test]
    fn a_fault_of_a_store_ends_with_a_message_and_every_other_fault_as_usual() {
        let (read, abort) = (libc::SIGSEGV, libc::SIGABRT);
        for (kind, signal) in
            [("read-within", None), ("abort-within", None), ("read", Some(read)), ("abort", Some(abort))]
        {
            let scratch = Scratch::new();
            let mut command = Command::new(std::env::current_exe().unwrap());
            command.args(["--exact", "faults::tests::fault", "--nocapture"]);
            let output = command.env(KIND, kind).env(PLACE, scratch.path()).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let code = signal.is_none().then_some(EXIT_CODE);
            assert_eq!((output.status.code(), output.status.signal()), (code, signal), "{kind}: {said}");
            assert_eq!(scratch.path().join(FAULTED).exists(), signal.is_none(), "{kind}");
            let advice = format!("damaged pages in `{}/data.mdb`", scratch.path().display());
            assert_eq!(
                said.contains(&advice) && said.ends_with("do this\n"),
                signal.is_none(),
                "{kind}: {said}"
            );
        }
    }
}
