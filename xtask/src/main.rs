//! `cargo xtask`: tests, tidy, campaigns, benchmarks.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "this is a command-line tool")]

mod answers;
mod bench;
mod campaign;
mod judges;
mod mutants;
mod packages;
mod peers;
mod site;
mod test;

use std::process::ExitCode;

const HELP: &str = "\
cargo xtask COMMAND

  test [--no-packages]  everything that has to pass: packages, format, lints, all tests;
                        --no-packages installs nothing and does not check which packages are missing
  tidy                  the rules of the repository, with what to do about each violation
  bench NAME [--json] [--small] [--runs DIR] [--no-record]
                        measure Enfilade and the programs that it is compared with, and write a record into bench/runs; exits with 1 when a
                        goal does not hold or something is not measured; --small is a short run without a record; --runs writes the record into
                        another directory; run it as root, on Debian, while nothing else runs on the machine; it takes minutes, and about an
                        hour for access, certs and growth-revocations
  bench all [--install]
                        run every benchmark for which bench/runs has no record of this source; this takes hours; if the run is stopped, the next
                        run measures the remaining benchmarks; --install first installs the programs that Enfilade is compared with (as root on
                        Debian): packages, etcd, Open Policy Agent, OpenFGA and oauth2-proxy (with go, into target/peers), and Keystone
  certs DIR [--n N]     make a directory of N realistic certificates with their keys (default: 25,000)
  answers [--keep DIR] [--accept]
                        compare the responses to thousands of requests over every face with the recorded responses; --keep writes all answers in
                        full into a new directory, to compare two builds with diff; --accept records the answers of this build
  acls [--n N]          random ACLs and principals: the evaluator agrees with a naive one
  authzen               send the cases of the AuthZEN scenario also to OpenFGA: this shows that the cases do not fit only this server; needs openfga
  bitflip [--n N]       flip bits of a store: the same answer, a refusal, or the end of the process
  browser [--n N]       Chromium accepts the certificate of each of N names out of a thousand; needs chromium and certutil
  canary [--n N]        used secrets are not found in memory, core, log and data
  clocks [--n N]        a wall clock set ahead and back at random: no revoked token becomes valid again
  crash                 every method that changes files, with a crash or an error at each system call: nothing is left incomplete
  damage [--n N]        damage a store or its small files N times, and run commands and a server on it: no process ends by a signal, no answer is
                        wrong, and each error names a next step
  explain [--n N]       random requests: the explanation and the review agree with the response
  framing [--n N]       mutated requests: the listener and the HTTP library agree on where each request begins
  fleet-clients [--n N]  rclone copies N files, and OpenStack's client and proxmoxer work, behind HAProxy while members and machines of etcd are killed
  fleet-model           the protocol of a fleet in every order of its steps: no outdated fact grants anything
  freshness             every order of every step of the freshness protocol
  fuzz [--n N]          mutated tokens, payloads and bodies: none is accepted as another one
  idle                  thousands of idle connections: other clients are served
  judges identity [NAME…] [--binary PATH]
                        OpenStack's own tests of the Identity API (tempest, Keystone's plugin for tempest), against this server and against Keystone;
                        the command installs the tests and Keystone; a case that passes with Keystone passes with this server, or
                        interop/judges/identity_differences.txt says why not; the results are stored in bench/runs; needs the network
  judges wire [NAME…] [--binary PATH]
                        conformance testers of other projects for TLS, HTTP and WebDAV servers (h2spec, litmus, rclone's tests, sslyze,
                        testssl, tlslite-ng, webdav4's tests); all except litmus, rclone and testssl are installed by the command; the results are
                        stored in bench/runs; needs go and the network
  kill-loop [--n N]     kill -9 at random and at every write of a commit: nothing acknowledged is lost
  lending [--n N]       random chains of delegated credentials and calls of every route: none exceeds or outlives its first link
  messages [--json]     every text of the product that a person can see, with its file, line and function
  mutants [--only PATH…] [--minutes N] [--shard K/N] [--again] [--accepted] [--interop] [--judges NAME…] [--seconds N] [--jobs N]
          [--build] [--report] [--json]
                        small changes of doors, passage, facts and sources, each switched on alone: a test fails, or xtask/mutants.toml
                        says why no test has to fail; needs cargo-mutants. A mutant with a result in xtask/mutants.jsonl is not run again while
                        the code of its file is unchanged; --again runs survivors without a reason once more, and --accepted every survivor;
                        --interop also runs the tests of the binary on survivors; --judges NAME runs only test programs with NAME in their names;
                        --seconds N leaves out tests that need more processor time; --jobs N judges N mutants at the same time; --build only
                        builds the test programs; --report only shows the known results
  nemesis [--minutes N] servers of a fleet, machines of etcd and their connections fail at random: no stale grant, no lost change
  nemesis-in-process [--minutes N]  the same with members in one process, which only lose their connections to etcd
  on-fleet [--n N]      the tests of single servers, with each server as the first of N members of a fleet
  image [--out DIR] [--binary PATH] [--compression xz|gzip]
                        only the image for containers, with the options of `package`
  package [--out DIR] [--binary PATH] [--compression xz|gzip] [--sign KEY]
                        the files of a release in target/package: a Debian package, an image for containers (OCI), the list of components (CycloneDX), the
                        provenance (in-toto), and checksums; two builds of one commit are the same; --binary takes a program that was built
                        already; gzip is faster and larger than xz, the default; --sign signs the checksums with a key of minisign; needs Debian's
                        dpkg-dev and binutils
  operations [--n N]    servers are killed while they count operations: running servers are counted, no operation begins in a closed datastore
  planted [--minutes N] rules of a fleet are left out in copies of the source, one at a time: the campaign `nemesis` finds each
                        of these faults in N minutes
  power-cuts [--n N]    power cuts at any moment: of N states that a disk may have kept, each has everything acknowledged and nothing incomplete
  race [--n N]          servers and the command line on one directory: no grant after a revocation
  reloads [--n N]       certificate files are added, changed and removed during handshakes: names that always have a certificate are always served
  page                  the page for browsers, driven in a real Chromium
  rolling [--n N]       a fleet of an older program, which is built first, is updated member by member: after each step, N changes are made, and all
                        members obey each change
  scoreboard            write docs/benchmarks.md, its pictures and docs/campaigns.md from the records in bench/runs
  site                  the documentation as web pages with a search, in target/site/book; needs mdBook, which it installs if there is none
  sessions [--n N]      random sessions, revocations and key rotations, against a model that scans everything
  squeeze [--n N]       the most expensive input of each parser, N times: memory grows by 64 MiB at most, and other clients do not wait
  subrequests [--n N]   tokens are deleted while proxies ask about requests with them: none is accepted afterwards
  swaps [--n N]         a symlink replaces a directory during every method: none leaves the root
  timing [--n N]        refusals are alike in bytes and in time; a difference of 5 µs would be found
  upgrade [--n N]       a store of format 2 with N records is upgraded: how many records a second, and in how much memory
  uris [--n N]          odd paths through each proxy: the path that was judged is the path that the application opens
  verdicts [--n N]      the same random questions by every protocol, while roles and ACLs change: all get the same verdict
  well-formed [--n N]   random bodies through PROPPATCH and LOCK: what comes back is XML that other parsers read, with the same value
  trees [--n N]         COPY, MOVE and DELETE of whole trees while another client acts between any two steps: nothing is lost
  pages [--binary PATH] write the tables of the reference pages in docs/ from what `enfilade reference` says
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["help"] | [.., "--help" | "-h"] | [] => {
            print!("{HELP}");
            Ok(())
        }
        ["test"] => test::run(test::Packages::Install),
        ["test", "--no-packages"] => test::run(test::Packages::Leave),
        ["tidy"] => tidy(),
        ["answers", options @ ..] => answers::run(options),
        ["bench", options @ ..] => bench::run(options),
        ["certs", place] => bench::run(&["make-certs", place, "25000"]),
        ["certs", place, "--n", count] => bench::run(&["make-certs", place, count]),
        ["judges", name, options @ ..] if judges::knows(name) => judges::run(name, options),
        ["package", options @ ..] => package(options),
        ["image", options @ ..] => image(options),
        ["messages"] => messages(false),
        ["messages", "--json"] => messages(true),
        ["mutants", options @ ..] => mutants::run(options),
        ["scoreboard"] => xtask::figures::write(&xtask::root()),
        ["site"] => site::run(),
        [name, options @ ..] if campaign::knows(name) => campaign::run(name, options),
        ["pages"] => xtask::pages::write(&xtask::root(), None),
        ["pages", "--binary", binary] => xtask::pages::write(&xtask::root(), Some(binary.as_ref())),
        other => Err(format!("no command `{}`\n\n{HELP}", other.join(" "))),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn package(options: &[&str]) -> Result<(), String> {
    for path in xtask::package::run(options)? {
        println!("{}", path.display());
    }
    Ok(())
}

fn image(options: &[&str]) -> Result<(), String> {
    println!("{}", xtask::package::image(options)?.display());
    Ok(())
}

fn messages(as_json: bool) -> Result<(), String> {
    print!("{}", xtask::messages::list(&xtask::root(), as_json)?);
    Ok(())
}

fn tidy() -> Result<(), String> {
    let findings = xtask::tidy::check(&xtask::root());
    for finding in &findings {
        println!("{finding}");
    }
    println!("{}", xtask::tidy::sizes(&xtask::root()));
    if let Some(unknown) = xtask::figures::unknown_changes(&xtask::root()) {
        println!("tidy: {unknown}");
    }
    match findings.len() {
        0 => {
            println!("tidy: every rule holds");
            Ok(())
        }
        count => Err(format!("tidy: {count} findings")),
    }
}
