//! `kill -9` at any moment: what was acknowledged is there.

use crate::curl::curl;
use crate::server::{BINARY, Server};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

const KILLS: u32 = 10;

#[test]
fn acknowledged_tokens_survive_kill_9() {
    let mut server = Server::start();
    let data = server.data();
    let (stop, current) = (AtomicBool::new(false), AtomicU32::new(0));
    let acknowledged = std::thread::scope(|scope| {
        let creating = scope.spawn(|| {
            let mut acknowledged = Vec::new();
            for n in 0.. {
                if stop.load(Ordering::SeqCst) {
                    break;
                }
                let child = Command::new(BINARY)
                    .args(["--json", "--data"])
                    .arg(&data)
                    .args(["token", "create", &format!("admin@local!t{n}")])
                    .stdout(Stdio::piped())
                    .stderr(Stdio::null())
                    .spawn()
                    .unwrap();
                current.store(child.id(), Ordering::SeqCst);
                let output = child.wait_with_output().unwrap();
                current.store(0, Ordering::SeqCst);
                // A line that is there whole is an acknowledgement, whatever happened to the process afterwards.
                if let Ok(made) = serde_json::from_slice::<serde_json::Value>(&output.stdout) {
                    let text = |key: &str| made[key].as_str().unwrap().to_owned();
                    acknowledged.push(format!("{}:{}", text("tokenid"), text("value")));
                }
            }
            acknowledged
        });
        for kill in 0..KILLS {
            // Spread over the few milliseconds a creation takes.
            std::thread::sleep(Duration::from_micros(150_000 + u64::from(kill) * 1_700));
            let writer = current.load(Ordering::SeqCst);
            if writer != 0 {
                let _ = Command::new("kill").args(["-9", &writer.to_string()]).stderr(Stdio::null()).status();
            }
            server.kill_and_restart();
        }
        stop.store(true, Ordering::SeqCst);
        creating.join().unwrap()
    });
    assert!(acknowledged.len() > 5, "only {} tokens were made", acknowledged.len());
    for token in &acknowledged {
        assert_eq!(curl(&server, token, "/whoami", &[]).status, 200, "{token}");
    }
    let listed = server.cli(&["token", "list", "admin@local"]);
    assert!(listed.len() >= acknowledged.len());
}
