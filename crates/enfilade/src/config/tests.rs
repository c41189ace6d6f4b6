use super::*;

fn of(text: &str, environment: &[(&str, &str)]) -> anyhow::Result<Config> {
    parse_file(text)?;
    let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    with_environment(text, environment)
}

#[test]
fn the_environment_is_over_the_file() {
    let config = of("[tls]\nlisten = '[::1]:1'\n", &[("ENFILADE_TLS__LISTEN", "127.0.0.1:2")]).unwrap();
    assert_eq!(config.tls.listen.to_string(), "127.0.0.1:2");
    let config = of("", &[("ENFILADE_IDENTITY__HASH_SLOTS", "3")]).unwrap();
    assert_eq!(
        (config.identity.hash_slots, config.tls.listen.to_string().as_str()),
        (Some(3), "127.0.0.1:8443")
    );
}

#[test]
fn networks_are_a_list_or_a_text() {
    let of =
        |value: &str| of(&format!("[http]\ntrusted_proxies = {value}"), &[]).unwrap().http.trusted_proxies;
    assert_eq!(of("['127.0.0.1', '10.0.0.0/8']"), of("'127.0.0.1, 10.0.0.0/8'"));
    assert!(of("['127.0.0.1']").networks.hold("127.0.0.1".parse().unwrap()));
}

#[test]
fn a_unix_socket_and_the_trust_in_it_belong_together() {
    let of = |listen: &str, trusted: &str| {
        let text = format!("[tls]\nplain_listen = {listen}\n[http]\ntrusted_proxies = {trusted}");
        let config = of(&text, &[])?;
        config.check_sockets().map(|()| (config.tls.sockets().count(), config.http.trusted_proxies.unix))
    };
    let said = |listen: &str, trusted: &str| format!("{:#}", of(listen, trusted).unwrap_err());
    assert_eq!(of("'unix:/run/a.sock'", "'unix'").unwrap(), (1, true));
    assert_eq!(of("['127.0.0.1:1', 'unix:/run/a.sock']", "['unix', '10.0.0.0/8']").unwrap(), (1, true));
    assert_eq!(of("':1'", "['10.0.0.0/8']").unwrap(), (0, false));
    let why = said("['127.0.0.1:1', 'unix:/run/a.sock']", "['0.0.0.0/0', '::/0']");
    assert!(why.contains("`/run/a.sock`") && why.contains("add \"unix\""), "{why}");
    let why = said("':1'", "'unix'");
    assert!(why.contains("has no Unix socket: set `tls.plain_listen = "), "{why}");
    let why = said("'unix:http.sock'", "'unix'");
    assert!(why.contains("line 2: `unix:http.sock`: the path is not absolute"), "{why}");
    for other in ["[tls]\nlisten", "[tls]\nhttp_listen", "[operations]\nlisten"] {
        let why = format!("{:#}", self::of(&format!("{other} = 'unix:/run/a.sock'"), &[]).unwrap_err());
        assert!(
            why.contains("line 2: `unix:/run/a.sock`: a Unix socket is only for `tls.plain_listen`"),
            "{why}"
        );
    }
    let why = format!("{:#}", self::of("[tls]\nproxy_from = 'unix'", &[]).unwrap_err());
    assert!(why.contains("`unix`: expected an address or a network"), "{why}");
}

#[test]
fn a_variable_that_sets_no_key_is_named() {
    let unread = |name: &str| unread_variables([name.to_owned()].into_iter());
    for name in ["ENFILADE_DATA", "ENFILADE_TLS__LISTEN", "ENFILADE_SEED", "TLS_LISTEN"] {
        assert_eq!(unread(name), [""; 0], "{name}");
    }
    let said = unread("ENFILADE_TLS_LISTEN");
    assert!(said[0].contains("`ENFILADE_TLS__LISTEN`"), "{said:?}");
    assert!(unread("ENFILADE_LIMITS_X")[0].contains("`ENFILADE_LIMITS__X`"));
}

const NO_RECIPIENT: &str = r#"line 2: no recipient: expected at least one, such as ["age1…"]; for backups that are not encrypted, remove the key"#;

