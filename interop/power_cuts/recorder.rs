//! Runs programs and records, in order, all operations of their threads on files below a directory. The recorder stops each thread at every system
//! call. Therefore it also records calls that do not use the C library.

use crate::disk::{Event, Id, Naming, Op};
use nix::libc;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

/// Files that are memory-mapped and never synced. At every event they are compared with their last content.
const MAPPED: [&str; 2] = ["high-water", "lookout"];

#[derive(Default)]
struct Written {
    events: Vec<Event>,
    /// The ids of files and directories, by inode number.
    ids: HashMap<u64, Id>,
    count: usize,
    mapped: Vec<(Id, File, Vec<u8>)>,
    /// Operations that the recorder cannot record.
    unknown: Vec<String>,
}

impl Written {
    fn push(&mut self, event: Event) {
        self.look_at_maps();
        self.events.push(event);
    }

    fn op(&mut self, op: Op) {
        self.push(Event::Op(op));
    }

    fn make(&mut self, meta: &std::fs::Metadata) -> Id {
        self.count += 1;
        let id = self.count;
        self.ids.insert(meta.ino(), id);
        self.op(Op::Make { id, is_directory: meta.is_dir(), mode: meta.permissions().mode() & 0o7777 });
        id
    }

    fn look_at_maps(&mut self) {
        for (id, file, seen) in &mut self.mapped {
            let mut now = vec![0; file.metadata().map_or(0, |meta| meta.len() as usize)];
            if file.read_exact_at(&mut now, 0).is_err() || now == *seen {
                continue;
            }
            for (index, sector) in now.chunks(512).enumerate() {
                if seen.get(index * 512..index * 512 + sector.len()) != Some(sector) {
                    let op = Op::Write { id: *id, at: index * 512, bytes: sector.into() };
                    self.events.push(Event::Op(op));
                }
            }
            *seen = now;
        }
    }
}

/// Records operations. All clones use the same record.
#[derive(Clone)]
pub(crate) struct Recorder {
    root: PathBuf,
    written: Arc<Mutex<Written>>,
}

/// A program under the recorder.
pub(crate) struct Running {
    pub(crate) pid: u32,
    pub(crate) stdin: Option<ChildStdin>,
    pub(crate) stdout: ChildStdout,
    recording: JoinHandle<Option<i32>>,
}

impl Running {
    /// Waits for the end of the program. Returns its exit code.
    pub(crate) fn wait(self) -> Option<i32> {
        self.recording.join().unwrap()
    }
}

impl Recorder {
    /// A recorder of everything below this empty directory.
    pub(crate) fn new(root: &Path) -> Self {
        let mut written = Written::default();
        written.ids.insert(std::fs::metadata(root).unwrap().ino(), 0);
        Recorder { root: root.canonicalize().unwrap(), written: Arc::new(Mutex::new(written)) }
    }

    pub(crate) fn len(&self) -> usize {
        self.written.lock().unwrap().events.len()
    }

    /// The first event from `from` on that sent bytes with this beginning.
    pub(crate) fn sent_since(&self, from: usize, beginning: &[u8]) -> Option<usize> {
        let written = self.written.lock().unwrap();
        let is_it = |event: &Event| matches!(event, Event::Sent(bytes) if bytes.starts_with(beginning));
        written.events[from..].iter().position(is_it).map(|at| from + at)
    }

    /// Takes the record. Fails if an operation could not be recorded.
    pub(crate) fn events(&self) -> Vec<Event> {
        let mut written = self.written.lock().unwrap();
        assert_eq!(written.unknown, [] as [String; 0], "operations that the recorder cannot record");
        written.look_at_maps();
        std::mem::take(&mut written.events)
    }

    /// Starts a program.
    pub(crate) fn start(
        &self,
        program: &Path,
        arguments: &[String],
        environment: &[(&str, &str)],
    ) -> Running {
        let mut command = Command::new("sh");
        command.args(["-c", "kill -STOP $$; exec \"$0\" \"$@\""]).arg(program).args(arguments);
        command.envs(environment.iter().copied());
        let log = File::options().create(true).append(true).open(self.root.with_extension("log")).unwrap();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
        let (send, started) = mpsc::channel();
        let recorder = self.clone();
        let recording = std::thread::spawn(move || {
            #[expect(clippy::zombie_processes, reason = "it is waited for by ptrace, in `follow`")]
            let mut child = command.spawn().unwrap();
            send.send((child.id(), child.stdin.take(), child.stdout.take().unwrap())).unwrap();
            drop(send);
            let main = Pid::from_raw(child.id().cast_signed());
            until_stopped(main);
            let options = Options::PTRACE_O_TRACECLONE
                | Options::PTRACE_O_TRACEFORK
                | Options::PTRACE_O_TRACEVFORK
                | Options::PTRACE_O_TRACEEXEC
                | Options::PTRACE_O_TRACESYSGOOD
                | Options::PTRACE_O_EXITKILL;
            ptrace::seize(main, options).unwrap();
            nix::sys::signal::kill(main, Signal::SIGCONT).unwrap();
            recorder.follow(main)
        });
        let (pid, stdin, stdout) = started.recv().unwrap();
        Running { pid, stdin, stdout, recording }
    }

