//! Reads facts that the API does not show, such as hashes of passwords, from a dump of Keystone's database by `mysqldump` or `sqlite3 .dump`.

mod reader;

use self::reader::{Part, Reader};
use anyhow::{Context as _, anyhow, bail, ensure};
use enfilade_facts::tables::Password;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

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

    /// Maps the values of the column `key` to the values of the column `value`. A row is left out if one of the two values is NULL.
    fn pairs(&self, key: &str, value: &str) -> HashMap<String, String> {
        let pair =
            |row: &Values| Some((self.value(row, key)?.to_owned(), self.value(row, value)?.to_owned()));
        self.rows.iter().filter_map(pair).collect()
    }

    /// Refuses a table without a needed column. For example, if the column of the expiry were missing, every record would be valid for ever. Also
    /// refuses two rows with the same key, because one row would replace the other row.
    fn check(&self, described: &Described) -> anyhow::Result<()> {
        let Described { name, columns, keys } = described;
        if let Some(missing) =
            columns.iter().find(|column| !self.columns.iter().any(|known| known == *column))
        {
            bail!("the table `{name}` has no column `{missing}`; expected the tables of a current Keystone");
        }
        for key in *keys {
            let mut seen = HashSet::new();
            let is_new = |row: &Values| {
                seen.insert(
                    key.iter().map(|column| self.value(row, column).map(str::to_owned)).collect::<Values>(),
                )
            };
            ensure!(
                self.rows.iter().all(is_new),
                "two rows of the table `{name}` have the same {}",
                key.join(", ")
            );
        }
        Ok(())
    }
}

/// The data in a dump that the API of Keystone does not show. Tables that are not in the dump are empty.
#[derive(Default)]
pub(super) struct Dump {
    /// Maps the id of each user to the newest password of the user and the expiry of this password. Keystone does not accept older passwords. So
    /// older passwords are left out.
    pub(super) passwords: HashMap<String, Password>,
    /// Maps the id of each application credential to the hash of its secret.
    pub(super) secrets: HashMap<String, String>,
    /// Maps the id of each OAuth consumer to its secret.
    pub(super) consumers: HashMap<String, String>,
    /// The access tokens of OAuth.
    pub(super) access_tokens: Vec<DumpedAccessToken>,
    /// The secret options of domains.
    pub(super) options: Vec<DumpedOption>,
}

/// An OAuth access token, with the values of its row in the table. A value is `None` for NULL.
pub(super) struct DumpedAccessToken {
    pub(super) id: Option<String>,
    pub(super) secret: Option<String>,
    pub(super) user: Option<String>,
    pub(super) project: Option<String>,
    /// The ids of the roles, as a list in JSON.
    pub(super) roles: Option<String>,
    pub(super) consumer: Option<String>,
    /// The expiry of the access token; `None` if the access token never expires.
    pub(super) expires: Option<String>,
}

/// An option of a domain that the API does not show, because the option is a secret.
pub(super) struct DumpedOption {
    pub(super) domain: String,
    pub(super) group: String,
    pub(super) name: String,
    /// The value, as JSON.
    pub(super) value: String,
}

/// A table that the import reads.
struct Described {
    name: &'static str,
    /// The columns that the table must contain.
    columns: &'static [&'static str],
    /// Sets of columns. No two rows may have the same values in all columns of a set.
    keys: &'static [&'static [&'static str]],
}

const fn described(
    name: &'static str,
    columns: &'static [&'static str],
    keys: &'static [&'static [&'static str]],
) -> Described {
    Described { name, columns, keys }
}

/// The tables of a dump that the import reads.
const TABLES: [Described; 6] = [
    described("local_user", &["id", "user_id"], &[&["id"], &["user_id"]]),
    described(
        "password",
        &["id", "local_user_id", "password_hash", "created_at_int", "expires_at_int"],
        &[&["id"]],
    ),
    described("application_credential", &["id", "secret_hash"], &[&["id"]]),
    described("consumer", &["id", "secret"], &[&["id"]]),
    described(
        "access_token",
        &[
            "id",
            "access_secret",
            "authorizing_user_id",
            "project_id",
            "role_ids",
            "consumer_id",
            "expires_at",
        ],
        &[&["id"]],
    ),
    described(
        "sensitive_config",
        &["domain_id", "group", "option", "value"],
        &[&["domain_id", "group", "option"]],
    ),
];

/// The names of the tables that the import reads, as arguments of `mysqldump`.
pub(super) fn names_of_tables() -> String {
    TABLES.map(|table| table.name).join(" ")
}

