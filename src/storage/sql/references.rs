//! Which messages refer to a file: what a commit writes of it, and who may read a file because of it.

use std::collections::HashSet;

use sqlx::QueryBuilder;

use super::commit::WriteError;
use super::rows::Columns;
use super::{Dialect, SqlStore, bounded};
use crate::domain::{Content, ConversationId, FileId, MessageId, Principal, Seq, Timestamp};
use crate::storage::{MarkKind, StoreResult, Stray, StrayReferences};

/// References of one file that are looked at one by one. There is hardly ever a file with more: then it is looked in the
/// conversations of the viewer instead.
const REFERENCES_LOOKED_AT: usize = 32;
/// Files in one statement: each is a part of a UNION, and SQLite takes 500 of those.
const FILES_PER_STATEMENT: usize = 50;

/// Messages in one statement.
const MESSAGES_PER_STATEMENT: usize = 500;

/// The member `r` of the conversation `c` may see the message of the reference `f`.
macro_rules! reference_shown {
    () => {
        "r.status = 1 AND f.seq > r.cleared_seq AND (c.history_visibility = 1 OR f.seq >= r.joined_seq) \
         AND NOT EXISTS (SELECT 1 FROM im_user_action a WHERE a.principal_type = r.principal_type \
         AND a.principal_id = r.principal_id AND a.action_type = 1 AND a.message_id = f.message_id AND a.status = 1)"
    };
}

sql_impl! {
/// Takes references of a message away; whoever looks next finds out whether the files have others.
async fn drop_references(
    connection: &mut DB::Connection,
    message: MessageId,
    files: &[FileId],
    at: Timestamp,
) -> Result<(), WriteError> {
    if files.is_empty() {
        return Ok(());
    }
    let mut builder = QueryBuilder::<DB>::new("DELETE FROM im_file_ref WHERE message_id = ");
    builder.push_bind(message.get()).push(" AND file_id IN (");
    among::<DB>(&mut builder, files);
    builder.build().persistent(false).execute(&mut *connection).await?;
    let mut builder = QueryBuilder::<DB>::new("UPDATE im_file SET unreferenced_since = ");
    builder.push_bind(at.millis()).push(" WHERE file_id IN (");
    among::<DB>(&mut builder, files);
    builder.build().persistent(false).execute(connection).await?;
    Ok(())
}
}

sql_impl! {
/// Refused by the key to the file where it has gone since its right was judged.
async fn add_references(
    connection: &mut DB::Connection,
    (id, message, seq): (ConversationId, MessageId, Seq),
    files: &[FileId],
) -> Result<(), WriteError> {
    if files.is_empty() {
        return Ok(());
    }
    let mut builder = QueryBuilder::<DB>::new("INSERT INTO im_file_ref (message_id, file_id, conversation_id, seq) ");
    builder.push_values(files, |mut row, file| {
        row.push_bind(message.get()).push_bind(file.get()).push_bind(id.get()).push_bind(seq.get());
    });
    builder.build().persistent(files.len() == 1).execute(connection).await?;
    Ok(())
}
}

sql_impl! {
/// Ends a list that was begun with `(`.
fn among(builder: &mut QueryBuilder<DB>, files: &[FileId]) -> () {
    let mut list = builder.separated(", ");
    for file in files {
        list.push_bind(file.get());
    }
    builder.push(")");
}
}

