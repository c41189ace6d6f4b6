//! `certs add` accepts certificates and keys in every format that OpenSSL writes. Strict clients accept the certificates that Enfilade creates.

use crate::certificates::{bundle, ecdsa};
use crate::server::{BINARY, Scratch, Server, until};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use serde_json::Value;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Makes a data directory `data`, a leaf certificate for `nas.example` (`leaf.crt`), its issuer (`chain.crt`), its key (`plain.key`), and another key
/// (`other.key`).
pub(crate) fn write_parts(place: &Path) {
    assert!(enfilade(place, &["init"], "").status.success());
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.distinguished_name.push(DnType::CommonName, "issuer");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let (issuer_key, key) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let chain = authority.self_signed(&issuer_key).unwrap().pem();
    let leaf = CertificateParams::new(["nas.example".to_owned(), "192.0.2.7".to_owned()]).unwrap();
    let leaf = leaf.signed_by(&key, &Issuer::new(authority, issuer_key)).unwrap().pem();
    let other = KeyPair::generate().unwrap().serialize_pem();
    for (file, text) in
        [("leaf.crt", leaf), ("chain.crt", chain), ("plain.key", key.serialize_pem()), ("other.key", other)]
    {
        std::fs::write(place.join(file), text).unwrap();
    }
}

