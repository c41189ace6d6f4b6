use super::*;

fn value(begin: &str, text: &str) -> Option<Option<String>> {
    let whole = format!("{begin}\n{text} ;");
    let mut reader = Reader::new(&whole).unwrap();
    reader.rest = whole.get(begin.len()..).unwrap();
    let value = reader.value().ok()?;
    reader.has(Part::Sign(';')).unwrap().then_some(value)
}

#[test]
fn values_of_sqlite() {
    for (text, expected) in [
        (r"'a\'", r"a\"),
        ("'it''s'", "it's"),
        ("'two\nlines'", "two\nlines"),
        (r"replace('x\n,(1)','\n',char(10))", "x\n,(1)"),
        (r"replace('x\012\n','\012',char(10))", "x\n\\n"),
        (r"replace(replace('a\r\nb','\r',char(13)),'\n',char(10))", "a\r\nb"),
        (r"unistr('a\u000ab\\u000a''')", "a\nb\\u000a'"),
        ("-1", "-1"),
        ("1.5e+3", "1.5e+3"),
    ] {
        assert_eq!(value(SQLITE[0], text), Some(Some(expected.to_owned())), "{text}");
    }
    assert_eq!(value(SQLITE[0], "NULL"), Some(None));
    for bad in [
        "x'00'",
        "now()",
        "'a' 'b'",
        "'a'||'b'",
        "inf",
        "e",
        "1x",
        r"replace('a','',char(10))",
        r"replace('a','\n',char(65))",
        r"replace('a','\n','x')",
        r"replace('a','\n',char(10)",
        r"unistr('\x')",
        r"unistr('\u00')",
        r"unistr('\u+00a')",
        r"unistr('\ud800')",
        "",
    ] {
        assert_eq!(value(SQLITE[0], bad), None, "{bad}");
    }
}

#[test]
fn values_of_mysql() {
    for (text, expected) in [
        (r"'a\\'", r"a\"),
        (r"'a\',(1)'", "a',(1)"),
        (r"'it''s'", "it's"),
        (r"'\r\n\t\0\Z\%'", "\r\n\t\0\u{1a}%"),
        ("'ü\\ü'", "üü"),
    ] {
        assert_eq!(value("-- MySQL", text), Some(Some(expected.to_owned())), "{text}");
    }
    for bad in [r"'a\'", "replace('a','b',char(10))", "unistr('a')", "_binary 'a'", "0x61", "TRUE"] {
        assert_eq!(value("-- MySQL", bad), None, "{bad}");
    }
}

#[test]
fn a_file_that_is_no_dump_is_refused_with_the_line() {
    // If `sqlite3` printed only the rows of a table, its output does not begin like a dump.
    for bad in ["", "x", "INSERT INTO t VALUES(1);", "\u{feff}-- MySQL"] {
        assert!(Reader::new(bad).is_err(), "{bad}");
    }
    let mut reader = Reader::new("-- MySQL\n/* '; */\nSET a='\\';\n").unwrap();
    let why = reader.end_statement().unwrap_err().to_string();
    assert_eq!(why, "line 3: expected a closing quote of the string that begins here");
    let why = Reader::new("-- MySQL\n/*").unwrap().next().unwrap_err().to_string();
    assert!(why.starts_with("line 2: "), "{why}");
}
