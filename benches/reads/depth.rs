//! A page of 50 at any depth of one conversation: by seq, as we do, and by OFFSET for contrast.

use anyhow::{Result, ensure};
use onescribe::domain::{ConversationId, Principal, Seq};
use onescribe::storage::PageQuery;
use sqlx::{Connection, MySql, Postgres, QueryBuilder, Row, Sqlite};
use tokio::time::Instant;

use crate::fill::{DEEP, DEEP_MESSAGES, READER};
use crate::spread::short;
use crate::{Place, Timing};

const DEPTHS: [i64; 3] = [10, 100_000, 1_000_000];
const LIMIT: u32 = 50;
const ROUNDS: usize = 300;
/// An OFFSET of a million takes a second.
const OFFSET_ROUNDS: usize = 5;
/// The deepest page may cost so many times the first.
const RATIO_MAX: f64 = 1.5;

/// Measures and prints; fails when a deep page costs more than [`RATIO_MAX`] times a shallow one.
pub(crate) async fn run(places: &[Place]) -> Result<()> {
    println!("\nA page of {LIMIT} of {DEEP_MESSAGES} messages, every 100th deleted for the reader; p50 / p99 in ms:\n");
    println!("| database | depth | by seq (ours) | ÷ depth 10 | by OFFSET | ÷ ours |");
    println!("|---|--:|--:|--:|--:|--:|");
    for place in places {
        let mut ours = Vec::new();
        for _ in DEPTHS {
            ours.push(Timing::new()?);
        }
        // The depths take turns.
        for round in 0..=ROUNDS {
            for (depth, timing) in DEPTHS.into_iter().zip(&mut ours) {
                let started = Instant::now();
                let page = place.store.page(query(depth)).await?;
                let took = started.elapsed();
                ensure!(page.len() == usize::try_from(LIMIT)?, "a page is not full");
                if round > 0 {
                    timing.record(took)?;
                }
            }
        }
        let first = ours.first().map_or(0.0, |timing| timing.quantile(0.5));
        for (depth, timing) in DEPTHS.into_iter().zip(&ours) {
            let offset = by_offset(&place.database.url, depth).await?;
            let ratio = timing.quantile(0.5) / first;
            println!(
                "| {} | {depth} | {} | {} × | {} | {} × |",
                place.name,
                timing.show(),
                short(ratio),
                offset.show(),
                short(offset.quantile(0.5) / timing.quantile(0.5)),
            );
            ensure!(
                ratio <= RATIO_MAX,
                "{}: depth {depth} costs {ratio:.2} times depth 10",
                place.name
            );
        }
    }
    Ok(())
}

fn query(depth: i64) -> PageQuery {
    PageQuery {
        conversation_id: ConversationId::new(DEEP).unwrap_or_else(|| unreachable!("it is positive")),
        viewer: Principal::user(READER),
        after: Seq::ZERO,
        before: Some(Seq::new(DEEP_MESSAGES - depth)),
        oldest_first: false,
        limit: LIMIT,
    }
}

async fn by_offset(url: &str, depth: i64) -> Result<Timing> {
    let text = format!(
        "SELECT m.* FROM im_message m WHERE m.conversation_id = {DEEP} AND m.status <> 4 AND NOT EXISTS (SELECT 1 FROM \
         im_user_action a WHERE a.principal_type = 1 AND a.principal_id = {READER} AND a.action_type = 1 AND \
         a.message_id = m.message_id AND a.status = 1) ORDER BY m.seq DESC LIMIT {LIMIT} OFFSET {}",
        // So many of those passed over are visible.
        depth - depth / 100
    );
    let mut timing = Timing::new()?;
    macro_rules! on {
        ($database:ty) => {{
            let mut connection = <$database as sqlx::Database>::Connection::connect(url).await?;
            for _ in 0..OFFSET_ROUNDS {
                let started = Instant::now();
                let mut query = QueryBuilder::<$database>::new(&text);
                let rows = query.build().fetch_all(&mut connection).await?;
                let took = started.elapsed();
                ensure!(rows.first().is_some_and(|row| row.try_get_raw(0).is_ok()), "no rows");
                timing.record(took)?;
            }
        }};
    }
    match url.split(':').next() {
        Some("postgres") => on!(Postgres),
        Some("mysql") => on!(MySql),
        _ => on!(Sqlite),
    }
    Ok(timing)
}