pub(crate) fn openssl(place: &Path, arguments: &str) -> String {
    let output = Command::new("openssl").args(arguments.split(' ')).current_dir(place).output().unwrap();
    assert!(output.status.success(), "openssl {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs a command in this directory, with the data directory `data` below it.
pub(crate) fn enfilade(place: &Path, arguments: &[&str], input: &str) -> Output {
    let mut command = Command::new(BINARY);
    command.args(["--json", "--data", "data"]).args(arguments).current_dir(place);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

#[test]
fn every_form_that_openssl_writes_is_joined_to_the_same_bundle() {
    let scratch = Scratch::new();
    let place = scratch.path();
    write_parts(place);
    for arguments in [
        "x509 -in leaf.crt -outform der -out leaf.der",
        "x509 -in chain.crt -outform der -out chain.cer",
        "pkey -in plain.key -outform der -out plain.der",
        "ec -in plain.key -out sec1.key",
        "pkcs8 -topk8 -in plain.key -passout pass:s3cret -out aes.key",
        "pkcs8 -topk8 -in plain.key -passout pass:s3cret -v2 aes-128-cbc -v2prf hmacWithSHA512 -outform der -out aes.der",
        "pkcs8 -topk8 -in plain.key -passout pass:s3cret -v2 des3 -v2prf hmacWithSHA1 -out des3.key",
        "pkcs8 -topk8 -in plain.key -passout pass:s3cret -v1 PBE-SHA1-3DES -out v1.key",
        "pkcs12 -export -in leaf.crt -inkey plain.key -certfile chain.crt -passout pass:s3cret -out modern.p12",
        "pkcs12 -export -in leaf.crt -inkey plain.key -certfile chain.crt -passout pass:s3cret -legacy -out legacy.pfx",
        "pkcs12 -export -in leaf.crt -inkey plain.key -certfile chain.crt -passout pass:s3cret -legacy -certpbe PBE-SHA1-RC2-128 -keypbe PBE-SHA1-2DES -out rc2.p12",
        "pkcs12 -export -in leaf.crt -inkey plain.key -certfile chain.crt -passout pass: -out empty.p12",
        "pkcs12 -export -in leaf.crt -inkey plain.key -certfile chain.crt -passout pass: -certpbe NONE -keypbe NONE -out open.p12",
    ] {
        openssl(place, arguments);
    }
    let public = openssl(place, "pkey -in plain.key -pubout");
    let text = |file: &str| std::fs::read_to_string(place.join(file)).unwrap().replace("\r\n", "\n");
    let chain = text("leaf.crt") + &text("chain.crt");
    for files in [
        &["leaf.crt", "plain.key", "chain.crt"][..],
        &["chain.crt", "plain.key", "leaf.crt"],
        &["plain.der", "chain.cer", "leaf.der"],
        &["leaf.crt", "chain.crt", "sec1.key"],
        &["leaf.crt", "aes.key", "chain.crt"],
        &["leaf.crt", "aes.der", "chain.crt"],
        &["leaf.crt", "des3.key", "chain.crt"],
        &["leaf.crt", "v1.key", "chain.crt"],
        &["modern.p12"],
        &["legacy.pfx"],
        &["rc2.p12"],
        &["empty.p12"],
        &["open.p12"],
    ] {
        let is_sealed = !["plain", "sec1", "empty", "open"].iter().any(|open| files.concat().contains(open));
        let passphrase: &[&str] = if is_sealed { &["--passphrase-stdin"] } else { &[] };
        let added = enfilade(
            place,
            &[&["certs", "add"][..], files, &["--name", "nas.pem"], passphrase].concat(),
            "s3cret\n",
        );
        assert!(added.status.success(), "{files:?}: {}", String::from_utf8_lossy(&added.stderr));
        let bundle = place.join("data/tls/nas.pem");
        let written = std::fs::read_to_string(&bundle).unwrap();
        assert!(written.starts_with(&chain), "{files:?}: {written}");
        assert_eq!(openssl(place, "pkey -in data/tls/nas.pem -pubout"), public, "{files:?}");
        assert_eq!(std::fs::metadata(&bundle).unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::remove_file(bundle).unwrap();
    }
    assert!(enfilade(place, &["certs", "add", "leaf.crt", "chain.crt", "plain.key"], "").status.success());
    assert!(place.join("data/tls/leaf.pem").exists(), "the bundle has the name of the certificate");
    let shown = enfilade(place, &["certs", "show", "192.0.2.7"], "");
    let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!(
        (&shown["names"], &shown["default"]),
        (&serde_json::json!(["192.0.2.7", "nas.example",]), &false.into())
    );
    let pem = enfilade(place, &["certs", "show", "nas.example", "--pem"], "");
    let pem: Value = serde_json::from_slice(&pem.stdout).unwrap();
    assert_eq!(pem["certificate"], chain, "the chain without the key");
}

#[test]
fn what_is_missing_or_does_not_fit_is_said_and_nothing_is_written() {
    let scratch = Scratch::new();
    let place = scratch.path();
    write_parts(place);
    openssl(place, "pkcs8 -topk8 -in plain.key -passout pass:s3cret -out aes.key");
    openssl(place, "pkcs8 -topk8 -in plain.key -passout pass:s3cret -scrypt -out scrypt.key");
    openssl(place, "ec -in plain.key -aes256 -passout pass:s3cret -out former.key");
    openssl(
        place,
        "pkcs12 -export -in leaf.crt -inkey plain.key -passout pass:s3cret -legacy -out legacy.p12",
    );
    openssl(place, "crl2pkcs7 -nocrl -certfile chain.crt -outform der -out chain.p7b");
    for (arguments, why) in [
        (
            &["leaf.crt"][..],
            "no private key in leaf.crt: give the key file too, for example `enfilade certs add leaf.crt leaf.key`",
        ),
        (&["leaf.crt", "other.key"], "this key belongs to another certificate"),
        (&["plain.key"], "no certificate in `plain.key`"),
        (&["leaf.crt", "aes.key"], "`aes.key` is encrypted: give its passphrase"),
        (&["leaf.crt", "aes.key", "--passphrase-stdin"], "the passphrase is wrong, or `aes.key` is damaged"),
        (&["legacy.p12"], "`legacy.p12` is encrypted: give its passphrase"),
        (&["legacy.p12", "--passphrase-stdin"], "the passphrase is wrong"),
        (
            &["leaf.crt", "scrypt.key", "--passphrase-stdin"],
            "scrypt, which is not supported; run `openssl pkey -in scrypt.key",
        ),
        (&["leaf.crt", "former.key"], "openssl pkey -in former.key -out plain.key"),
        (&["leaf.crt", "plain.key", "chain.p7b"], "openssl pkcs7 -inform der -in chain.p7b"),
        (&["leaf.crt", "plain.key", "/dev/zero"], "larger than 1 MiB"),
    ] {
        let added = enfilade(place, &[&["certs", "add"][..], arguments].concat(), "wrong\n");
        let said = String::from_utf8_lossy(&added.stderr).into_owned();
        assert!(!added.status.success() && said.contains(why), "{arguments:?}: {said}");
        assert!(!said.contains("s3cret") && !said.contains("wrong\n"), "{said}");
    }
    let written = std::fs::read_dir(place.join("data/tls")).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(written.into_iter().all(|name| name.to_str().is_some_and(|name| name.starts_with("localhost."))));
    // Tools use the same file name for each certificate. `certs add` does not replace an existing file if its certificate is for other names.
    assert!(
        enfilade(place, &["certs", "add", "leaf.crt", "plain.key", "--name", "cert.pem"], "")
            .status
            .success()
    );
    std::fs::write(place.join("cert.pem"), bundle("other.example", &["other.example"], &ecdsa())).unwrap();
    let other = enfilade(place, &["certs", "add", "cert.pem"], "");
    let said = String::from_utf8_lossy(&other.stderr).into_owned();
    assert!(!other.status.success() && said.contains("--name other.example.pem"), "{said}");
    // `certs check` also reports a wrong key in a bundle that was copied into the directory by hand.
    let text = |file: &str| std::fs::read_to_string(place.join(file)).unwrap();
    std::fs::write(place.join("data/tls/cert.pem"), text("leaf.crt") + &text("other.key")).unwrap();
    let checked = enfilade(place, &["certs", "check"], "");
    let said = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert!(!checked.status.success() && said.contains("belongs to another certificate"), "{said}");
}

/// Root can read files that the server cannot read. Commands that examine the server's certificates judge with the rights of the server.
#[test]
fn root_judges_certificates_as_the_server_does() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let scratch = Scratch::new();
    let place = scratch.path();
    std::fs::create_dir(place.join("data")).unwrap();
    std::os::unix::fs::chown(place.join("data"), Some(65_534), Some(65_534)).unwrap();
    assert!(enfilade(place, &["init"], "").status.success());
    let file = place.join("data/tls/root.pem");
    std::fs::write(&file, bundle("root.example", &["root.example"], &ecdsa())).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    for arguments in [&["certs", "check"][..], &["certs", "list"]] {
        let ran = enfilade(place, arguments, "");
        let said = String::from_utf8_lossy(&ran.stdout).into_owned();
        let is_told =
            said.lines().any(|line| line.contains("root.pem") && line.contains("Permission denied"));
        assert!(!ran.status.success() && is_told, "{arguments:?}: {said}");
    }
    let shown = enfilade(place, &["certs", "show", "root.example"], "");
    let said = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(said.contains("\"default\":true") && said.contains("localhost.pem"), "{said}");
    let said = String::from_utf8_lossy(&shown.stderr).into_owned();
    assert!(said.contains("root.pem` cannot be used: Permission denied"), "{said}");
}

#[test]
fn a_name_that_no_certificate_has_and_an_empty_place_are_errors() {
    let scratch = Scratch::new();
    let place = scratch.path();
    write_parts(place);
    let fails = |arguments: &[&str], why: &[&str]| {
        let ran = enfilade(place, arguments, "");
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert!(!ran.status.success() && ran.stdout.is_empty(), "{arguments:?}: {ran:?}");
        assert!(why.iter().all(|why| said.contains(why)), "{arguments:?}: {said}");
    };
    let wrong = ["no certificate has the name `wrong.example`", "enfilade certs show localhost --pem"];
    fails(&["certs", "show", "wrong.example", "--pem"], &wrong);
    std::fs::create_dir(place.join("empty")).unwrap();
    let none = ["there is no certificate in certificate directory `empty`", "enfilade certs add"];
    fails(&["certs", "check", "--directory", "empty"], &none);
    fails(&["certs", "remove", "gone"], &["gone` does not exist, so nothing was removed"]);
    std::fs::write(place.join("list"), "# nothing\n").unwrap();
    let toml = place.join("data/enfilade.toml");
    std::fs::write(&toml, "[tls]\ncrt_list = '../list'\n").unwrap();
    fails(
        &["certs", "check"],
        &["there is no certificate in crt-list `", "add a line with the path of this file"],
    );
    // A line with explicit names answers for these names, not for the names of its certificate.
    std::fs::write(place.join("list"), "data/tls/localhost.pem *.box.example !no.box.example\n").unwrap();
    let mut shown = Command::new(BINARY);
    shown.args(["--data", "data", "certs", "show", "x.box.example"]).current_dir(place);
    let said = String::from_utf8(shown.output().unwrap().stdout).unwrap();
    assert!(said.contains("the line of the crt-list has the name") && said.contains("list:1:"), "{said}");
}

/// `config check`, `doctor` and `serve` agree whether a server can start with the certificates.
#[test]
fn all_commands_agree_whether_a_server_can_start() {
    let scratch = Scratch::new();
    let place = scratch.path();
    write_parts(place);
    let toml = place.join("data/enfilade.toml");
    let text = |file: &str| std::fs::read_to_string(place.join(file)).unwrap();
    std::fs::create_dir(place.join("foreign")).unwrap();
    std::fs::write(place.join("foreign/a.pem"), text("leaf.crt") + &text("other.key")).unwrap();
    for (text, why) in [
        ("certificates = '../mistyped'", "certificate directory `"),
        ("crt_list = '../missing'", "missing` cannot be used: No such file"),
        ("issuers = '../missing'", "`[tls] issuers`: `"),
        ("check = 'eager'\ncertificates = '../mixed'", "1 certificate cannot be used"),
        ("certificates = '../foreign'", "a.pem` is left out: the private key belongs to another certificate"),
    ] {
        std::fs::create_dir_all(place.join("mixed")).unwrap();
        std::fs::copy(place.join("data/tls/localhost.pem"), place.join("mixed/a.pem")).unwrap();
        std::fs::write(place.join("mixed/b.pem"), "nothing").unwrap();
        std::fs::write(&toml, format!("[tls]\n{text}\n")).unwrap();
        let serve = ["serve", "--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0"];
        for arguments in [&["config", "check"][..], &["doctor"], &serve] {
            let ran = enfilade(place, arguments, "");
            let said =
                format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
            assert!(!ran.status.success() && said.contains(why), "{arguments:?} {text}: {said}");
        }
    }
    for verb in ["check", "show"] {
        let nowhere = Command::new(BINARY).args(["--data", "/nope", "config", verb]).output().unwrap();
        let said = String::from_utf8_lossy(&nowhere.stderr).into_owned();
        assert!(!nowhere.status.success() && said.contains("`/nope` does not exist"), "{verb}: {said}");
    }
    // A first start without a usable certificate creates nothing.
    let config = place.join("eager.toml");
    std::fs::write(&config, "[tls]\ncheck = 'eager'\ncertificates = 'mixed'\n").unwrap();
    let serve = ["serve", "--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0"];
    let mut first = Command::new(BINARY);
    first.arg("--config").arg(&config).arg("--data").arg(place.join("fresh")).args(serve);
    let first = first.output().unwrap();
    let said = String::from_utf8_lossy(&first.stderr).into_owned();
    assert!(!first.status.success() && said.contains("1 certificate cannot be used"), "{said}");
    assert!(!place.join("fresh").exists());
}

/// Settings and files without effect cause warnings. Files that would prevent the next start cause warnings, too.
#[test]
fn settings_and_files_without_effect_are_warnings() {
    let scratch = Scratch::new();
    let place = scratch.path();
    write_parts(place);
    let text = |file: &str| std::fs::read_to_string(place.join(file)).unwrap();
    let says = |arguments: &[&str], warnings: &[&str]| {
        let said = String::from_utf8(enfilade(place, arguments, "").stdout).unwrap();
        assert!(warnings.iter().all(|warning| said.contains(warning)), "{arguments:?}: {said}");
    };
    std::fs::write(place.join("data/tls/box.crt"), text("leaf.crt") + &text("plain.key")).unwrap();
    let with_key = ["box.crt", "the file is not served, although it contains a private key"];
    says(&["certs", "check"], &with_key);
    says(&["doctor"], &with_key);
    std::fs::create_dir(place.join("other")).unwrap();
    std::fs::copy(place.join("data/tls/localhost.pem"), place.join("other/a.pem")).unwrap();
    let toml = "[tls]\nnames = 'nas.lan'\ncertificates = '../other'\nhttp_listen = '127.0.0.1:0'\nacme_challenges = '/absent/acme'\n\
                plain_listen = 'unix:/absent/http.sock'\n[http]\ntrusted_proxies = 'unix'\n";
    std::fs::write(place.join("data/enfilade.toml"), toml).unwrap();
    let warnings = [
        "`tls.names` has no effect",
        "certs self-signed nas.lan",
        "`tls.acme_challenges`: the directory `/absent/acme` cannot be read",
        "the directory of the socket `/absent/http.sock` does not exist",
    ];
    says(&["config", "check"], &warnings);
    says(&["doctor"], &warnings);
}

/// `certs remove` also removes the key of the certificate, but no file that another bundle needs.
#[test]
fn a_certificate_is_removed_with_its_companion_files() {
    let scratch = Scratch::new();
    let place = scratch.path();
    write_parts(place);
    let tls = place.join("data/tls");
    let copy = |from: &str, to: &str| std::fs::copy(place.join(from), tls.join(to)).unwrap();
    for (from, to) in [
        ("leaf.crt", "one.pem"),
        ("plain.key", "one.key"),
        ("leaf.crt", "two.pem"),
        ("leaf.crt", "two.crt"),
        ("plain.key", "two.key"),
    ] {
        copy(from, to);
    }
    assert!(enfilade(place, &["certs", "self-signed", "box.lan"], "").status.success());
    assert!(tls.join("box.lan.crt").exists());
    for name in ["one.pem", "two.pem", "box.lan.pem"] {
        let removed = enfilade(place, &["certs", "remove", name], "");
        assert!(removed.status.success(), "{name}: {removed:?}");
    }
    let is_there = |name: &str| tls.join(name).exists();
    for name in ["one.pem", "one.key", "two.pem", "box.lan.pem", "box.lan.crt"] {
        assert!(!is_there(name), "{name} is left");
    }
    assert!(is_there("two.crt") && is_there("two.key") && is_there("localhost.crt"));
}

/// `openssl x509 -req` without an extension file makes a certificate of X.509 version 1. No handshake accepts this certificate, so `certs add`
/// refuses it.
#[test]
fn a_certificate_of_x509_version_1_is_refused_with_the_reason() {
    let scratch = Scratch::new();
    let place = scratch.path();
    write_parts(place);
    openssl(place, "req -new -key plain.key -subj /CN=old.example -out old.csr");
    openssl(place, "x509 -req -in old.csr -signkey plain.key -days 30 -out old.crt");
    let text = openssl(place, "x509 -in old.crt -noout -text");
    assert!(text.contains("Version: 1 "), "{text}");
    for arguments in [
        &["certs", "add", "old.crt", "plain.key"][..],
        &["token", "create", "admin@local!laptop", "--certificate", "old.crt"],
    ] {
        let ran = enfilade(place, arguments, "");
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert!(
            !ran.status.success() && said.contains("`old.crt`") && said.contains("X.509 version 1"),
            "{arguments:?}: {said}"
        );
    }
    assert!(!place.join("data/tls/old.pem").exists());
}

/// Whether a strict client accepts the certificate: Python verifies the name and, with `VERIFY_X509_STRICT`, the extensions that RFC 5280 requires.
fn python_accepts(trusted: &Path, address: &str, name: &str) -> bool {
    let program = "import socket, ssl, sys\n\
        c = ssl.create_default_context(cafile=sys.argv[1]); c.verify_flags |= ssl.VERIFY_X509_STRICT\n\
        host, port = sys.argv[2].rsplit(':', 1)\n\
        c.wrap_socket(socket.create_connection((host, int(port))), server_hostname=sys.argv[3])";
    let run = Command::new("python3").args(["-c", program]).arg(trusted).args([address, name]).output();
    run.unwrap().status.success()
}

fn curl_accepts(trusted: &Path, address: &str, name: &str) -> bool {
    let port = address.rsplit_once(':').unwrap().1;
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--fail", "--resolve", &format!("{name}:{port}:127.0.0.1"), "--cacert"]);
    let ran = curl.arg(trusted).arg(format!("https://{name}:{port}/.well-known/enfilade")).output().unwrap();
    ran.status.success()
}

fn rustls_accepts(trusted: &Path, address: &str, name: &str) -> bool {
    use tokio_rustls::rustls::crypto::aws_lc_rs;
    use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};
    use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, Stream};
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(trusted).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(aws_lc_rs::default_provider().into());
    let config = config.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots);
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut connection = ClientConnection::new(config.with_no_client_auth().into(), name).unwrap();
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    Stream::new(&mut connection, &mut stream).write_all(b"GET / HTTP/1.0\r\n\r\n").is_ok()
}

