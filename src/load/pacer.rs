//! The clock of a run: a thread that sleeps is punctual to some ten microseconds, a timer of the runtime is not.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

/// In open loop the sends of one tick are planned for its beginning; it also shows how late the load's loop is.
pub(super) const TICK: Duration = Duration::from_millis(1);
/// The same in closed loop, where nothing is planned.
pub(super) const SLOW_TICK: Duration = Duration::from_millis(10);
/// Ticks that the load may be behind.
const TICKS_MAX: usize = 10_000;

/// Ticks until it is dropped.
#[derive(Debug)]
pub(super) struct Pacer {
    ticks: mpsc::Receiver<u32>,
    stop: Arc<AtomicBool>,
    tick: Duration,
}

impl Pacer {
    pub(super) fn start(started: Instant, tick: Duration) -> std::io::Result<Self> {
        let (line, ticks) = mpsc::channel(TICKS_MAX);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        std::thread::Builder::new().name("pacer".to_owned()).spawn(move || {
            let mut number = 0;
            while !stopped.load(Ordering::Relaxed) && !line.is_closed() {
                let at = started + tick * number;
                std::thread::sleep(at.saturating_duration_since(Instant::now()));
                // A full line means that the load is seconds behind: its lateness is seen at the ticks before.
                line.try_send(number).ok();
                number += 1;
            }
        })?;
        Ok(Self { ticks, stop, tick })
    }

    /// The next tick: when it was due.
    pub(super) async fn next(&mut self) -> Option<Duration> {
        self.ticks.recv().await.map(|number| self.tick * number)
    }
}

impl Drop for Pacer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}
