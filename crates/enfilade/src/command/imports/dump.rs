//! Reads what the API does not show, such as hashes of passwords, from a dump of Keystone's database by `mysqldump` or `sqlite3 .dump`.

use anyhow::{bail, ensure};
use enfilade_facts::tables::Password;
use std::collections::HashMap;

/// The values of one row; `None` for NULL.
type Values = Vec<Option<String>>;

/// A table: its columns in their order, and its rows.
#[derive(Default)]
struct Table {
    columns: Vec<String>,
    rows: Vec<Values>,
}

impl Table {
    fn value<'r>(&self, row: &'r Values, column: &str) -> Option<&'r str> {
        let at = self.columns.iter().position(|name| name == column)?;
        row.get(at)?.as_deref()
    }

    /// The values of one column by those of another column. Rows in which one of them is NULL are left out.
    fn pairs(&self, key: &str, value: &str) -> HashMap<String, String> {
        let pair =
            |row: &Values| Some((self.value(row, key)?.to_owned(), self.value(row, value)?.to_owned()));
        self.rows.iter().filter_map(pair).collect()
    }
}

/// What a dump has that the API does not show. Tables that are not in the dump are empty.
#[derive(Default)]
pub(super) struct Dump {
    /// The newest password of each user, by the id of the user, with the time when it expires. Keystone does not accept older passwords, so they are
    /// left out.
    pub(super) passwords: HashMap<String, Password>,
    /// The hash of the secret of each application credential, by the id of the credential.
    pub(super) secrets: HashMap<String, String>,
    /// The secret of each OAuth consumer, by the id of the consumer.
    pub(super) consumers: HashMap<String, String>,
    /// The access tokens of OAuth.
    pub(super) access_tokens: Vec<DumpedAccessToken>,
    /// The secret options of domains.
    pub(super) options: Vec<DumpedOption>,
}

/// An access token of OAuth as the table has it.
pub(super) struct DumpedAccessToken {
    pub(super) id: String,
    pub(super) secret: String,
    pub(super) user: String,
    pub(super) project: String,
    /// The ids of the roles, as a list in JSON.
    pub(super) roles: String,
    pub(super) consumer: String,
    /// When the access token expires; `None` if never.
    pub(super) expires: Option<String>,
}

/// An option of a domain that the API does not show, because it is a secret.
pub(super) struct DumpedOption {
    pub(super) domain: String,
    pub(super) group: String,
    pub(super) name: String,
    /// The value, as JSON.
    pub(super) value: String,
}

/// The tables of a dump that are read.
const TABLES: [&str; 6] =
    ["local_user", "password", "application_credential", "consumer", "access_token", "sensitive_config"];

/// Reads a dump.
///
/// # Errors
/// Fails if the text is not a dump of Keystone's database.
pub(super) fn read(text: &str) -> anyhow::Result<Dump> {
    let tables = tables(text)?;
    let empty = Table::default();
    let table = |name: &str| tables.get(name).unwrap_or(&empty);
    ensure!(
        tables.contains_key("local_user") && tables.contains_key("password"),
        "the tables `local_user` and `password` are missing; expected the output of `mysqldump keystone` or `sqlite3 keystone.db .dump`"
    );
    Ok(Dump {
        passwords: passwords(table("local_user"), table("password")),
        secrets: table("application_credential").pairs("id", "secret_hash"),
        consumers: table("consumer").pairs("id", "secret"),
        access_tokens: access_tokens(table("access_token")),
        options: options(table("sensitive_config")),
    })
}