fn all_accept(trusted: &Path, address: &str, name: &str) {
    assert!(curl_accepts(trusted, address, name), "curl, {name}");
    assert!(python_accepts(trusted, address, name), "Python, {name}");
    assert!(rustls_accepts(trusted, address, name), "rustls, {name}");
}

#[test]
fn the_first_certificate_has_the_configured_names_and_is_accepted() {
    let names = ("ENFILADE_TLS__NAMES", "nas.lan, 192.0.2.7");
    let server = Server::start_with(&[names]);
    let trusted = server.certificate();
    for name in ["nas.lan", "localhost", "127.0.0.1"] {
        all_accept(&trusted, &server.address, name);
    }
    let text = openssl(
        &server.data(),
        "x509 -in tls/localhost.pem -noout -subject -dates -ext basicConstraints,subjectAltName",
    );
    for part in ["subject=CN = nas.lan\n", "CA:FALSE", "IP Address:192.0.2.7", "DNS:localhost"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let shown = server.cli(&["certs", "show", "nas.lan"]);
    let (from, to) = (shown[0]["not_before"].as_i64().unwrap(), shown[0]["not_after"].as_i64().unwrap());
    assert!((824 * 86_400..=825 * 86_400).contains(&(to - from)), "{shown:?}");
    // A name that is added to the configuration is in the certificate after the next start. Without a new name, a start changes nothing.
    let before = std::fs::read(&trusted).unwrap();
    let again = |names: &str| {
        server.cli_output_with(&[("ENFILADE_TLS__NAMES", names)], &["init"], "");
        std::fs::read(&trusted).unwrap()
    };
    assert_eq!(again(names.1), before);
    assert_ne!(again("nas.lan, box.lan"), before);
    until("the new certificate", &server, || curl_accepts(&trusted, &server.address, "box.lan"));
    // The server does not replace a certificate that it did not make, even under this file name.
    std::fs::write(server.data().join("tls/localhost.pem"), bundle("x", &["mine.example"], &ecdsa()))
        .unwrap();
    let mine = std::fs::read(server.data().join("tls/localhost.pem")).unwrap();
    again("third.lan");
    assert_eq!(std::fs::read(server.data().join("tls/localhost.pem")).unwrap(), mine);
    let refused = server.cli_output(&["certs", "self-signed", "third.lan", "--name", "localhost.pem"], "");
    assert!(!refused.status.success());
    assert!(
        !server
            .cli_output_with(&[("ENFILADE_TLS__NAMES", "192.0.2.300")], &["certs", "list"], "")
            .status
            .success()
    );
}

#[test]
fn a_local_ca_is_trusted_once_for_all_certificates_that_it_signs() {
    let scratch = Scratch::new();
    let directory: PathBuf = scratch.path().join("certificates");
    std::fs::create_dir(&directory).unwrap();
    // Clients that send no name get the certificate of the first file, unless another certificate contains the address of the connection.
    std::fs::write(directory.join("a.pem"), bundle("a", &["a.example"], &ecdsa())).unwrap();
    let place = directory.to_str().unwrap();
    let server = Server::start_with(&[("ENFILADE_TLS__CERTIFICATES", place)]);
    let cli = |arguments: &[&str]| {
        let output = server.cli_output_with(&[("ENFILADE_TLS__CERTIFICATES", place)], arguments, "");
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    // Without a CA, the certificate is self-signed.
    assert_eq!(cli(&["certs", "self-signed", "nas.lan", "127.0.0.1"])["signed_by"], "itself");
    let own = directory.join("nas.lan.crt");
    until("the certificate of nas.lan", &server, || curl_accepts(&own, &server.address, "nas.lan"));
    all_accept(&own, &server.address, "127.0.0.1");
    // The CA is created only once.
    assert!(!server.cli_output(&["certs", "ca", "--show"], "").status.success());
    assert_eq!(cli(&["certs", "ca", "--name", "Family CA"])["created"], true);
    assert_eq!(cli(&["certs", "ca"])["created"], false);
    let ca = scratch.path().join("ca.crt");
    std::fs::write(&ca, cli(&["certs", "ca", "--show"])["certificate"].as_str().unwrap()).unwrap();
    let mode = |file: &str| std::fs::metadata(server.data().join(file)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("ca"), mode("ca/ca.key"), mode("ca/ca.crt")), (0o700, 0o600, 0o644));
    for names in [&["nas.lan", "127.0.0.1"][..], &["*.box.lan"]] {
        let made = cli(&[&["certs", "self-signed"][..], names].concat());
        assert_eq!(made["signed_by"], "local CA");
        let file = made["file"].as_str().unwrap();
        openssl(scratch.path(), &format!("verify -x509_strict -purpose sslserver -CAfile ca.crt {file}"));
    }
    until("the certificate of x.box.lan", &server, || curl_accepts(&ca, &server.address, "x.box.lan"));
    for name in ["nas.lan", "127.0.0.1", "x.box.lan"] {
        all_accept(&ca, &server.address, name);
    }
    assert!(!curl_accepts(&ca, &server.address, "a.example"), "a certificate of another issuer");
    let issuer = openssl(scratch.path(), &format!("x509 -in {place}/nas.lan.pem -noout -issuer"));
    assert!(issuer.contains("CN = Family CA"), "{issuer}");
    // No datastore can contain the directory with the key of the CA.
    let into = server.data().join("ca");
    let refused = server.cli_output(&["datastore", "create", "ca", "--path", into.to_str().unwrap()], "");
    assert!(!refused.status.success(), "{}", String::from_utf8_lossy(&refused.stdout));
}

#[test]
fn files_that_root_adds_belong_to_the_owner_of_the_data_directory() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let scratch = Scratch::new();
    let place = scratch.path();
    std::fs::create_dir(place.join("data")).unwrap();
    std::os::unix::fs::chown(place.join("data"), Some(65_534), Some(65_534)).unwrap();
    write_parts(place);
    for arguments in [
        &["add", "leaf.crt", "plain.key"][..],
        &["self-signed", "nas.lan"],
        &["ca"],
        &["self-signed", "nas.lan", "box.lan"],
    ] {
        let ran = enfilade(place, &[&["certs"][..], arguments].concat(), "");
        assert!(ran.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&ran.stderr));
    }
    for file in ["tls", "tls/leaf.pem", "tls/nas.lan.pem", "tls/nas.lan.crt", "ca", "ca/ca.key", "ca/ca.crt"]
    {
        assert_eq!(std::fs::metadata(place.join("data").join(file)).unwrap().uid(), 65_534, "{file}");
    }
}
