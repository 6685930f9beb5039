//! Rows as our writers would have left them, made by one statement each.

use anyhow::Result;
use indicatif::ProgressBar;
use sqlx::{Connection, MySql, Postgres, QueryBuilder, Sqlite};

/// The conversation with a long history.
pub(crate) const DEEP: i64 = 1;
/// Its messages.
pub(crate) const DEEP_MESSAGES: i64 = 1_000_100;
/// Who reads it, and has deleted every 100th message of it for themselves.
pub(crate) const READER: i64 = 7;
/// How many conversations the users `LISTERS` have.
pub(crate) const LISTS: [i64; 3] = [50, 500, 5_000];
/// The user with `LISTS[i]` conversations is `LISTERS + i`.
pub(crate) const LISTERS: i64 = 100;
/// Messages in each of those; `READ` of them are read.
pub(crate) const MESSAGES: i64 = 20;
/// The conversations of `LISTERS + i` are those above this and `100_000 * i`.
pub(crate) const FIRST_OF: i64 = 1_000;
const READ: i64 = 12;
/// Statements of [`fill`].
pub(crate) const STEPS: u64 = 11;

/// Fills a database that has the tables and nothing in them.
pub(crate) async fn fill(url: &str, progress: &ProgressBar) -> Result<()> {
    let scheme = url.split(':').next().unwrap_or_default();
    let statements = statements(scheme);
    macro_rules! run_on {
        ($database:ty) => {{
            let mut connection = <$database as sqlx::Database>::Connection::connect(url).await?;
            for statement in statements {
                QueryBuilder::<$database>::new(statement)
                    .build()
                    .execute(&mut connection)
                    .await?;
                progress.inc(1);
            }
        }};
    }
    match scheme {
        "postgres" => run_on!(Postgres),
        "mysql" => run_on!(MySql),
        _ => run_on!(Sqlite),
    }
    Ok(())
}

/// The rows 1 to `count` as `g`, and a text as bytes, in the words of each database.
fn statements(scheme: &str) -> Vec<String> {
    let rows = |count: i64| match scheme {
        "postgres" => format!("FROM generate_series(1, {count}) AS t(g)"),
        "mysql" => format!("FROM (SELECT seq AS g FROM seq_1_to_{count}) t"),
        _ => format!(
            "FROM (WITH RECURSIVE n(g) AS (SELECT 1 UNION ALL SELECT g + 1 FROM n WHERE g < {count}) SELECT g FROM n) t"
        ),
    };
    let hash = match scheme {
        "postgres" => "decode(repeat('07', 32), 'hex')",
        "mysql" => "UNHEX(REPEAT('07', 32))",
        _ => "CAST(zeroblob(32) AS BLOB)",
    };
    let key = match scheme {
        "postgres" => "convert_to('k' || g, 'UTF8')",
        "mysql" => "CONCAT('k', g)",
        _ => "CAST('k' || g AS BLOB)",
    };
    let content =
        r#"'{"text":"some words, as many as people use in a sentence or two of an ordinary chat, and a few more"}'"#;
    let analyze = match scheme {
        "mysql" => "ANALYZE TABLE im_message, im_conversation, im_member, im_user_action",
        "postgres" => "VACUUM ANALYZE",
        _ => "ANALYZE",
    };
    let conversation = "INSERT INTO im_conversation (conversation_id, kind, history_visibility, posting, adding, status, \
        created_at, updated_at, last_seq, last_change_seq, last_count_no, chain_hash, last_message_seq, \
        last_activity_at, member_count)";
    let message = "INSERT INTO im_message (message_id, conversation_id, seq, sender_type, sender_id, client_message_id, \
        message_type, content, status, sent_at, change_seq, count_no, content_hash, chain_hash)";
    let member = "INSERT INTO im_member (conversation_id, principal_type, principal_id, status, role, joined_seq, \
        joined_at, cleared_seq, last_read_seq, last_read_count_no, marked_unread, muted, pinned)";
    let action = "INSERT INTO im_user_action (principal_type, principal_id, action_type, message_id, conversation_id, \
        seq, status, created_at, updated_at)";
    let deep = DEEP_MESSAGES;
    let mut statements = vec![
        format!("{conversation} VALUES ({DEEP}, 2, 1, 1, 1, 1, 0, 0, {deep}, 0, {deep}, {hash}, {deep}, 0, 1)"),
        format!(
            "{message} SELECT g + 10000000, {DEEP}, g, 1, 1, {key}, 'TEXT', {content}, 1, g, 0, g, {hash}, {hash} {}",
            rows(deep)
        ),
        format!("{member} VALUES ({DEEP}, 1, {READER}, 1, 1, 1, 0, 0, 0, 0, FALSE, FALSE, FALSE)"),
        format!(
            "{action} SELECT 1, {READER}, 1, g * 100 + 10000000, {DEEP}, g * 100, 1, 0, 0 {}",
            rows(deep / 100)
        ),
    ];
    let mut first = FIRST_OF;
    for (at, count) in (0..).zip(LISTS) {
        let user = LISTERS + at;
        statements.push(format!(
            "{conversation} SELECT {first} + g, 2, 1, 1, 1, 1, 0, 0, {MESSAGES}, 0, {MESSAGES}, {hash}, {MESSAGES}, g, 2 {}",
            rows(count)
        ));
        statements.push(format!(
            "{message} SELECT {first} * 100 + 50000000 + g, {first} + 1 + (g - 1) / {MESSAGES}, 1 + (g - 1) % {MESSAGES}, \
             1, 2, {key}, 'TEXT', {content}, 1, g, 0, 1 + (g - 1) % {MESSAGES}, {hash}, {hash} {}",
            rows(count * MESSAGES)
        )
        .replace("(g - 1) / ", if scheme == "mysql" { "(g - 1) DIV " } else { "(g - 1) / " }));
        statements.push(format!(
            "{member} SELECT {first} + g, 1, {user}, 1, 1, 1, 0, 0, {READ}, {READ}, FALSE, FALSE, FALSE {}",
            rows(count)
        ));
        first += 100_000;
    }
    statements.push(analyze.to_owned());
    statements
}
