//! Standard error of the server is not read: this delays no request, and no read of the mirrored files.

use crate::curl::curl;
use crate::server::{Server, WITHOUT_PENALTIES};
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use std::io::{BufRead, BufReader};
use std::time::{Duration, Instant};

/// The factor by which a promised time may be exceeded on a slow machine.
const SLACK: u32 = 20;
/// The output of `openssl passwd -5 -salt 'rounds=1000$abcdefgh' 'one secret'`.
const HASH: &str = "$5$rounds=1000$abcdefgh$.OmcOw1WqW6aK5VHgxFl1hvYXPexsRlxvJQNAchEd36";

fn whoami(server: &Server, login: &str) -> u16 {
    curl(server, login, "/whoami", &[]).status
}

#[test]
fn files_are_followed_while_nobody_reads_the_log_and_no_change_is_lost() {
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).unwrap();
    // The pipe is so small that a few lines fill it.
    fcntl_setpipe_size(&writer, 4096).unwrap();
    let server = Server::start_logging_to(writer, &[WITHOUT_PENALTIES]);
    let write = |name: &str, text: &str| {
        let path = server.data().join(name);
        std::fs::write(path.with_extension("new"), text).unwrap();
        std::fs::rename(path.with_extension("new"), path).unwrap();
    };
    let within = |seconds: u32, what: &str, is_so: &dyn Fn() -> bool| {
        let began = Instant::now();
        while !is_so() {
            assert!(began.elapsed() < Duration::from_secs(seconds.into()) * SLACK, "{what}");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    let with_hash = format!("{{\"ann@pbs!backup\":\"{HASH}\"}}");
    write("user.cfg", "user: ann@pbs\n\ntoken: ann@pbs!backup\n\n");
    write("token.shadow", &with_hash);
    let login = "ann@pbs!backup:one secret";
    within(1, "the token comes in", &|| whoami(&server, login) == 200);
    // Causes more lines of requests, changes and warnings than fit into the pipe.
    for n in 0..12 {
        server.cli(&["user", "add", &format!("u{n}@local")]);
        (0..4).for_each(|_| assert_eq!(whoami(&server, "nobody@local:x"), 401));
    }
    write("datastore.cfg", &"datastore: wrong\n\tfoo bar\n\n".repeat(20));
    // After this time each writing thread is blocked by the full pipe.
    std::thread::sleep(Duration::from_secs(2));
    write("token.shadow", "{}");
    within(1, "a hash that was taken out is refused", &|| whoami(&server, login) == 401);
    write("token.shadow", &with_hash);
    within(1, "a hash that came back is taken", &|| whoami(&server, login) == 200);
    // The pipe is read again: every change is in the log, in order.
    let mut changes = Vec::new();
    for line in BufReader::new(std::fs::File::from(reader)).lines() {
        let line = line.unwrap();
        let added = line.contains(r#""event":"change""#).then(|| line.split_once("user add u")).flatten();
        let number = added.and_then(|(_, rest)| rest.split_once('@')?.0.parse::<u32>().ok());
        changes.extend(number);
        if number == Some(11) {
            break;
        }
    }
    assert_eq!(changes, (0..12).collect::<Vec<_>>());
}
