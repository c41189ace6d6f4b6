//! The system calls that a server may make after its start (seccomp). There is a list of allowed calls, and a list of calls that end the process. A
//! call that is in neither list fails with ENOSYS, as on a kernel without this call. Then the C library uses an older call instead.

use rustix::io::Errno;
use seccompiler::{
    BackendError, BpfProgram, Error, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch, apply_filter_all_threads,
};
use std::collections::BTreeMap;

macro_rules! calls {
    ($($name:ident)+) => {
        &[$(libc::$name),+]
    };
}

/// Calls that a server makes, or that the C library can make for the server.
const ALLOWED: &[libc::c_long] = calls! {
    // Memory, threads and time.
    SYS_brk SYS_exit SYS_exit_group SYS_futex SYS_futex_waitv SYS_get_robust_list SYS_getcpu SYS_gettid SYS_madvise SYS_membarrier SYS_mincore
    SYS_mlock SYS_mlock2 SYS_mremap SYS_munlock SYS_munmap SYS_prctl SYS_restart_syscall SYS_rseq SYS_sched_getaffinity SYS_sched_getparam
    SYS_sched_getscheduler SYS_sched_yield SYS_set_robust_list SYS_set_tid_address SYS_clock_getres SYS_clock_gettime SYS_clock_nanosleep
    SYS_getitimer SYS_gettimeofday SYS_nanosleep SYS_setitimer SYS_timerfd_create SYS_timerfd_gettime SYS_timerfd_settime SYS_times
    // Signals. Landlock permits signals only to this process.
    SYS_kill SYS_pidfd_open SYS_rt_sigaction SYS_rt_sigpending SYS_rt_sigprocmask SYS_rt_sigreturn SYS_rt_sigsuspend SYS_rt_sigtimedwait
    SYS_sigaltstack SYS_signalfd4 SYS_tgkill SYS_tkill
    // Information about the process and the machine.
    SYS_capget SYS_getegid SYS_geteuid SYS_getgid SYS_getgroups SYS_getpgid SYS_getpid SYS_getppid SYS_getpriority SYS_getrandom SYS_getresgid
    SYS_getresuid SYS_getrusage SYS_getsid SYS_getuid SYS_prlimit64 SYS_sysinfo SYS_umask SYS_uname
    // Descriptors.
    SYS_close SYS_close_range SYS_dup SYS_dup3 SYS_epoll_create1 SYS_epoll_ctl SYS_epoll_pwait SYS_epoll_pwait2 SYS_eventfd2 SYS_fcntl
    SYS_flock SYS_lseek SYS_pipe2 SYS_ppoll SYS_pread64 SYS_preadv SYS_preadv2 SYS_pselect6 SYS_pwrite64 SYS_pwritev SYS_pwritev2 SYS_read
    SYS_readahead SYS_readv SYS_sendfile SYS_splice SYS_tee SYS_vmsplice SYS_write SYS_writev
    // Files.
    SYS_chdir SYS_copy_file_range SYS_faccessat SYS_faccessat2 SYS_fadvise64 SYS_fallocate SYS_fchdir SYS_fchmod SYS_fchmodat SYS_fchmodat2
    SYS_fchown SYS_fchownat SYS_fdatasync SYS_fgetxattr SYS_flistxattr SYS_fremovexattr SYS_fsetxattr SYS_fstat SYS_fstatfs SYS_fsync
    SYS_ftruncate SYS_getcwd SYS_getdents64 SYS_getxattr SYS_inotify_add_watch SYS_inotify_init1 SYS_inotify_rm_watch SYS_lgetxattr SYS_linkat
    SYS_listxattr SYS_llistxattr SYS_lremovexattr SYS_lsetxattr SYS_mkdirat SYS_msync SYS_name_to_handle_at SYS_newfstatat SYS_openat
    SYS_openat2 SYS_readlinkat SYS_removexattr SYS_renameat SYS_renameat2 SYS_setxattr SYS_statfs SYS_statx SYS_symlinkat SYS_sync
    SYS_sync_file_range SYS_syncfs SYS_truncate SYS_unlinkat SYS_utimensat
    SYS_fanotify_mark SYS_fanotify_init
    // Sockets. The function `of_arguments` contains the call `socket`, and the calls that send data.
    SYS_accept SYS_accept4 SYS_bind SYS_connect SYS_getpeername SYS_getsockname SYS_getsockopt SYS_listen SYS_recvfrom SYS_recvmmsg SYS_recvmsg
    SYS_setsockopt SYS_shutdown SYS_socketpair
};

