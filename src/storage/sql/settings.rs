//! Small values of the store as a whole.

use super::rows::Columns;
use super::{Dialect, SqlStore, bounded};
use crate::storage::{SettingStore, StoreError, StoreResult};

sql_impl! {
impl SettingStore for SqlStore {
    async fn setting_or(&self, name: &str, value: &str) -> StoreResult<String> {
        if let Some(kept) = self.setting(name).await? {
            return Ok(kept);
        }
        let query = sqlx::query(DB::upsert(
            sql!("INSERT INTO im_setting (setting_name, setting_value) VALUES (?, ?) ON CONFLICT DO NOTHING"),
            "INSERT INTO im_setting (setting_name, setting_value) VALUES (?, ?)
             ON DUPLICATE KEY UPDATE setting_name = im_setting.setting_name",
        ));
        let turn = self.gate.pass().await;
        bounded(query.bind(name.as_bytes()).bind(value).execute(&self.pool)).await?;
        drop(turn);
        // Somebody may have been faster: all answer with what is kept.
        let kept = self.setting(name).await?;
        kept.ok_or_else(|| StoreError::Inconsistent(format!("setting {name} was not kept")))
    }

    async fn setting(&self, name: &str) -> StoreResult<Option<String>> {
        let query = sqlx::query(sql!("SELECT setting_value FROM im_setting WHERE setting_name = ?"));
        let row = bounded(query.bind(name.as_bytes()).fetch_optional(&self.pool)).await?;
        row.map(|row| Columns::<DB>::new(&row).text()).transpose()
    }

    async fn set_setting(&self, name: &str, value: &str) -> StoreResult<()> {
        let query = sqlx::query(sql!("UPDATE im_setting SET setting_value = ? WHERE setting_name = ?"));
        let _turn = self.gate.pass().await;
        bounded(query.bind(value).bind(name.as_bytes()).execute(&self.pool)).await.map(drop)
    }

    async fn ping(&self) -> StoreResult<()> {
        bounded(sqlx::query(sql!("SELECT 1")).execute(&self.pool)).await.map(drop)
    }
}
}
