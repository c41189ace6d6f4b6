//! Each name has one spelling, and each spelling means one name.

use super::*;
use proptest::prelude::*;

#[test]
fn a_group_is_no_user() {
    let why = "@family".parse::<Authid>().unwrap_err().to_string();
    assert!(why.contains("`@` begins the name of a group"), "{why}");
}

#[test]
fn authids_as_proxmox_reads_them() {
    for (text, user, realm, token) in [
        ("alice@local", "alice", "local", None),
        ("alice@local!backup", "alice", "local", Some("backup")),
        ("a@b@local", "a@b", "local", None),
        ("bang!user@pbs!t.1", "bang!user", "pbs", Some("t.1")),
        ("ä@pam", "ä", "pam", None),
    ] {
        let authid: Authid = text.parse().unwrap();
        assert_eq!((authid.user.name(), authid.user.realm().as_str()), (user, realm), "{text}");
        assert_eq!(authid.token.as_ref().map(TokenName::as_str), token, "{text}");
        assert_eq!(authid.to_string(), text);
    }
    for text in [
        "",
        "alice",
        "@local",
        "alice@",
        "alice@l",
        "alice@local!",
        "alice@local!-x",
        "al ice@local",
        "a:b@local",
        "a/b@local",
        "alice@lo cal",
        "alice@local!a!b",
        "alice@local!!a",
        "\u{0}@local",
    ] {
        assert!(text.parse::<Authid>().is_err(), "{text:?}");
    }
    assert!(format!("{}@local", "x".repeat(60)).parse::<Userid>().is_err());
}

fn user(name: &str, realm: &str) -> Userid {
    Userid::new(name, realm.parse().unwrap()).unwrap()
}

#[test]
fn names_that_do_not_fit_are_encoded() {
    for (name, realm, token, text) in [
        ("Jürgen Groß", "local", None, "J%C3%BCrgen%20Gro%C3%9F@%local"),
        ("alice", "Default Domain", Some("t"), "alice@%Default%20Domain!t"),
        ("alice", "local", Some("a b"), "alice@%local!a%20b"),
        ("CORP\\svc:x/y", "local", None, "CORP%5Csvc%3Ax%2Fy@%local"),
        ("a@b", "x", None, "a%40b@%x"),
        ("100%", "l!@%", Some("!@%"), "100%25@%l%21%40%25!%21%40%25"),
        ("a\u{202e} b", "local", None, "a%E2%80%AE%20b@%local"),
        ("a\u{200b}b", "local", None, "a%E2%80%8Bb@%local"),
        ("@staff", "local", None, "%40staff@%local"),
        ("@staff", "local", Some("t"), "%40staff@%local!t"),
    ] {
        let token = token.map(|token| token.parse().unwrap());
        let authid = Authid { user: user(name, realm), token };
        assert_eq!((authid.to_string().as_str(), authid.to_word().as_str()), (text, text));
        assert_eq!(text.parse::<Authid>(), Ok(authid), "{text}");
    }
    let umlaut = Authid::from(user("ä", "pam"));
    assert_eq!((umlaut.to_string().as_str(), umlaut.to_word().as_str()), ("ä@pam", "%C3%A4@%pam"));
    assert_eq!("%C3%A4@%pam".parse(), Ok(umlaut));
    for text in [
        "a b@%local",
        "a@b@%local",
        "a!b@%local",
        "a%4@%local",
        "%FF@%local",
        "a@%",
        "@%local",
        "a@%local!",
        "ü@%local",
    ] {
        assert!(text.parse::<Authid>().is_err(), "{text:?}");
    }
    for (name, is_name) in [
        ("", false),
        (" ", false),
        (" a", false),
        ("a\n", false),
        ("a\tb", false),
        ("a b", true),
        ("\u{3000}", false),
        (&"\u{10348}".repeat(255), true),
        (&"a".repeat(256), false),
    ] {
        assert_eq!(Userid::new(name, Realm::local()).is_ok(), is_name, "{name:?}");
    }
    assert!(" a ".parse::<TokenName>().is_ok() && "  ".parse::<TokenName>().is_err());
    assert!("名".repeat(64).parse::<Realm>().is_ok() && "a".repeat(65).parse::<Realm>().is_err());
}

/// A user `@staff` of the realm `local` must not be written like the group `staff`.
#[test]
fn no_user_is_written_like_a_group() {
    let staff = Authid::from(user("@staff", "local"));
    assert_eq!((staff.to_proxmox().as_str(), staff.is_plain()), ("@staff@local", true));
    // Older programs wrote this spelling. It is still read.
    assert_eq!("@staff@local".parse(), Ok(staff.clone()));
    assert_eq!(Authid::from_proxmox("@staff@local"), Ok(staff.clone()));
    assert!(Ugid::Authid(staff.clone()).to_string().parse::<Ugid>().is_err(), "acl.cfg cannot contain it");
    let token = Authid { token: Some("t".parse().unwrap()), ..staff };
    assert_eq!(Authid::from_proxmox(&token.to_proxmox()), Ok(token));
    // A name in a file can contain invisible characters. Its text in a key of facts means the same grantee.
    let unseen: Ugid = "a\u{200b}b@pbs!t".parse().unwrap();
    assert_eq!((unseen.to_string().as_str(), unseen.to_string().parse()), ("a\u{200b}b@pbs!t", Ok(unseen)));
    let odd = Authid::from(user("a b", "local"));
    assert!(Authid::from_proxmox(&odd.to_proxmox()).is_err());
}

