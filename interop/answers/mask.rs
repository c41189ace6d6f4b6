//! The canonical form of a text: the rules of `masks.txt` replace values that are different in each run.

use std::collections::HashMap;

/// The rules, in their order.
pub(super) struct Masks {
    rules: Vec<Rule>,
    /// For each byte, the indexes of the rules that can match at a place with this byte.
    by_byte: Vec<Vec<usize>>,
    orders: Vec<(String, String)>,
    /// The beginning of the Content-Type of metrics.
    samples: String,
    /// The replacement of each value that was found earlier.
    known: HashMap<String, String>,
    /// Values that are replaced anywhere in a text, each with its replacement.
    texts: Vec<(String, String)>,
    /// The beginning of the run, in seconds since the epoch.
    began: i64,
}

struct Rule {
    name: String,
    kind: Kind,
    before: Vec<Piece>,
    masked: Vec<Piece>,
    after: Vec<Piece>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Kept,
    Same,
    Each,
    Minutes,
    Moment(Form),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Iso,
    Http,
    Unix,
}

enum Piece {
    Text(Vec<u8>),
    Class(u8, usize, usize),
}

/// The place of the masked text. The replacement of a value contains the place where the value was found first.
pub(super) struct MaskContext<'p> {
    pub(super) origin: &'p str,
    /// For each rule, the number of values that were first found at this place.
    pub(super) count: HashMap<String, usize>,
    /// The time of the request.
    pub(super) now: i64,
}

impl Masks {
    /// Reads the rules.
    pub(super) fn read(text: &str, began: i64) -> Self {
        let (mut rules, mut orders, mut samples) = (Vec::new(), Vec::new(), String::new());
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let parts: Vec<&str> = line.splitn(4, " | ").map(str::trim).collect();
            let [name, kind, pattern, reason] = parts[..] else { panic!("`{line}` has not four parts") };
            assert!(!reason.is_empty(), "`{line}` gives no reason");
            let (before, rest) = pattern.split_once('[').unwrap();
            let (masked, after) = rest.rsplit_once(']').unwrap();
            // The masked part is the last part in brackets. An earlier bracket belongs to the text before this part.
            let (before, masked) = match masked.rsplit_once('[') {
                Some((more, masked)) => (format!("{before}[{more}"), masked),
                None => (before.to_owned(), masked),
            };
            let (masked, after) = match masked.split_once(']') {
                Some((masked, more)) => (masked, format!("{more}]{after}")),
                None => (masked, after.to_owned()),
            };
            let kind = match kind {
                "order" => {
                    orders.push((before, after));
                    continue;
                }
                "samples" => {
                    samples = before;
                    continue;
                }
                "kept" => Kind::Kept,
                "same" => Kind::Same,
                "each" => Kind::Each,
                "minutes" => Kind::Minutes,
                "moment" => Kind::Moment(Form::Iso),
                "moment-http" => Kind::Moment(Form::Http),
                "moment-unix" => Kind::Moment(Form::Unix),
                other => panic!("`{other}` is no kind of mask"),
            };
            let (before, masked, after) = (pieces(&before), pieces(masked), pieces(&after));
            rules.push(Rule { name: name.to_owned(), kind, before, masked, after });
        }
        let may_begin = |byte: usize| {
            let fits = |rule: &Rule| rule.may_begin(u8::try_from(byte).unwrap());
            rules.iter().enumerate().filter(|(_, rule)| fits(rule)).map(|(nth, _)| nth).collect()
        };
        let by_byte = (0..256).map(may_begin).collect();
        Masks { rules, by_byte, orders, samples, known: HashMap::new(), texts: Vec::new(), began }
    }

    /// From now on, this name replaces the value where a rule finds the value.
    pub(super) fn know(&mut self, value: &str, name: &str) {
        self.known.insert(value.to_owned(), format!("<{name}>"));
    }

    /// From now on, this name replaces the value everywhere.
    pub(super) fn know_anywhere(&mut self, value: &str, name: &str) {
        self.texts.push((value.to_owned(), format!("<{name}>")));
    }

    /// The text with all replacements.
    pub(super) fn canonical(&mut self, text: &str, context: &mut MaskContext<'_>) -> String {
        let mut text = text.to_owned();
        for (value, name) in &self.texts {
            text = text.replace(value, name);
        }
        for (begin, end) in &self.orders {
            text = ordered(&text, begin, end);
        }
        let (mut out, mut at) = (String::with_capacity(text.len()), 0);
        let bytes = text.as_bytes();
        while at < bytes.len() {
            // If a pattern begins with the masked part, the rule also checks the last byte of `out`.
            let found = self.by_byte[usize::from(bytes[at])].iter().find_map(|nth| {
                let (begin, end) = self.rules[*nth].find(bytes, at, &out)?;
                Some((*nth, begin, end))
            });
            match found {
                None => {
                    let char = text[at..].chars().next().unwrap();
                    out.push(char);
                    at += char.len_utf8();
                }
                Some((nth, begin, end)) => {
                    out.push_str(&text[at..begin]);
                    out.push_str(&self.masked(nth, &text[begin..end], context));
                    at = end;
                }
            }
        }
        out
    }

    /// The body with all replacements; `kind` is its Content-Type.
    pub(super) fn canonical_body(&mut self, kind: &str, text: &str, context: &mut MaskContext<'_>) -> String {
        match kind.starts_with(&self.samples) {
            true => self.canonical(&without_samples(text), context),
            false => self.canonical(text, context),
        }
    }

    fn masked(&mut self, nth: usize, value: &str, context: &mut MaskContext<'_>) -> String {
        let rule = &self.rules[nth];
        match rule.kind {
            Kind::Kept => value.to_owned(),
            Kind::Each => format!("<{}>", rule.name),
            // The value is a number of seconds, such as the remaining time of a lock. The number is rounded up to minutes. A number that exceeds
            // whole minutes by one second is rounded down, because the clock may advance between the request and the answer.
            Kind::Minutes => {
                let seconds = value.parse::<u64>().unwrap_or(0);
                format!("<{} minutes>", seconds.saturating_sub(1).div_ceil(60).max(seconds.min(1)))
            }
            Kind::Moment(form) => {
                let time = seconds(value, form).unwrap_or_else(|| panic!("`{value}` is no time"));
                let ahead = time - context.now;
                match () {
                    () if time < self.began - 3600 || ahead > 40 * 86_400 => value.to_owned(),
                    () if ahead < 60 => "<now>".to_owned(),
                    () => format!("<now + {} h>", (ahead + 1800) / 3600),
                }
            }
            Kind::Same => {
                if let Some(name) = self.known.get(value) {
                    return name.clone();
                }
                let count = context.count.entry(rule.name.clone()).or_default();
                *count += 1;
                let name = format!("<{} {count} of {}>", rule.name, context.origin);
                self.known.insert(value.to_owned(), name.clone());
                name
            }
        }
    }
}

