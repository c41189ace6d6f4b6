//! Measures starts of the real server with few and with many facts, from the start of the process to the first answers. The store is in the page
//! cache, or only on the disk.

use crate::Failure;
use crate::goals::Goal;
use crate::machine::read_bytes;
use crate::report::Report;
use crate::samples::Samples;
use crate::scratch::Scratch;
use crate::served::{Server, request_as};
use crate::stopwatch::now;
use crate::stores::{self, TOKENS_EACH, audit, id, secret_of};
use enfilade_facts::tables::{Assignment, AssignmentKey, Who};
use enfilade_facts::vocabulary::{Role, UserId};
use enfilade_facts::{Change, Source as _};
use enfilade_sources::lmdb::Lmdb;
use rustix::fs::{Advice, fadvise};
use std::fs::File;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

/// The numbers of tokens.
const TOKENS: [u64; 2] = [10_000, 1_000_000];
const TURNS: usize = 11;
/// The number of roles in a change.
const AT_ONCE: u64 = 20_000;
const GOAL: &str = "start-million";

pub(super) fn goal() -> Goal {
    let [few, many] = TOKENS;
    let workload = format!(
        "Two data directories: one with {many} tokens of {} users, one with {few} tokens of {} users. Each user has a role. The server is started \
         alternately with each of them, {TURNS} times each; the store is in the page cache. The time begins with the start of the process. A client \
         asks for `/.well-known/enfilade`, and after the answer for `/whoami` with a token. The time ends with the answer to `/whoami`. The value is \
         the mean of the {TURNS} ratios",
        many / TOKENS_EACH,
        few / TOKENS_EACH
    );
    let what = format!("time of a start with {many} tokens, divided by time of a start with {few} tokens");
    Goal::new(GOAL, 1.5, "times", what, workload)
}

pub(super) fn run(report: &mut Report, small: bool) -> Result<(), Failure> {
    let (tokens, turns) = if small { ([1_000, 10_000], 2) } else { (TOKENS, TURNS) };
    let scratch = Scratch::new("facts-starts")?;
    let mut cases = Vec::new();
    for tokens in tokens {
        cases.push(Case::make(scratch.path(), tokens)?);
    }
    for state in [State::Warm, State::Cold] {
        for turn in 0..turns {
            eprintln!("{} starts with few and with many facts, turn {} of {turns}", state.name(), turn + 1);
            let first = turn % cases.len();
            let (later, sooner) = cases.split_at_mut(first);
            sooner.iter_mut().chain(later).try_for_each(|case| case.start(state))?;
        }
        tell(report, state, &mut cases);
    }
    Ok(())
}

/// Where the store is before a start.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// In the page cache.
    Warm,
    /// Only on the disk. Other files, such as the program, are in the page cache.
    Cold,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            State::Warm => "warm",
            State::Cold => "cold",
        }
    }
}

/// The data directory of a server, and the costs of its starts.
struct Case {
    data: PathBuf,
    tokens: u64,
    starts: Starts,
}

/// The costs of starts.
#[derive(Default)]
struct Starts {
    /// Milliseconds until the server listens, until its first answer, and until it has admitted a token.
    until: [Samples; 3],
    /// The CPU until the server has admitted a token, in milliseconds.
    cpu: Samples,
    /// The data that the server read from the disk, in MiB.
    read: Samples,
}

impl Case {
    /// Makes a store. The first start is not measured, because the server then makes keys and a certificate.
    fn make(scratch: &Path, tokens: u64) -> Result<Self, Failure> {
        let (data, place) = (scratch.join(tokens.to_string()), scratch.join("facts"));
        let lmdb = Lmdb::open(&place)?;
        stores::fill(&lmdb, tokens, stores::keyed())?;
        let users = tokens / TOKENS_EACH;
        for first in (0..users).step_by(AT_ONCE as usize) {
            let mut change = Change::new(audit("roles"));
            for n in first..users.min(first + AT_ONCE) {
                let who = Who::User(UserId::from_bytes(id(1, n)));
                let key = AssignmentKey { path: format!("/datastore/store{}", n % 100).parse()?, who };
                change.put(&key, &Assignment { roles: vec![(Role::DatastoreReader, true)], fault: None });
            }
            lmdb.commit(&change)?;
        }
        drop(lmdb);
        stores::data_directory(&data, &place)?;
        let mut case = Case { data, tokens, starts: Starts::default() };
        case.start(State::Warm)?;
        case.starts = Starts::default();
        Ok(case)
    }

