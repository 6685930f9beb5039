//! Contacts and blocks. Written with a commit of an INBOX; what the writer of a DIRECT has heeded, with one of the DIRECT.

use super::commit::WriteError;
use super::dialect::Dialect;
use super::rows::Columns;
use super::{SqlStore, bounded};
use crate::domain::{Block, Contact, MessageId, Principal, Ties, Timestamp};
use crate::storage::{StoreResult, TieStore};

/// Both ways, in order: as every commit that writes them, so that no two wait for each other in a circle.
fn both(one: Principal, other: Principal) -> [(Principal, Principal); 2] {
    let (low, high) = (one.min(other), one.max(other));
    [(low, high), (high, low)]
}

sql_impl! {
/// Two rows. Those that are there already are passed over: a row must never stand in the way of what was decided.
async fn make_contact(
    connection: &mut DB::Connection,
    (one, other): (Principal, Principal),
    request: MessageId,
    at: Timestamp,
) -> Result<(), WriteError> {
    let text = DB::upsert(
        sql!(
            "INSERT INTO im_contact (owner_type, owner_id, other_type, other_id, notification_id, created_at)
             VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (owner_type, owner_id, other_type, other_id) DO NOTHING"
        ),
        "INSERT INTO im_contact (owner_type, owner_id, other_type, other_id, notification_id, created_at)
         VALUES (?, ?, ?, ?, ?, ?) ON DUPLICATE KEY UPDATE created_at = im_contact.created_at",
    );
    for (owner, other) in both(one, other) {
        let query = sqlx::query(text).bind(owner.kind.code()).bind(owner.id);
        let query = query.bind(other.kind.code()).bind(other.id).bind(request.get()).bind(at.millis());
        query.execute(&mut *connection).await?;
    }
    Ok(())
}
}

sql_impl! {
async fn end_contact(connection: &mut DB::Connection, one: Principal, other: Principal) -> Result<(), WriteError> {
    for (owner, other) in both(one, other) {
        let query = sqlx::query(sql!(
            "DELETE FROM im_contact WHERE owner_type = ? AND owner_id = ? AND other_type = ? AND other_id = ?"
        ));
        let query = query.bind(owner.kind.code()).bind(owner.id).bind(other.kind.code()).bind(other.id);
        query.execute(&mut *connection).await?;
    }
    Ok(())
}
}

sql_impl! {
async fn set_block(
    connection: &mut DB::Connection,
    (owner, other): (Principal, Principal),
    at: Timestamp,
    blocked: bool,
) -> Result<(), WriteError> {
    if !blocked {
        let query = sqlx::query(sql!(
            "DELETE FROM im_block WHERE owner_type = ? AND owner_id = ? AND other_type = ? AND other_id = ?"
        ));
        let query = query.bind(owner.kind.code()).bind(owner.id).bind(other.kind.code()).bind(other.id);
        query.execute(connection).await?;
        return Ok(());
    }
    let text = DB::upsert(
        sql!(
            "INSERT INTO im_block (owner_type, owner_id, other_type, other_id, heeded, created_at)
             VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (owner_type, owner_id, other_type, other_id) DO NOTHING"
        ),
        "INSERT INTO im_block (owner_type, owner_id, other_type, other_id, heeded, created_at)
         VALUES (?, ?, ?, ?, ?, ?) ON DUPLICATE KEY UPDATE created_at = im_block.created_at",
    );
    let query = sqlx::query(text).bind(owner.kind.code()).bind(owner.id);
    let query = query.bind(other.kind.code()).bind(other.id).bind(false).bind(at.millis());
    query.execute(connection).await?;
    Ok(())
}
}

sql_impl! {
/// The writer of the DIRECT of these two knows of their blocks.
async fn heed_blocks(connection: &mut DB::Connection, one: Principal, other: Principal) -> Result<(), WriteError> {
    for (owner, other) in both(one, other) {
        let query = sqlx::query(sql!(
            "UPDATE im_block SET heeded = ? WHERE owner_type = ? AND owner_id = ? AND other_type = ? AND other_id = ?"
        ));
        let query = query.bind(true).bind(owner.kind.code()).bind(owner.id);
        query.bind(other.kind.code()).bind(other.id).execute(&mut *connection).await?;
    }
    Ok(())
}
}

