use super::*;
use proptest::prelude::*;

#[test]
fn entries_stand_alone_and_go_back_as_they_were() {
    let text = r#"{"a@pbs!one":"$5$x","b@pbs":"$5$y","c@pbs!t":7,"d@pbs!t":"$5$1","a@pbs!two":"$y$z","d@pbs!t":"$5$2","e@pbs!t":"a\u0000b"}"#;
    let mut shadow = TokenShadow::parse(format!("\u{feff}{text}\r\n").as_bytes()).unwrap();
    assert_eq!(shadow.print(), text.as_bytes());
    let found = shadow.clone().hashes();
    let mut hashes: Vec<_> = found.hashes.iter().map(|(id, hash)| format!("{id} {hash}")).collect();
    hashes.sort();
    assert_eq!(hashes, ["a@pbs!one $5$x", "a@pbs!two $y$z"]);
    let broken: Vec<_> = found.broken.iter().map(|(id, why)| format!("{id}: {}", why.reason)).collect();
    assert_eq!(
        broken,
        [
            "c@pbs!t: its hash is not a string",
            "d@pbs!t: it has more than one entry",
            "e@pbs!t: the hash contains a NUL byte"
        ]
    );
    assert_eq!(found.problems, ["`b@pbs` is not a token id (expected USER@REALM!NAME)"]);
    shadow.set(&"d@pbs!t".parse().unwrap(), "$5$new".into());
    shadow.set(&"new@pbs!t".parse().unwrap(), "$5$n".into());
    assert!(shadow.remove(&"a@pbs!two".parse().unwrap()));
    assert!(!shadow.remove(&"a@pbs!two".parse().unwrap()));
    let expected = r#"{"a@pbs!one":"$5$x","b@pbs":"$5$y","c@pbs!t":7,"d@pbs!t":"$5$new","e@pbs!t":"a\u0000b","new@pbs!t":"$5$n"}"#;
    assert_eq!(String::from_utf8(shadow.print()).unwrap(), expected);
}

/// Compares two results: the changes that a pass finds, and the changes that are found if both versions are parsed.
fn check_changes(before: &str, after: &str) {
    let read = |text: &str| TokenShadow::parse(text.as_bytes()).map(TokenShadow::hashes);
    let mut seen = Seen::new(&read(before).unwrap(), MemoSeed([3; 16]));
    let found = seen.changes(after.as_bytes()).map(BTreeMap::from_iter);
    let whole = read(after).ok().filter(|said| said.broken.is_empty() && said.problems.is_empty());
    let (Some(found), Some(whole)) = (&found, &whole) else {
        assert!(found.is_none() && whole.is_none(), "{before} {after}");
        return;
    };
    let before = read(before).unwrap();
    for token in before.hashes.keys().chain(whole.hashes.keys()) {
        let is = whole.hashes.get(token);
        let expected = (before.hashes.get(token) != is).then(|| is.cloned());
        assert_eq!(found.get(&token.parse().unwrap()).cloned(), expected, "{token}");
    }
    // A second pass over the same version finds no change.
    assert_eq!(seen.changes(after.as_bytes()), Some(Changes::new()));
}

#[test]
fn a_walk_finds_what_reading_finds() {
    let two = r#"{"a@b1!t":"x","b@b1!t":"y"}"#;
    for after in [
        two,
        r#"{"b@b1!t":"y","a@b1!t":"x"}"#,
        r#"{"b@b1!t":"y","a@b1!t":"z"}"#,
        r#"{"b@b1!t":"y"}"#,
        "{}",
        r#"{"b@b1!t":"\u0079","a@b1!t":"x","c@b1!t":"w"}"#,
        r#"{"b@b1!t":"y","b@b1!t":"y"}"#,
        r#"{"b@b1!t":"y","b@b1!t":"z"}"#,
        r#"{"b@b1!t":"y","c@b1":"z"}"#,
        r#"{"b@b1!t":7}"#,
        r#"{"b@b1!t":"a\u0000"}"#,
        r#"{"b@b1!t":"y"} x"#,
        r#"["b@b1!t","y"]"#,
        r#"{"b@b1!t":"y""#,
    ] {
        check_changes(two, after);
    }
}

#[test]
fn what_is_no_object_says_where_and_quotes_nothing() {
    for (text, line) in
        [("", 1), ("{\n\"a@pbs!t\":\"$5$sec", 2), ("[]", 1), ("{}x", 1), ("\0", 1), ("{\"a\":1,}", 1)]
    {
        let why = TokenShadow::parse(text.as_bytes()).unwrap_err();
        assert_eq!(why.line, line, "{text:?}");
        assert!(!why.reason.contains("sec"), "{why:?}");
    }
    assert!(TokenShadow::parse(b"{}").unwrap().hashes() == Hashes::default());
}

proptest! {
    #[test]
    fn a_walk_finds_what_reading_finds_whatever_it_is(
        before in proptest::collection::btree_map("[ab]@[cd]{2}![ef]", "[xy]{1,2}", 0..6),
        after in proptest::collection::vec(("[ab]@[cd]{2}![ef]", "[xy]{1,2}"), 0..6),
    ) {
        let print = |entries: Vec<(String, String)>| {
            let entries = entries.into_iter().map(|(key, value)| (key, Value::String(value))).collect();
            String::from_utf8(TokenShadow { entries }.print()).unwrap()
        };
        check_changes(&print(before.into_iter().collect()), &print(after));
    }

    #[test]
    fn printing_and_parsing_is_the_same(entries in proptest::collection::vec((".{0,9}", ".{0,9}"), 0..8)) {
        let entries = entries.into_iter().map(|(key, value)| (key, Value::String(value))).collect();
        let shadow = TokenShadow { entries };
        prop_assert_eq!(TokenShadow::parse(&shadow.print()).unwrap(), shadow);
    }
}
