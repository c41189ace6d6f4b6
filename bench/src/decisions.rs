//! Measures the cost of decisions for other servers: of a subrequest of a proxy, and of questions in batches (AuthZEN).

mod peers;

use crate::Failure;
use crate::goals::Goal;
use crate::report::Report;
use crate::samples::Samples;
use crate::scratch::Scratch;
use crate::served::{Client, Server, request_as};
use crate::stores::{self, Store, TOKENS_EACH};
use enfilade_facts::tables::{Application, ApplicationHost, Assignment, AssignmentKey, Who};
use enfilade_facts::vocabulary::{ApplicationName, HostName, Role, UserId};
use enfilade_facts::{Change, Source};
use std::net::Ipv4Addr;
use std::os::unix::net::UnixStream;
use std::path::Path;

const PAIRS: usize = 15;
/// The number of pairs of subrequests. The CPU time of one turn varies by 12 % on shared machines, so a narrow interval needs many pairs.
const SUBREQUEST_PAIRS: usize = 75;
const CONNECTIONS: u64 = 4;
/// The number of requests on each connection in a turn.
const EACH: usize = 25_000;
/// The numbers of API tokens.
const TOKENS: [u64; 2] = [1_000, 1_000_000];
/// The number of questions in a batch.
const BATCH: usize = 1_000;
/// The number of batches in a turn.
const BATCHES: usize = 100;
/// The number of users in a batch.
const USERS: u64 = 10;

pub(crate) fn goals() -> Vec<Goal> {
    let tokens = TOKENS.map(|tokens| tokens.to_string()).join(" and ");
    let subrequest = format!(
        "The server has {} API tokens with generated secrets, and an application on which each of {CONNECTIONS} users has a role. A subrequest asks \
         over a Unix socket about a request with a token; `/.well-known/enfilade` is requested over TCP without TLS, with the same token. In a pair of \
         turns, {CONNECTIONS} connections send {EACH} requests each, one after the other; each connection has one token. {SUBREQUEST_PAIRS} pairs; the order \
         alternates",
        TOKENS[1]
    );
    let batch = format!(
        "The server has {tokens} API tokens. One connection over a Unix socket sends {BATCHES} batches of {BATCH} questions by AuthZEN, one after the \
         other; the questions are about {USERS} users who have a role on an application, and {BATCH} paths of it. The revision of the facts does not \
         change. {PAIRS} turns; the CPU time of a turn is divided by the number of questions"
    );
    let mut goals = vec![
        Goal::new(
            "subrequest-pairs",
            1.25,
            "times",
            "CPU time of a subrequest about a request to an application, divided by CPU time of `/.well-known/enfilade`",
            subrequest,
        ),
        Goal::new("authzen", 2.0, "µs", "CPU time of the server for one question in a batch", batch.clone()),
        Goal::new(
            "authzen-flat",
            1.1,
            "times",
            "CPU time for one question in a batch with 1000000 tokens, divided by CPU time with 1000 tokens",
            batch,
        ),
    ];
    goals.extend(peers::goals());
    goals
}

pub(crate) fn run(report: &mut Report, small: bool) -> Result<(), Failure> {
    let scratch = Scratch::new("decisions")?;
    let (mut sides, tokens) = (Vec::new(), if small { [100, 1_000] } else { TOKENS });
    for count in tokens {
        let place = scratch.path().join(count.to_string());
        std::fs::create_dir(&place)?;
        sides.push((count, Side::start(&place, count)?));
    }
    let [(few, few_side), (many, many_side)] = sides.as_slice() else { return Err("no servers".into()) };
    subrequests(report, many_side, *many, small)?;
    let batches = if small { 3 } else { BATCHES };
    let (mut with_few, mut with_many) = (Samples::default(), Samples::default());
    for pair in 0..PAIRS {
        // The order of the two sides alternates.
        let (first, second) = if pair % 2 == 0 { (few_side, many_side) } else { (many_side, few_side) };
        let (one, other) = (first.batches(batches)?, second.batches(batches)?);
        let (of_few, of_many) = if pair % 2 == 0 { (one, other) } else { (other, one) };
        with_few.push(of_few);
        with_many.push(of_many);
        eprintln!(
            "pair {} of {PAIRS}: {of_few:.2} µs a question with few tokens, {of_many:.2} µs with many",
            pair + 1
        );
    }
    report.middle("AuthZEN, one question in a batch, server CPU", *few, &with_few, "µs");
    let of_many = report.middle("AuthZEN, one question in a batch, server CPU", *many, &with_many, "µs");
    report.goal("authzen", of_many);
    report.goal("authzen-flat", with_many.over(&with_few).mean());
    peers::run(report, scratch.path(), few_side, small)
}

/// A server with an application, and its decision listener.
struct Side {
    server: Server,
    socket: std::path::PathBuf,
}

impl Side {
    fn start(place: &Path, tokens: u64) -> Result<Self, Failure> {
        let facts = place.join("facts");
        let store = Store::generated(&facts, tokens)?;
        furnish(&store)?;
        drop(store);
        let (data, socket) = (place.join("data"), place.join("decisions.sock"));
        stores::data_directory(&data, &facts)?;
        let listen = format!("unix:{}", socket.display());
        let server = Server::start(&data, &[("ENFILADE_DECISIONS__LISTEN", &listen)])?;
        server.settle()?;
        Ok(Side { server, socket })
    }