impl Rule {
    fn may_begin(&self, byte: u8) -> bool {
        match self.before.iter().chain(&self.masked).next() {
            Some(Piece::Text(text)) => text[0] == byte,
            Some(Piece::Class(class, ..)) => is_of(*class, byte),
            None => false,
        }
    }

    /// The beginning and end of the masked part, if the rule matches here.
    fn find(&self, bytes: &[u8], at: usize, before: &str) -> Option<(usize, usize)> {
        let begin = taken(&self.before, bytes, at)?;
        let end = taken(&self.masked, bytes, begin)?;
        taken(&self.after, bytes, end)?;
        let goes_on = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
        let is_cut = self.before.is_empty() && at > 0 && goes_on(before.as_bytes().last())
            || self.after.is_empty() && goes_on(bytes.get(end));
        (!is_cut && end > begin).then_some((begin, end))
    }
}

fn pieces(pattern: &str) -> Vec<Piece> {
    let (mut found, mut rest) = (Vec::new(), pattern);
    while !rest.is_empty() {
        let Some(class) = rest.strip_prefix('%') else {
            let end = rest.find('%').unwrap_or(rest.len());
            found.push(Piece::Text(rest.as_bytes()[..end].to_vec()));
            rest = &rest[end..];
            continue;
        };
        let (kind, class) = (class.as_bytes()[0], &class[1..]);
        let (count, after) = class.strip_prefix('{').unwrap().split_once('}').unwrap();
        let (least, most) = match count.split_once(',') {
            None => (count.parse().unwrap(), count.parse().unwrap()),
            Some((least, "")) => (least.parse().unwrap(), usize::MAX),
            Some((least, most)) => (least.parse().unwrap(), most.parse().unwrap()),
        };
        found.push(Piece::Class(kind, least, most));
        rest = after;
    }
    found
}

