//! A token that is bound to a client certificate is accepted only on some connections. The line of the crt-list for the connection must request
//! client certificates, and must accept this certificate. The commands report if no line does so.

use crate::every_command::{House, without_json};
use crate::terms::{Authority, MINE};
use rcgen::{CertificateRevocationListParams, KeyIdMethod, RevokedCertParams, SerialNumber, date_time_ymd};
use serde_json::Value;

/// A revocation list of the authority, which contains the certificate `mine`.
fn revocations(authority: &Authority) -> String {
    let list = CertificateRevocationListParams {
        this_update: date_time_ymd(2024, 1, 1),
        next_update: date_time_ymd(2099, 1, 1),
        crl_number: SerialNumber::from(1),
        issuing_distribution_point: None,
        revoked_certs: vec![RevokedCertParams {
            serial_number: SerialNumber::from(MINE.to_vec()),
            revocation_time: date_time_ymd(2024, 1, 1),
            reason_code: None,
            invalidity_date: None,
        }],
        key_identifier_method: KeyIdMethod::Sha256,
    };
    list.signed_by(&authority.issuer).unwrap().pem().unwrap()
}

#[test]
fn a_certificate_that_no_line_accepts_is_told() {
    let house = House::new();
    let (place, data) = (house.scratch.path(), house.scratch.path().join("data"));
    let authority = Authority::new("clients");
    std::fs::write(place.join("ca.pem"), &authority.pem).unwrap();
    std::fs::write(place.join("crl.pem"), revocations(&authority)).unwrap();
    for (name, (pem, _)) in [
        ("mine", authority.give("mine", true)),
        ("kept", authority.give("kept", true)),
        ("foreign", Authority::new("others").give("foreign", true)),
    ] {
        std::fs::write(place.join(format!("{name}.crt")), pem).unwrap();
    }
    let create = |name: &str| {
        let made = house.must(&format!("token create ann@local!{name} --certificate {{D}}/{name}.crt"));
        made["without_effect"].clone()
    };
    let text = |line: &str| String::from_utf8(without_json(&data, line).stdout).unwrap();
    // Without a crt-list, the server requests no client certificate.
    let effect = create("mine").to_string();
    assert!(effect.contains("no line of a crt-list asks for client certificates"), "{effect}");
    assert!(effect.contains("verify optional ca-file FILE"), "{effect}");
    let access = text("user access ann@local");
    let only = "only where a line of the crt-list asks for client certificates";
    assert!(access.contains(&format!("{only}, but there is no such line")), "{access}");
    let output = without_json(&data, "explain ann@local!mine main /");
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(3), "{said}");
    let parts = ["refuses ID01", "no client can present its certificate", "next: add `verify optional"];
    assert!(parts.iter().all(|part| said.contains(part)), "{said}");

    let list = place.join("list");
    let line = format!(
        "{} [verify optional ca-file ca.pem crl-file crl.pem]\n",
        data.join("tls/localhost.pem").display()
    );
    std::fs::write(&list, line).unwrap();
    std::fs::write(data.join("enfilade.toml"), format!("[tls]\ncrt_list = '{}'\n", list.display())).unwrap();
    house.must("token delete ann@local!mine");
    let effect = create("mine").to_string();
    assert!(effect.contains("line 1: the certificate is revoked in the `crl-file`"), "{effect}");
    let effect = create("foreign").to_string();
    assert!(effect.contains("line 1: no authority in the `ca-file`"), "{effect}");
    assert_eq!(create("kept"), Value::Null);
    let access = text("user access ann@local");
    assert!(access.contains(only) && !access.contains("no such line"), "{access}");
    let said = text("explain ann@local!kept main /");
    assert!(said.contains("identity   opens") && said.contains(only), "{said}");
}