/// Calls for extended attributes and futexes that have no name in `libc` yet. Their numbers are the same on every architecture except Alpha
/// (asm-generic/unistd.h).
const ALLOWED_NUMBERS: &[libc::c_long] = &[454, 455, 456, 463, 464, 465, 466];

/// Older forms of the calls above, which only some architectures have.
#[cfg(target_arch = "x86_64")]
const OLDER: &[libc::c_long] = calls! {
    SYS_access SYS_arch_prctl SYS_chmod SYS_chown SYS_creat SYS_dup2 SYS_epoll_create SYS_epoll_wait SYS_eventfd SYS_getdents SYS_getpgrp
    SYS_getrlimit SYS_inotify_init SYS_lchown SYS_link SYS_lstat SYS_mkdir SYS_open SYS_pause SYS_pipe SYS_poll SYS_readlink SYS_rename SYS_rmdir
    SYS_select SYS_setrlimit SYS_signalfd SYS_stat SYS_symlink SYS_time SYS_unlink SYS_utime SYS_utimes
};
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[libc::c_long] = &[];

/// Calls that no server makes, and that only code of an attacker would make. These calls end the process.
const ENDING: &[libc::c_long] = calls! {
    // Calls that start other programs, or access other processes.
    SYS_execve SYS_execveat SYS_ptrace SYS_process_vm_readv SYS_process_vm_writev SYS_kcmp
    // Calls that change the kernel: its code, its clock, its keys, its log.
    SYS_acct SYS_add_key SYS_bpf SYS_clock_settime SYS_delete_module SYS_finit_module SYS_init_module SYS_kexec_load SYS_keyctl SYS_perf_event_open
    SYS_quotactl SYS_reboot SYS_request_key SYS_setdomainname SYS_sethostname SYS_settimeofday SYS_swapoff SYS_swapon SYS_syslog SYS_userfaultfd
    // Mounts and namespaces.
    SYS_chroot SYS_fsconfig SYS_fsmount SYS_fsopen SYS_mount SYS_mount_setattr SYS_move_mount SYS_open_by_handle_at SYS_open_tree SYS_pivot_root
    SYS_setns SYS_umount2 SYS_unshare
    // Calls that change the user or the groups of the process.
    SYS_setfsgid SYS_setfsuid SYS_setgid SYS_setgroups SYS_setregid SYS_setresgid SYS_setresuid SYS_setreuid SYS_setuid
};

/// Applies both lists to all threads of this process, and to all threads that they start. Also forbids the process to gain privileges.
pub(super) fn restrict() -> Result<(), Error> {
    let target = TargetArch::try_from(std::env::consts::ARCH)?;
    let ending: BTreeMap<_, _> = ENDING.iter().map(|number| (*number, Vec::new())).collect();
    let mut allowed: BTreeMap<_, _> =
        [ALLOWED, ALLOWED_NUMBERS, OLDER].concat().into_iter().map(|number| (number, Vec::new())).collect();
    allowed.extend(of_arguments()?);
    let unknown = SeccompAction::Errno(Errno::NOSYS.raw_os_error().unsigned_abs());
    // If there are several filters, the strictest filter decides. The list of allowed calls does not contain `seccomp`. So this list is applied last.
    for (rules, otherwise, then) in
        [(ending, SeccompAction::Allow, SeccompAction::KillProcess), (allowed, unknown, SeccompAction::Allow)]
    {
        let program: BpfProgram = SeccompFilter::new(rules, otherwise, then, target)?.try_into()?;
        apply_filter_all_threads(&program)?;
    }
    Ok(())
}

