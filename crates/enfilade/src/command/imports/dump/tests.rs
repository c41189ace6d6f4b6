use super::*;

const MYSQL: &str = "-- MySQL dump\nCREATE TABLE `local_user` (\n  `id` int NOT NULL,\n  `user_id` varchar(64) NOT NULL,\n  `name` varchar(255),\n  PRIMARY KEY (`id`),\n  KEY `a` (`user_id`,`name`)\n);\n\
    INSERT INTO `local_user` VALUES (1,'u1','o\\'brien'),(2,'u2','x''(),;y');\nCREATE TABLE `other` (\n  `id` int\n);\nINSERT INTO `other` VALUES (1);\n\
    CREATE TABLE `password` (\n  `id` int,\n  `local_user_id` int,\n  `expires_at` datetime,\n  `password_hash` varchar(255),\n  `created_at_int` bigint,\n  `expires_at_int` bigint\n);\n\
    INSERT INTO `password` VALUES (1,1,NULL,'$2b$old',1000,NULL),(2,1,NULL,'$2b$new',2000,NULL);\nINSERT INTO `password` VALUES (3,2,'2020','$2b$over',3000,5000000),(4,9,NULL,'$2b$nobody',1,NULL);\n";

/// A dump of SQLite that contains one user, followed by these statements.
fn sqlite(more: &str) -> String {
    format!(
        "PRAGMA foreign_keys=OFF;\nCREATE TABLE local_user (id INTEGER, user_id VARCHAR(64), UNIQUE (user_id));\nINSERT INTO local_user VALUES(1,'u1');\n\
         CREATE TABLE password (id INTEGER, local_user_id INTEGER, password_hash VARCHAR(255), created_at_int BIGINT, expires_at_int BIGINT);\nINSERT INTO \"password\" VALUES(1,1,'h',1,NULL);{more}"
    )
}

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
    assert_eq!(found(&sqlite("")), [row("u1", "h", 0)]);
    for bad in [
        "",
        "x",
        &MYSQL[..MYSQL.len() - 12],
        &format!("{MYSQL}INSERT INTO `password` VALUES (1"),
        &format!("{MYSQL}INSERT INTO `password` VALUES (9,1,NULL,'h',1,NULL)\n(10,1,NULL,'h',1,NULL);"),
        "CREATE TABLE `password` (",
    ] {
        assert!(read(bad).is_err(), "{bad}");
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
    // In a dump of SQLite, a backslash has no special meaning.
    let sqlite = sqlite(
        "CREATE TABLE sensitive_config (domain_id VARCHAR(64), \"group\" VARCHAR(255), option VARCHAR(255), value TEXT);\n\
        INSERT INTO \"sensitive_config\" VALUES('d','ldap','password','\"a\\\\b''c\"');\n\
        CREATE TABLE access_token (id VARCHAR(64), access_secret VARCHAR(64), authorizing_user_id VARCHAR(64), project_id VARCHAR(64), role_ids TEXT, consumer_id VARCHAR(64), expires_at VARCHAR(64));\n\
        INSERT INTO \"access_token\" VALUES('t','s','u','p','[\"r\"]','k',NULL);\n",
    );
    let found = read(&sqlite).unwrap();
    assert_eq!(found.options.first().map(|option| option.value.as_str()), Some(r#""a\\b'c""#));
    let token = found.access_tokens.first().unwrap();
    assert_eq!((token.roles.as_deref(), token.expires.is_none()), (Some(r#"["r"]"#), true));
}

/// A table of application credentials. Users choose names and descriptions.
const CREDENTIALS: &str = "CREATE TABLE application_credential (internal_id INTEGER, id VARCHAR(64), name VARCHAR(255), secret_hash VARCHAR(255), description TEXT);\n";

#[test]
fn texts_that_a_user_chooses_add_no_row_and_replace_none() {
    let expected = HashMap::from([("ann".to_owned(), "h1".to_owned()), ("eve".to_owned(), "h2".to_owned())]);
    let rows = |name: &str, text: &str| {
        format!(
            "INSERT INTO application_credential VALUES(1,'ann','ci','h1',NULL);\nINSERT INTO application_credential VALUES(2,'eve',{name},'h2',{text});\n"
        )
    };
    for (name, text) in [
        (r"replace('x\n,''evil'',NULL),(3,''ann'',''x'',''evil'',''y','\n',char(10))", "NULL"),
        (r"'\'", r"',''evil'',NULL),(3,''ann'',''x'',''evil'',NULL);--'"),
        ("'x'", "'CREATE TABLE `'"),
        ("'x\nINSERT INTO application_credential VALUES(3,''ann'',''x'',''evil'',NULL);\n'", "NULL"),
        (r"unistr('x\u000a,''evil'',NULL),(3,''ann'',')", "NULL"),
    ] {
        let dump = sqlite(&format!("{CREDENTIALS}{}", rows(name, text)));
        assert_eq!(read(&dump).unwrap().secrets, expected, "{name} {text}");
    }
    // In a dump of MySQL, names can be without backticks. The INSERT statement can list the columns.
    let listed = "INSERT INTO application_credential (id,name,secret_hash) VALUES ('ann','ci','h1'),('eve','\\',\\'evil\\'),(\\'ann\\',\\'x','h2');\n";
    for create in ["", CREDENTIALS] {
        assert_eq!(read(&[MYSQL, create, listed].concat()).unwrap().secrets, expected);
    }
    // The import does not need the table `other`. A text in this table can look like a statement.
    let other = "INSERT INTO other VALUES('x\nINSERT INTO application_credential VALUES(1,''ann'',''x'',''evil'',NULL);\n');\n";
    assert_eq!(
        read(&sqlite(&[other, CREDENTIALS, &rows("'x'", "NULL")].concat())).unwrap().secrets,
        expected
    );
}

#[test]
fn what_is_not_understood_is_refused() {
    let row = |values: &str| format!("{CREDENTIALS}INSERT INTO application_credential VALUES{values}");
    for (more, expected) in [
        (row("(1,'a','n','h',NULL),(2,'a','n','evil',NULL);\n"), "have the same id"),
        (row("(1,'a','n','h');\n"), "line 6: expected a row of 5 values, one for each column; make the dump again"),
        (row("(1,'a','n','h',NULL,1);\n"), "expected a row of 5 values"),
        (row("(1,'a','n','h',x);\n"), "expected NULL, a number or a string"),
        (row("(1,'a','n','h',NULL)\n"), "expected `,`"),
        (row("(1,'a','n','h',NULL),;\n"), "expected `(`"),
        (row("(1,'a','n','h',NULL"), "expected `,`"),
        (row(" SELECT 1;\n"), "expected `(`"),
        ([CREDENTIALS, CREDENTIALS].concat(), "each table once"),
        ("INSERT INTO consumer VALUES('k','s');\n".to_owned(), "expected a list of columns"),
        ("CREATE TABLE access_token (id VARCHAR(64), access_secret VARCHAR(64), authorizing_user_id VARCHAR(64), project_id VARCHAR(64), role_ids TEXT, consumer_id VARCHAR(64));\n".to_owned(), "has no column `expires_at`"),
        ("SELECT 'a".to_owned(), "a closing quote"),
        ("SELECT 1".to_owned(), "the dump is not complete"),
    ] {
        let why = read(&sqlite(&more)).map(drop).unwrap_err().to_string();
        assert!(why.contains(expected), "{more}: {why}");
    }
    let dump = sqlite("").replace(", expires_at_int BIGINT", "").replace("'h',1,NULL", "'h',1");
    let why = read(&dump).map(drop).unwrap_err().to_string();
    assert!(why.contains("`password` has no column `expires_at_int`"), "{why}");
    let why = read(&sqlite("").replace("'h',1,NULL", "'h',1,'soon'")).map(drop).unwrap_err().to_string();
    assert!(why.contains("malformed `expires_at_int`"), "{why}");
    for bad in ["-- PostgreSQL database dump\nCREATE TABLE public.password (id integer);\n", "PK"] {
        let why = read(bad).map(drop).unwrap_err().to_string();
        assert!(
            why.contains("`mysqldump keystone local_user password application_credential consumer"),
            "{why}"
        );
    }
}

#[test]
fn an_access_token_with_null_is_not_dropped() {
    let dump = sqlite(
        "CREATE TABLE access_token (id VARCHAR(64), access_secret VARCHAR(64), authorizing_user_id VARCHAR(64), project_id VARCHAR(64), role_ids TEXT, consumer_id VARCHAR(64), expires_at VARCHAR(64));\nINSERT INTO access_token VALUES('t','s',NULL,'p','[]','k',NULL);\n",
    );
    assert!(read(&dump).unwrap().access_tokens.first().unwrap().user.is_none());
}
