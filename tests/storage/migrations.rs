//! Opening, migrating, and what the three schemas have in common.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;

use onescribe::storage::sql::{OpenOptions, migrate, open};

use super::database::TestDatabase;
use super::raw::{execute, select};

const AS_IS: OpenOptions = OpenOptions {
    auto_migrate: false,
    connections: 2,
    log_statements: false,
};

async fn refusal(url: &str, options: OpenOptions) -> String {
    match open(url, options).await {
        Ok(_) => panic!("it should not open"),
        Err(error) => error.to_string(),
    }
}

async fn databases() -> Vec<TestDatabase> {
    let servers = [TestDatabase::postgres().await, TestDatabase::mysql().await];
    std::iter::once(TestDatabase::sqlite())
        .chain(servers.into_iter().flatten())
        .collect()
}

#[tokio::test]
async fn a_database_that_is_behind_or_too_new_is_refused_with_advice() {
    for database in databases().await {
        let told = refusal(&database.url, AS_IS).await;
        assert!(
            told.contains("onescribe migrate") && told.contains("auto_migrate"),
            "{told}"
        );
        let steps = std::fs::read_dir("migrations/sqlite").unwrap().count();
        assert_eq!(migrate(&database.url).await.unwrap(), steps);
        assert_eq!(migrate(&database.url).await.unwrap(), steps, "again is fine");
        open(&database.url, AS_IS).await.unwrap().close().await;
        execute(
            &database.url,
            "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
             SELECT 9999, 'later', success, checksum, 0 FROM _sqlx_migrations WHERE version = 1",
        )
        .await;
        for options in [AS_IS, OpenOptions::default()] {
            let told = refusal(&database.url, options).await;
            assert!(told.contains("newer version"), "{told}");
        }
    }
}

#[tokio::test]
async fn processes_that_migrate_at_once_do_not_disturb_each_other() {
    for database in databases().await {
        let opened = (0..6).map(|_| open(&database.url, OpenOptions::default()));
        for store in futures_util::future::join_all(opened).await {
            store.unwrap().close().await;
        }
    }
}

#[tokio::test]
async fn the_files_of_sqlite_are_private_and_named_after_the_database() {
    let database = TestDatabase::sqlite();
    let store = open(&database.url, OpenOptions::default()).await.unwrap();
    store.setting_or("name", "value").await.unwrap();
    let mut names = BTreeSet::new();
    for entry in std::fs::read_dir(database.folder.as_ref().unwrap().path()).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{name}");
        names.insert(name);
    }
    let expected = ["test.db", "test.db-shm", "test.db-wal"].map(str::to_owned);
    assert_eq!(names, BTreeSet::from(expected));
}

#[tokio::test]
async fn no_error_shows_a_password_and_each_says_what_is_wrong() {
    for url in [
        "postgres://anna:geheim@127.0.0.1:1/db",
        "mysql://anna:geheim@127.0.0.1:1/db",
        "postgres://anna:geheim@127.0.0.1:port/db",
        "mysql://anna:geheim@[::bad/db",
        "postgres://anna:geheim@127.0.0.1:1/db?sslmode=geheim",
        "oracle://anna:geheim@127.0.0.1/db",
        "geheim",
        "sqlite::memory:",
        "sqlite:///nowhere/at/all/geheim.db",
    ] {
        let told = refusal(url, OpenOptions::default()).await;
        assert!(!told.contains("geheim") || url.starts_with("sqlite:///"), "{told}");
        assert!(!told.is_empty());
    }
    let told = refusal("sqlite:///nowhere/at/all/x.db", OpenOptions::default()).await;
    assert!(told.contains("/nowhere/at/all/x.db"), "{told}");
}