/// Whether the kernel supports seccomp filters. This function sets no filter.
pub(super) fn is_supported() -> bool {
    std::fs::read_to_string("/proc/self/status").is_ok_and(|status| status.contains("\nSeccomp_filters:"))
}

/// Calls that are allowed only with certain arguments. Each rule allows one kind of call.
fn of_arguments() -> Result<BTreeMap<libc::c_long, Vec<SeccompRule>>, BackendError> {
    let has = |argument, mask: libc::c_int, value: libc::c_int| {
        let [mask, value] = [mask, value].map(|bits| u64::from(bits.unsigned_abs()));
        condition(argument, SeccompCmpOp::MaskedEq(mask), value)
    };
    let rule = |conditions| SeccompRule::new(conditions);
    let equals =
        |argument, value: libc::c_int| condition(argument, SeccompCmpOp::Eq, value.unsigned_abs().into());
    // Landlock checks only the ports of TCP sockets. It does not check the ports of MPTCP, SCTP and SMC sockets. It also does not check a connection
    // that `MSG_FASTOPEN` makes. So these rules do not allow such sockets and connections.
    let mut sockets = vec![rule(vec![equals(0, libc::AF_UNIX)?])?];
    for family in [libc::AF_INET, libc::AF_INET6] {
        for protocol in [libc::IPPROTO_IP, libc::IPPROTO_TCP, libc::IPPROTO_UDP] {
            sockets.push(rule(vec![equals(0, family)?, equals(2, protocol)?])?);
        }
    }
    let slow_open = |flags| Ok(vec![rule(vec![has(flags, libc::MSG_FASTOPEN, 0)?])?]);
    let not = |request: u64| condition(1, SeccompCmpOp::Ne, request);
    // A thread needs no new namespace, because it stays in the namespaces of its process. So flags for new namespaces are forbidden.
    let spaces = libc::CLONE_NEWCGROUP
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWNET
        | libc::CLONE_NEWNS
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWUSER
        | libc::CLONE_NEWUTS;
    let no_code = |protection| rule(vec![has(protection, libc::PROT_EXEC, 0)?]);
    Ok([
        (libc::SYS_clone, vec![rule(vec![has(0, libc::CLONE_THREAD | spaces, libc::CLONE_THREAD)?])?]),
        // A mapping of memory must never be both writable and executable.
        (libc::SYS_mmap, vec![no_code(2)?, rule(vec![has(2, libc::PROT_WRITE, 0)?])?]),
        (libc::SYS_mprotect, vec![no_code(2)?]),
        (libc::SYS_socket, sockets),
        (libc::SYS_sendto, slow_open(3)?),
        (libc::SYS_sendmsg, slow_open(2)?),
        (libc::SYS_sendmmsg, slow_open(3)?),
        // The two requests that write input into a terminal are forbidden.
        (libc::SYS_ioctl, vec![rule(vec![not(libc::TIOCSTI)?, not(TIOCLINUX)?])?]),
    ]
    .into())
}

/// Pastes into a virtual console (asm-generic/ioctls.h).
const TIOCLINUX: u64 = 0x541c;

fn condition(argument: u8, compare: SeccompCmpOp, value: u64) -> Result<SeccompCondition, BackendError> {
    // The kernel reads only the lower 32 bits of the arguments that these rules check.
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, compare, value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_call_is_in_both_lists() {
        let of_arguments = of_arguments().unwrap();
        let allowed: BTreeSet<_> =
            [ALLOWED, ALLOWED_NUMBERS, OLDER].concat().into_iter().chain(of_arguments.into_keys()).collect();
        let both: Vec<_> = ENDING.iter().filter(|number| allowed.contains(number)).collect();
        assert!(both.is_empty(), "{both:?}");
        for ring in [libc::SYS_io_uring_setup, libc::SYS_seccomp, libc::SYS_clone3] {
            assert!(!allowed.contains(&ring), "{ring}");
        }
    }
}
