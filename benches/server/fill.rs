//! Messages that were there before: rows as our writers would have left them, made by the database itself.

use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};

use crate::database::{Kind, execute};

/// Messages of each conversation in one statement.
const CHUNK: usize = 200;

/// Gives `rows` messages to the groups of a store, evenly, with ids below all that the server gives out. No server may
/// have the conversations in memory.
pub(crate) async fn fill(kind: Kind, url: &str, groups: usize, rows: usize) -> Result<()> {
    let each = rows / groups.max(1);
    let progress = ProgressBar::new(u64::try_from(each)?);
    progress.set_style(ProgressStyle::with_template(
        "{bar:30} {pos}/{len} messages in each conversation ({eta} left)",
    )?);
    for done in (0..each).step_by(CHUNK) {
        execute(url, &messages(kind, done + 1, each.min(done + CHUNK))).await?;
        progress.inc(u64::try_from(CHUNK.min(each - done))?);
    }
    execute(
        url,
        &format!(
            "UPDATE im_conversation SET last_seq = last_seq + {each}, last_count_no = last_count_no + {each}, \
             last_message_seq = last_message_seq + {each} WHERE kind = 2"
        ),
    )
    .await?;
    let afterwards: &[&str] = match kind {
        Kind::Sqlite => &["ANALYZE"],
        Kind::Postgres => &["VACUUM ANALYZE", "CHECKPOINT"],
        Kind::MySql => &["ANALYZE TABLE im_message"],
    };
    for statement in afterwards {
        execute(url, statement).await?;
    }
    progress.finish_and_clear();
    Ok(())
}

/// The messages `first` to `last` above what every group has.
fn messages(kind: Kind, first: usize, last: usize) -> String {
    let (series, key, hash) = match kind {
        Kind::Postgres => (
            format!("generate_series({first}, {last}) AS s(g)"),
            "convert_to(gen_random_uuid()::text, 'UTF8')",
            "decode(repeat('07', 32), 'hex')",
        ),
        Kind::MySql => (
            format!("(SELECT seq AS g FROM seq_{first}_to_{last}) AS s"),
            "CONCAT(MD5(RAND()), '-abc')",
            "UNHEX(REPEAT('07', 32))",
        ),
        Kind::Sqlite => (
            format!(
                "(WITH RECURSIVE n(g) AS (SELECT {first} UNION ALL SELECT g + 1 FROM n WHERE g < {last}) SELECT g FROM n) \
                 AS s"
            ),
            "CAST(lower(hex(randomblob(18))) AS BLOB)",
            "CAST(zeroblob(32) AS BLOB)",
        ),
    };
    let content = r#"{"text":"2f8dd7b4-7a0c-4d3b-9a51-0f4c7a1c6d10 and then some words, as many as people use in a sentence or two of an ordinary chat"}"#;
    format!(
        "INSERT INTO im_message (message_id, conversation_id, seq, sender_type, sender_id, client_message_id, \
         message_type, content, status, sent_at, change_seq, count_no, content_hash, chain_hash) \
         SELECT g * 100000 + k, conversation_id, last_seq + g, 1, 1 + k % 32, {key}, 'TEXT', '{content}', 1, \
         created_at + g, 0, last_count_no + g, {hash}, {hash} FROM {series} CROSS JOIN \
         (SELECT conversation_id, last_seq, last_count_no, created_at, row_number() OVER (ORDER BY conversation_id) AS k \
         FROM im_conversation WHERE kind = 2) AS c ORDER BY g, k"
    )
}