sql_impl! {
impl TieStore for SqlStore {
    async fn ties(&self, one: Principal, other: Principal) -> StoreResult<Ties> {
        let query = sqlx::query(sql!(
            "SELECT b.owner_type, b.owner_id, CASE WHEN b.heeded THEN 0 * b.owner_id ELSE 0 * b.owner_id - 1 END
             FROM im_block b
             WHERE (b.owner_type = ? AND b.owner_id = ? AND b.other_type = ? AND b.other_id = ?)
             OR (b.owner_type = ? AND b.owner_id = ? AND b.other_type = ? AND b.other_id = ?)
             UNION ALL SELECT c.owner_type, c.owner_id, c.notification_id FROM im_contact c
             WHERE c.owner_type = ? AND c.owner_id = ? AND c.other_type = ? AND c.other_id = ?"
        ));
        let (a, b) = ((one.kind.code(), one.id), (other.kind.code(), other.id));
        let query = query.bind(a.0).bind(a.1).bind(b.0).bind(b.1).bind(b.0).bind(b.1).bind(a.0).bind(a.1);
        let query = query.bind(a.0).bind(a.1).bind(b.0).bind(b.1);
        let rows = bounded(query.fetch_all(&self.pool)).await?;
        let mut ties = Ties::default();
        for row in &rows {
            let mut columns = Columns::<DB>::new(row);
            // A contact has the id of its request; a block that was heeded has 0, and one that was not is below it.
            let (owner, number) = (columns.principal()?, columns.big()?);
            match MessageId::new(number) {
                Some(request) => ties.contact = Some(request),
                None => ties.blockers.push((owner, number == 0)),
            }
        }
        ties.blockers.sort_unstable();
        Ok(ties)
    }

    async fn contacts(&self, owner: Principal, after: Option<Principal>, limit: u32) -> StoreResult<Vec<Contact>> {
        let (kind, id) = after.map_or((0, 0), |after| (after.kind.code(), after.id));
        let query = sqlx::query(sql!(
            "SELECT c.other_type, c.other_id, p.display_name, p.avatar_url, c.created_at FROM im_contact c
             LEFT JOIN im_principal p ON p.principal_type = c.other_type AND p.principal_id = c.other_id
             WHERE c.owner_type = ? AND c.owner_id = ? AND (c.other_type > ? OR (c.other_type = ? AND c.other_id > ?))
             ORDER BY c.other_type, c.other_id LIMIT ?"
        ));
        let query = query.bind(owner.kind.code()).bind(owner.id).bind(kind).bind(kind).bind(id);
        let rows = bounded(query.bind(i64::from(limit)).fetch_all(&self.pool)).await?;
        let contact = |row| {
            let mut columns = Columns::<DB>::new(row);
            Ok(Contact {
                principal: columns.principal()?,
                display_name: columns.maybe_text()?,
                avatar_url: columns.maybe_text()?,
                created_at: columns.time()?,
            })
        };
        rows.iter().map(contact).collect()
    }

    async fn blocks(&self, owner: Principal, after: Option<Principal>, limit: u32) -> StoreResult<Vec<Block>> {
        let (kind, id) = after.map_or((0, 0), |after| (after.kind.code(), after.id));
        let query = sqlx::query(sql!(
            "SELECT other_type, other_id, created_at FROM im_block WHERE owner_type = ? AND owner_id = ?
             AND (other_type > ? OR (other_type = ? AND other_id > ?)) ORDER BY other_type, other_id LIMIT ?"
        ));
        let query = query.bind(owner.kind.code()).bind(owner.id).bind(kind).bind(kind).bind(id);
        let rows = bounded(query.bind(i64::from(limit)).fetch_all(&self.pool)).await?;
        let block = |row| {
            let mut columns = Columns::<DB>::new(row);
            Ok(Block { principal: columns.principal()?, created_at: columns.time()? })
        };
        rows.iter().map(block).collect()
    }
}
}
