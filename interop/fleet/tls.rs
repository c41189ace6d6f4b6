//! Mutual authentication between a member and etcd.

use super::{passes, why};
use crate::command::run;
use crate::curl::curl;
use crate::server::{Scratch, Server};
use enfilade_testkit::{Etcd, TlsFiles};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use std::path::Path;

/// Writes an authority `<name>-ca.pem`, and a certificate for 127.0.0.1 that it signed (`<name>.pem` and `<name>.key`).
fn authority(place: &Path, name: &str) {
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.distinguished_name.push(DnType::CommonName, name);
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let (issuer_key, key) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let ca = authority.self_signed(&issuer_key).unwrap().pem();
    let leaf = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let leaf = leaf.signed_by(&key, &Issuer::new(authority, issuer_key)).unwrap().pem();
    let texts = [(format!("{name}-ca.pem"), ca), (format!("{name}.pem"), leaf)];
    for (file, text) in texts.into_iter().chain([(format!("{name}.key"), key.serialize_pem())]) {
        std::fs::write(place.join(file), text).unwrap();
    }
}

#[test]
fn only_a_member_with_a_certificate_of_the_authority_reaches_etcd() {
    let scratch = Scratch::new();
    let place = scratch.path();
    ["own", "stranger"].iter().for_each(|name| authority(place, name));
    let path = |file: &str| place.join(file);
    let files = TlsFiles { ca: &path("own-ca.pem"), certificate: &path("own.pem"), key: &path("own.key") };
    let etcd = Etcd::start_with_tls(&files);
    let configure = |data: &Path, ca: &str, certificate: &str| {
        let of = |file: &str| path(file).display().to_string();
        let text = format!(
            "[fleet]\nname = \"a\"\netcd = [\"{}\"]\nca = \"{}\"\ncertificate = \"{}\"\nkey = \"{}\"\n",
            etcd.address,
            of(&format!("{ca}-ca.pem")),
            of(&format!("{certificate}.pem")),
            of(&format!("{certificate}.key"))
        );
        std::fs::write(data.join("enfilade.toml"), text).unwrap();
    };
    let mut server = Server::start_on(
        |data| {
            passes(data, &["init"]);
            // etcd refuses a certificate of an unknown authority, and the member refuses an etcd with a certificate of an unknown authority. If etcd
            // refuses a certificate, it only closes the connection.
            for (ca, certificate, cause) in
                [("own", "stranger", "connection"), ("stranger", "own", "invalid peer certificate")]
            {
                configure(data, ca, certificate);
                let refused = why(&run(data, &["fleet", "init"], None));
                assert!(
                    refused.contains("etcd does not answer") && refused.contains(cause),
                    "{ca} {certificate}: {refused}"
                );
            }
            std::fs::write(
                data.join("enfilade.toml"),
                "[fleet]\nname = \"a\"\netcd = [\"http://192.0.2.1:2379\"]\n",
            )
            .unwrap();
            let refused = why(&run(data, &["fleet", "init"], None));
            assert!(refused.contains("https"), "{refused}");
            configure(data, "own", "own");
            passes(data, &["fleet", "init"]);
        },
        &[],
    );
    let token = server.add_token("admin@local!api");
    assert_eq!(curl(&server, &token, "/whoami", &[]).status, 200);
    let keys = etcd.control(&["get", "--prefix", "/enfilade/member", "--keys-only"]);
    assert_eq!(keys.trim(), "/enfilade/member/a");
    // A member with a wrong certificate cannot reach etcd. A command that reads prints a warning with its answer. A command that changes facts fails.
    server.stop();
    configure(&server.data(), "own", "stranger");
    let listed = server.cli_output(&["user", "list"], "");
    let said = String::from_utf8_lossy(&listed.stderr).into_owned();
    assert!(listed.status.success() && said.contains("may use old facts"), "{said}");
    assert!(why(&server.cli_output(&["user", "add", "eve@local"], "")).contains("etcd does not answer"));
}