/// The tables of the dump that have columns, by name.
fn tables(text: &str) -> anyhow::Result<HashMap<&str, Table>> {
    // MySQL quotes names with backticks, and escapes characters in strings with backslashes. SQLite does neither.
    let has_escapes = text.contains("CREATE TABLE `");
    let mut tables: HashMap<&str, Table> = HashMap::new();
    let mut rest = text;
    while let Some(at) = next_statement(rest) {
        rest = rest.get(at..).unwrap_or_default();
        let (is_create, after) = match rest.strip_prefix("CREATE TABLE ") {
            Some(after) => (true, after),
            None => (false, rest.strip_prefix("INSERT INTO ").unwrap_or_default()),
        };
        let (name, after) = identifier(after.trim_start_matches("IF NOT EXISTS "));
        if !TABLES.contains(&name) {
            rest = after;
            continue;
        }
        let table = tables.entry(name).or_default();
        if is_create {
            (table.columns, rest) = columns(after);
        } else {
            rest = table.read(after, has_escapes)?;
        }
    }
    tables.retain(|_, table| !table.columns.is_empty());
    Ok(tables)
}

fn passwords(users: &Table, passwords: &Table) -> HashMap<String, Password> {
    let of_user = users.pairs("id", "user_id");
    let mut newest: HashMap<String, (i64, Password)> = HashMap::new();
    for row in &passwords.rows {
        let number = |column: &str| passwords.value(row, column).and_then(|text| text.parse::<i64>().ok());
        let user = passwords.value(row, "local_user_id").and_then(|id| of_user.get(id));
        let (Some(user), Some(hash)) = (user, passwords.value(row, "password_hash")) else { continue };
        // `expires_at_int` is in microseconds. In `Password`, 0 means that the password never expires, so an expiry time is at least 1.
        let until = number("expires_at_int").map_or(0, |until| (until / 1_000_000).max(1));
        let made = number("created_at_int").unwrap_or(0);
        if newest.get(user).is_none_or(|(before, _)| *before <= made) {
            newest.insert(user.clone(), (made, Password { until, ..Password::of(hash.to_owned()) }));
        }
    }
    newest.into_iter().map(|(user, (_, password))| (user, password)).collect()
}

fn access_tokens(table: &Table) -> Vec<DumpedAccessToken> {
    let token = |row: &Values| {
        let text = |column: &str| table.value(row, column).map(str::to_owned);
        Some(DumpedAccessToken {
            id: text("id")?,
            secret: text("access_secret")?,
            user: text("authorizing_user_id")?,
            project: text("project_id")?,
            roles: text("role_ids")?,
            consumer: text("consumer_id")?,
            expires: text("expires_at"),
        })
    };
    table.rows.iter().filter_map(token).collect()
}

fn options(table: &Table) -> Vec<DumpedOption> {
    let option = |row: &Values| {
        let text = |column: &str| table.value(row, column).map(str::to_owned);
        let (domain, group) = (text("domain_id")?, text("group")?);
        Some(DumpedOption { domain, group, name: text("option")?, value: text("value")? })
    };
    table.rows.iter().filter_map(option).collect()
}

/// The offset of the next statement that creates or fills a table. Statements begin at the start of a line.
fn next_statement(text: &str) -> Option<usize> {
    let begins = ["CREATE TABLE ", "INSERT INTO "];
    let is_one =
        |at: usize| begins.iter().any(|begin| text.get(at..).is_some_and(|rest| rest.starts_with(begin)));
    let lines = text.match_indices('\n').map(|(at, _)| at + 1);
    [0].into_iter().chain(lines).find(|at| is_one(*at))
}

/// A name, quoted or not, and the rest of the text.
fn identifier(text: &str) -> (&str, &str) {
    let text = text.trim_start();
    for quote in ['`', '"'] {
        if let Some((name, rest)) = text.strip_prefix(quote).and_then(|text| text.split_once(quote)) {
            return (name, rest);
        }
    }
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    text.split_at(end)
}

/// The columns of a CREATE TABLE, and the rest of the text.
fn columns(text: &str) -> (Vec<String>, &str) {
    let body = text.trim_start().strip_prefix('(').unwrap_or(text);
    let (mut depth, mut is_start, mut columns) = (0, true, Vec::new());
    for (at, c) in body.char_indices() {
        match c {
            '(' => depth += 1,
            ')' if depth == 0 => return (columns, body.get(at..).unwrap_or_default()),
            ')' => depth -= 1,
            ',' if depth == 0 => is_start = true,
            c if c.is_whitespace() => {}
            _ if is_start => {
                is_start = false;
                let name = identifier(body.get(at..).unwrap_or_default()).0;
                let is_rule =
                    ["PRIMARY", "UNIQUE", "KEY", "CONSTRAINT", "FOREIGN", "CHECK", "INDEX"].contains(&name);
                columns.extend((!is_rule).then(|| name.to_owned()));
            }
            _ => {}
        }
    }
    (columns, "")
}

