//! Whom messages mention: what a commit writes of it.

use sqlx::QueryBuilder;

use super::commit::WriteError;
use super::dialect::Dialect;
use crate::domain::{ConversationId, Mentions, Principal, Seq};

/// The principal type and id of the row that stands for everybody.
const EVERYBODY: (i16, i64) = (0, 0);
/// Rows named in one statement: SQLite bounds the depth of an expression.
const ROWS_PER_STATEMENT: usize = 100;

fn rows(mentions: &Mentions) -> Vec<(i16, i64)> {
    let row = |principal: &Principal| (principal.kind.code(), principal.id);
    match mentions {
        Mentions::Nobody => Vec::new(),
        Mentions::These(principals) => principals.iter().map(row).collect(),
        Mentions::Everybody => vec![EVERYBODY],
    }
}

sql_impl! {
/// Whom the text mentioned before goes, whom it mentions now comes: each by its whole key, so that it costs the same
/// however many messages mention somebody.
async fn store_mentions(
    connection: &mut DB::Connection,
    id: ConversationId,
    seq: Seq,
    (before, now): (&Mentions, &Mentions),
) -> Result<(), WriteError> {
    for part in rows(before).chunks(ROWS_PER_STATEMENT) {
        let mut builder = QueryBuilder::<DB>::new("DELETE FROM im_mention WHERE conversation_id = ");
        builder.push_bind(id.get()).push(" AND seq = ").push_bind(seq.get()).push(" AND (");
        let mut any = builder.separated(" OR ");
        for (kind, principal) in part {
            any.push("(principal_type = ")
                .push_bind_unseparated(*kind)
                .push_unseparated(" AND principal_id = ")
                .push_bind_unseparated(*principal)
                .push_unseparated(")");
        }
        builder.push(")");
        builder.build().persistent(false).execute(&mut *connection).await?;
    }
    for part in rows(now).chunks(ROWS_PER_STATEMENT) {
        let mut builder = QueryBuilder::<DB>::new(
            "INSERT INTO im_mention (conversation_id, principal_type, principal_id, seq) "
        );
        builder.push_values(part, |mut row, (kind, principal)| {
            row.push_bind(id.get()).push_bind(*kind).push_bind(*principal).push_bind(seq.get());
        });
        builder.push(DB::upsert(
            " ON CONFLICT (conversation_id, principal_type, principal_id, seq) DO NOTHING",
            " ON DUPLICATE KEY UPDATE seq = VALUES(seq)",
        ));
        builder.build().persistent(false).execute(&mut *connection).await?;
    }
    Ok(())
}
}