#[test]
fn errors_name_the_line_on_one_line_and_the_nearest_key() {
    for (text, environment, expected) in [
        (
            "[tls]\nplain_listne = 1",
            None,
            "line 2: unknown key `tls.plain_listne`; the nearest known one is `tls.plain_listen`",
        ),
        (
            "\n[tsl]\nlisten = '127.0.0.1:1'",
            None,
            "line 3: unknown key `tsl.listen`; the nearest known one is `tls.listen`",
        ),
        ("listen = 1", None, "line 1: unknown key `listen`; the nearest known one is `tls.listen`"),
        (
            "[identity]\nhashslots = 1",
            None,
            "line 2: unknown key `identity.hashslots`; the nearest known one is `identity.hash_slots`",
        ),
        (
            "# one\n[tls]\nlisten = 'nowhere'",
            None,
            "line 3: `nowhere` is not an address; expected ADDRESS:PORT, HOST:PORT, or :PORT for all addresses of the machine; several as a list, or separated by commas, such as 0.0.0.0:8443",
        ),
        (
            "[identity]\n\nhash_slots = 'many'",
            None,
            "line 3: invalid type: string \"many\", expected a whole number",
        ),
        (
            "[tls]\nlisten = 8444",
            None,
            "line 2: `8444` is not an address; expected ADDRESS:PORT, HOST:PORT, or :PORT for all addresses of the machine; several as a list, or separated by commas, such as 0.0.0.0:8443",
        ),
        (
            "[tls]\ncheck = 'lazy'\n\n[tls]\nlisten = ':1'",
            None,
            "line 4: the table [tls] appears twice: move the keys of the second one into the first one",
        ),
        (
            "[tls]\nlisten = ':1'\nlisten = ':1'",
            None,
            "line 3: the key appears twice: remove one of the two lines",
        ),
        (
            "[http]\ntrusted_proxies = true",
            None,
            "line 2: `true`: expected a list of addresses, networks and `unix`, such as [\"10.0.0.0/8\"]",
        ),
        ("[tls]\nacme = true", None, "line 2: `true`: expected a list of names, such as [\"nas.lan\"]"),
        ("[backup]\nrecipients = ''", None, NO_RECIPIENT),
        ("[backup]\nrecipients = []", None, NO_RECIPIENT),
        ("[backup]\nrecipients = ['']", None, NO_RECIPIENT),
        ("[backup]\nkeep = 0", None, "line 2: 0 is too small; expected a number from 1 on"),
        (
            "[backup]\ndirectory = 'b'",
            None,
            "line 2: the path `b` is not absolute; expected a path that begins with `/`",
        ),
        ("[tls", None, "line 1: unclosed table, expected `]`"),
        ("[limits]\nxml_bytes = 0", None, "line 2: limit `xml_bytes` is 0; expected 1024 to 67108864"),
        (
            "[limits]\nxml_byte = 9",
            None,
            "line 2: unknown key `limits.xml_byte`; the nearest known one is `limits.xml_bytes`",
        ),
        // The error names all wrong lines, in their order.
        (
            "[limits]\nxml_byte = 9\n[tls]\ncheck = 'lazy'\nstrict_sni = 1\n[backup]\nkeep = 0",
            None,
            "line 2: unknown key `limits.xml_byte`; the nearest known one is `limits.xml_bytes`; line 5: invalid type: integer `1`, expected a boolean; line 7: 0 is too small; expected a number from 1 on",
        ),
        // If another section has a key with this name, the error names that key. Otherwise it names a key of the same section.
        (
            "[tls]\ntrusted_proxies = '::1'",
            None,
            "line 2: unknown key `tls.trusted_proxies`; the nearest known one is `http.trusted_proxies`",
        ),
        (
            "[http]\nx = 1",
            None,
            "line 2: unknown key `http.x`; the nearest known one is `http.trusted_proxies`",
        ),
        (
            "",
            Some(("ENFILADE_TLS__LISTEN", "nowhere")),
            "environment variable `ENFILADE_TLS__LISTEN`: `nowhere` is not an address; expected ADDRESS:PORT, HOST:PORT, or :PORT for all addresses of the machine; several as a list, or separated by commas, such as 0.0.0.0:8443",
        ),
        (
            "",
            Some(("ENFILADE_TLS__LISTNE", "1")),
            "environment variable `ENFILADE_TLS__LISTNE`: unknown key `tls.listne`; the nearest known one is `tls.listen`",
        ),
    ] {
        let why = of(text, environment.as_slice()).unwrap_err();
        assert_eq!(format!("{why:#}"), expected);
    }
}

