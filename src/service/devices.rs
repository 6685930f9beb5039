//! Devices and what they acknowledged.

use std::sync::Arc;
use std::time::Duration;

use moka::sync::Cache;

use super::conversations::Page;
use super::error::ServiceError;
use crate::clock::Clock;
use crate::domain::{Code, DeviceId, Principal};
use crate::storage::{Device, DeviceCursor, DeviceStore};

/// A device that asks again and again is noted once in this time.
const NOTICED_FOR: Duration = Duration::from_mins(1);
/// The most devices that are remembered as noted.
const NOTICED_MAX: u64 = 100_000;

/// Use cases around devices.
pub struct Devices {
    store: Arc<dyn DeviceStore>,
    clock: Arc<dyn Clock>,
    acks_max: usize,
    noticed: Cache<(Principal, DeviceId), ()>,
}

impl Devices {
    /// `acks_max` bounds one acknowledgement (`limits.acks_per_frame`).
    #[must_use]
    pub fn new(store: Arc<dyn DeviceStore>, clock: Arc<dyn Clock>, acks_max: usize) -> Self {
        let noticed = Cache::builder()
            .max_capacity(NOTICED_MAX)
            .time_to_live(NOTICED_FOR)
            .build();
        Self {
            store,
            clock,
            acks_max,
            noticed,
        }
    }

    /// The device says hello, or goodbye.
    ///
    /// # Errors
    /// `unavailable` when the store does not answer.
    pub async fn touch(
        &self,
        principal: Principal,
        device: &DeviceId,
        platform: Option<&str>,
    ) -> Result<(), ServiceError> {
        self.store
            .touch_device(principal, device, platform, self.clock.now())
            .await?;
        self.noticed.insert((principal, device.clone()), ());
        Ok(())
    }

    /// The device asks for something: it is noted, but not each time.
    ///
    /// # Errors
    /// `unavailable` when the store does not answer.
    pub async fn notice(&self, principal: Principal, device: &DeviceId) -> Result<(), ServiceError> {
        if self.noticed.contains_key(&(principal, device.clone())) {
            return Ok(());
        }
        self.touch(principal, device, None).await
    }

    /// The principal's devices behind a position, ordered by name.
    ///
    /// # Errors
    /// `unavailable` when the store does not answer.
    pub async fn list(
        &self,
        principal: Principal,
        after: Option<&DeviceId>,
        limit: u32,
    ) -> Result<Page<Device, DeviceId>, ServiceError> {
        let one_more = limit.saturating_add(1);
        let found = self.store.devices(principal, after, one_more).await?;
        Ok(Page::cut(found, limit, |last: &Device| last.device_id.clone()))
    }

    /// Forgets a device and its cursors. It may come back, as a new one. Close its connection first.
    ///
    /// # Errors
    /// `not_found` when it was never here.
    pub async fn forget(&self, principal: Principal, device: &DeviceId) -> Result<(), ServiceError> {
        self.noticed.invalidate(&(principal, device.clone()));
        if self.store.forget_device(principal, device).await? {
            return Ok(());
        }
        Err(ServiceError::new(Code::NotFound, "no such device"))
    }

    /// Moves the device's cursors, never back, never beyond a head; conversations in which the principal is no member
    /// are passed over.
    ///
    /// # Errors
    /// `invalid_request` when there are more than the limit.
    pub async fn acknowledge(
        &self,
        principal: Principal,
        device: &DeviceId,
        acks: &[DeviceCursor],
    ) -> Result<(), ServiceError> {
        if acks.len() > self.acks_max {
            let detail = format!("acks: must have at most {} entries", self.acks_max);
            return Err(ServiceError::new(Code::InvalidRequest, detail));
        }
        self.notice(principal, device).await?;
        Ok(self
            .store
            .acknowledge(principal, device, acks, self.clock.now())
            .await?)
    }
}
