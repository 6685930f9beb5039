//! Devices and what they acknowledged.

use std::sync::Arc;
use std::time::Duration;

use moka::sync::Cache;

use super::error::ServiceError;
use crate::clock::Clock;
use crate::domain::{Code, DeviceId, Principal};
use crate::storage::{Device, DeviceCursor, DeviceStore};

/// The most devices that are listed: those that were seen last.
pub const DEVICES_LISTED_MAX: u32 = 200;
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

    /// The principal's devices, the one seen last first; at most [`DEVICES_LISTED_MAX`].
    ///
    /// # Errors
    /// `unavailable` when the store does not answer.
    pub async fn list(&self, principal: Principal) -> Result<Vec<Device>, ServiceError> {
        Ok(self.store.devices(principal, DEVICES_LISTED_MAX).await?)
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
