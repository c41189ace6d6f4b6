use super::*;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

/// A leaf, its issuer, the root, and the key of the leaf, in PEM.
fn made() -> [String; 4] {
    let authority = |name: &str| {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        (params, KeyPair::generate().unwrap())
    };
    let ((root, root_key), (middle, middle_key)) = (authority("root"), authority("middle"));
    let root_pem = root.self_signed(&root_key).unwrap().pem();
    let middle_pem = middle.signed_by(&middle_key, &Issuer::new(root, root_key)).unwrap().pem();
    let key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(["a.example".to_owned()]).unwrap();
    let leaf = leaf.signed_by(&key, &Issuer::new(middle, middle_key)).unwrap().pem();
    [leaf, middle_pem, root_pem, key.serialize_pem()]
}

fn joined(files: &[&str]) -> Result<Joined, String> {
    let mut pieces = Pieces::default();
    for (n, text) in files.iter().enumerate() {
        pieces.add(&format!("f{n}.crt"), text.as_bytes(), None).map_err(|why| why.to_string())?;
    }
    pieces.join(1_700_000_000)
}

#[test]
fn any_order_and_any_number_of_files_give_the_same_bundle() {
    let [leaf, middle, root, key] = made().map(|text| text.replace("\r\n", "\n"));
    let expected = [leaf.as_str(), &middle, &root, &key].concat();
    let all = [&leaf, &middle, &root, &key];
    for order in [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1], [1, 3, 0, 2]] {
        let files: Vec<&str> = order.iter().map(|at| all[*at].as_str()).collect();
        assert_eq!(*joined(&files).unwrap().pem, expected, "{order:?}");
        assert_eq!(*joined(&[&files.concat()]).unwrap().pem, expected, "{order:?}");
        // If two files contain the same certificate or key, the bundle contains it once.
        assert_eq!(*joined(&[&files.concat(), &key, &leaf]).unwrap().pem, expected, "{order:?}");
    }
    let one = joined(&[&root, &leaf, &key, &middle]).unwrap();
    assert_eq!((one.file.as_str(), one.warnings), ("f1.crt", Vec::new()));
}

#[test]
fn what_is_missing_or_does_not_fit_is_said() {
    let ([leaf, middle, root, key], [other, .., other_key]) = (made(), made());
    for (files, why) in [
        (vec![key.as_str()], "no certificate in `f0.crt`: give the certificate file too"),
        (
            vec![leaf.as_str(), &middle],
            "no private key in f0.crt, f1.crt: give the key file too, for example `enfilade certs add f0.crt f1.crt f0.key`",
        ),
        (
            vec![&leaf, &other_key],
            "this key belongs to another certificate: `f1.crt` is not the key of a certificate in `f0.crt`",
        ),
        (vec![&leaf, &key, &other, &other_key], "several certificates"),
        (vec!["nothing"], "contains no certificate and no key; expected PEM, DER or PKCS #12"),
        (vec!["-----BEGIN PKCS7-----\nAAAA\n-----END PKCS7-----\n"], "openssl pkcs7 -inform pem"),
        (
            vec![
                "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: X\n\nAAAA\n-----END RSA PRIVATE KEY-----\n",
            ],
            "former encrypted form",
        ),
    ] {
        let said = joined(&files).unwrap_err();
        assert!(said.contains(why), "{said}");
    }
    let warned = |files: &[&str]| joined(files).unwrap().warnings.join("; ");
    assert!(
        warned(&[&leaf, &key])
            .contains("the certificate of the authority that issued the server's certificate is missing")
    );
    assert!(warned(&[&leaf, &key, &middle, &root, &other]).contains("`f4.crt` is not an issuer"));
    assert!(warned(&[&leaf, &key, &middle, &other_key]).contains("the key in `f3.crt` belongs to another"));
}

#[test]
fn validity_is_judged_at_the_given_time() {
    let leaf = |not_before, not_after| Leaf {
        not_before,
        not_after,
        ..Leaf::of_der(&CertificateDer::from_pem_slice(made()[0].as_bytes()).unwrap()).unwrap()
    };
    let now = 1_000 * DAY;
    assert_eq!(of_validity(&leaf(0, now + SOON_DAYS * DAY), now), None);
    assert!(of_validity(&leaf(0, now + DAY), now).unwrap().contains("in 1 day:"));
    assert!(of_validity(&leaf(0, now - 1), now).unwrap().contains("has expired"));
    assert!(of_validity(&leaf(now + 1, now + 99 * DAY), now).unwrap().contains("not valid yet"));
}

/// [`Pieces::add`] does not panic on a damaged file.
#[test]
fn damaged_files_are_read_or_refused() {
    let [leaf, .., key] = made();
    let pem = format!("{leaf}{key}");
    let der = CertificateDer::from_pem_slice(leaf.as_bytes()).unwrap().to_vec();
    for original in [pem.as_bytes(), &der] {
        for at in (0..original.len()).step_by(7) {
            let mut bytes = original.to_vec();
            bytes[at] ^= 0x20;
            let _ = Pieces::default().add("x", &bytes, Some("y"));
            let _ = Pieces::default().add("x", &original[..at], Some("y"));
        }
    }
}
