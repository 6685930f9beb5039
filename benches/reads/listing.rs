//! The list of conversations with unread counts: one query, whatever it lists.

use anyhow::{Result, ensure};
use onescribe::domain::Principal;
use tokio::time::Instant;

use crate::fill::{LISTERS, LISTS};
use crate::spread::{float, short};
use crate::{Place, Timing};

const ROUNDS: usize = 40;

/// Measures and prints.
pub(crate) async fn run(places: &[Place]) -> Result<()> {
    println!("\nThe whole list with unread counts and last messages in one query; p50 / p99 in ms:\n");
    println!("| database | conversations | the list | µs per conversation |");
    println!("|---|--:|--:|--:|");
    for place in places {
        let mut timings = Vec::new();
        for _ in LISTS {
            timings.push(Timing::new()?);
        }
        for round in 0..=ROUNDS {
            for ((at, count), timing) in (0..).zip(LISTS).zip(&mut timings) {
                let started = Instant::now();
                let list = place
                    .store
                    .list(Principal::user(LISTERS + at), None, u32::try_from(count)?)
                    .await?;
                let took = started.elapsed();
                ensure!(list.len() == usize::try_from(count)?, "the list is not whole");
                ensure!(
                    list.iter().all(|seen| seen.unread_count == 8),
                    "an unread count is wrong"
                );
                if round > 0 {
                    timing.record(took)?;
                }
            }
        }
        for (count, timing) in LISTS.into_iter().zip(&timings) {
            let each = timing.quantile(0.5) * 1_000.0 / float(usize::try_from(count)?);
            println!("| {} | {count} | {} | {} |", place.name, timing.show(), short(each));
        }
    }
    Ok(())
}