impl Table {
    /// Reads `(…),(…);` after an optional list of columns. Returns the rest of the text.
    fn read<'t>(&mut self, text: &'t str, has_escapes: bool) -> anyhow::Result<&'t str> {
        let Some((between, mut rest)) = text.split_once("VALUES") else {
            bail!("an INSERT statement has no VALUES")
        };
        if let Some(listed) = between.trim().strip_prefix('(').and_then(|text| text.strip_suffix(')')) {
            self.columns = listed.split(',').map(|name| identifier(name).0.to_owned()).collect();
        }
        loop {
            rest = rest.trim_start();
            let Some(row) = rest.strip_prefix('(') else { return Ok(rest) };
            let (values, after) = values(row, has_escapes)?;
            self.rows.push(values);
            rest = after.trim_start();
            rest = rest.strip_prefix(',').unwrap_or(rest);
        }
    }
}

/// The values up to the closing parenthesis, and the rest of the text.
fn values(text: &str, has_escapes: bool) -> anyhow::Result<(Values, &str)> {
    let (mut values, mut rest) = (Vec::new(), text);
    loop {
        rest = rest.trim_start();
        if let Some(quoted) = rest.strip_prefix('\'') {
            let (value, after) = quoted_text(quoted, has_escapes)?;
            values.push(Some(value));
            rest = after;
        } else {
            let Some(end) = rest.find([',', ')']) else { bail!("a row has no closing parenthesis") };
            let (value, after) = rest.split_at(end);
            values.push(Some(value.trim().to_owned()).filter(|value| value != "NULL"));
            rest = after;
        }
        rest = rest.trim_start();
        match (rest.strip_prefix(','), rest.strip_prefix(')')) {
            (Some(more), _) => rest = more,
            (_, Some(after)) => return Ok((values, after)),
            _ => bail!("a row contains a malformed value"),
        }
    }
}

/// Reads a string up to its closing quote, and decodes doubled quotes, and escapes with backslashes if there are any. Returns the rest of the text,
/// too.
fn quoted_text(text: &str, has_escapes: bool) -> anyhow::Result<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            '\'' if chars.peek().is_some_and(|(_, next)| *next == '\'') => {
                chars.next();
                value.push('\'');
            }
            '\'' => return Ok((value, text.get(at + 1..).unwrap_or_default())),
            '\\' if has_escapes => value.extend(chars.next().map(|(_, escaped)| match escaped {
                'n' => '\n',
                't' => '\t',
                '0' => '\0',
                other => other,
            })),
            other => value.push(other),
        }
    }
    bail!("a string has no closing quote")
}

#[cfg(test)]
mod tests {
    use super::*;

    const MYSQL: &str = "-- MySQL dump\nCREATE TABLE `local_user` (\n  `id` int NOT NULL,\n  `user_id` varchar(64) NOT NULL,\n  `name` varchar(255),\n  PRIMARY KEY (`id`),\n  KEY `a` (`user_id`,`name`)\n);\n\
        INSERT INTO `local_user` VALUES (1,'u1','o\\'brien'),(2,'u2','x''(),;y');\nCREATE TABLE `other` (\n  `id` int\n);\nINSERT INTO `other` VALUES (1);\n\
        CREATE TABLE `password` (\n  `id` int,\n  `local_user_id` int,\n  `expires_at` datetime,\n  `password_hash` varchar(255),\n  `created_at_int` bigint,\n  `expires_at_int` bigint\n);\n\
        INSERT INTO `password` VALUES (1,1,NULL,'$2b$old',1000,NULL),(2,1,NULL,'$2b$new',2000,NULL);\nINSERT INTO `password` VALUES (3,2,'2020','$2b$over',3000,5000000),(4,9,NULL,'$2b$nobody',1,NULL);\n";

