//! Inside a running server, attempts operations that the server must not be able to perform.
//!
//! - The environment variable `ATTEMPTS` names a file with one attempt in each line. When the server accepts its next connection, the library removes
//!   the file and makes all attempts. For each attempt the library writes a line to the file with the same name and the additional ending `.done`:
//!   `ok`, the number of the error, or `unknown` if the line names no attempt.

use super::real;
use libc::{c_int, c_void, sockaddr, socklen_t};
use std::ffi::CString;
use std::io::Error;
use std::path::PathBuf;

/// Like the C library's function, but makes the attempts before it returns a connection.
///
/// # Safety
/// The caller must meet the conditions of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn accept4(
    fd: c_int,
    address: *mut sockaddr,
    length: *mut socklen_t,
    flags: c_int,
) -> c_int {
    type Accept = unsafe extern "C" fn(c_int, *mut sockaddr, *mut socklen_t, c_int) -> c_int;
    let call: Accept = real(c"accept4");
    // SAFETY: the caller's arguments are passed on.
    let accepted = unsafe { call(fd, address, length, flags) };
    if accepted >= 0
        && let Ok(file) = std::env::var("ATTEMPTS")
        && let Ok(text) = std::fs::read_to_string(&file)
    {
        let _ = std::fs::remove_file(&file);
        let (done, part) = (PathBuf::from(format!("{file}.done")), PathBuf::from(format!("{file}.part")));
        let results: Vec<String> = text.lines().map(attempt).collect();
        let _ = std::fs::write(&part, results.join("\n") + "\n");
        let _ = std::fs::rename(part, done);
    }
    accepted
}

fn attempt(line: &str) -> String {
    let (what, on) = line.split_once(' ').unwrap_or((line, ""));
    match tried(what, on) {
        Some(result) if result < 0 => Error::last_os_error().raw_os_error().unwrap_or(0).to_string(),
        Some(_) => "ok".to_owned(),
        None => "unknown".to_owned(),
    }
}

/// Makes one attempt. A negative result means that the attempt failed, and `errno` contains the reason. `None` means that the line names no attempt.
fn tried(what: &str, on: &str) -> Option<libc::c_long> {
    let path = CString::new(on).ok()?;
    let number = on.parse::<libc::c_long>();
    let all = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
    // SAFETY: each path ends with NUL. Each address is the address of a value that lives until the call returns. A new process ends at once.
    Some(unsafe {
        match what {
            "read" => libc::open(path.as_ptr(), libc::O_RDONLY).into(),
            "write" => libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CREAT, 0o600).into(),
            "remove" => libc::unlink(path.as_ptr()).into(),
            "call" => libc::syscall(number.ok()?, 0, 0, 0, 0, 0, 0),
            "socket" => libc::socket(number.ok()?.try_into().ok()?, libc::SOCK_DGRAM, 0).into(),
            "connect" | "bind" => {
                let place = loopback(number.ok()?)?;
                let socket = libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0);
                let (address, length) = ((&raw const place).cast(), size_of_val(&place) as socklen_t);
                match what {
                    "bind" => libc::bind(socket, address, length).into(),
                    _ => libc::connect(socket, address, length).into(),
                }
            }
            "stream" => libc::socket(libc::AF_INET, libc::SOCK_STREAM, number.ok()?.try_into().ok()?).into(),
            "fast-open" => {
                let socket = libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0);
                let place = loopback(number.ok()?)?;
                let (address, length) = ((&raw const place).cast(), size_of_val(&place) as socklen_t);
                libc::sendto(socket, c"x".as_ptr().cast(), 1, libc::MSG_FASTOPEN, address, length)
                    as libc::c_long
            }
            "signal" => libc::kill(number.ok()?.try_into().ok()?, 0).into(),
            "fork" => match libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) {
                0 => libc::_exit(0),
                child => child,
            },
            "run" => {
                let arguments = [path.as_ptr(), std::ptr::null()];
                libc::execve(path.as_ptr(), arguments.as_ptr(), std::ptr::null()).into()
            }
            "writable-code" => mapped(all),
            "code-later" => match mapped(libc::PROT_READ | libc::PROT_WRITE) {
                at if at < 0 => at,
                at => libc::mprotect(at as *mut c_void, 4096, libc::PROT_READ | libc::PROT_EXEC).into(),
            },
            "terminal" => libc::ioctl(2, libc::TIOCSTI, c"x".as_ptr()).into(),
            _ => return None,
        }
    })
}

/// The address of a port of the loopback interface.
fn loopback(port: libc::c_long) -> Option<libc::sockaddr_in> {
    Some(libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: u16::try_from(port).ok()?.to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes([127, 0, 0, 1]) },
        sin_zero: [0; 8],
    })
}

/// Maps a new page. Returns its address, or -1 if the kernel refuses the mapping.
fn mapped(protection: c_int) -> libc::c_long {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: this is a new mapping, so nothing else is at its address.
    unsafe { libc::mmap(std::ptr::null_mut(), 4096, protection, flags, -1, 0) as libc::c_long }
}