    fn start(&mut self, state: State) -> Result<(), Failure> {
        if state == State::Cold {
            forget(&self.data.join("facts"))?;
        }
        let n = self.tokens / 2;
        let tokenid = format!("user{}@local!t{}", n / TOKENS_EACH, n % TOKENS_EACH);
        let open = b"GET /.well-known/enfilade HTTP/1.1\r\nHost: localhost\r\n\r\n".as_slice();
        let guarded = request_as("/whoami", &tokenid, &secret_of(n));
        let [listens, answers, admits] = &mut self.starts.until;
        let began = now();
        let server = Server::start(&self.data, &[])?;
        listens.push(began.elapsed().as_secs_f64() * 1e3);
        let mut client = server.connect(Ipv4Addr::LOCALHOST)?;
        for (request, until) in [(open, answers), (guarded.as_slice(), admits)] {
            match client.get(request)? {
                200 => until.push(began.elapsed().as_secs_f64() * 1e3),
                status => return Err(format!("a server answered with {status} after its start").into()),
            }
        }
        self.starts.cpu.push(server.cpu_nanos()? / 1e6);
        self.starts.read.push(read_bytes(server.child.0.id())? / f64::from(1 << 20));
        Ok(())
    }
}

/// Writes the files of a store to the disk, and drops them from the page cache.
fn forget(store: &Path) -> Result<(), Failure> {
    for entry in std::fs::read_dir(store)? {
        let path = entry?.path();
        if path.is_file() {
            let file = File::open(path)?;
            file.sync_all()?;
            fadvise(&file, 0, None, Advice::DontNeed)?;
        }
    }
    Ok(())
}

/// Reports the starts in a state, and removes their samples.
fn tell(report: &mut Report, state: State, cases: &mut [Case]) {
    let of = |what: &str| format!("start of the server, {}, {what}", state.name());
    let all: Vec<(u64, Starts)> =
        cases.iter_mut().map(|case| (case.tokens, std::mem::take(&mut case.starts))).collect();
    for (tokens, starts) in &all {
        let [listens, answers, admits] = &starts.until;
        report.middle(&of("until it listens"), *tokens, listens, "ms");
        report.middle(&of("until its first answer"), *tokens, answers, "ms");
        report.middle(&of("until a token is admitted"), *tokens, admits, "ms");
        report.middle(&of("CPU until a token is admitted"), *tokens, &starts.cpu, "ms");
        if state == State::Cold {
            tell_read(report, &of("read from the disk"), *tokens, &starts.read);
        }
    }
    if let [(_, few), (many_tokens, many)] = all.as_slice() {
        let ([.., few_admits], [.., many_admits]) = (&few.until, &many.until);
        let time = many_admits.over(few_admits).mean();
        report.estimate(&of("until a token is admitted, many facts to few"), *many_tokens, time, "times");
        let cpu = many.cpu.over(&few.cpu).mean();
        report.estimate(&of("CPU, many facts to few"), *many_tokens, cpu, "times");
        if state == State::Warm {
            report.goal(GOAL, time);
        }
    }
}

/// Reports the number of bytes that a server read from the disk in cold starts. If the number is 0, the page cache was warm.
fn tell_read(report: &mut Report, what: &str, tokens: u64, read: &Samples) {
    let read = report.middle(what, tokens, read, "MiB");
    if read.value <= 0.0 {
        let why = "the server read nothing from a disk: put the temporary directory on a disk";
        report.missing(format!("{what}, {tokens} tokens"), why);
    }
}
