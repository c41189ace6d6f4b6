use super::*;

fn one(text: &str) -> Line {
    let list = CrtList::parse(text);
    assert_eq!(list.bad, []);
    list.lines.into_iter().next().unwrap()
}

#[test]
fn lines_as_haproxy_takes_them() {
    let text = "# a comment\n\n/c/a.pem\n  /c/b.pem   www.B.example *.b.example !api.b.example\n\
                /c/c.pem[alpn h2 ssl-min-ver TLSv1.3] c.example\n/c/d.pem [ verify required ca-file /ca.pem ]\n/c/e.pem *\n";
    let list = CrtList::parse(text);
    assert_eq!((list.bad.len(), list.warnings.len()), (0, 0), "{list:?}");
    let numbers: Vec<_> = list.lines.iter().map(|line| (line.number, line.file.as_str())).collect();
    assert_eq!(
        numbers,
        [(3, "/c/a.pem"), (4, "/c/b.pem"), (5, "/c/c.pem"), (6, "/c/d.pem"), (7, "/c/e.pem")]
    );
    let [a, b, c, d, e] = list.lines.try_into().unwrap();
    assert_eq!((a.names, a.options), (None, Options::default()));
    assert_eq!(b.names, Some(vec!["www.b.example".into(), "*.b.example".into()]));
    assert_eq!(b.excluded, ["api.b.example"]);
    assert_eq!(c.names, Some(vec!["c.example".into()]));
    assert_eq!(c.options.alpn, Some(vec!["h2".into()]));
    assert_eq!(c.options.min_version.as_deref(), Some("TLSv1.3"));
    assert_eq!((d.options.verify, d.options.ca_file.as_deref()), (Verify::Required, Some("/ca.pem")));
    assert!(e.is_default && e.names.is_none());
}

#[test]
fn a_line_that_cannot_be_applied_is_left_out_with_a_reason() {
    for (text, why) in [
        ("[alpn h2] a.pem", "expected the path"),
        ("a.pem [alpn h2", "not closed"),
        ("a.pem [alpn]", "expected a value after `alpn`"),
        ("a.pem [verify maybe ca-file x]", "expected `none`, `optional` or `required`"),
        ("a.pem [verify required]", "needs a `ca-file`"),
        ("a.pem [sigalgs RSA]", "does not support `sigalgs`"),
        ("a.pem [key b.key]", "into `FILE.key` in the same directory"),
        ("a.pem [nonsense]", "not an option of a crt-list"),
        ("a.pem name [alpn h2]", "right after the file"),
    ] {
        let list = CrtList::parse(text);
        assert!(list.lines.is_empty(), "{text}");
        assert!(list.bad[0].1.contains(why), "{text}: {}", list.bad[0].1);
    }
    for (text, why) in [
        ("a.pem *.x !*.y.x", "has no effect"),
        ("a.pem x !y", "no wildcard"),
        ("a.pem w*.x.example", "`w*.x.example` never matches"),
        ("a.pem *.*.example", "never matches"),
        ("a.pem https://x.example", "never matches"),
        ("a.pem [allow-0rtt]", "never accepted"),
        ("a.pem [ca-file x]", "add `verify optional`"),
        ("a.pem [npn h2]", "clients no longer use it"),
    ] {
        let list = CrtList::parse(text);
        assert_eq!((list.lines.len(), list.bad.len()), (1, 0), "{text}");
        assert!(list.warnings[0].1.contains(why), "{text}: {}", list.warnings[0].1);
    }
    // A line that only excludes names is used for no name, as in HAProxy.
    assert_eq!(one("a.pem !x").names, Some(vec![]));
}

/// In any text, each line that is neither empty nor a comment is applied or reported.
#[test]
fn each_line_of_any_text_is_applied_or_reported() {
    const WORDS: [&str; 22] = [
        "/a.pem",
        " ",
        " ",
        "\n",
        "\n",
        "[",
        "]",
        "!",
        "*",
        "*.x.example",
        "x.example",
        "alpn",
        "h2",
        "verify",
        "required",
        "ca-file",
        "#",
        "\t",
        "curves",
        "\u{e9}",
        "no-alpn",
        "\r\n",
    ];
    let mut state = 7_u64;
    let mut roll = |sides: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % sides
    };
    let (mut lines, mut told) = (0, 0);
    for _ in 0..20_000 {
        let text: String = (0..roll(20)).map(|_| WORDS[roll(WORDS.len())]).collect();
        let list = CrtList::parse(&text);
        let meant =
            text.lines().filter(|line| !line.trim().is_empty() && !line.trim().starts_with('#')).count();
        assert_eq!(list.lines.len() + list.bad.len(), meant, "{text:?}");
        (lines, told) = (lines + list.lines.len(), told + list.bad.len());
    }
    assert!(lines > 5_000 && told > 5_000, "{lines} lines applied, {told} lines reported");
}