/// A relative path is relative to the directory of the file. The working directory of the command does not matter.
#[test]
fn a_relative_path_begins_at_the_directory_of_the_file() {
    let scratch = std::env::temp_dir().join(format!("enfilade-paths-{}", std::process::id()));
    std::fs::create_dir_all(&scratch).unwrap();
    let file = scratch.join("other.toml");
    std::fs::write(&file, "[tls]\ncrt_list = 'list'\nissuers = '/ca'\n[facts]\nfiles = 'cfg/x'\n").unwrap();
    let config = read(Path::new("/data"), Some(&file)).unwrap();
    assert_eq!(config.tls.crt_list, Some(scratch.join("list")));
    assert_eq!(config.tls.issuers, Some("/ca".into()));
    assert_eq!(config.facts.files, Some(scratch.join("cfg/x")));
    std::fs::remove_dir_all(scratch).unwrap();
}

#[test]
fn an_address_of_two_listeners_is_told_of() {
    for (text, expected) in [
        ("", None),
        ("[tls]\nlisten = ':0'\nplain_listen = ':0'", None),
        (
            "[tls]\nplain_listen = '127.0.0.1:9443'",
            Some(
                "`tls.plain_listen` and `operations.listen` both have the address 127.0.0.1:9443, which only one can bind: change one of the two",
            ),
        ),
    ] {
        let said = without_effect(&of(text, &[]).unwrap());
        assert_eq!(said.first().map(String::as_str), expected, "{text}");
    }
    let said = |text: &str| without_effect(&of(text, &[]).unwrap()).join(" ");
    assert!(said("[backup]\nevery = '1h'").starts_with("no backups are made, because "));
    assert_eq!(said("[backup]\nevery = '1h'\ndirectory = '/b'"), "");
}

/// To validate a name, an authority connects from the internet to the host with this name.
#[test]
fn only_public_names_are_for_an_authority() {
    let of = |acme: &str| of(&format!("[tls]\nacme = {acme}"), &[]).map(|config| config.tls);
    for acme in ["['a.example', 'b.a.example']", "'a.example, b.a.example'", "'A.example b.a.example.'"] {
        assert_eq!(of(acme).unwrap().acme_names(), ["a.example", "b.a.example"], "{acme}");
    }
    for (acme, why) in [
        ("'a b'", "`a` is not a public host name"),
        ("['a b']", "`a b` is not a host name"),
        ("['localhost']", "expected one with a dot"),
        ("['nas.example', 'nas']", "`nas` is not a public host name"),
        ("['*.a.example']", "is a wildcard"),
        ("['192.0.2.7']", "is an IP address"),
        ("['2001:db8::7']", "is an IP address"),
    ] {
        let said = format!("{:#}", of(acme).unwrap_err());
        assert!(said.starts_with("line 2: ") && said.contains(why), "{acme}: {said}");
    }
}

#[test]
fn missing_ca_certificates_of_the_acme_authority_are_told_of() {
    let config = of("[tls]\nacme = ['a.example']\nacme_roots = '/nope/ca.pem'", &[]).unwrap();
    let said = without_effect(&config);
    assert!(said.len() == 1 && said[0].contains("`/nope/ca.pem` cannot be read"), "{said:?}");
}

#[test]
fn a_unix_socket_is_no_address_of_two_listeners() {
    let config = of("[tls]\nplain_listen = ['unix:/run/a.sock', '127.0.0.1:9443']", &[]).unwrap();
    let said = without_effect(&config);
    assert!(said.len() == 1 && said[0].contains("the address 127.0.0.1:9443"), "{said:?}");
}