/// The largest dump that is read, in bytes. The import needs at least as much memory as the dump has bytes. A dump that contains only the needed
/// tables has about 400 bytes for each user.
const DUMP_BYTES_MAX: u64 = 1 << 30;

/// Reads a dump from a file.
///
/// # Errors
/// Fails in the same cases as [`read`]. Also fails if the file cannot be read, is not UTF-8, or is larger than [`DUMP_BYTES_MAX`].
pub(super) fn read_file(file: &Path) -> anyhow::Result<Dump> {
    let mut bytes = Vec::new();
    let open = File::open(file).context("cannot be read")?;
    open.take(DUMP_BYTES_MAX + 1).read_to_end(&mut bytes).context("cannot be read")?;
    ensure!(
        bytes.len() as u64 <= DUMP_BYTES_MAX,
        "larger than {} MiB; dump only the tables that the import needs: `mysqldump keystone {}`",
        DUMP_BYTES_MAX >> 20,
        names_of_tables()
    );
    let text = std::str::from_utf8(&bytes).map_err(|why| {
        anyhow!(
            "not text in UTF-8 at byte {}; make the dump with `--default-character-set=utf8mb4`",
            why.valid_up_to()
        )
    })?;
    read(text)
}

/// Reads a dump.
///
/// # Errors
/// Fails if the text is not a dump of Keystone's database, or if the reader does not understand a part of it. The error says how to make a dump.
fn read(text: &str) -> anyhow::Result<Dump> {
    understood(text).map_err(|why| {
        anyhow!(
            "{why}; make the dump again, on the database server of Keystone: `mysqldump keystone {}` (MySQL, MariaDB; also named `mariadb-dump`) or \
             `sqlite3 keystone.db .dump` (SQLite); a dump of PostgreSQL cannot be read, so with PostgreSQL import without --passwords",
            names_of_tables()
        )
    })
}

fn understood(text: &str) -> anyhow::Result<Dump> {
    let tables = tables(text)?;
    let empty = Table::default();
    let table = |name: &str| tables.get(name).unwrap_or(&empty);
    ensure!(
        tables.contains_key("local_user") && tables.contains_key("password"),
        "the tables `local_user` and `password` are missing; expected a dump of the database of Keystone"
    );
    for described in &TABLES {
        tables.get(described.name).map_or(Ok(()), |table| table.check(described))?;
    }
    Ok(Dump {
        passwords: passwords(table("local_user"), table("password"))?,
        secrets: table("application_credential").pairs("id", "secret_hash"),
        consumers: table("consumer").pairs("id", "secret"),
        access_tokens: access_tokens(table("access_token")),
        options: options(table("sensitive_config")),
    })
}

/// Reads the needed tables of a dump. Returns them by their names.
fn tables(text: &str) -> anyhow::Result<HashMap<&str, Table>> {
    let mut reader = Reader::new(text)?;
    let mut tables: HashMap<&str, Table> = HashMap::new();
    loop {
        let here = reader;
        let Some(first) = reader.next()? else { return Ok(tables) };
        let is_create = match first {
            Part::Word("CREATE") if reader.has(Part::Word("TABLE"))? => {
                for word in ["IF", "NOT", "EXISTS"] {
                    reader.has(Part::Word(word))?;
                }
                true
            }
            Part::Word("INSERT" | "REPLACE") => {
                reader.has(Part::Word("IGNORE"))?;
                reader.expect(Part::Word("INTO"))?;
                false
            }
            Part::Sign(';') => continue,
            _ => {
                reader.end_statement()?;
                continue;
            }
        };
        let name = reader.name()?;
        if !TABLES.iter().any(|described| described.name == name) {
            reader.end_statement()?;
        } else if is_create {
            let table = Table { columns: columns(&mut reader)?, rows: Vec::new() };
            if tables.insert(name, table).is_some() {
                bail!(here.wrong(&format!(
                    "each table once, but `{name}` comes a second time: dump only the database of Keystone"
                )));
            }
        } else {
            tables.entry(name).or_default().read(&mut reader)?;
        }
    }
}