    fn follow(&self, main: Pid) -> Option<i32> {
        let mut calls: HashMap<Pid, Call> = HashMap::new();
        let mut code = None;
        // Waits only for children of this thread, because other threads wait for their own children.
        let own = WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD;
        while let Ok(status) = waitpid(None::<Pid>, Some(own)) {
            match status {
                WaitStatus::PtraceSyscall(thread) => {
                    match calls.remove(&thread) {
                        Some(call) => self.done(thread, call),
                        None => drop(self.begun(thread).map(|call| calls.insert(thread, call))),
                    }
                    let _ = ptrace::syscall(thread, None);
                }
                WaitStatus::Exited(thread, of) => {
                    calls.remove(&thread);
                    code = if thread == main { Some(of) } else { code };
                }
                WaitStatus::Signaled(thread, ..) => drop(calls.remove(&thread)),
                WaitStatus::Stopped(thread, signal) => {
                    let handed =
                        Some(signal).filter(|signal| !matches!(signal, Signal::SIGSTOP | Signal::SIGTRAP));
                    let _ = ptrace::syscall(thread, handed);
                }
                WaitStatus::PtraceEvent(thread, ..) => drop(ptrace::syscall(thread, None)),
                _ => {}
            }
        }
        code
    }
}

fn until_stopped(process: Pid) {
    for _ in 0..60_000 {
        let stat = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
        if stat.lines().any(|line| line.starts_with("State:") && line.contains('T')) {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("the program does not begin");
}

/// A system call that has begun, with the state from before the call.
struct Call {
    number: i64,
    arguments: [u64; 6],
    /// The names that the call concerns.
    entries: Vec<NamedEntry>,
}

/// A name in a directory below the root, and the inode that it named before the call.
#[derive(Clone, Debug)]
struct NamedEntry {
    directory: Id,
    name: String,
    path: PathBuf,
    before: Option<u64>,
}

#[cfg(target_arch = "x86_64")]
fn registers(thread: Pid) -> Option<(i64, [u64; 6], i64)> {
    let r = ptrace::getregs(thread).ok()?;
    Some((r.orig_rax.cast_signed(), [r.rdi, r.rsi, r.rdx, r.r10, r.r8, r.r9], r.rax.cast_signed()))
}

#[cfg(target_arch = "aarch64")]
fn registers(thread: Pid) -> Option<(i64, [u64; 6], i64)> {
    let r = ptrace::getregset::<ptrace::regset::NT_PRSTATUS>(thread).ok()?.regs;
    Some((r[8].cast_signed(), [r[0], r[1], r[2], r[3], r[4], r[5]], r[0].cast_signed()))
}

fn memory(thread: Pid, at: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    let read = File::open(format!("/proc/{thread}/mem")).and_then(|mem| mem.read_at(&mut bytes, at));
    bytes.truncate(read.unwrap_or(0));
    bytes
}

/// Reads a string that ends with a zero byte.
fn text(thread: Pid, at: u64) -> String {
    let mut bytes = Vec::new();
    // Reads at most to the end of a page at a time, because the next page may not be mapped.
    while bytes.len() < 8192 {
        let from = at + bytes.len() as u64;
        let more = memory(thread, from, 4096 - from as usize % 4096);
        let end = more.iter().position(|byte| *byte == 0);
        bytes.extend_from_slice(&more[..end.unwrap_or(more.len())]);
        if end.is_some() || more.is_empty() {
            break;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn link_of(thread: Pid, fd: u64) -> PathBuf {
    format!("/proc/{thread}/fd/{}", fd as u32).into()
}

/// A field of `/proc/PID/fdinfo/FD`.
fn fd_field(thread: Pid, fd: u64, field: &str, radix: u32) -> u64 {
    let info = std::fs::read_to_string(format!("/proc/{thread}/fdinfo/{}", fd as u32)).unwrap_or_default();
    let found = info.lines().find_map(|line| line.strip_prefix(field));
    found.and_then(|value| u64::from_str_radix(value.trim(), radix).ok()).unwrap_or(0)
}

impl Recorder {
    fn named_entry(&self, thread: Pid, at: Option<u64>, path: u64) -> Option<NamedEntry> {
        let path = text(thread, path);
        let base = match at {
            Some(fd) if fd as i32 != libc::AT_FDCWD => link_of(thread, fd),
            _ => format!("/proc/{thread}/cwd").into(),
        };
        let whole = std::fs::read_link(base).ok()?.join(path);
        let parent = whole.parent()?.canonicalize().ok()?;
        if !parent.starts_with(&self.root) {
            return None;
        }
        let name = whole.file_name()?.to_str()?.to_owned();
        let path = parent.join(&name);
        let directory = std::fs::metadata(&parent).ok()?.ino();
        let directory = *self.written.lock().unwrap().ids.get(&directory)?;
        Some(NamedEntry { directory, before: meta(&path).map(|meta| meta.ino()), name, path })
    }

    /// The file of a descriptor, if it is below the root.
    fn file(&self, thread: Pid, fd: u64) -> Option<(Id, PathBuf)> {
        let link = link_of(thread, fd);
        let path = std::fs::read_link(&link).ok()?;
        let id = path.starts_with(&self.root).then(|| std::fs::metadata(&link).ok()).flatten()?.ino();
        self.written.lock().unwrap().ids.get(&id).map(|id| (*id, link))
    }

    fn begun(&self, thread: Pid) -> Option<Call> {
        let (number, arguments, _result) = registers(thread)?;
        // Before the kernel executes a call, its result is ENOSYS.
        #[cfg(target_arch = "x86_64")]
        if _result != -i64::from(libc::ENOSYS) {
            return None;
        }
        let [a, b, c, d, ..] = arguments;
        let at = |fd: u64, path: u64| self.named_entry(thread, Some(fd), path);
        let entries: Vec<Option<NamedEntry>> = match number {
            libc::SYS_openat | libc::SYS_openat2 => {
                let flags = match number {
                    libc::SYS_openat => c,
                    _ => u64::from_ne_bytes(memory(thread, c, 8).try_into().unwrap_or_default()),
                };
                if flags as i32 & (libc::O_CREAT | libc::O_TRUNC) != 0 { vec![at(a, b)] } else { vec![] }
            }
            libc::SYS_mkdirat | libc::SYS_unlinkat | libc::SYS_fchmodat => vec![at(a, b)],
            libc::SYS_renameat | libc::SYS_renameat2 | libc::SYS_linkat => vec![at(a, b), at(c, d)],
            libc::SYS_symlinkat => vec![at(b, c)],
            libc::SYS_truncate | libc::SYS_setxattr | libc::SYS_lsetxattr | libc::SYS_removexattr => {
                vec![self.named_entry(thread, None, a)]
            }
            #[cfg(target_arch = "x86_64")]
            libc::SYS_open if b as i32 & (libc::O_CREAT | libc::O_TRUNC) != 0 => {
                vec![self.named_entry(thread, None, a)]
            }
            #[cfg(target_arch = "x86_64")]
            libc::SYS_creat | libc::SYS_mkdir | libc::SYS_rmdir | libc::SYS_unlink | libc::SYS_chmod => {
                vec![self.named_entry(thread, None, a)]
            }
            #[cfg(target_arch = "x86_64")]
            libc::SYS_rename | libc::SYS_link => {
                vec![self.named_entry(thread, None, a), self.named_entry(thread, None, b)]
            }
            #[cfg(target_arch = "x86_64")]
            libc::SYS_symlink => vec![self.named_entry(thread, None, b)],
            libc::SYS_write | libc::SYS_writev | libc::SYS_sendto => {
                self.sending(thread, number, arguments);
                vec![]
            }
            _ => vec![],
        };
        Some(Call { number, arguments, entries: entries.into_iter().flatten().collect() })
    }

    /// Records bytes that are sent to a client. The acknowledgement counts from the beginning of the call.
    fn sending(&self, thread: Pid, number: i64, [fd, at, ..]: [u64; 6]) {
        let Ok(to) = std::fs::read_link(link_of(thread, fd)) else { return };
        let to = to.to_string_lossy();
        if !(to.starts_with("socket:") || fd == 1 && to.starts_with("pipe:")) {
            return;
        }
        let bytes = match number {
            libc::SYS_writev => {
                let first = u64::from_ne_bytes(memory(thread, at, 8).try_into().unwrap_or_default());
                memory(thread, first, 16)
            }
            _ => memory(thread, at, 16),
        };
        self.written.lock().unwrap().push(Event::Sent(bytes));
    }

    fn done(&self, thread: Pid, call: Call) {
        let Some((.., result)) = registers(thread) else { return };
        if result < 0 {
            return;
        }
        let [a, b, c, d, ..] = call.arguments;
        match call.number {
            libc::SYS_write
            | libc::SYS_writev
            | libc::SYS_pwrite64
            | libc::SYS_pwritev
            | libc::SYS_pwritev2
            | libc::SYS_sendfile => {
                let at = match call.number {
                    libc::SYS_pwrite64 | libc::SYS_pwritev | libc::SYS_pwritev2 => Some(d),
                    _ => None,
                };
                self.wrote(thread, a, at, result);
            }
            libc::SYS_copy_file_range | libc::SYS_splice => {
                let at = if d == 0 { None } else { Some(d) };
                // The kernel has already advanced the offset to which the pointer points.
                let at = at.map(|at| {
                    let after = u64::from_ne_bytes(memory(thread, at, 8).try_into().unwrap_or_default());
                    after.saturating_sub(result as u64)
                });
                self.wrote(thread, c, at, result);
            }
            libc::SYS_ftruncate | libc::SYS_fallocate => {
                let Some((id, link)) = self.file(thread, a) else { return };
                if call.number == libc::SYS_fallocate && b & !1 != 0 {
                    self.unknown(format!("fallocate of mode {b}"));
                }
                // The ledger files in `operations` have many megabytes, and no process reads them after their server has ended. Therefore they are
                // not recorded.
                let path = std::fs::read_link(&link).unwrap_or_default();
                if path.components().any(|part| part.as_os_str() == "operations") {
                    return;
                }
                let length = std::fs::metadata(link).map_or(0, |meta| meta.len() as usize);
                self.written.lock().unwrap().op(Op::Truncate { id, length });
            }
            libc::SYS_fsync | libc::SYS_fdatasync => {
                if let Some((id, _)) = self.file(thread, a) {
                    let is_data_only = call.number == libc::SYS_fdatasync;
                    self.written.lock().unwrap().push(Event::Sync { id, is_data_only });
                }
            }
            libc::SYS_sync | libc::SYS_syncfs => self.written.lock().unwrap().push(Event::SyncAll),
            libc::SYS_fsetxattr | libc::SYS_fremovexattr => {
                let value = (call.number == libc::SYS_fsetxattr).then(|| memory(thread, c, d as usize));
                if let Some((id, _)) = self.file(thread, a) {
                    let name = text(thread, b);
                    self.written.lock().unwrap().op(Op::Attribute { id, name, value });
                }
            }
            libc::SYS_fchmod => {
                if let Some((id, link)) = self.file(thread, a) {
                    self.mode(id, &link);
                }
            }
            libc::SYS_mmap => {
                let is_shared = d as i32 & libc::MAP_SHARED != 0 && c as i32 & libc::PROT_WRITE != 0;
                if is_shared {
                    self.mapped(thread, call.arguments[4]);
                }
            }
            _ => self.named(thread, &call, result),
        }
    }

    fn unknown(&self, what: String) {
        self.written.lock().unwrap().unknown.push(what);
    }

    fn mode(&self, id: Id, path: &Path) {
        let mode = std::fs::metadata(path).map_or(0, |meta| meta.permissions().mode() & 0o7777);
        self.written.lock().unwrap().op(Op::Mode { id, mode });
    }

    /// Records a write by any system call. The bytes are read from the file.
    fn wrote(&self, thread: Pid, fd: u64, at: Option<u64>, count: i64) {
        let Some((id, link)) = self.file(thread, fd) else { return };
        let at = at.unwrap_or_else(|| fd_field(thread, fd, "pos:", 10).saturating_sub(count as u64));
        let mut bytes = vec![0; count as usize];
        let read = File::open(&link).and_then(|file| file.read_exact_at(&mut bytes, at));
        if let Err(why) = read {
            self.unknown(format!("a write to `{}`: {why}", link.display()));
        }
        let flags = fd_field(thread, fd, "flags:", 8) as i32;
        let mut written = self.written.lock().unwrap();
        written.op(Op::Write { id, at: at as usize, bytes: bytes.into() });
        if flags & libc::O_DSYNC != 0 {
            written.push(Event::Flushed(id));
        }
    }

    fn mapped(&self, thread: Pid, fd: u64) {
        let Some((id, link)) = self.file(thread, fd) else { return };
        let name = std::fs::read_link(&link).unwrap();
        let name = name.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let mut written = self.written.lock().unwrap();
        if MAPPED.contains(&name) && !written.mapped.iter().any(|(of, ..)| *of == id) {
            let file = File::open(&link).unwrap();
            let mut seen = vec![0; file.metadata().unwrap().len() as usize];
            file.read_exact_at(&mut seen, 0).unwrap();
            written.mapped.push((id, file, seen));
        }
    }

    /// Calls that create, change or remove names.
    fn named(&self, thread: Pid, call: &Call, result: i64) {
        let mut entries = call.entries.iter();
        let Some(first) = entries.next() else { return };
        let second = entries.next();
        let mut written = self.written.lock().unwrap();
        let of = |written: &Written, ino: Option<u64>| ino.and_then(|ino| written.ids.get(&ino).copied());
        let naming = |entry: &NamedEntry, before, after| Naming {
            directory: entry.directory,
            name: entry.name.clone(),
            before,
            after,
        };
        let before = of(&written, first.before);
        match call.number {
            libc::SYS_openat | libc::SYS_openat2 => self.opened(&mut written, thread, first, result as u64),
            libc::SYS_mkdirat => make_directory(&mut written, first),
            libc::SYS_unlinkat => written.op(Op::Name(vec![naming(first, before, None)])),
            libc::SYS_renameat | libc::SYS_renameat2 => {
                let is_exchange = call.number == libc::SYS_renameat2 && call.arguments[4] & 2 != 0;
                rename(&mut written, first, second, is_exchange);
            }
            libc::SYS_linkat => {
                if let Some(second) = second {
                    written.op(Op::Name(vec![naming(second, None, before)]));
                }
            }
            libc::SYS_fchmodat => {
                drop(written);
                before.into_iter().for_each(|id| self.mode(id, &first.path));
            }
            #[cfg(target_arch = "x86_64")]
            libc::SYS_open | libc::SYS_creat => self.opened(&mut written, thread, first, result as u64),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_mkdir => make_directory(&mut written, first),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_rmdir | libc::SYS_unlink => written.op(Op::Name(vec![naming(first, before, None)])),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_rename => rename(&mut written, first, second, false),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_link => {
                if let Some(second) = second {
                    written.op(Op::Name(vec![naming(second, None, before)]));
                }
            }
            #[cfg(target_arch = "x86_64")]
            libc::SYS_chmod => {
                drop(written);
                before.into_iter().for_each(|id| self.mode(id, &first.path));
            }
            other => written.unknown.push(format!("call {other} on `{}`", first.path.display())),
        }
    }

    fn opened(&self, written: &mut Written, thread: Pid, entry: &NamedEntry, fd: u64) {
        let Ok(meta) = std::fs::metadata(link_of(thread, fd)) else { return };
        match entry.before {
            None => {
                let id = written.make(&meta);
                written.op(Op::Name(vec![Naming {
                    directory: entry.directory,
                    name: entry.name.clone(),
                    before: None,
                    after: Some(id),
                }]));
            }
            // The file existed before the call. If the call truncated the file, the file is empty now.
            Some(ino) => {
                let is_cut = fd_field(thread, fd, "flags:", 8) as i32 & libc::O_ACCMODE != libc::O_RDONLY;
                if let Some(id) = written.ids.get(&ino).copied().filter(|_| is_cut && meta.len() == 0) {
                    written.op(Op::Truncate { id, length: 0 });
                }
            }
        }
    }
}

fn meta(path: &Path) -> Option<std::fs::Metadata> {
    std::fs::symlink_metadata(path).ok()
}

fn make_directory(written: &mut Written, entry: &NamedEntry) {
    let Some(meta) = meta(&entry.path) else { return };
    let id = written.make(&meta);
    let (directory, name) = (entry.directory, entry.name.clone());
    written.op(Op::Name(vec![Naming { directory, name, before: None, after: Some(id) }]));
}

fn rename(written: &mut Written, from: &NamedEntry, to: Option<&NamedEntry>, is_exchange: bool) {
    let id =
        |written: &Written, entry: &NamedEntry| entry.before.and_then(|ino| written.ids.get(&ino).copied());
    let Some(to) = to else {
        written.unknown.push(format!("`{}` leaves the directory", from.path.display()));
        return;
    };
    let (moved, replaced) = (id(written, from), id(written, to));
    let back = replaced.filter(|_| is_exchange);
    let naming = |entry: &NamedEntry, before, after| Naming {
        directory: entry.directory,
        name: entry.name.clone(),
        before,
        after,
    };
    written.op(Op::Name(vec![naming(from, moved, back), naming(to, replaced, moved)]));
}
