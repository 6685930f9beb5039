//! The name of a store, by which clients see that its history is another one.

use anyhow::Context as _;
use uuid::Uuid;

use crate::service::EPOCH_SETTING;
use crate::storage::Store;

/// Gives the store another name; answers it. Clients that come back with the old one are told to begin anew.
///
/// # Errors
/// When the store does not answer.
pub async fn renew_epoch(store: &dyn Store) -> anyhow::Result<String> {
    let fresh = Uuid::now_v7().to_string();
    let renewed = async {
        if store.setting_or(EPOCH_SETTING, &fresh).await? != fresh {
            store.set_setting(EPOCH_SETTING, &fresh).await?;
        }
        store.setting(EPOCH_SETTING).await
    };
    let kept = renewed.await.context("the store's epoch cannot be renewed")?;
    Ok(kept.unwrap_or(fresh))
}