fn is_of(class: u8, byte: u8) -> bool {
    match class {
        b'h' => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
        b'd' => byte.is_ascii_digit(),
        b'a' => byte.is_ascii_alphabetic(),
        b'b' => byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'),
        b'q' => !matches!(byte, b'"' | b'<' | b'>' | b'\n'),
        b's' => byte == b' ',
        other => panic!("`%{}` is no class", char::from(other)),
    }
}

/// The end of the pieces, if they match at this offset.
fn taken(pieces: &[Piece], bytes: &[u8], mut at: usize) -> Option<usize> {
    for piece in pieces {
        match piece {
            Piece::Text(text) => {
                bytes.get(at..)?.starts_with(text).then_some(())?;
                at += text.len();
            }
            Piece::Class(class, least, most) => {
                let fits = |byte: &&u8| is_of(*class, **byte);
                let count = bytes.get(at..)?.iter().take(*most).take_while(fits).count();
                (count >= *least).then_some(())?;
                at += count;
            }
        }
    }
    Some(at)
}

/// Sorts repeated elements by their bytes. Each element begins with `begin` and ends with `end`.
fn ordered(text: &str, begin: &str, end: &str) -> String {
    let Some(first) = text.find(begin) else { return text.to_owned() };
    let (mut parts, mut rest) = (Vec::new(), &text[first..]);
    while rest.starts_with(begin)
        && let Some(at) = rest.find(end)
    {
        parts.push(&rest[..at + end.len()]);
        rest = &rest[at + end.len()..];
    }
    parts.sort_unstable();
    format!("{}{}{rest}", &text[..first], parts.concat())
}

/// The comments of metrics: their names, types and meanings. Samples are left out, because some samples appear only after a minute or under load.
fn without_samples(text: &str) -> String {
    text.lines().filter(|line| line.starts_with('#')).flat_map(|line| [line, "\n"]).collect()
}

/// Parses a time. Returns the seconds since the epoch.
fn seconds(text: &str, form: Form) -> Option<i64> {
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let number = |from: usize, to: usize| text.get(from..to)?.parse::<i64>().ok();
    let (year, month, day, clock) = match form {
        Form::Unix => return text.parse().ok(),
        Form::Iso => (number(0, 4)?, number(5, 7)?, number(8, 10)?, 11),
        Form::Http => {
            let month = i64::try_from(MONTHS.find(text.get(8..11)?)?).ok()? / 3 + 1;
            (number(12, 16)?, month, number(5, 7)?, 17)
        }
    };
    // Years begin in March here, because the leap day is then the last day of a year.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 719_469;
    let time = number(clock, clock + 2)? * 3600 + number(clock + 3, clock + 5)? * 60;
    Some(days * 86_400 + time + number(clock + 6, clock + 8)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_narrow() {
        let now = seconds("2026-11-23T16:00:00", Form::Iso).unwrap();
        assert_eq!(seconds("Mon, 23 Nov 2026 16:00:00 GMT", Form::Http), Some(now));
        assert_eq!(seconds("1970-01-01T00:00:00", Form::Iso), Some(0));
        let mut masks = Masks::read(include_str!("masks.txt"), now);
        let mut say = |text: &str| {
            let mut context = MaskContext { origin: "here", count: HashMap::new(), now };
            masks.canonical(text, &mut context)
        };
        let id = "0123456789abcdef".repeat(2);
        for (text, expected) in [
            (format!("a {id}, {id}."), "a <id 1 of here>, <id 1 of here>.".to_owned()),
            (format!("{id}0"), format!("{id}0")),
            ("0000000000000000000000000000d001".to_owned(), "0000000000000000000000000000d001".to_owned()),
            ("2026-11-23T16:00:09.123456Z".to_owned(), "<now>Z".to_owned()),
            ("2026-11-23T17:00:00".to_owned(), "<now + 1 h>".to_owned()),
            ("2001-09-09T01:46:40Z".to_owned(), "2001-09-09T01:46:40Z".to_owned()),
            ("\"revision\":17,".to_owned(), "\"revision\":<revision>,".to_owned()),
            ("<D:timeout>Second-3599<".to_owned(), "<D:timeout>Second-<60 minutes><".to_owned()),
            (
                "x<D:response>2</D:response><D:response>1</D:response>y".to_owned(),
                "x<D:response>1</D:response><D:response>2</D:response>y".to_owned(),
            ),
        ] {
            assert_eq!(say(&text), expected, "{text}");
        }
    }
}
