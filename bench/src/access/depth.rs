//! Measures listings of the highest and the lowest directory of a chain of directories. The chain is as deep as the server permits. Also measures
//! requests with a path that is too deep, and COPY and DELETE of the whole chain.

use super::client::{Client, by_token};
use super::trees::{self, Acls};
use super::{Bench, How};
use crate::Failure;
use crate::report::Report;
use crate::samples::Samples;
use crate::scratch::Scratch;
use crate::served::Server;
use crate::stopwatch::now;
use enfilade_facts::limits::PATH_DEPTH_MAX;

/// The number of directories in the chain. The path of a file in the lowest directory has the maximum number of names.
const DIRECTORIES: usize = PATH_DEPTH_MAX - 1;
/// The number of names in a path that the server refuses as too deep.
const TOO_DEEP: usize = 100;
const TURNS: usize = 5;
/// The number of PROPFIND requests in a sample. A sample is the mean of its requests, because a single request is too short to be measured.
const REQUESTS: usize = 100;
const ACLS: Acls = Acls::Few;

/// The CPU and the elapsed time of a request, in milliseconds.
#[derive(Default)]
struct Costs {
    cpu: Samples,
    time: Samples,
}

impl Costs {
    /// Sends `count` requests, and adds the mean cost of one request.
    fn add(
        &mut self,
        server: &Server,
        count: usize,
        mut ask: impl FnMut() -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let (before, began) = (server.cpu_nanos()?, now());
        for _ in 0..count {
            ask()?;
        }
        self.time.push(began.elapsed().as_secs_f64() * 1e3 / count as f64);
        self.cpu.push((server.cpu_nanos()? - before) / 1e6 / count as f64);
        Ok(())
    }

    fn tell(&self, report: &mut Report, what: &str, n: usize) {
        report.middle(&format!("{what}, server CPU"), n as u64, &self.cpu, "ms");
        report.middle(&format!("{what}, time"), n as u64, &self.time, "ms");
    }
}

/// Makes a chain of directories in a separate datastore. Measures listings of the highest and the lowest directory, refused requests, and requests
/// for the whole chain.
pub(super) fn run(report: &mut Report) -> Result<(), Failure> {
    let scratch = Scratch::new("access-depth")?;
    let place = scratch.path().join("files");
    let lowest = trees::chain(&place, DIRECTORIES)?;
    let places = [(ACLS, place)];
    // `users` is empty. So the additional user, who may do everything, has the number 0.
    let bench = Bench { chosen: &[], places: &places, users: &[], scratch: &scratch };
    let server = bench.server(How::Heard)?;
    server.settle()?;
    listings(report, &server, &lowest)?;
    refused(report, &server)?;
    whole(report, &server)
}

fn connect(server: &Server) -> Result<Client, Failure> {
    Client::with(server.plain, by_token(0))
}

/// Measures listings of the lowest and of the highest directory of the chain, in turns.
fn listings(report: &mut Report, server: &Server, lowest: &str) -> Result<(), Failure> {
    let mut client = connect(server)?;
    let places = [(1, "chain"), (DIRECTORIES, lowest)];
    for (_, path) in places {
        // The server reads the directory for the first listing, and remembers the directory for the second listing.
        client.list(ACLS, path)?;
        client.list(ACLS, path)?;
    }
    let mut costs = [Costs::default(), Costs::default()];
    for _ in 0..TURNS {
        for (costs, (_, path)) in costs.iter_mut().zip(places) {
            costs.add(server, REQUESTS, || client.list(ACLS, path).map(drop))?;
        }
    }
    for (costs, (depth, _)) in costs.iter().zip(places) {
        costs.tell(report, "PROPFIND of a directory at this depth", depth);
    }
    Ok(())
}

/// Measures requests with a path that is too deep. The server refuses these requests.
fn refused(report: &mut Report, server: &Server) -> Result<(), Failure> {
    let mut client = connect(server)?;
    let path = format!("{}/chain{}", ACLS.name(), "/d".repeat(TOO_DEEP - 1));
    let mut costs = Costs::default();
    for _ in 0..TURNS {
        costs.add(server, REQUESTS, || expect(&mut client, ("PROPFIND", &path, "Depth: 1\r\n"), 400))?;
    }
    costs.tell(report, "PROPFIND of a path with too many names, refused", TOO_DEEP);
    Ok(())
}

/// Measures COPY and DELETE of the whole chain.
fn whole(report: &mut Report, server: &Server) -> Result<(), Failure> {
    let mut client = connect(server)?;
    let (from, to) = (format!("{}/chain", ACLS.name()), format!("{}/copied", ACLS.name()));
    let destination = format!("Destination: /dav/{to}\r\nDepth: infinity\r\n");
    let (mut copies, mut removals) = (Costs::default(), Costs::default());
    for _ in 0..TURNS {
        copies.add(server, 1, || expect(&mut client, ("COPY", &from, &destination), 201))?;
        removals.add(server, 1, || expect(&mut client, ("DELETE", &to, ""), 204))?;
    }
    copies.tell(report, "COPY of a chain of directories with a file in each", DIRECTORIES);
    removals.tell(report, "DELETE of a chain of directories with a file in each", DIRECTORIES);
    Ok(())
}

fn expect(
    client: &mut Client,
    (method, path, fields): (&str, &str, &str),
    status: u16,
) -> Result<(), Failure> {
    match client.status(method, path, fields)? {
        found if found == status => Ok(()),
        found => Err(format!("{method} of `{path}` is answered with {found}, and not with {status}").into()),
    }
}
