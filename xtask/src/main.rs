//! The one runner: test, tidy, campaigns.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "this is a command-line tool")]

mod answers;
mod bench;
mod campaigns;
mod judges;
mod mutants;
mod packages;
mod test;

use std::process::ExitCode;

const HELP: &str = "\
cargo xtask COMMAND

  test [--no-packages]  everything that has to pass: packages, format, lints, all tests;
                        --no-packages installs nothing and does not ask what is missing
  tidy                  the house's own rules, with what to do where one is broken
  bench NAME [--json] [--plot DIR]
                        measure, also what it is compared with; exits with 1 when a goal does not hold
  certs DIR [--n N]     make a directory of N realistic certificates with their keys (25,000 unless said)
  answers [--keep DIR] [--accept]
                        thousands of requests over every face are answered as it is recorded; --keep writes all answers in full into a new
                        directory, to compare two builds with diff; --accept records the answers of this build
  acls [--n N]          random ACLs and holders: the evaluator says what the rules say, read plainly
  bitflip [--n N]       flip bits of a store: the same answer, a refusal, or the end of the process
  browser [--n N]       Chromium takes the certificate of each of N names out of a thousand; needs chromium and certutil
  canary [--n N]        secrets that were used are nowhere in memory, core, log and data
  clocks [--n N]        a wall clock that is set ahead and back at random, and revocations of every kind: none comes back
  crash                 every verb that changes files, each system call the last or failing: nothing is left incomplete
  explain [--n N]       random questions: an explanation and a review say what the request is then answered
  framing [--n N]       random requests with bytes changed: what follows the bytes and the HTTP library agree on where each begins
  freshness             every order of every step of the freshness protocol
  fuzz [--n N]          nearly right tokens, payloads and bodies of logins: none is taken for what it is not
  idle                  thousands of connections that say nothing: the others are served
  judges wire [NAME…] [--binary PATH]
                        what others wrote to find faults of TLS, HTTP and WebDAV servers (h2spec, litmus, rclone's tests, sslyze,
                        testssl, tlslite-ng, webdav4's tests), installed by itself; kept in bench/runs; needs go and the network
  kill-loop [--n N]     kill -9 at random and at every write of a commit: nothing acknowledged is lost
  lending [--n N]       random chains of what was lent, and random calls of every route: nothing goes beyond it or outlives it
  mutants [--only PATH…] [--minutes N] [--shard K/N] [--again] [--interop] [--judges NAME…] [--seconds N] [--jobs N]
          [--build] [--report] [--json]
                        small changes of doors, passage, facts and sources, each switched on alone: a test fails, or xtask/mutants.toml
                        says why none has to; needs cargo-mutants. What xtask/mutants.jsonl says of a file whose code did not change is
                        not run again; --again runs survivors once more, --interop judges them by the binary, too, --judges NAME by
                        programs of that name only, --seconds N by tests that take no longer, --jobs N several at once, --build
                        builds and judges nothing, --report runs nothing
  operations [--n N]    servers that are killed while they count: who lives is counted, who is shut out does not begin
  power-cuts [--n N]    the power goes at any moment: of N states a disk may have kept, none lacks what was acknowledged, and none holds a half
  race [--n N]          servers and the command line on one directory: no grant after a revocation
  reloads [--n N]       certificates come, change and go under handshakes: those that stay are always served
  page                  the page for people, driven in a real Chromium
  sessions [--n N]      random sessions, revocations and turns of keys, against a model that scans everything
  squeeze [--n N]       the worst of each grammar, each N times: memory grows by 64 MiB at most, and others do not wait
  swaps [--n N]         a link takes a directory's place during every verb: none leaves the root
  timing [--n N]        refusals are alike in bytes and in time, and 5 µs more would be found
  upgrade [--n N]       a store of format 2 with N records is upgraded: how many records a second, and in how much memory
  well-formed [--n N]   random bodies through PROPPATCH and LOCK: what comes back is XML that others read, with the same value
  trees [--n N]         COPY, MOVE and DELETE of whole trees while somebody else acts between any two steps: nothing is lost
  pages [--binary PATH] write the tables of the reference pages in docs/ from what `enfilade reference` says
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["test"] => test::run(test::Packages::Install),
        ["test", "--no-packages"] => test::run(test::Packages::Leave),
        ["tidy"] => tidy(),
        ["answers", options @ ..] => answers::run(options),
        ["bench", options @ ..] => bench::run(options),
        ["certs", place] => bench::run(&["make-certs", place, "25000"]),
        ["certs", place, "--n", count] => bench::run(&["make-certs", place, count]),
        ["judges", "wire", options @ ..] => judges::run(options),
        ["mutants", options @ ..] => mutants::run(options),
        [name, options @ ..] if campaigns::knows(name) => campaigns::run(name, options),
        ["pages"] => xtask::pages::write(&xtask::root(), None),
        ["pages", "--binary", binary] => xtask::pages::write(&xtask::root(), Some(binary.as_ref())),
        ["help"] | [.., "--help" | "-h"] | [] => {
            print!("{HELP}");
            Ok(())
        }
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

fn tidy() -> Result<(), String> {
    let findings = xtask::tidy::check(&xtask::root());
    for finding in &findings {
        println!("{finding}");
    }
    println!("{}", xtask::tidy::sizes(&xtask::root()));
    match findings.len() {
        0 => {
            println!("tidy: every rule holds");
            Ok(())
        }
        count => Err(format!("tidy: {count} findings")),
    }
}