#[test]
fn the_keys_of_tokens_can_be_set() {
    let text = "[identity]\nfernet_keys = \"/k\"\nmax_active_keys = 5\ntoken_seconds = 60\nexpired_seconds = 0\nrotate_every = \"7d\"\n";
    let identity = of(text, &[]).unwrap().identity;
    assert_eq!(identity.rotate_every.map(|every| every.seconds), Some(604_800));
    let wrong = format!("{:#}", of("[identity]\nrotate_every = \"often\"\n", &[]).unwrap_err());
    assert!(wrong.contains("line 2") && wrong.contains("`often`"), "{wrong}");
    let wrong = format!("{:#}", of("[identity]\ntoken_seconds = 2678401\n", &[]).unwrap_err());
    assert!(wrong.contains("line 2") && wrong.contains("expected 0 to 2678400"), "{wrong}");
    assert_eq!(
        (
            identity.fernet_keys,
            identity.max_active_keys,
            identity.token_seconds.seconds(),
            identity.expired_seconds
        ),
        (Some("/k".into()), 5, 60, 0)
    );
}

#[test]
fn rules_for_passwords_can_be_set() {
    let text = "[passwords]\ncharacters_min = 14\nkinds_min = 3\nexpire_after = \"90d\"\nkeep_for = \"1d\"\nunlike_last = 24\nchange_given = true\nregex = '^(?=.*[0-9]).+$'\nregex_description = \"a digit\"\n[identity]\nlockout_failures = 5\nlockout_duration = \"1h\"\ninactive_days = 90\n";
    let expected = PasswordRules {
        characters_min: 14,
        kinds_min: 3,
        seconds_max: 90 * 86_400,
        seconds_min: 86_400,
        unlike_last: 24,
        change_given: true,
        regex: Some(enfilade_admin::PasswordRegex::new("^(?=.*[0-9]).+$").unwrap()),
        regex_description: Some("a digit".to_owned()),
        lockout_failures: 5,
        lockout_seconds: 3_600,
        inactive_days: 90,
    };
    assert_eq!(of(text, &[]).unwrap().password_rules(), expected);
    let usual = PasswordRules { characters_min: 12, lockout_seconds: 1_800, ..PasswordRules::NONE.clone() };
    assert_eq!(of("", &[]).unwrap().password_rules(), usual);
    for (text, expected) in [
        ("unlike_last = 25", "25 is too large; expected 0 to 24"),
        ("kinds_min = 5", "expected 0 to 4"),
        ("regex = '('", "`(` is not a regular expression"),
    ] {
        let why = format!("{:#}", of(&format!("[passwords]\n{text}"), &[]).unwrap_err());
        assert!(why.contains("line 2") && why.contains(expected), "{why}");
    }
}

#[test]
fn the_trash_can_be_set() {
    let of = |text: &str| of(&format!("[console]\n{text}"), &[]).map(|config| config.console.trash());
    assert_eq!((of("").unwrap().days, of("trash_days = 0").unwrap().days), (30, 0));
    for list in ["['a-store', 'main']", "'main, a-store'"] {
        let names: Vec<String> =
            of(&format!("no_trash = {list}")).unwrap().without.iter().map(ToString::to_string).collect();
        assert_eq!(names, ["a-store", "main"], "{list}");
    }
    for (text, why) in [
        ("trash_days = 36501", "expected 0 to 36500"),
        ("no_trash = ['a/b']", "`a/b` is not the name of a datastore"),
        ("no_trash = 1", "expected a list of datastores"),
    ] {
        let said = format!("{:#}", of(text).unwrap_err());
        assert!(said.starts_with("line 2: ") && said.contains(why), "{text}: {said}");
    }
}

#[test]
fn what_waits_for_a_restart_is_named() {
    let before = of("", &[]).unwrap();
    for (text, expected) in [
        ("", &[][..]),
        ("[tls]\nstrict_sni = true\n[identity]\nhash_slots = 9", &[]),
        ("[tls]\nlisten = '127.0.0.1:1'\nplain_listen = '127.0.0.1:2'", &["tls.listen", "tls.plain_listen"]),
        (
            "[facts]\ngroup = 7\nfiles = '/y'\n[identity]\npenalties = false",
            &["identity.penalties", "facts.files", "facts.group"],
        ),
    ] {
        assert_eq!(before.waits_for_restart(&of(text, &[]).unwrap()).unwrap(), expected, "{text}");
    }
}