#[test]
fn each_text_of_a_client_has_one_word() {
    for (text, word) in [
        ("alice@local", "alice@local"),
        ("alice@%local", "alice@local"),
        ("ä@pam", "%C3%A4@%pam"),
        ("@staff@local!t", "%40staff@%local!t"),
        ("alice", "alice"),
        ("a\nb", "a%0Ab"),
        ("alice@lo cal", "alice%40lo%20cal"),
    ] {
        assert_eq!(Authid::word_of(text), word);
    }
    for (name, realm, token, word) in [
        ("alice", "local", None, "alice@local"),
        ("Jürgen Groß", "local", Some("my laptop"), "J%C3%BCrgen%20Gro%C3%9F@%local!my%20laptop"),
        ("a\nb", "local", None, "a%0Ab@%local"),
        ("", "", Some(""), "@%!"),
    ] {
        assert_eq!(Authid::word_of_parts(name, realm, token), word);
    }
    assert_eq!(word_of_id("alice@local"), "alice%40local");
    // A client can send a text of any length.
    assert_eq!(word_of_id(&" ".repeat(9_000)), format!("{}~", "%20".repeat(255)));
    let long = Authid::word_of_parts(&"名".repeat(9_000), &"a".repeat(9_000), Some(&"b".repeat(9_000)));
    assert!(long.len() < 3_000 && long.parse::<Authid>().is_err(), "{long}");
}

#[test]
fn groups_are_written_like_users() {
    let longest = "g".repeat(64);
    for (name, realm, text) in [
        ("staff", "local", "staff@local"),
        (longest.as_str(), "local", format!("{longest}@local").as_str()),
        ("Große Gruppe", "local", "Gro%C3%9Fe%20Gruppe@%local"),
        ("staff", "a b", "staff@%a%20b"),
    ] {
        let group = GroupName::new(name, realm.parse().unwrap()).unwrap();
        assert_eq!(group.to_string(), text);
        assert_eq!(text.parse(), Ok(group));
    }
    for name in ["staff", &longest] {
        let group = Ugid::Group(GroupName::new(name, Realm::local()).unwrap());
        assert_eq!((format!("@{name}").parse(), group.to_string()), (Ok(group), format!("@{name}")));
    }
    for text in ["@staff@local", "@staff@%local", "@a%20b@%tenant", "@a b", "a%20b@%local", "alice@%local"] {
        assert!(text.parse::<Ugid>().is_err(), "{text}");
    }
}

/// Texts of the characters that spellings use.
fn odd_text() -> impl Strategy<Value = String> {
    let letters = vec![
        'a',
        'B',
        '1',
        '@',
        '!',
        ':',
        '/',
        ',',
        '%',
        '#',
        ' ',
        '-',
        '.',
        '_',
        'ü',
        '\u{200b}',
        '\u{1f980}',
    ];
    proptest::collection::vec(proptest::sample::select(letters), 1..6).prop_map(String::from_iter)
}

proptest! {
    #[test]
    fn a_spelling_means_one_name(name in odd_text(), realm in odd_text(), token in proptest::option::of(odd_text())) {
        let token = match token.map(|token| token.parse()) {
            None => None,
            Some(Ok(token)) => Some(token),
            Some(Err(_)) => return Ok(()),
        };
        let Ok(user) = realm.parse().and_then(|realm| Userid::new(&name, realm)) else { return Ok(()) };
        let group = GroupName::new(&name, user.realm().clone()).unwrap();
        let authid = Authid { user: user.clone(), token };
        prop_assert_eq!(authid.to_string().parse::<Authid>().unwrap(), authid.clone());
        prop_assert_eq!(authid.to_word().parse::<Authid>().unwrap(), authid.clone());
        prop_assert_eq!(Authid::word_of(&authid.to_string()), authid.to_word());
        // `@` at the beginning of a text means that a group follows.
        prop_assert!(!authid.to_string().starts_with('@'));
        prop_assert!(!authid.to_string().chars().any(is_unseen));
        match authid.is_plain() {
            true => {
                prop_assert_eq!(Authid::from_proxmox(&authid.to_proxmox()).unwrap(), authid.clone());
                let grantee = Ugid::Authid(authid.clone());
                if !name.starts_with('@') {
                    prop_assert_eq!(grantee.to_string().parse::<Ugid>().unwrap(), grantee);
                }
            }
            false => prop_assert!(Authid::from_proxmox(&authid.to_proxmox()).is_err()),
        }
        let project = NameInDomain { name: name.clone(), domain: user.realm().clone() };
        prop_assert_eq!(project.to_string().parse::<NameInDomain>().unwrap(), project);
        prop_assert!(authid.to_word().bytes().all(|byte| byte.is_ascii_graphic()));
        prop_assert_eq!(user.to_string().parse::<Userid>().unwrap(), user);
        prop_assert_eq!(group.to_string().parse::<GroupName>().unwrap(), group);
    }

    #[test]
    fn a_text_is_read_as_one_name_or_refused(text in odd_text(), rest in odd_text()) {
        // If a text is accepted as an authid, the spelling of this authid is read as the same authid.
        for text in [format!("{text}@{rest}"), format!("{text}@%{rest}")] {
            if let Ok(authid) = text.parse::<Authid>() {
                prop_assert_eq!(authid.to_string().parse::<Authid>().unwrap(), authid);
            }
        }
    }
}
