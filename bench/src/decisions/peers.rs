//! Compares Enfilade with other programs that make decisions. Open Policy Agent and OpenFGA get the same questions as Enfilade, and nginx asks
//! oauth2-proxy in place of Enfilade. `cargo xtask bench all --install` builds Open Policy Agent, OpenFGA and oauth2-proxy, which are Go programs.

use super::{BATCH, Side, USERS};
use crate::Failure;
use crate::content::apache::{cpu_of_all, end_with_workers};
use crate::goals::Goal;
use crate::machine::said;
use crate::report::Report;
use crate::samples::Samples;
use crate::served::Client;
use crate::stopwatch::{Child, cpu_nanos, pause};
use crate::stores;
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

const ROUNDS: usize = 11;
/// The number of batches of each program in a round.
const BATCHES: usize = 10;
/// The number of requests through each nginx in a round.
const REQUESTS: usize = 10_000;

pub(super) fn goals() -> Vec<Goal> {
    let questions = format!(
        "Enfilade and the other program have the same {USERS} users, who may read the {BATCH} paths of an application. In each of {ROUNDS} rounds, one \
         after the other gets {BATCHES} batches of these {BATCH} questions. CPU time of the process. The value is the mean of the {ROUNDS} ratios"
    );
    let nginx = format!(
        "Three nginx serve the same small answer: one asks nobody, one asks Enfilade about each request (an API token in a header), and one asks \
         oauth2-proxy (the session in its cookie). In each of {ROUNDS} rounds, one connection sends {REQUESTS} requests through each. CPU time of nginx \
         and of the program that it asks, without that of the nginx that asks nobody. The value is the mean of the {ROUNDS} ratios"
    );
    vec![
        Goal::new(
            "opa",
            1.0,
            "times",
            "CPU time of Enfilade for a question, divided by CPU time of Open Policy Agent",
            questions.clone(),
        ),
        Goal::new(
            "openfga",
            1.0,
            "times",
            "CPU time of Enfilade for a question, divided by CPU time of OpenFGA",
            questions,
        ),
        Goal::new(
            "nginx",
            1.0,
            "times",
            "CPU time that the question to Enfilade adds to a request through nginx, divided by the time that oauth2-proxy adds",
            nginx,
        ),
    ]
}

pub(super) fn run(report: &mut Report, scratch: &Path, side: &Side, small: bool) -> Result<(), Failure> {
    let (rounds, batches, requests) = if small { (2, 1, 200) } else { (ROUNDS, BATCHES, REQUESTS) };
    for (id, name, started) in [
        ("opa", "Open Policy Agent", Judge::opa(report, scratch)?),
        ("openfga", "OpenFGA", Judge::openfga(report, scratch)?),
    ] {
        let Some(judge) = started else {
            report.missing(
                name,
                format!("{id} is not installed (`cargo xtask bench all --install` installs it)"),
            );
            continue;
        };
        let (mut ours, mut theirs) = (Samples::default(), Samples::default());
        for round in 0..rounds {
            let before = cpu_nanos(judge.child.0.id())?;
            (0..batches).try_for_each(|_| judge.ask())?;
            theirs.push((cpu_nanos(judge.child.0.id())? - before) / (batches * BATCH) as f64 / 1e3);
            ours.push(side.batches(batches)?);
            eprintln!("{name}, round {} of {rounds}", round + 1);
        }
        report.middle(&format!("a question to {name}, CPU"), BATCH as u64, &theirs, "µs");
        report.middle(
            &format!("a question to Enfilade in the rounds with {name}, CPU"),
            BATCH as u64,
            &ours,
            "µs",
        );
        report.goal(id, ours.over(&theirs).mean());
    }
    nginx(report, scratch, side, (rounds, requests))
}

/// The path of a program, which is in `PATH` or in the directory of `go install`.
fn program(name: &str) -> Option<PathBuf> {
    let mut places: Vec<PathBuf> =
        std::env::var_os("PATH").map(|path| std::env::split_paths(&path).collect()).unwrap_or_default();
    places.extend(std::env::var_os("GOBIN").map(PathBuf::from));
    places.extend(std::env::home_dir().map(|home| home.join("go/bin")));
    places.into_iter().map(|place| place.join(name)).find(|path| path.is_file())
}

fn free() -> Result<SocketAddr, Failure> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// Starts a program, and waits until it listens.
fn start(command: &mut Command, address: SocketAddr) -> Result<Child, Failure> {
    let child = Child::start(command.stdout(Stdio::null()).stderr(Stdio::null()))?;
    for _ in 0..200 {
        if TcpStream::connect(address).is_ok() {
            return Ok(child);
        }
        pause(Duration::from_millis(50));
    }
    Err(format!("{command:?} does not listen").into())
}