    /// Sends batches. Returns the server's CPU time for a question, in microseconds.
    fn batches(&self, count: usize) -> Result<f64, Failure> {
        let mut client = Client::new(UnixStream::connect(&self.socket)?);
        let evaluations: Vec<serde_json::Value> = (0..BATCH)
            .map(|n| {
                let user = format!("user{}@local", n as u64 % USERS);
                serde_json::json!({
                    "subject": { "type": "user", "id": user }, "resource": { "type": "wiki", "id": format!("p{n}") },
                })
            })
            .collect();
        let body =
            serde_json::json!({ "action": { "name": "read" }, "evaluations": evaluations }).to_string();
        let request = format!(
            "POST /access/v1/evaluations HTTP/1.1\r\nHost: pdp\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut ask = || -> Result<(), Failure> {
            let status = client.get(request.as_bytes())?;
            let permitted = client.text().matches("\"decision\":true").count();
            if (status, permitted) == (200, BATCH) {
                Ok(())
            } else {
                Err(format!("{status}, {permitted} permitted").into())
            }
        };
        ask()?;
        let before = self.server.cpu_nanos()?;
        (0..count).try_for_each(|_| ask())?;
        Ok((self.server.cpu_nanos()? - before) / (count * BATCH) as f64 / 1e3)
    }
}

/// Creates an application, and gives the first users a role on it.
fn furnish(store: &Store) -> Result<(), Failure> {
    let (name, host): (ApplicationName, HostName) = ("wiki".parse()?, "wiki.example.com".parse()?);
    let mut change = Change::new(stores::audit("furnish"));
    change.put(&name, &Application { hosts: vec![host.clone()], ..Application::default() });
    change.put(&host, &ApplicationHost(name));
    for user in 0..USERS.max(CONNECTIONS) {
        let who = Who::User(UserId::from_bytes(stores::id(1, user)));
        let key = AssignmentKey { path: "/application/wiki".parse()?, who };
        change.put(&key, &Assignment { roles: vec![(Role::ApplicationUser, true)], fault: None });
    }
    store.lmdb.commit(&change)?;
    Ok(())
}

fn subrequests(report: &mut Report, side: &Side, tokens: u64, small: bool) -> Result<(), Failure> {
    let each = if small { 500 } else { EACH };
    let credential = |n: u64| (format!("user{n}@local!t0"), stores::secret_of(n * TOKENS_EACH));
    let open: Vec<Vec<u8>> = (0..CONNECTIONS)
        .map(&credential)
        .map(|(tokenid, secret)| request_as("/.well-known/enfilade", &tokenid, &secret))
        .collect();
    let asks: Vec<Vec<u8>> = (0..CONNECTIONS)
        .map(credential)
        .map(|(tokenid, secret)| {
            let described = "X-Forwarded-Method: GET\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: wiki.example.com\r\n\
                X-Forwarded-Uri: /page\r\nX-Forwarded-For: 192.0.2.7\r\nX-Enfilade-Application: wiki";
            let line = format!("Authorization: PBSAPIToken={tokenid}:{secret}");
            format!("GET /decide/nginx HTTP/1.1\r\nHost: localhost\r\n{described}\r\n{line}\r\n\r\n").into_bytes()
        })
        .collect();
    let turn = |asks_for_decisions: bool| -> Result<f64, Failure> {
        let before = side.server.cpu_nanos()?;
        std::thread::scope(|scope| {
            let requests = if asks_for_decisions { &asks } else { &open };
            let run = |request: &[u8]| -> Result<(), String> {
                let send = |get: &mut dyn FnMut() -> Result<u16, Failure>| -> Result<(), Failure> {
                    for _ in 0..each {
                        match get()? {
                            200 => {}
                            status => return Err(format!("answered with {status}").into()),
                        }
                    }
                    Ok(())
                };
                let sent = match asks_for_decisions {
                    true => UnixStream::connect(&side.socket).map_err(Failure::from).and_then(|stream| {
                        let mut client = Client::new(stream);
                        send(&mut || client.get(request))
                    }),
                    false => side
                        .server
                        .connect(Ipv4Addr::LOCALHOST)
                        .and_then(|mut client| send(&mut || client.get(request))),
                };
                sent.map_err(|why| why.to_string())
            };
            let running: Vec<_> = requests.iter().map(|request| scope.spawn(move || run(request))).collect();
            for one in running {
                one.join().map_err(|_| "a client ended")??;
            }
            Ok::<_, Failure>(())
        })?;
        Ok((side.server.cpu_nanos()? - before) / (each as u64 * CONNECTIONS) as f64 / 1e3)
    };
    turn(true)?;
    turn(false)?;
    let (mut without, mut with) = (Samples::default(), Samples::default());
    for pair in 0..SUBREQUEST_PAIRS {
        let (open, asked) = match pair % 2 {
            0 => (turn(false)?, turn(true)?),
            _ => {
                let asked = turn(true)?;
                (turn(false)?, asked)
            }
        };
        without.push(open);
        with.push(asked);
        eprintln!(
            "pair {} of {SUBREQUEST_PAIRS}: `/.well-known/enfilade` {open:.2} µs, a subrequest {asked:.2} µs",
            pair + 1
        );
    }
    report.middle("`/.well-known/enfilade` over TCP without TLS, server CPU", tokens, &without, "µs");
    report.middle("a subrequest over a Unix socket, server CPU", tokens, &with, "µs");
    let ratio = with.over(&without).mean();
    report.estimate("a subrequest to `/.well-known/enfilade`", tokens, ratio, "times");
    report.goal("subrequest-pairs", ratio);
    Ok(())
}