sql_impl! {
impl SqlStore {
    /// Those of these files that `viewer` sees a message with, by the newest references of each; and those that have too
    /// many to be sure.
    async fn shared_by_references(
        &self,
        files: &[FileId],
        viewer: Principal,
    ) -> StoreResult<(HashSet<FileId>, Vec<FileId>)> {
        let mut builder = QueryBuilder::<DB>::new(concat!(
            "SELECT f.file_id, (SELECT COUNT(*) FROM im_member r
             JOIN im_conversation c ON c.conversation_id = r.conversation_id
             WHERE r.conversation_id = f.conversation_id AND ", reference_shown!(), " AND r.principal_type = "
        ));
        builder.push_bind(viewer.kind.code()).push(" AND r.principal_id = ").push_bind(viewer.id);
        builder.push(") FROM (");
        for (index, file) in files.iter().enumerate() {
            let name = if index == 0 { "SELECT * FROM (" } else { " UNION ALL SELECT * FROM (" };
            builder.push(name);
            builder.push("SELECT file_id, conversation_id, message_id, seq FROM im_file_ref WHERE file_id = ");
            builder.push_bind(file.get());
            builder.push(" ORDER BY conversation_id DESC, seq DESC LIMIT ");
            builder.push_bind(i64::try_from(REFERENCES_LOOKED_AT).unwrap_or(i64::MAX)).push(") AS n");
        }
        builder.push(") AS f");
        let query = builder.build().persistent(files.len() == 1);
        let rows = bounded(query.fetch_all(&self.pool)).await?;
        let (mut shared, mut seen) = (HashSet::new(), Vec::with_capacity(rows.len()));
        for row in &rows {
            let mut columns = Columns::<DB>::new(row);
            let file = columns.file_id()?;
            seen.push(file);
            if columns.count()? > 0 {
                shared.insert(file);
            }
        }
        let looked_at = |file: &FileId| seen.iter().filter(|other| *other == file).count();
        let unsure = files.iter().filter(|file| !shared.contains(file) && looked_at(file) == REFERENCES_LOOKED_AT);
        let unsure = unsure.copied().collect();
        Ok((shared, unsure))
    }

    /// Does `viewer` see a message with this file in any of their conversations? A look-up by key in each.
    async fn is_shared_somewhere(&self, file: FileId, viewer: Principal) -> StoreResult<bool> {
        let query = sqlx::query(sql!(concat!(
            "SELECT r.conversation_id FROM im_member r JOIN im_conversation c ON c.conversation_id = r.conversation_id
             WHERE r.principal_type = ? AND r.principal_id = ? AND (SELECT f.seq FROM im_file_ref f WHERE f.file_id = ?
             AND f.conversation_id = r.conversation_id AND ", reference_shown!(),
            " ORDER BY f.seq DESC LIMIT 1) IS NOT NULL LIMIT 1"
        )));
        let query = query.bind(viewer.kind.code()).bind(viewer.id).bind(file.get());
        Ok(bounded(query.fetch_optional(&self.pool)).await?.is_some())
    }

    pub(super) async fn shared(&self, files: &[FileId], viewer: Principal) -> StoreResult<HashSet<FileId>> {
        let mut all = HashSet::new();
        for part in files.chunks(FILES_PER_STATEMENT) {
            let (shared, unsure) = self.shared_by_references(part, viewer).await?;
            all.extend(shared);
            for file in unsure {
                if self.is_shared_somewhere(file, viewer).await? {
                    all.insert(file);
                }
            }
        }
        Ok(all)
    }

    pub(super) async fn references_of(&self, messages: &[MessageId]) -> StoreResult<HashSet<(MessageId, FileId)>> {
        let mut found = HashSet::new();
        for part in messages.chunks(MESSAGES_PER_STATEMENT) {
            let mut builder = QueryBuilder::<DB>::new("SELECT message_id, file_id FROM im_file_ref WHERE message_id IN (");
            let mut list = builder.separated(", ");
            for message in part {
                list.push_bind(message.get());
            }
            builder.push(")");
            for row in &bounded(builder.build().persistent(false).fetch_all(&self.pool)).await? {
                let mut columns = Columns::<DB>::new(row);
                found.insert((columns.message_id()?, columns.file_id()?));
            }
        }
        Ok(found)
    }

    pub(super) async fn strays_after(
        &self,
        after: Option<(MessageId, FileId)>,
        limit: u32,
    ) -> StoreResult<StrayReferences> {
        let query = sqlx::query(sql!(
            "SELECT f.message_id, f.file_id, f.conversation_id, f.seq, m.conversation_id, m.seq, m.content
             FROM (SELECT message_id, file_id, conversation_id, seq FROM im_file_ref WHERE message_id >= ?
             AND (message_id > ? OR file_id > ?) ORDER BY message_id, file_id LIMIT ?) AS f
             LEFT JOIN im_message m ON m.message_id = f.message_id ORDER BY f.message_id, f.file_id"
        ));
        let (message, file) = after.map_or((0, 0), |(message, file)| (message.get(), file.get()));
        let query = query.bind(message).bind(message).bind(file).bind(i64::from(limit));
        let mut page = StrayReferences::default();
        for row in &bounded(query.fetch_all(&self.pool)).await? {
            let mut columns = Columns::<DB>::new(row);
            let (message_id, file) = (columns.message_id()?, columns.file_id()?);
            let (conversation_id, seq) = (columns.conversation_id()?, columns.seq()?);
            let here = (columns.maybe_big()?, columns.maybe_big()?) == (Some(conversation_id.get()), Some(seq.get()));
            let content = columns.maybe_text()?;
            let shown = content.is_some_and(|content| Content::trusted(&content).files().contains(&file));
            page.references += 1;
            page.last = Some((message_id, file));
            if !(here && shown) {
                let (kind, message_id, seq) = (MarkKind::File, Some(message_id), Some(seq));
                page.strays.push(Stray { kind, conversation_id, message_id, seq });
            }
        }
        Ok(page)
    }
}
}