/// A key that is missing from `KEYS` would be refused as unknown, and a reload could not report that a change of the key needs a restart.
#[test]
fn every_key_that_can_be_set_is_in_the_table() {
    let config = of("[tls]\nplain_listen='127.0.0.1:1'\nhttp_listen='127.0.0.1:1'\nacme_challenges='/a'\nacme='a.example'\nacme_contact='a@a.example'\nacme_roots='/r'\ncertificates='/x'\ncrt_list='/l'\nnames='nas.lan'\nissuers='/i'\nhsts='max-age=1'\n[decisions]\nlisten='unix:/d'\nusers='a'\nsign_in='https://a.example'\n[datastores]\nroots='/r'\n[console]\nno_trash='main'\n[identity]\nhash_slots=1\nfernet_keys='/k'\nrotate_every='7d'\nlockout_duration='1h'\n[passwords]\nregex='a'\nregex_description='a'\nexpire_after='1d'\nkeep_for='1d'\n[backup]\ndirectory='/b'\nevery='1d'\n[facts]\nfiles='/y'\ngroup=1\nmap_mebibytes=16\n[privileges]\nhelper='/h'\n[traces]\notlp='http://127.0.0.1:4318'\n[fleet]\netcd='http://127.0.0.1:2379'\nname='a'\nlisten='127.0.0.1:8444'\nstrict=true\nca='/ca'\ncertificate='/c'\nkey='/k'", &[]).unwrap();
    let table = toml::Table::try_from(config).unwrap();
    let keys = table.iter().flat_map(|(section, value)| {
        value.as_table().unwrap().keys().map(move |key| format!("{section}.{key}"))
    });
    let mut keys: Vec<String> = keys.collect();
    let mut known: Vec<String> = super::keys().map(|(key, _)| key).collect();
    keys.sort_unstable();
    known.sort_unstable();
    assert_eq!(keys, known);
}

/// If a key has no value in the default configuration, it has a text for the reference (`unset`). For all other keys, this text is empty.
#[test]
fn every_key_has_a_default() {
    let defaults = toml::Table::try_from(Config::default()).unwrap();
    for key in KEYS {
        let value = defaults.get(key.section).and_then(|section| section.get(key.name()));
        let is_unset = value.is_none_or(|value| value.as_str() == Some(""));
        assert_eq!(is_unset, !key.unset.is_empty(), "{}.{}", key.section, key.name());
    }
}

/// If the `#` is removed from a line with a key in the output of `enfilade config example`, the line is valid.
#[test]
fn every_line_of_the_example_can_be_used() {
    let is_key = |line: &str| {
        let name = line.split(" = ").next().unwrap_or_default();
        line.contains(" = ") && keys().any(|(key, _)| key.ends_with(&format!(".{name}")))
    };
    let example = example().unwrap();
    let line = |line: &str| line.strip_prefix("# ").filter(|key| is_key(key)).unwrap_or(line).to_owned();
    let used: Vec<String> =
        example.lines().map(line).filter(|line| !line.starts_with("recipients")).collect();
    let config = of(&used.join("\n"), &[]).unwrap();
    assert_eq!(config.tls.plain_listen.unwrap().to_string(), ":8080");
    assert_eq!(used.iter().filter(|line| is_key(line)).count(), keys().count() - 1);
}

#[test]
fn the_reference_shows_defaults_and_choices() {
    let row = |name: &str| KEYS.iter().find(|key| key.name() == name).unwrap();
    assert_eq!(
        (row("match").expected)(),
        "`exact-first`: a certificate with the exact name is preferred to a certificate with a wildcard; `haproxy`: as in HAProxy, a \
         certificate with an ECDSA key is preferred, even if it matches the name only by a wildcard"
    );
    assert_eq!((row("token_seconds").expected)(), "0 to 2678400");
}