    #[test]
    fn the_newest_of_each_with_its_expiry() {
        let found = |text: &str| {
            let found = read(text).unwrap().passwords.into_iter();
            let mut found: Vec<_> = found.map(|(user, row)| (user, row.hash, row.until)).collect();
            found.sort();
            found
        };
        let row = |user: &str, hash: &str, until| (user.to_owned(), hash.to_owned(), until);
        assert_eq!(found(MYSQL), [row("u1", "$2b$new", 0), row("u2", "$2b$over", 5)]);
        let sqlite = "CREATE TABLE local_user (id INTEGER, user_id VARCHAR(64), UNIQUE (user_id));\nINSERT INTO local_user VALUES(1,'u1');\nCREATE TABLE password (local_user_id INTEGER, password_hash VARCHAR(255));\nINSERT INTO \"password\" VALUES(1,'h');\n";
        assert_eq!(found(sqlite), [row("u1", "h", 0)]);
        for bad in [
            "",
            "x",
            &MYSQL[..MYSQL.len() - 12],
            "INSERT INTO `password` VALUES (1",
            "CREATE TABLE `password` (",
        ] {
            assert!(read(bad).map_or(0, |found| found.passwords.len()) < 2, "{bad}");
        }
    }

    #[test]
    fn the_secrets_that_the_api_does_not_show() {
        let mysql = [
            MYSQL,
            "CREATE TABLE `application_credential` (\n  `internal_id` int,\n  `id` varchar(64),\n  `secret_hash` varchar(255)\n);\n\
             INSERT INTO `application_credential` VALUES (1,'c1','$2b$one'),(2,'c2',NULL);\n\
             CREATE TABLE `consumer` (\n  `id` varchar(64),\n  `description` varchar(64),\n  `secret` varchar(64)\n);\n\
             INSERT INTO `consumer` VALUES ('k','it\\'s (1,2);','s3cret');\n\
             CREATE TABLE `sensitive_config` (\n  `domain_id` varchar(64),\n  `group` varchar(255),\n  `option` varchar(255),\n  `value` text\n);\n\
             INSERT INTO `sensitive_config` VALUES ('d','ldap','password','\\\"a\\\\\\\\b\\\"');\n",
        ]
        .concat();
        let found = read(&mysql).unwrap();
        assert_eq!(found.passwords.len(), 2);
        assert_eq!(found.secrets, HashMap::from([("c1".to_owned(), "$2b$one".to_owned())]));
        assert_eq!(found.consumers.get("k").map(String::as_str), Some("s3cret"));
        assert!(found.access_tokens.is_empty());
        let option = found.options.first().unwrap();
        assert_eq!((option.domain.as_str(), option.name.as_str()), ("d", "password"));
        assert_eq!(option.value, r#""a\\b""#);
        // In a dump of SQLite, a backslash is a character as any other.
        let sqlite = "CREATE TABLE local_user (id INTEGER, user_id VARCHAR(64));\nCREATE TABLE password (local_user_id INTEGER, password_hash VARCHAR(255));\n\
            CREATE TABLE sensitive_config (domain_id VARCHAR(64), \"group\" VARCHAR(255), option VARCHAR(255), value TEXT);\n\
            INSERT INTO \"sensitive_config\" VALUES('d','ldap','password','\"a\\\\b''c\"');\n\
            CREATE TABLE access_token (id VARCHAR(64), access_secret VARCHAR(64), authorizing_user_id VARCHAR(64), project_id VARCHAR(64), role_ids TEXT, consumer_id VARCHAR(64), expires_at VARCHAR(64));\n\
            INSERT INTO \"access_token\" VALUES('t','s','u','p','[\"r\"]','k',NULL);\n";
        let found = read(sqlite).unwrap();
        assert_eq!(found.options.first().map(|option| option.value.as_str()), Some(r#""a\\b'c""#));
        let token = found.access_tokens.first().unwrap();
        assert_eq!((token.roles.as_str(), token.expires.is_none()), (r#"["r"]"#, true));
    }
}
