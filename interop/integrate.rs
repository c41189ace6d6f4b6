//! `enfilade integrate --enable`: three commands lead from a server without an application to an application behind nginx.

use crate::decisions::{Application, HOST};
use crate::proxy::{Proxy, nginx_around};
use crate::server::{Scratch, Server, free_port};
use std::process::{Command, Output};

fn why(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The user of this process: nginx runs as this user in the tests.
fn own_user() -> String {
    let output = Command::new("id").arg("-un").output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn three_commands_protect_an_application_behind_nginx() {
    let mut server = Server::start();
    server.cli(&["user", "add", "alice@local"]);
    let (alice, directory, user) = (server.add_token("alice@local!t"), Scratch::new(), own_user());
    let (application, address) = (Application::start(), format!("127.0.0.1:{}", free_port()));
    let socket = directory.path().join("decisions.sock");
    let (socket, at) = (socket.to_str().unwrap(), directory.path().to_str().unwrap());
    let integrate = |more: &[&str]| {
        let arguments = ["integrate", "nginx", "--upstream", application.address(), "--listen", &address];
        let arguments = [&arguments[..], &["--no-tls", "--directory", at], more].concat();
        server.cli_output(&arguments, "")
    };
    // 1. An unknown user is refused before the application is created.
    let create = ["application", "create", "wiki", "--host", HOST];
    let unknown = server.cli_output(&[&create[..], &["--user", "nobody@local"]].concat(), "");
    assert!(
        !unknown.status.success() && server.cli(&["application", "list"]).is_empty(),
        "{}",
        why(&unknown)
    );
    server.cli(&[&create[..], &["--user", "alice@local"]].concat());
    // 2. Without `--enable`, the refusal names this option. A user that the machine does not have is refused, and nothing changes.
    let off = integrate(&[]);
    assert!(!off.status.success() && why(&off).contains("--enable"), "{}", why(&off));
    let before = std::fs::read_to_string(server.data().join("enfilade.toml")).unwrap();
    let stranger = integrate(&["--enable", "--socket", socket, "--proxy-user", "no-such-user"]);
    assert!(!stranger.status.success() && why(&stranger).contains("no-such-user"), "{}", why(&stranger));
    let nowhere = integrate(&["--enable", "--socket", "/absent/x.sock", "--proxy-user", &user]);
    assert!(!nowhere.status.success() && why(&nowhere).contains("/absent"), "{}", why(&nowhere));
    assert_eq!(std::fs::read_to_string(server.data().join("enfilade.toml")).unwrap(), before);
    assert!(!directory.path().join("enfilade-wiki.conf").exists());
    let done = integrate(&["--enable", "--socket", socket, "--proxy-user", &user]);
    assert!(
        done.status.success() && why(&done).contains("systemctl restart enfilade && systemctl reload nginx"),
        "{}",
        why(&done)
    );
    let after = std::fs::read_to_string(server.data().join("enfilade.toml")).unwrap();
    let lines = format!("[decisions]\nlisten = \"unix:{socket}\"\nusers = [\"{user}\"]\n");
    assert!(after.contains(&lines) && after.replacen(&lines, "[decisions]\n", 1) == before, "{after}");
    // A second call finds the settings and changes nothing. A call for another user is refused, and the error names the next step.
    assert!(integrate(&["--enable", "--proxy-user", &user]).status.success());
    let other = integrate(&["--enable", "--proxy-user", "daemon"]);
    assert!(!other.status.success() && why(&other).contains("to the list `users`"), "{}", why(&other));
    assert_eq!(std::fs::read_to_string(server.data().join("enfilade.toml")).unwrap(), after);
    // 3. Restart.
    server.stop();
    server.start_again();
    let text = nginx_around(directory.path(), &format!("include \"{at}/enfilade-wiki.conf\";"));
    std::fs::write(directory.path().join("nginx.conf"), text).unwrap();
    let _nginx = Proxy::start("nginx", directory.path(), "nginx.conf", address.clone());
    let ask = |login: &str| {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--include", "--header", &format!("Host: {HOST}")]);
        if !login.is_empty() {
            curl.args(["--user", login]);
        }
        let output = curl.arg(format!("http://{address}/page")).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let anonymous = ask("");
    assert!(anonymous.starts_with("HTTP/1.1 401"), "{anonymous}\n{}", server.log());
    assert_eq!(anonymous.to_lowercase().matches("www-authenticate:").count(), 1, "{anonymous}");
    assert!(ask(&alice).starts_with("HTTP/1.1 200"), "{}", server.log());
    assert_eq!(application.take()[0].header("remote-user"), "alice@local!t");
    let role = ["--path", "/application/wiki", "--auth-id", "alice@local", "ApplicationUser"];
    server.cli(&[&["role", "remove"], &role[..]].concat());
    assert!(ask(&alice).starts_with("HTTP/1.1 403"), "{}", server.log());
}

#[test]
fn a_check_of_the_configuration_refuses_an_unknown_user() {
    let server = Server::start();
    let check = |user: &str| {
        let users = [("ENFILADE_DECISIONS__USERS", user)];
        server.cli_output_with(&users, &["config", "check"], "")
    };
    assert!(check(&own_user()).status.success());
    let refused = check("no-such-user");
    assert!(!refused.status.success() && why(&refused).contains("no-such-user"), "{}", why(&refused));
}

#[test]
fn caddy_listens_only_on_the_given_address() {
    let server = Server::start();
    server.cli(&["application", "create", "wiki", "--host", HOST]);
    let print = |listen: &str| {
        let environment = [("ENFILADE_DECISIONS__LISTEN", "unix:/run/enfilade/decisions.sock")];
        let output = server.cli_output_with(&environment, &["integrate", "caddy", "--listen", listen], "");
        assert!(output.status.success(), "{}", why(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(print("127.0.0.1:8443").contains("bind 127.0.0.1"));
    assert!(!print("0.0.0.0:443").contains("bind "));
}
