//! The directory of Fernet keys is removed and restored while a server runs.

use crate::curl::curl;
use crate::server::{Server, WITHOUT_PENALTIES};
use std::time::{Duration, Instant};

/// On a slow machine, a promised time may be exceeded by this factor.
const SLACK: u32 = 20;
const STALE_SECONDS: u32 = 8;

/// Logs in as the administrator, with this password. Returns the status and the token.
pub(crate) fn log_in(server: &Server, password: &str) -> (u16, String) {
    let body = format!(
        r#"{{"auth":{{"identity":{{"methods":["password"],"password":{{"user":{{"name":"admin","domain":{{"name":"local"}},"password":"{password}"}}}}}}}}}}"#
    );
    let answer = curl(server, "", "/v3/auth/tokens", &["-H", "Content-Type: application/json", "-d", &body]);
    let token = answer.head.iter().find_map(|line| line.strip_prefix("x-subject-token: "));
    (answer.status, token.unwrap_or_default().to_owned())
}

/// The status of a server's answer to the token of a session.
pub(crate) fn use_token(server: &Server, token: &str) -> u16 {
    curl(server, "", "/v3/auth/projects", &["-H", &format!("X-Auth-Token: {token}")]).status
}

#[test]
fn keys_that_are_taken_away_serve_for_the_stale_limit_and_are_taken_when_they_come_back() {
    let limit = STALE_SECONDS.to_string();
    let server = Server::start_with(&[WITHOUT_PENALTIES, ("ENFILADE_FACTS__STALE_LIMIT", &limit)]);
    let (status, token) = log_in(&server, &server.password);
    assert_eq!((status, use_token(&server, &token)), (201, 200), "{}", server.log());
    let within = |seconds: u32, what: &str, is_so: &dyn Fn() -> bool| {
        let began = Instant::now();
        while !is_so() {
            assert!(
                began.elapsed() < Duration::from_secs(seconds.into()) * SLACK,
                "{what}: {}",
                server.log()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        began.elapsed()
    };
    let (keys, away) = (server.data().join("keys/fernet"), server.data().join("keys/away"));
    let said = |words: &str| server.log().lines().filter(|line| line.contains(words)).count();
    let stale = format!("the last good keys are used for {STALE_SECONDS} s");
    let gone = "; no session token is accepted or issued; restore the directory";
    std::fs::rename(&keys, &away).unwrap();
    let taken_away = Instant::now();
    within(1, "it is said at once", &|| said(&stale) == 1);
    let (status, second) = log_in(&server, &server.password);
    let used = use_token(&server, &second);
    if taken_away.elapsed() < Duration::from_secs(STALE_SECONDS.into()) {
        assert_eq!((status, used), (201, 200), "the last good keys serve");
    }
    within(STALE_SECONDS, "after the stale limit no token is good", &|| use_token(&server, &token) != 200);
    let refused_after = taken_away.elapsed();
    assert!(refused_after > Duration::from_secs(u64::from(STALE_SECONDS) - 1), "{refused_after:?}");
    assert_eq!(
        (log_in(&server, &server.password).0, use_token(&server, &token)),
        (503, 401),
        "{}",
        server.log()
    );
    within(1, "both are said once", &|| (said(&stale), said(gone)) == (1, 1));
    std::fs::rename(&away, &keys).unwrap();
    within(1, "keys that come back are taken", &|| use_token(&server, &token) == 200);
    assert_eq!(log_in(&server, &server.password).0, 201);
}
