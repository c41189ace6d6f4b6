//! Splits a dump into statements. A dump contains texts that users of the source chose, and such a text may look like a statement. So the reader
//! parses every statement, even the statements of tables that the import does not need. It finds the end of each text, and refuses everything that it
//! does not understand.

use anyhow::bail;

/// A part of a statement. Comments and blanks do not count as parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part<'t> {
    /// A text in single quotes. The value is the source text between the quotes.
    Text(&'t str),
    /// A name in backticks or double quotes.
    Name(&'t str),
    /// A keyword, a number, or a name without quotes.
    Word(&'t str),
    Sign(char),
}

/// The beginning of a dump shows its kind. A dump of SQLite begins with one of these lines. (Python's `iterdump` writes the second line.) A dump of
/// MySQL begins with one of the texts in `MYSQL`. The reader must know the kind of the dump: a backslash escapes the next character only in dumps of
/// MySQL.
const SQLITE: [&str; 2] = ["PRAGMA foreign_keys=OFF;", "BEGIN TRANSACTION;"];
const MYSQL: [&str; 5] = ["--", "/*", "CREATE TABLE ", "DROP TABLE ", "SET "];

/// Reads a dump, one [`Part`] after the other.
#[derive(Clone, Copy)]
pub(super) struct Reader<'t> {
    whole: &'t str,
    rest: &'t str,
    is_sqlite: bool,
}

impl<'t> Reader<'t> {
    pub(super) fn new(text: &'t str) -> anyhow::Result<Self> {
        let is_sqlite = SQLITE.iter().any(|begin| text.starts_with(begin));
        let reader = Reader { whole: text, rest: text, is_sqlite };
        match is_sqlite || MYSQL.iter().any(|begin| text.starts_with(begin)) {
            true => Ok(reader),
            false => bail!(reader.wrong("the first line of a dump by `mysqldump` or `sqlite3 .dump`")),
        }
    }

    /// The error for a text that differs from `expected`. The error contains the number of the line, but no text of the dump, because a dump contains
    /// secrets.
    pub(super) fn wrong(&self, expected: &str) -> anyhow::Error {
        let read = self.whole.len() - self.rest.len();
        let line = 1 + self.whole.bytes().take(read).filter(|byte| *byte == b'\n').count();
        anyhow::anyhow!("line {line}: expected {expected}")
    }

    /// The next part; `None` at the end of the dump.
    pub(super) fn next(&mut self) -> anyhow::Result<Option<Part<'t>>> {
        self.skip_blanks()?;
        let Some(first) = self.rest.chars().next() else { return Ok(None) };
        let after = self.rest.get(first.len_utf8()..).unwrap_or_default();
        let part = match first {
            '\'' => {
                let Some(end) = end_of_text(after, !self.is_sqlite) else {
                    bail!(self.wrong("a closing quote of the string that begins here"))
                };
                let (text, rest) = after.split_at(end);
                self.rest = rest.strip_prefix('\'').unwrap_or(rest);
                Part::Text(text)
            }
            '`' | '"' => {
                let Some((name, rest)) = after.split_once(first) else {
                    bail!(self.wrong("a closing quote of the name that begins here"))
                };
                self.rest = rest;
                Part::Name(name)
            }
            _ => {
                let is_in_word = |c: char| c.is_alphanumeric() || "_.+-".contains(c);
                let end = self.rest.find(|c| !is_in_word(c)).unwrap_or(self.rest.len());
                if end == 0 {
                    self.rest = after;
                    return Ok(Some(Part::Sign(first)));
                }
                let (word, rest) = self.rest.split_at(end);
                self.rest = rest;
                Part::Word(word)
            }
        };
        Ok(Some(part))
    }

    fn skip_blanks(&mut self) -> anyhow::Result<()> {
        loop {
            self.rest = self.rest.trim_start();
            let end = match self.rest.get(..2) {
                Some("--") => "\n",
                Some("/*") => "*/",
                _ => return Ok(()),
            };
            match self.rest.split_once(end) {
                Some((_, rest)) => self.rest = rest,
                None if end == "\n" => self.rest = "",
                None => bail!(self.wrong("an end of the comment that begins here")),
            }
        }
    }

    /// Skips the next part if it equals `part`. Returns whether the part was skipped.
    pub(super) fn has(&mut self, part: Part<'_>) -> anyhow::Result<bool> {
        let mut ahead = *self;
        let is_next = ahead.next()? == Some(part);
        if is_next {
            *self = ahead;
        }
        Ok(is_next)
    }

    /// Skips the next part. Fails if the next part does not equal `part`.
    pub(super) fn expect(&mut self, part: Part<'_>) -> anyhow::Result<()> {
        let here = *self;
        match (self.has(part)?, part) {
            (true, _) => Ok(()),
            (false, Part::Sign(sign)) => bail!(here.wrong(&format!("`{sign}`"))),
            (false, Part::Text(word) | Part::Name(word) | Part::Word(word)) => {
                bail!(here.wrong(&format!("`{word}`")))
            }
        }
    }

    /// Reads the rest of a statement, including its final `;`.
    pub(super) fn end_statement(&mut self) -> anyhow::Result<()> {
        loop {
            match self.next()? {
                Some(Part::Sign(';')) => return Ok(()),
                Some(_) => {}
                None => bail!(self.wrong("`;` at the end of the last statement: the dump is not complete")),
            }
        }
    }

    /// A name, with or without quotes.
    pub(super) fn name(&mut self) -> anyhow::Result<&'t str> {
        let here = *self;
        match self.next()? {
            Some(Part::Name(name) | Part::Word(name)) => Ok(name),
            _ => bail!(here.wrong("a name")),
        }
    }

    /// A value of a row; `None` for NULL.
    pub(super) fn value(&mut self) -> anyhow::Result<Option<String>> {
        if self.has(Part::Word("NULL"))? {
            return Ok(None);
        }
        let mut ahead = *self;
        if let Some(Part::Word(word)) = ahead.next()?
            && is_number(word)
        {
            *self = ahead;
            return Ok(Some(word.to_owned()));
        }
        Ok(Some(if self.is_sqlite { self.text_of_sqlite()? } else { self.text()? }))
    }

    fn text(&mut self) -> anyhow::Result<String> {
        let here = *self;
        match self.next()? {
            Some(Part::Text(text)) if self.is_sqlite => Ok(text.replace("''", "'")),
            Some(Part::Text(text)) => Ok(unescaped(text)),
            _ => bail!(here.wrong("NULL, a number or a string in single quotes")),
        }
    }

    /// A text in the form in which `sqlite3` prints it. If a text contains line ends, some versions print `replace('a\nb','\n',char(10))`, or two
    /// nested calls of `replace`. Newer versions print `unistr('a\u000ab')`.
    fn text_of_sqlite(&mut self) -> anyhow::Result<String> {
        if self.has(Part::Word("unistr"))? {
            self.expect(Part::Sign('('))?;
            let here = *self;
            let Some(text) = with_code_points(&self.text()?) else {
                bail!(here.wrong("a string with `\\uXXXX` or `\\\\` for each backslash"))
            };
            self.expect(Part::Sign(')'))?;
            return Ok(text);
        }
        let mut replacements = 0;
        while self.has(Part::Word("replace"))? {
            self.expect(Part::Sign('('))?;
            replacements += 1;
        }
        let mut text = self.text()?;
        for _ in 0..replacements {
            self.expect(Part::Sign(','))?;
            let here = *self;
            let written = self.text()?;
            for part in [Part::Sign(','), Part::Word("char"), Part::Sign('(')] {
                self.expect(part)?;
            }
            let end = match (written.is_empty(), self.next()?) {
                (false, Some(Part::Word("10"))) => "\n",
                (false, Some(Part::Word("13"))) => "\r",
                _ => bail!(here.wrong("a string and its replacement, `char(10)` or `char(13)`")),
            };
            self.expect(Part::Sign(')'))?;
            self.expect(Part::Sign(')'))?;
            text = text.replace(&written, end);
        }
        Ok(text)
    }
}

