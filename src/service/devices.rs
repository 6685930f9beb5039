//! Devices and what they acknowledged.

use std::sync::Arc;

use super::error::ServiceError;
use crate::clock::Clock;
use crate::domain::{Code, DeviceId, Principal};
use crate::storage::{DeviceCursor, DeviceStore};

/// Use cases around devices.
pub struct Devices {
    store: Arc<dyn DeviceStore>,
    clock: Arc<dyn Clock>,
    acks_max: usize,
}

impl Devices {
    /// `acks_max` bounds one acknowledgement (`limits.acks_per_frame`).
    #[must_use]
    pub fn new(store: Arc<dyn DeviceStore>, clock: Arc<dyn Clock>, acks_max: usize) -> Self {
        Self { store, clock, acks_max }
    }

    /// The device is here.
    ///
    /// # Errors
    /// `unavailable` when the store does not answer.
    pub async fn touch(
        &self,
        principal: Principal,
        device: &DeviceId,
        platform: Option<&str>,
    ) -> Result<(), ServiceError> {
        Ok(self
            .store
            .touch_device(principal, device, platform, self.clock.now())
            .await?)
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
        Ok(self
            .store
            .acknowledge(principal, device, acks, self.clock.now())
            .await?)
    }
}