fn passwords(users: &Table, passwords: &Table) -> anyhow::Result<HashMap<String, Password>> {
    let of_user = users.pairs("id", "user_id");
    let mut newest: HashMap<String, (i64, Password)> = HashMap::new();
    for row in &passwords.rows {
        let number = |column: &str| match passwords.value(row, column).map(str::parse::<i64>) {
            Some(Err(_)) => {
                bail!("a row of the table `password` has a malformed `{column}`; expected a whole number")
            }
            Some(Ok(number)) => Ok(Some(number)),
            None => Ok(None),
        };
        // `expires_at_int` is in microseconds. In the type `Password`, 0 means that the password never expires. So an expiry time is at least 1.
        let until = number("expires_at_int")?.map_or(0, |until| (until / 1_000_000).max(1));
        let made = number("created_at_int")?.unwrap_or(0);
        let user = passwords.value(row, "local_user_id").and_then(|id| of_user.get(id));
        let (Some(user), Some(hash)) = (user, passwords.value(row, "password_hash")) else { continue };
        if newest.get(user).is_none_or(|(before, _)| *before <= made) {
            newest.insert(user.clone(), (made, Password { until, ..Password::of(hash.to_owned()) }));
        }
    }
    Ok(newest.into_iter().map(|(user, (_, password))| (user, password)).collect())
}

fn access_tokens(table: &Table) -> Vec<DumpedAccessToken> {
    let token = |row: &Values| {
        let text = |column: &str| table.value(row, column).map(str::to_owned);
        DumpedAccessToken {
            id: text("id"),
            secret: text("access_secret"),
            user: text("authorizing_user_id"),
            project: text("project_id"),
            roles: text("role_ids"),
            consumer: text("consumer_id"),
            expires: text("expires_at"),
        }
    };
    table.rows.iter().map(token).collect()
}

fn options(table: &Table) -> Vec<DumpedOption> {
    let option = |row: &Values| {
        let text = |column: &str| table.value(row, column).map(str::to_owned);
        let (domain, group) = (text("domain_id")?, text("group")?);
        Some(DumpedOption { domain, group, name: text("option")?, value: text("value")? })
    };
    table.rows.iter().filter_map(option).collect()
}

/// Reads the columns of a CREATE TABLE statement, and skips the rest of the statement.
fn columns(reader: &mut Reader<'_>) -> anyhow::Result<Vec<String>> {
    const RULES: [&str; 7] = ["PRIMARY", "UNIQUE", "KEY", "CONSTRAINT", "FOREIGN", "CHECK", "INDEX"];
    reader.expect(Part::Sign('('))?;
    let (mut depth, mut is_start, mut columns) = (0_usize, true, Vec::new());
    loop {
        let here = *reader;
        let Some(part) = reader.next()? else { bail!(here.wrong("`)` after the columns of the table")) };
        match part {
            Part::Name(name) if is_start => columns.push(name.to_owned()),
            Part::Word(name) if is_start && !RULES.contains(&name) => columns.push(name.to_owned()),
            Part::Sign('(') => depth += 1,
            Part::Sign(')') if depth == 0 => {
                reader.end_statement()?;
                return Ok(columns);
            }
            Part::Sign(')') => depth -= 1,
            _ => {}
        }
        is_start = depth == 0 && part == Part::Sign(',');
    }
}

impl Table {
    /// Reads the part of an INSERT statement that follows the name of the table: an optional list of columns, and `VALUES (…),(…);`.
    fn read(&mut self, reader: &mut Reader<'_>) -> anyhow::Result<()> {
        let here = *reader;
        if reader.has(Part::Sign('('))? {
            let mut listed = vec![reader.name()?.to_owned()];
            while !reader.has(Part::Sign(')'))? {
                reader.expect(Part::Sign(','))?;
                listed.push(reader.name()?.to_owned());
            }
            if self.columns != listed && !self.rows.is_empty() {
                bail!(here.wrong("the same columns as in the rows before"));
            }
            self.columns = listed;
        }
        if self.columns.is_empty() {
            bail!(here.wrong("a list of columns, or a CREATE TABLE before the rows"));
        }
        reader.expect(Part::Word("VALUES"))?;
        loop {
            let row = *reader;
            reader.expect(Part::Sign('('))?;
            let mut values = vec![reader.value()?];
            while !reader.has(Part::Sign(')'))? {
                reader.expect(Part::Sign(','))?;
                values.push(reader.value()?);
            }
            if values.len() != self.columns.len() {
                bail!(row.wrong(&format!("a row of {} values, one for each column", self.columns.len())));
            }
            self.rows.push(values);
            if reader.has(Part::Sign(';'))? {
                return Ok(());
            }
            reader.expect(Part::Sign(','))?;
        }
    }
}

#[cfg(test)]
mod tests;