/// The offset of the quote that ends a text. A doubled quote does not end the text.
fn end_of_text(text: &str, has_escapes: bool) -> Option<usize> {
    let mut bytes = text.bytes().enumerate().peekable();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'\\' if has_escapes => drop(bytes.next()),
            b'\'' if bytes.next_if(|(_, next)| *next == b'\'').is_none() => return Some(at),
            _ => {}
        }
    }
    None
}

fn is_number(word: &str) -> bool {
    let is_digits = |c: char| c.is_ascii_digit() || "+-.eE".contains(c);
    word.chars().all(is_digits) && word.parse::<f64>().is_ok()
}

/// Decodes the doubled quotes and the backslash escapes in a text of MySQL.
fn unescaped(text: &str) -> String {
    let (mut value, mut chars) = (String::with_capacity(text.len()), text.chars());
    while let Some(c) = chars.next() {
        let escaped = if c == '\\' || c == '\'' { chars.next() } else { None };
        value.push(match (c, escaped) {
            ('\\', Some('n')) => '\n',
            ('\\', Some('r')) => '\r',
            ('\\', Some('t')) => '\t',
            ('\\', Some('b')) => '\u{8}',
            ('\\', Some('0')) => '\0',
            ('\\', Some('Z')) => '\u{1a}',
            (_, Some(other)) => other,
            (c, None) => c,
        });
    }
    value
}

/// Decodes the argument of `unistr`. Returns `None` if the argument does not have the form that `sqlite3` writes.
fn with_code_points(text: &str) -> Option<String> {
    let (mut value, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((before, escaped)) = rest.split_once('\\') {
        value.push_str(before);
        rest = match escaped.strip_prefix('\\') {
            Some(after) => {
                value.push('\\');
                after
            }
            None => {
                let (digits, after) = escaped.strip_prefix('u')?.split_at_checked(4)?;
                let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
                value.push(char::from_u32(u32::from_str_radix(digits, 16).ok().filter(|_| is_hex)?)?);
                after
            }
        };
    }
    value.push_str(rest);
    Some(value)
}

#[cfg(test)]
mod tests;
