//! Events get their places: one transaction, in which whoever places holds the row of the log. So places rise in commit
//! order, also with several processes, and what is compared with the rows cannot move before the commit (INV-OUT-1).
//!
//! The connection belongs to the placer, and whoever drives it does not cancel it (B19).

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use sqlx::{Connection, Executor, QueryBuilder};
use tokio::time::timeout;

use super::dialect::Dialect;
use super::events::recipients_text;
use super::rows::Columns;
use super::{ConnectOptions, Gate, store_error};
use crate::domain::{ChangeSeq, ConversationId, EventNo, MessageId, Notice, Seq, Timestamp};
use crate::storage::{EventCursor, Placed, Placement, Placer, PushDue, PushPlacement, StoreError, StoreResult};

/// The longest wait for a transaction; then the connection is dropped.
const PLACE_WAIT_MAX: Duration = Duration::from_secs(10);
/// Rows in one statement: SQLite bounds the values.
const ROWS_PER_STATEMENT: usize = 500;

/// The connection that places.
pub(super) struct SqlPlacer<DB: Dialect> {
    options: ConnectOptions<DB>,
    gate: Gate,
    connection: Option<DB::Connection>,
}

impl<DB: Dialect> SqlPlacer<DB> {
    pub(super) fn new(options: ConnectOptions<DB>, gate: Gate) -> Self {
        Self {
            options,
            gate,
            connection: None,
        }
    }
}

/// What is written, once it was compared.
#[derive(Default)]
struct Plan<'a> {
    notices: Vec<&'a Notice>,
    cursors: Vec<(ConversationId, EventCursor)>,
    /// Up to where it was looked, up to where it is to be looked, and when.
    pushes: BTreeMap<ConversationId, (Seq, Seq, Timestamp)>,
    /// Where it was looked: what is to be looked for from here on is another row.
    looked: Vec<ConversationId>,
    moved: usize,
}

impl<'a> Plan<'a> {
    fn of(
        placements: &'a [Placement],
        cursors: &HashMap<ConversationId, EventCursor>,
        pushes: &'a [PushPlacement],
        due: &HashMap<ConversationId, PushDue>,
    ) -> Self {
        let mut plan = Self::default();
        for placement in placements {
            let id = placement.conversation_id;
            if cursors.get(&id).copied() != placement.expected {
                plan.moved += 1;
                continue;
            }
            plan.notices.extend(&placement.notices);
            plan.cursors.push((id, placement.cursor));
            if let Some((first, last, due_at)) = placement.push {
                let before = Seq::new(first.get().saturating_sub(1));
                plan.pushes.insert(id, (before, last, due_at));
            }
        }
        for push in pushes {
            let id = push.due.conversation_id;
            let row = due
                .get(&id)
                .filter(|row| (row.told, row.due_at) == (push.due.told, push.due.due_at));
            let Some(row) = row else {
                plan.moved += 1;
                continue;
            };
            plan.notices.extend(&push.notices);
            let newer = plan.pushes.get(&id).map_or(row.last, |(_, last, _)| *last);
            if push.told < newer {
                plan.pushes.insert(id, (push.told, newer, push.again_at));
            }
            plan.looked.push(id);
        }
        plan
    }
}

