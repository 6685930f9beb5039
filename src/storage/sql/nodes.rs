//! The leases of worker ids.

use std::collections::HashMap;

use super::rows::Columns;
use super::{Dialect, SqlStore, bounded};
use crate::domain::Timestamp;
use crate::domain::snowflake::{WORKERS_MAX, time_of};
use crate::storage::{Lease, NodeStore, StoreError, StoreResult};

sql_impl! {
impl SqlStore {
    /// The rows of all worker ids that were ever leased: who holds each, and until when.
    async fn workers(&self) -> StoreResult<HashMap<u16, (String, i64)>> {
        let query = sqlx::query(sql!("SELECT worker, node_id, lease_until FROM im_node"));
        let rows = bounded(query.fetch_all(&self.pool)).await?;
        let worker = |row| {
            let mut columns = Columns::<DB>::new(row);
            let worker = u16::try_from(columns.small()?).unwrap_or(WORKERS_MAX);
            Ok((worker, (columns.key()?, columns.big()?)))
        };
        rows.iter().map(worker).collect()
    }

    /// Takes a worker id that nobody has ever had; `false` = somebody was faster.
    async fn insert_worker(&self, worker: u16, node: &str, now: Timestamp, until: Timestamp) -> StoreResult<bool> {
        let query = sqlx::query(DB::upsert(
            sql!(
                "INSERT INTO im_node (worker, node_id, lease_until, last_issued, updated_at)
                 VALUES (?, ?, ?, 0, ?) ON CONFLICT DO NOTHING"
            ),
            "INSERT INTO im_node (worker, node_id, lease_until, last_issued, updated_at)
             VALUES (?, ?, ?, 0, ?) ON DUPLICATE KEY UPDATE worker = im_node.worker",
        ));
        let query = query.bind(i16::try_from(worker).unwrap_or_default()).bind(node.as_bytes());
        let turn = self.gate.pass().await;
        bounded(query.bind(until.millis()).bind(now.millis()).execute(&self.pool)).await?;
        drop(turn);
        // The number of rows found means different things here, so we look who has it.
        Ok(self.workers().await?.get(&worker).is_some_and(|(holder, _)| holder == node))
    }

    /// Takes over a worker id whose lease has ended; `false` = somebody was faster.
    async fn take_worker(
        &self,
        worker: u16,
        node: &str,
        former: &(String, i64),
        now: Timestamp,
        until: Timestamp,
    ) -> StoreResult<bool> {
        let query = sqlx::query(sql!(
            "UPDATE im_node SET node_id = ?, lease_until = ?, updated_at = ?
             WHERE worker = ? AND node_id = ? AND lease_until = ?"
        ));
        let query = query.bind(node.as_bytes()).bind(until.millis()).bind(now.millis());
        let query = query.bind(i16::try_from(worker).unwrap_or_default()).bind(former.0.as_bytes()).bind(former.1);
        let _turn = self.gate.pass().await;
        Ok(DB::affected(&bounded(query.execute(&self.pool)).await?) == 1)
    }

    /// The newest time that any node is known to have given ids of (B09).
    async fn newest_issued(&self) -> StoreResult<Timestamp> {
        let query = sqlx::query(sql!(
            "SELECT (SELECT MAX(last_issued) FROM im_node), (SELECT MAX(message_id) FROM im_message),
             (SELECT MAX(conversation_id) FROM im_conversation)"
        ));
        let row = bounded(query.fetch_one(&self.pool)).await?;
        let mut columns = Columns::<DB>::new(&row);
        let issued = Timestamp::from_millis(columns.maybe_big()?.unwrap_or_default());
        let message = columns.maybe_big()?.map(time_of).unwrap_or_default();
        let conversation = columns.maybe_big()?.map(time_of).unwrap_or_default();
        Ok(issued.max(message).max(conversation))
    }
}
}

sql_impl! {
impl NodeStore for SqlStore {
    async fn claim_worker(&self, node: &str, now: Timestamp, lease_until: Timestamp) -> StoreResult<Lease> {
        // Whoever loses a race has seen somebody else win, so this ends after WORKERS_MAX rounds at the latest.
        for _ in 0..=WORKERS_MAX {
            let rows = self.workers().await?;
            let ended = |worker: &u16| rows.get(worker).map_or(0, |(_, until)| *until);
            let free = (0..WORKERS_MAX).filter(|worker| ended(worker) <= now.millis());
            // The longest free one: a former holder with a slow clock may still believe in its lease.
            let worker = free.min_by_key(ended).ok_or(StoreError::NoFreeWorker)?;
            let taken = match rows.get(&worker) {
                Some(former) => self.take_worker(worker, node, former, now, lease_until).await?,
                None => self.insert_worker(worker, node, now, lease_until).await?,
            };
            if taken {
                // After the claim, so that nothing which a former holder has given is missing.
                return Ok(Lease { worker, not_before: self.newest_issued().await? });
            }
        }
        Err(StoreError::NoFreeWorker)
    }

    async fn renew_worker(
        &self,
        node: &str,
        worker: u16,
        lease_until: Timestamp,
        last_issued: Timestamp,
    ) -> StoreResult<bool> {
        let query = sqlx::query(sql!(
            "UPDATE im_node SET lease_until = ?, last_issued = CASE WHEN last_issued < ? THEN ? ELSE last_issued END
             WHERE worker = ? AND node_id = ?"
        ));
        let query = query.bind(lease_until.millis()).bind(last_issued.millis()).bind(last_issued.millis());
        let query = query.bind(i16::try_from(worker).unwrap_or(-1)).bind(node.as_bytes());
        let _turn = self.gate.pass().await;
        Ok(DB::affected(&bounded(query.execute(&self.pool)).await?) == 1)
    }

    async fn release_worker(&self, node: &str, worker: u16, last_issued: Timestamp) -> StoreResult<()> {
        self.renew_worker(node, worker, Timestamp::default(), last_issued).await?;
        // Nobody holds it from here on: a renewal that was on its way finds nothing.
        let query = sqlx::query(sql!("UPDATE im_node SET node_id = ?, lease_until = 0 WHERE worker = ? AND node_id = ?"));
        let query = query.bind(b"".as_slice()).bind(i16::try_from(worker).unwrap_or(-1)).bind(node.as_bytes());
        let _turn = self.gate.pass().await;
        bounded(query.execute(&self.pool)).await.map(drop)
    }
}
}