/// Sends one request on a new connection, and returns the answer. With HTTP/1.0 no answer is in chunks.
fn post(address: SocketAddr, path: &str, kind: &str, body: &str) -> Result<String, Failure> {
    let mut stream = TcpStream::connect(address)?;
    let head = format!(
        "POST {path} HTTP/1.0\r\nHost: localhost\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

fn json_of(answer: &str) -> Result<Value, Failure> {
    let (_, body) = answer.split_once("\r\n\r\n").ok_or("no answer")?;
    Ok(serde_json::from_str(body).map_err(|why| format!("{why}: {answer}"))?)
}

/// Another program that answers batches of questions.
struct Judge {
    child: Child,
    address: SocketAddr,
    path: String,
    body: String,
    /// The text in the answer that means that a question is permitted.
    permitted: &'static str,
}

const POLICY: &str = "package authz\n\
    reads contains role if some role in {\"ApplicationReader\", \"ApplicationUser\", \"ApplicationAdmin\"}\n\
    may(question) if data.roles[question.subject][question.application] in reads\n\
    answer(question) := true if may(question)\n\
    answer(question) := false if not may(question)\n\
    decisions := [one | some question in input.questions; one := answer(question)]\n";

impl Judge {
    fn opa(report: &mut Report, scratch: &Path) -> Result<Option<Self>, Failure> {
        let Some(opa) = program("opa") else { return Ok(None) };
        let version = said(Command::new(&opa).arg("version")).unwrap_or_default();
        report.peer("Open Policy Agent", version, POLICY);
        let (policy, data) = (scratch.join("authz.rego"), scratch.join("data.json"));
        std::fs::write(&policy, POLICY)?;
        let roles: serde_json::Map<String, Value> = (0..USERS)
            .map(|user| (format!("user{user}@local"), json!({ "wiki": "ApplicationUser" })))
            .collect();
        std::fs::write(&data, json!({ "roles": roles }).to_string())?;
        let address = free()?;
        let mut command = Command::new(opa);
        command.args(["run", "--server", "--log-level", "error", "--addr", &address.to_string()]);
        let child = start(command.arg(policy).arg(data), address)?;
        let question =
            |n: usize| json!({ "subject": user(n), "application": "wiki", "path": format!("p{n}") });
        let questions: Vec<Value> = (0..BATCH).map(question).collect();
        let body = json!({ "input": { "questions": questions } }).to_string();
        let path = "/v1/data/authz/decisions".to_owned();
        Ok(Some(Judge { child, address, path, body, permitted: "true" }))
    }

    fn openfga(report: &mut Report, scratch: &Path) -> Result<Option<Self>, Failure> {
        let Some(openfga) = program("openfga") else { return Ok(None) };
        let version = said(Command::new(&openfga).arg("version")).unwrap_or_default();
        let model = json!({
            "schema_version": "1.1",
            "type_definitions": [
                { "type": "user" },
                {
                    "type": "application",
                    "relations": { "reader": { "this": {} } },
                    "metadata": { "relations": { "reader": { "directly_related_user_types": [{ "type": "user" }] } } },
                },
                {
                    "type": "page",
                    "relations": {
                        "parent": { "this": {} },
                        "reader": { "tupleToUserset": { "tupleset": { "relation": "parent" }, "computedUserset": { "relation": "reader" } } },
                    },
                    "metadata": { "relations": { "parent": { "directly_related_user_types": [{ "type": "application" }] } } },
                },
            ],
        });
        report.peer("OpenFGA", version, model.to_string());
        let (address, grpc) = (free()?, free()?);
        let mut command = Command::new(openfga);
        command.args(["run", "--datastore-engine", "memory", "--log-level", "error"]);
        command.args(["--http-addr", &address.to_string(), "--grpc-addr", &grpc.to_string()]);
        command.args(["--playground-enabled=false", "--metrics-enabled=false"]);
        command.args(["--max-checks-per-batch-check", &BATCH.to_string()]);
        let child = start(command.current_dir(scratch), address)?;
        let json = "application/json";
        // The program opens its HTTP port a moment before its other port.
        pause(Duration::from_secs(1));
        let text = |value: &Value, field: &str| -> Result<String, Failure> {
            Ok(value[field].as_str().ok_or_else(|| format!("OpenFGA gave no {field}: {value}"))?.to_owned())
        };
        let store = text(&json_of(&post(address, "/stores", json, r#"{"name":"bench"}"#)?)?, "id")?;
        let at = |call: &str| format!("/stores/{store}/{call}");
        let made = json_of(&post(address, &at("authorization-models"), json, &model.to_string())?)?;
        let model = text(&made, "authorization_model_id")?;
        let tuple = |user: String, relation: &str, object: String| json!({ "user": user, "relation": relation, "object": object });
        let readers =
            (0..USERS).map(|n| tuple(format!("user:user{n}"), "reader", "application:wiki".to_owned()));
        let pages = (0..BATCH).map(|n| tuple("application:wiki".to_owned(), "parent", format!("page:p{n}")));
        let tuples: Vec<Value> = readers.chain(pages).collect();
        for part in tuples.chunks(50) {
            let body = json!({ "writes": { "tuple_keys": part }, "authorization_model_id": model });
            let answer = post(address, &at("write"), json, &body.to_string())?;
            if !answer.starts_with("HTTP/1.0 200") && !answer.starts_with("HTTP/1.1 200") {
                return Err(format!("OpenFGA: {answer}").into());
            }
        }
        let check = |n: usize| {
            let key = tuple(format!("user:user{}", n as u64 % USERS), "reader", format!("page:p{n}"));
            json!({ "tuple_key": key, "correlation_id": n.to_string() })
        };
        let checks: Vec<Value> = (0..BATCH).map(check).collect();
        let body = json!({ "checks": checks, "authorization_model_id": model }).to_string();
        Ok(Some(Judge { child, address, path: at("batch-check"), body, permitted: "\"allowed\":true" }))
    }

    fn ask(&self) -> Result<(), Failure> {
        let answer = post(self.address, &self.path, "application/json", &self.body)?;
        match answer.replace("\"allowed\": true", "\"allowed\":true").matches(self.permitted).count() {
            BATCH => Ok(()),
            other => Err(format!("{other} of {BATCH} questions were permitted: {answer:.300}").into()),
        }
    }
}

fn user(n: usize) -> String {
    format!("user{}@local", n as u64 % USERS)
}

/// The password file of oauth2-proxy, with a bcrypt hash of `correct horse`. The cost of the hash is low. Only the sign-in computes the hash, and the
/// sign-in is not measured.
const HTPASSWD: &str = "alice:$2b$04$7SID.dkmJAQ3VWHmZ.sgwOINO3hZi4/TKacHEuGk39QmWqYGn0hbK\n";

/// A running oauth2-proxy, and the cookie of a user who signed in to it.
struct OAuth2 {
    child: Child,
    address: SocketAddr,
    cookie: String,
}

impl OAuth2 {
    fn start(report: &mut Report, place: &Path) -> Result<Option<Self>, Failure> {
        let Some(oauth2) = program("oauth2-proxy") else { return Ok(None) };
        let version = said(Command::new(&oauth2).arg("--version")).unwrap_or_default();
        report.peer("oauth2-proxy", version, "a session in a cookie; requests are logged");
        let (address, users) = (free()?, place.join("htpasswd"));
        std::fs::write(&users, HTPASSWD)?;
        let mut command = Command::new(oauth2);
        command.args(["--provider=google", "--client-id=x", "--client-secret=y", "--email-domain=*"]);
        command.args(["--cookie-secret=0123456789abcdef0123456789abcdef", "--cookie-secure=false"]);
        command.args(["--reverse-proxy=true", "--upstream=static://200"]);
        command.arg(format!("--http-address={address}"));
        let child = start(command.arg(format!("--htpasswd-file={}", users.display())), address)?;
        let form = "application/x-www-form-urlencoded";
        let answer = post(address, "/oauth2/sign_in", form, "username=alice&password=correct+horse&rd=/")?;
        let cookie = answer.lines().find_map(|line| line.strip_prefix("Set-Cookie: _oauth2_proxy="));
        let cookie = cookie.and_then(|line| line.split(';').next());
        let cookie = cookie.ok_or_else(|| format!("no session: {answer:.300}"))?.to_owned();
        Ok(Some(OAuth2 { child, address, cookie }))
    }
}

fn nginx(
    report: &mut Report,
    scratch: &Path,
    side: &Side,
    (rounds, requests): (usize, usize),
) -> Result<(), Failure> {
    let place = scratch.join("nginx");
    std::fs::create_dir(&place)?;
    let (Some(oauth2), Some(version)) =
        (OAuth2::start(report, &place)?, said(Command::new("/usr/sbin/nginx").arg("-v")))
    else {
        report.missing("nginx with oauth2-proxy", "nginx or oauth2-proxy is not installed");
        return Ok(());
    };
    let asks = |path: &str, headers: &str| {
        format!(
            "location = /ask {{ internal; proxy_pass http://asked{path}; proxy_pass_request_body off; proxy_set_header Content-Length \"\"; \
             proxy_http_version 1.1; proxy_set_header Connection \"\"; {headers} }}"
        )
    };
    let described = "proxy_set_header X-Forwarded-Method $request_method; proxy_set_header X-Forwarded-Proto https; \
        proxy_set_header X-Forwarded-Host wiki.example.com; proxy_set_header X-Forwarded-Uri $request_uri; \
        proxy_set_header X-Forwarded-For $remote_addr; proxy_set_header X-Enfilade-Application wiki;";
    let (ours, theirs) = (asks("/decide/nginx", described), asks("/oauth2/auth", ""));
    report.peer("nginx", version, format!("{ours}\n{theirs}"));
    let upstream = |server: String| format!("upstream asked {{ server {server}; keepalive 32; }}");
    let alone = Proxy::start(&place, "alone", "", "")?;
    let socket = upstream(format!("unix:{}", side.socket.display()));
    let with_ours = Proxy::start(&place, "enfilade", &socket, &ours)?;
    let with_theirs = Proxy::start(&place, "oauth2", &upstream(oauth2.address.to_string()), &theirs)?;
    let token = format!("Authorization: PBSAPIToken=user0@local!t0:{}", stores::secret_of(0));
    let cookie = format!("Cookie: _oauth2_proxy={}", oauth2.cookie);
    let pid = oauth2.child.0.id();
    let (mut added, mut added_by_theirs, mut of_nginx) =
        (Samples::default(), Samples::default(), Samples::default());
    for round in 1..=rounds {
        let plain = alone.turn(requests, "X-Nobody: asks", || Ok(0.0))?;
        let asked = with_ours.turn(requests, &token, || side.server.cpu_nanos())?;
        let other = with_theirs.turn(requests, &cookie, || cpu_nanos(pid))?;
        of_nginx.push(plain);
        added.push(asked - plain);
        added_by_theirs.push(other - plain);
        eprintln!(
            "nginx, round {round} of {rounds}: {plain:.1} µs alone, {asked:.1} µs with Enfilade, {other:.1} µs with oauth2-proxy"
        );
    }
    let count = requests as u64;
    report.middle("a request through nginx that asks nobody, CPU", count, &of_nginx, "µs");
    report.middle("what asking Enfilade adds, CPU of nginx and Enfilade", count, &added, "µs");
    report.middle(
        "what asking oauth2-proxy adds, CPU of nginx and oauth2-proxy",
        count,
        &added_by_theirs,
        "µs",
    );
    report.goal("nginx", added.over(&added_by_theirs).mean());
    Ok(())
}

/// An nginx that serves a small answer, ended when dropped.
struct Proxy {
    child: Child,
    address: SocketAddr,
}

impl Proxy {
    fn start(place: &Path, name: &str, upstream: &str, asks: &str) -> Result<Self, Failure> {
        let (place, address) = (place.join(name), free()?);
        std::fs::create_dir(&place)?;
        let at = place.display();
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|kind| format!("{kind}_temp_path {at}/{kind};"))
            .join(" ");
        let check = if asks.is_empty() { "" } else { "auth_request /ask;" };
        std::fs::write(place.join("answer"), "hello")?;
        let text = format!(
            "worker_processes 1; user root; daemon off; pid {at}/pid; events {{}}\n\
             http {{ access_log {at}/access.log; keepalive_requests 1000000; {temporary} {upstream}\n\
             server {{ listen {address}; {asks} location = /answer {{ {check} alias {at}/answer; }} }} }}\n"
        );
        std::fs::write(place.join("nginx.conf"), text)?;
        let mut command = Command::new("/usr/sbin/nginx");
        command.arg("-c").arg(place.join("nginx.conf")).arg("-e").arg(place.join("error.log"));
        Ok(Proxy { child: start(&mut command, address)?, address })
    }

    /// Sends requests on one connection. Returns the CPU time per request, in microseconds: of nginx, and of the program that nginx asks.
    fn turn(
        &self,
        requests: usize,
        line: &str,
        asked: impl Fn() -> Result<f64, Failure>,
    ) -> Result<f64, Failure> {
        let request = format!("GET /answer HTTP/1.1\r\nHost: wiki.example.com\r\n{line}\r\n\r\n");
        let mut client = Client::new(TcpStream::connect(self.address)?);
        let pid = self.child.0.id();
        let spent = || -> Result<f64, Failure> { Ok(cpu_of_all(pid)? * 1e9 + asked()?) };
        let before = spent()?;
        for _ in 0..requests {
            match client.get(request.as_bytes())? {
                200 => {}
                status => return Err(format!("nginx answered with {status}: {:.300}", client.text()).into()),
            }
        }
        Ok((spent()? - before) / requests as f64 / 1e3)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        end_with_workers(&mut self.child);
    }
}