sql_impl! {
impl SqlPlacer {
    async fn write(
        connection: &mut DB::Connection,
        placements: &[Placement],
        pushes: &[PushPlacement],
        now: Timestamp,
    ) -> Result<Placed, StoreError> {
        let sql = |error: sqlx::Error| store_error(&error);
        connection.execute(DB::BEGIN_WRITE).await.map_err(sql)?;
        // Whoever comes second waits here until the first has committed.
        let lock = sql!("UPDATE im_event_log SET newest = newest WHERE log_id = 1");
        sqlx::query(lock).execute(&mut *connection).await.map_err(sql)?;
        let row = sqlx::query(sql!("SELECT newest FROM im_event_log WHERE log_id = 1"));
        let row = row.fetch_one(&mut *connection).await.map_err(sql)?;
        let newest = Columns::<DB>::new(&row).big()?;
        let cursors = Self::cursors(connection, placements).await?;
        let due = Self::due(connection, pushes).await?;
        let plan = Plan::of(placements, &cursors, pushes, &due);
        Self::insert_events(connection, newest, &plan.notices, now).await.map_err(sql)?;
        Self::move_cursors(connection, &plan.cursors).await.map_err(sql)?;
        Self::move_pushes(connection, &plan).await.map_err(sql)?;
        let newest = newest.saturating_add(i64::try_from(plan.notices.len()).unwrap_or_default());
        let query = sqlx::query(sql!("UPDATE im_event_log SET newest = ? WHERE log_id = 1"));
        query.bind(newest).execute(&mut *connection).await.map_err(sql)?;
        connection.execute("COMMIT").await.map_err(sql)?;
        Ok(Placed { newest: EventNo::new(newest), moved: plan.moved })
    }

    async fn cursors(
        connection: &mut DB::Connection,
        placements: &[Placement],
    ) -> StoreResult<HashMap<ConversationId, EventCursor>> {
        let mut found = HashMap::new();
        for part in placements.chunks(ROWS_PER_STATEMENT) {
            let mut builder = QueryBuilder::<DB>::new(
                "SELECT conversation_id, seq, change_seq, active_since FROM im_event_cursor WHERE conversation_id IN (",
            );
            let mut list = builder.separated(", ");
            for placement in part {
                list.push_bind(placement.conversation_id.get());
            }
            builder.push(")");
            let rows = builder.build().persistent(false).fetch_all(&mut *connection).await;
            for row in &rows.map_err(|error| store_error(&error))? {
                let mut columns = Columns::<DB>::new(row);
                let id = columns.conversation_id()?;
                found.extend(columns.maybe_event_cursor()?.map(|cursor| (id, cursor)));
            }
        }
        Ok(found)
    }

    async fn due(
        connection: &mut DB::Connection,
        pushes: &[PushPlacement],
    ) -> StoreResult<HashMap<ConversationId, PushDue>> {
        let mut found = HashMap::new();
        for part in pushes.chunks(ROWS_PER_STATEMENT) {
            let mut builder = QueryBuilder::<DB>::new(
                "SELECT conversation_id, told_seq, last_seq, due_at FROM im_push WHERE conversation_id IN (",
            );
            let mut list = builder.separated(", ");
            for push in part {
                list.push_bind(push.due.conversation_id.get());
            }
            builder.push(")");
            let rows = builder.build().persistent(false).fetch_all(&mut *connection).await;
            for row in &rows.map_err(|error| store_error(&error))? {
                let due = Columns::<DB>::new(row).push_due()?;
                found.insert(due.conversation_id, due);
            }
        }
        Ok(found)
    }

    async fn insert_events(
        connection: &mut DB::Connection,
        newest: i64,
        notices: &[&Notice],
        now: Timestamp,
    ) -> Result<(), sqlx::Error> {
        let mut next = newest;
        for part in notices.chunks(ROWS_PER_STATEMENT) {
            let recipients: Vec<Option<String>> = part.iter().map(|notice| recipients_text(&notice.recipients)).collect();
            let mut builder = QueryBuilder::<DB>::new(
                "INSERT INTO im_event (event_no, notice_type, conversation_id, seq, change_seq, message_id, recipients,
                 placed_at) ",
            );
            builder.push_values(part.iter().zip(&recipients), |mut row, (notice, recipients)| {
                next = next.saturating_add(1);
                row.push_bind(next)
                    .push_bind(notice.notice_type.code())
                    .push_bind(notice.conversation_id.get())
                    .push_bind(notice.seq.map(Seq::get))
                    .push_bind(notice.change_seq.map(ChangeSeq::get))
                    .push_bind(notice.message_id.map(MessageId::get))
                    .push_bind(recipients.as_deref())
                    .push_bind(now.millis());
            });
            builder.build().persistent(false).execute(&mut *connection).await?;
        }
        Ok(())
    }

    async fn move_cursors(
        connection: &mut DB::Connection,
        cursors: &[(ConversationId, EventCursor)],
    ) -> Result<(), sqlx::Error> {
        for part in cursors.chunks(ROWS_PER_STATEMENT) {
            let mut builder = QueryBuilder::<DB>::new(
                "INSERT INTO im_event_cursor (conversation_id, seq, change_seq, active_since) ",
            );
            builder.push_values(part, |mut row, (id, cursor)| {
                row.push_bind(id.get())
                    .push_bind(cursor.seq.get())
                    .push_bind(cursor.change_seq.get())
                    .push_bind(cursor.active_since.millis());
            });
            builder.push(DB::upsert(
                " ON CONFLICT (conversation_id) DO UPDATE SET seq = excluded.seq, change_seq = excluded.change_seq,
                 active_since = excluded.active_since",
                " ON DUPLICATE KEY UPDATE seq = VALUES(seq), change_seq = VALUES(change_seq),
                 active_since = VALUES(active_since)",
            ));
            builder.build().persistent(false).execute(&mut *connection).await?;
        }
        Ok(())
    }

    /// What was looked for goes on from there; what is new joins what waits, without making it wait longer.
    async fn move_pushes(
        connection: &mut DB::Connection,
        plan: &Plan<'_>,
    ) -> Result<(), sqlx::Error> {
        for part in plan.looked.chunks(ROWS_PER_STATEMENT) {
            let mut builder = QueryBuilder::<DB>::new("DELETE FROM im_push WHERE conversation_id IN (");
            let mut list = builder.separated(", ");
            for id in part {
                list.push_bind(id.get());
            }
            builder.push(")");
            builder.build().persistent(false).execute(&mut *connection).await?;
        }
        let rows: Vec<_> = plan.pushes.iter().collect();
        for part in rows.chunks(ROWS_PER_STATEMENT) {
            let mut builder = QueryBuilder::<DB>::new(
                "INSERT INTO im_push (conversation_id, told_seq, last_seq, due_at) ",
            );
            builder.push_values(part, |mut row, (id, (told, last, due_at))| {
                row.push_bind(id.get()).push_bind(told.get()).push_bind(last.get()).push_bind(due_at.millis());
            });
            builder.push(DB::upsert(
                " ON CONFLICT (conversation_id) DO UPDATE SET last_seq = excluded.last_seq",
                " ON DUPLICATE KEY UPDATE last_seq = VALUES(last_seq)",
            ));
            builder.build().persistent(false).execute(&mut *connection).await?;
        }
        Ok(())
    }

    async fn connect(options: &ConnectOptions<DB>) -> Result<DB::Connection, sqlx::Error> {
        let mut connection = DB::Connection::connect_with(options).await?;
        DB::prepare(&mut connection).await?;
        Ok(connection)
    }
}
}

sql_impl! {
impl Placer for SqlPlacer {
    async fn place(
        &mut self,
        placements: &[Placement],
        pushes: &[PushPlacement],
        now: Timestamp,
    ) -> StoreResult<Placed> {
        let connection = self.connection.take();
        let (gate, options) = (self.gate.clone(), self.options.clone());
        let placing = async {
            let mut connection = match connection {
                Some(connection) => connection,
                None => Self::connect(&options).await.map_err(|error| store_error(&error))?,
            };
            let _turn = gate.pass().await;
            let placed = Self::write(&mut connection, placements, pushes, now).await?;
            Ok((placed, connection))
        };
        // After an error the connection is dropped, and with it what it had begun.
        let Ok(ended) = timeout(PLACE_WAIT_MAX, placing).await else {
            let within = PLACE_WAIT_MAX.as_secs();
            return Err(StoreError::Unavailable(format!("events got no places within {within} s")));
        };
        let (placed, connection) = ended?;
        self.connection = Some(connection);
        Ok(placed)
    }
}
}
