use super::*;

const TOKEN: &str = "urn:uuid:181d4fae-7d8c-41d0-a765-00a0c91e6bf2";

fn token() -> State {
    State::Token(Some(TOKEN.parse().unwrap()))
}

#[test]
fn conditions_count_in_their_order() {
    use Preconditions::{Fail, Hold, NotModified};
    let there = Some((Some("v"), Some(784_111_777)));
    // A directory has neither validator nor date.
    let directory = Some((None, None));
    let (at, before) = ("Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:36 GMT");
    for (headers, state, read, write) in [
        (vec![], there, Hold, Hold),
        (vec![("if-match", "\"v\"")], there, Hold, Hold),
        (vec![("if-match", "\"x\", \"v\"")], there, Hold, Hold),
        (vec![("if-match", "W/\"v\"")], there, Fail, Fail),
        (vec![("if-match", "*")], None, Fail, Fail),
        (vec![("if-match", "*")], directory, Hold, Hold),
        (vec![("if-match", "\"v\"")], directory, Fail, Fail),
        (vec![("if-none-match", "*")], directory, NotModified, Fail),
        (vec![("if-none-match", "\"v\"")], directory, Hold, Hold),
        (vec![("if-unmodified-since", before)], directory, Hold, Hold),
        (vec![("if-modified-since", at)], directory, Hold, Hold),
        (vec![("if-match", "\"v\""), ("if-unmodified-since", before)], there, Hold, Hold),
        (vec![("if-unmodified-since", before)], there, Fail, Fail),
        (vec![("if-unmodified-since", at)], there, Hold, Hold),
        (vec![("if-unmodified-since", "nonsense")], there, Hold, Hold),
        (vec![("if-none-match", "*")], there, NotModified, Fail),
        (vec![("if-none-match", "\"x\""), ("if-none-match", "\"v\"")], there, NotModified, Fail),
        (vec![("if-match", "\"x\""), ("if-match", "\"v\"")], there, Hold, Hold),
        (vec![("if-none-match", "*")], None, Hold, Hold),
        (vec![("if-none-match", "W/\"v\"")], there, NotModified, Fail),
        (vec![("if-none-match", "\"x\""), ("if-modified-since", at)], there, Hold, Hold),
        (vec![("if-modified-since", at)], there, NotModified, Hold),
        (vec![("if-modified-since", before)], there, Hold, Hold),
    ] {
        let fields = headers
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        let map: HeaderMap = fields.collect();
        let said = (preconditions(&map, state, true), preconditions(&map, state, false));
        assert_eq!(said, (read, write), "{headers:?} {state:?}");
    }
}

#[test]
fn what_clients_send() {
    let is = |state| Condition { is_not: false, state };
    let tag = |text: &str| is(State::Tag(text.into()));
    for (text, lists) in [
        (format!("(<{TOKEN}>)"), vec![(None, vec![is(token())])]),
        (
            format!("(<{TOKEN}> [\"a]b\"])(Not <DAV:no-lock> [W/\"c\"])"),
            vec![
                (None, vec![is(token()), tag("\"a]b\"")]),
                (None, vec![Condition { is_not: true, state: State::Token(None) }, tag("W/\"c\"")]),
            ],
        ),
        (
            format!("</dav/a> (<{TOKEN}>) ([\"x\"]) <http://h/dav/b>(<urn:x>)"),
            vec![
                (Some("/dav/a"), vec![is(token())]),
                (Some("/dav/a"), vec![tag("\"x\"")]),
                (Some("http://h/dav/b"), vec![is(State::Token(None))]),
            ],
        ),
    ] {
        let read = parse(&text).unwrap_or_else(|| panic!("{text}"));
        let expected: Vec<List> = lists
            .into_iter()
            .map(|(resource, conditions)| List { resource: resource.map(str::to_owned), conditions })
            .collect();
        assert_eq!(read.lists, expected, "{text}");
    }
}

#[test]
fn what_is_no_list_is_refused() {
    let many = "(Not <a>)".repeat(257);
    for text in [
        "",
        "x",
        "()",
        "(",
        "(<a>",
        "(<a)",
        "([\"a\")",
        "([a])",
        "(\"a\")",
        "<a>",
        "<a>x",
        "(<a>)<b>(<c>)",
        "<a>(<b>)x",
        &many,
    ] {
        assert_eq!(parse(text), None, "{text}");
    }
}

#[test]
fn places_of_other_hosts_are_none_of_ours() {
    let path = |url| resource_of(url, Some("h:1")).map(|place| place.path.to_string());
    assert_eq!(path("/dav/tank/a%20b"), Some("/a b".into()));
    assert_eq!(path("https://H:1/dav/tank/a"), Some("/a".into()));
    for url in [
        "https://h/dav/tank/a",
        "ftp://h:1/dav/tank/a",
        "https://h:1",
        "/other",
        "/dav/tank/../x",
        "/dav/tank/a#b",
        "/dav/tank/a?b",
    ] {
        assert_eq!(path(url), None, "{url}");
    }
}
