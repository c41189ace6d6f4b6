//! A library that is loaded before the C library (`LD_PRELOAD`). It counts operations of a program: writes, syncs, truncations and maps of regular
//! files, and renames, links and removals of any path. Only calls of functions of the C library are counted. At the N-th operation it injects a
//! fault: the operation fails with an error or writes half of its bytes, or the program is killed. Environment variables select the fault:
//!
//! - `FAULT_AT`: the number N of the operation, from 1.
//! - `FAULT`: `EIO`, `ENOSPC`, `short` (a write writes half of its bytes or parts; other operations fail with EIO), `kill-before` or
//!   `kill-after`.
//! - `FAULT_MARK`: a file that is created when the fault happens. If the file is missing after a run, the program made fewer than N operations. So
//!   the test need not try larger numbers.

pub mod attempts;
pub mod clock;

use libc::{c_char, c_int, c_void, iovec, off_t, size_t, ssize_t};
use std::ffi::CStr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    Error(c_int),
    Short,
    KillBefore,
    KillAfter,
}

struct Plan {
    at: u64,
    fault: Fault,
    mark: Option<Vec<u8>>,
}

static PLAN: OnceLock<Option<Plan>> = OnceLock::new();
static COUNT: AtomicU64 = AtomicU64::new(0);

fn plan() -> Option<&'static Plan> {
    PLAN.get_or_init(|| {
        let at = std::env::var("FAULT_AT").ok()?.parse().ok()?;
        let fault = match std::env::var("FAULT").ok()?.as_str() {
            "EIO" => Fault::Error(libc::EIO),
            "ENOSPC" => Fault::Error(libc::ENOSPC),
            "short" => Fault::Short,
            "kill-before" => Fault::KillBefore,
            "kill-after" => Fault::KillAfter,
            _ => return None,
        };
        let mark = std::env::var("FAULT_MARK").ok().map(|mark| [mark.as_bytes(), b"\0"].concat());
        Some(Plan { at, fault, mark })
    })
    .as_ref()
}

/// Makes a call, or injects the planned fault if this is the N-th counted call. The call is counted only if `is_counted` is true. `failed` is the
/// result of a call that fails.
fn counted<R>(is_counted: bool, failed: R, call: impl FnOnce() -> R) -> R {
    counted_or_half(is_counted, failed, None, call)
}

/// Like [`counted`], for an operation that can also do half of its work.
fn counted_or_half<R>(
    is_counted: bool,
    failed: R,
    half: Option<&dyn Fn() -> R>,
    call: impl FnOnce() -> R,
) -> R {
    let plan = plan().filter(|plan| is_counted && COUNT.fetch_add(1, Ordering::SeqCst) + 1 == plan.at);
    let Some(plan) = plan else { return call() };
    if let Some(mark) = &plan.mark {
        // SAFETY: the path ends with NUL. The descriptor is closed here or at the end of the process.
        unsafe { libc::close(libc::open(mark.as_ptr().cast(), libc::O_CREAT | libc::O_WRONLY, 0o600)) };
    }
    match plan.fault {
        Fault::Error(errno) => fail(errno, failed),
        Fault::Short => half.map_or_else(|| fail(libc::EIO, failed), |half| half()),
        Fault::KillBefore => die(),
        Fault::KillAfter => {
            call();
            die()
        }
    }
}

fn fail<R>(errno: c_int, failed: R) -> R {
    // SAFETY: this is the address of this thread's errno.
    unsafe { *libc::__errno_location() = errno };
    failed
}

fn die() -> ! {
    // SAFETY: this ends the process, as `kill -9` would.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    loop {
        std::hint::spin_loop();
    }
}

fn is_file(fd: c_int) -> bool {
    // SAFETY: a zeroed `stat` is valid, and the kernel overwrites it.
    unsafe {
        let mut stat = std::mem::zeroed::<libc::stat>();
        fd > 2 && libc::fstat(fd, &mut stat) == 0 && stat.st_mode & libc::S_IFMT == libc::S_IFREG
    }
}

/// The C library's own function of this name.
fn real<F: Copy>(name: &CStr) -> F {
    // SAFETY: the function with this name has this type. If the function is missing, the program is aborted, because no error can be reported.
    unsafe {
        let found = libc::dlsym(libc::RTLD_NEXT, name.as_ptr());
        if found.is_null() {
            libc::abort();
        }
        std::mem::transmute_copy::<*mut c_void, F>(&found)
    }
}