/// `table.column type`, and `table UNIQUE (columns)`; nullable columns end in `?`.
async fn schema(database: &TestDatabase) -> BTreeSet<String> {
    let (columns, unique) = match database.url.split_once("://").unwrap().0 {
        "postgres" => (
            "SELECT c.table_name::text, column_name::text, data_type::text, is_nullable::text
             FROM information_schema.columns c JOIN information_schema.tables t USING (table_schema, table_name)
             WHERE c.table_schema = 'public'",
            "SELECT t.relname::text, string_agg(a.attname::text, ', ' ORDER BY k.place) FROM pg_index i
             JOIN pg_class t ON t.oid = i.indrelid JOIN pg_namespace n ON n.oid = t.relnamespace
             CROSS JOIN UNNEST(i.indkey::smallint[]) WITH ORDINALITY AS k(number, place)
             JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = k.number
             WHERE i.indisunique AND n.nspname = 'public' GROUP BY i.indexrelid, t.relname",
        ),
        "mysql" => (
            "SELECT CAST(table_name AS CHAR), CAST(column_name AS CHAR), CAST(column_type AS CHAR),
             CAST(is_nullable AS CHAR) FROM information_schema.columns WHERE table_schema = DATABASE()",
            "SELECT CAST(table_name AS CHAR), CAST(GROUP_CONCAT(column_name ORDER BY seq_in_index SEPARATOR ', ') AS CHAR)
             FROM information_schema.statistics WHERE table_schema = DATABASE() AND non_unique = 0
             GROUP BY table_name, index_name",
        ),
        _ => (
            "SELECT t.name, c.name, c.type, CASE WHEN c.\"notnull\" THEN 'NO' ELSE 'YES' END
             FROM sqlite_schema t JOIN pragma_table_info(t.name) c WHERE t.type = 'table'",
            "SELECT t.name, (SELECT group_concat(name, ', ') FROM (SELECT name FROM pragma_index_info(i.name) ORDER BY seqno))
             FROM sqlite_schema t JOIN pragma_index_list(t.name) i WHERE t.type = 'table' AND i.\"unique\"
             UNION SELECT t.name, c.name FROM sqlite_schema t JOIN pragma_table_info(t.name) c
             WHERE t.type = 'table' AND c.type = 'INTEGER' AND c.pk = 1",
        ),
    };
    let mut schema = BTreeSet::new();
    for row in select(&database.url, columns, 4).await {
        let kind = match row[2].to_ascii_lowercase().split('(').next().unwrap() {
            "bigint" | "integer" => "BIGINT",
            "smallint" => "SMALLINT",
            "boolean" | "tinyint" => "BOOLEAN",
            "text" | "longtext" | "varchar" => "TEXT",
            "blob" | "bytea" | "varbinary" => "BYTES",
            _ => "OTHER",
        };
        let nullable = if row[3] == "YES" { "?" } else { "" };
        schema.insert(format!("{}.{} {kind}{nullable}", row[0], row[1]));
    }
    for row in select(&database.url, unique, 2).await {
        schema.insert(format!("{} UNIQUE ({})", row[0], row[1]));
    }
    schema.retain(|line| line.starts_with("im_"));
    schema
}

#[tokio::test]
async fn the_three_schemas_have_the_same_tables_columns_and_unique_keys() {
    let mut first: Option<BTreeSet<String>> = None;
    for database in databases().await {
        migrate(&database.url).await.unwrap();
        let schema = schema(&database).await;
        assert!(schema.iter().all(|line| !line.contains("OTHER")), "{schema:#?}");
        let hot: Vec<_> = schema
            .iter()
            .filter(|line| line.starts_with("im_message UNIQUE"))
            .collect();
        let expected = [
            "im_message UNIQUE (conversation_id, sender_type, sender_id, client_message_id)",
            "im_message UNIQUE (conversation_id, seq)",
            "im_message UNIQUE (message_id)",
        ];
        assert_eq!(hot, expected, "three unique keys and no fourth");
        match &first {
            None => first = Some(schema),
            Some(first) => {
                let differences: Vec<_> = first.symmetric_difference(&schema).collect();
                assert!(differences.is_empty(), "{}: {differences:#?}", database.url);
            }
        }
    }
}