macro_rules! on_descriptors {
    ($($name:ident($fd:ident $(, $arg:ident: $kind:ty)*) -> $result:ty;)*) => {$(
        /// Like the C library's function, but the planned fault is injected.
        ///
        /// # Safety
        /// The caller must meet the conditions of the C library's function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($fd: c_int $(, $arg: $kind)*) -> $result {
            let name = concat!(stringify!($name), "\0");
            let name = CStr::from_bytes_with_nul(name.as_bytes()).unwrap_or_default();
            let call: unsafe extern "C" fn(c_int $(, $kind)*) -> $result = real(name);
            // SAFETY: the caller's arguments are passed on.
            counted(is_file($fd), -1, || unsafe { call($fd $(, $arg)*) })
        }
    )*};
}

/// The third argument of a write is the number of its bytes or parts. A short write has half of that number, and at least 1.
macro_rules! on_writes {
    ($($name:ident($fd:ident, $bytes:ident: $kind:ty, $count:ident: $number:ty $(, $at:ident: $offset:ty)*);)*) => {$(
        /// Like the C library's function, but the planned fault is injected.
        ///
        /// # Safety
        /// The caller must meet the conditions of the C library's function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($fd: c_int, $bytes: $kind, $count: $number $(, $at: $offset)*) -> ssize_t {
            let name = concat!(stringify!($name), "\0");
            let name = CStr::from_bytes_with_nul(name.as_bytes()).unwrap_or_default();
            let call: unsafe extern "C" fn(c_int, $kind, $number $(, $offset)*) -> ssize_t = real(name);
            // SAFETY: the caller's arguments are passed on. A shorter length is valid, too.
            let some = |count| unsafe { call($fd, $bytes, count $(, $at)*) };
            let half = || some(($count / 2).max(1));
            counted_or_half(is_file($fd), -1, Some(&half), || some($count))
        }
    )*};
}

on_writes! {
    write(fd, bytes: *const c_void, count: size_t);
    pwrite(fd, bytes: *const c_void, count: size_t, at: off_t);
    pwrite64(fd, bytes: *const c_void, count: size_t, at: off_t);
    writev(fd, parts: *const iovec, count: c_int);
    pwritev(fd, parts: *const iovec, count: c_int, at: off_t);
}

macro_rules! on_maps {
    ($($name:ident;)*) => {$(
        /// Like the C library's function, but the planned fault is injected.
        ///
        /// # Safety
        /// The caller must meet the conditions of the C library's function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            address: *mut c_void,
            length: size_t,
            protection: c_int,
            flags: c_int,
            fd: c_int,
            at: off_t,
        ) -> *mut c_void {
            type Map = unsafe extern "C" fn(*mut c_void, size_t, c_int, c_int, c_int, off_t) -> *mut c_void;
            let name = concat!(stringify!($name), "\0");
            let call: Map = real(CStr::from_bytes_with_nul(name.as_bytes()).unwrap_or_default());
            // SAFETY: the caller's arguments are passed on.
            counted(is_file(fd), libc::MAP_FAILED, || unsafe { call(address, length, protection, flags, fd, at) })
        }
    )*};
}

on_maps! {
    mmap;
    mmap64;
}

on_descriptors! {
    fsync(fd) -> c_int;
    fdatasync(fd) -> c_int;
    ftruncate(fd, length: off_t) -> c_int;
    ftruncate64(fd, length: off_t) -> c_int;
}

macro_rules! on_paths {
    ($($name:ident($($arg:ident: $kind:ty),*);)*) => {$(
        /// Like the C library's function, but the planned fault is injected.
        ///
        /// # Safety
        /// The caller must meet the conditions of the C library's function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $kind),*) -> c_int {
            let name = concat!(stringify!($name), "\0");
            let name = CStr::from_bytes_with_nul(name.as_bytes()).unwrap_or_default();
            let call: unsafe extern "C" fn($($kind),*) -> c_int = real(name);
            // SAFETY: the caller's arguments are passed on.
            counted(true, -1, || unsafe { call($($arg),*) })
        }
    )*};
}

on_paths! {
    rename(from: *const c_char, to: *const c_char);
    link(from: *const c_char, to: *const c_char);
    linkat(from_at: c_int, from: *const c_char, to_at: c_int, to: *const c_char, flags: c_int);
    unlink(path: *const c_char);
}
