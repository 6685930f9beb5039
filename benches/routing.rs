//! Hashes that could say which node owns a conversation, side by side: rendezvous (what the server uses), jump, and a
//! ring with 160 virtual nodes. Measures ns per lookup, balance, and which share of the conversations moves when a
//! node joins or leaves. The rivals live only here.
//!
//! `cargo bench --bench routing` prints a table and writes `benches/charts/routing.svg`.

#[path = "support/chart.rs"]
mod chart;
#[path = "support/spread.rs"]
mod spread;

use std::collections::HashMap;
use std::hint::black_box;
use std::path::Path;

use anyhow::{Context, Result};
use onescribe::domain::ConversationId;
use onescribe::routing::owner::{NodeId, owner_of};
use plotters::prelude::SeriesLabelPosition;
use tokio::time::Instant;
use xxhash_rust::xxh3::xxh3_64;

use crate::chart::{Line, Panel};
use crate::spread::{Spread, float};

const NODE_COUNTS: [u16; 4] = [4, 16, 64, 256];
const CONVERSATIONS: i64 = 200_000;
const LOOKUPS_PER_ROUND: usize = 50_000;
const ROUNDS: usize = 7;
const VIRTUAL_NODES: u16 = 160;

/// A way to find the owner. `build` is what a node does when the set of nodes changes.
trait Router {
    fn build(nodes: &[NodeId]) -> Self
    where
        Self: Sized;
    fn owner(&self, id: ConversationId) -> Option<NodeId>;
}

struct Rendezvous(Vec<NodeId>);

impl Router for Rendezvous {
    fn build(nodes: &[NodeId]) -> Self {
        Self(nodes.to_vec())
    }

    fn owner(&self, id: ConversationId) -> Option<NodeId> {
        owner_of(id, &self.0)
    }
}

/// Lamping and Veach's jump hash. It knows places, not nodes: the place in the sorted list of nodes is all that
/// nodes without a common memory can agree on.
struct Jump(Vec<NodeId>);

impl Router for Jump {
    fn build(nodes: &[NodeId]) -> Self {
        Self(nodes.to_vec())
    }

    #[expect(
        clippy::as_conversions,
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "the published algorithm is written in doubles"
    )]
    fn owner(&self, id: ConversationId) -> Option<NodeId> {
        let mut key = xxh3_64(&id.get().to_le_bytes());
        let (mut place, mut next) = (0_i64, 0_i64);
        while usize::try_from(next).is_ok_and(|next| next < self.0.len()) {
            place = next;
            key = key.wrapping_mul(2_862_933_555_777_941_757).wrapping_add(1);
            next = ((place + 1) as f64 * ((1_u64 << 31) as f64 / ((key >> 33) + 1) as f64)) as i64;
        }
        self.0.get(usize::try_from(place).ok()?).copied()
    }
}

/// Consistent hashing as usually built: each node has points on a ring, the next point owns.
struct Ring(Vec<(u64, NodeId)>);

impl Router for Ring {
    fn build(nodes: &[NodeId]) -> Self {
        let points = nodes.iter().flat_map(|node| {
            let [n0, n1] = node.get().to_le_bytes();
            (0..VIRTUAL_NODES).map(move |point| {
                let [p0, p1] = point.to_le_bytes();
                (xxh3_64(&[n0, n1, p0, p1]), *node)
            })
        });
        let mut points: Vec<_> = points.collect();
        points.sort_unstable();
        Self(points)
    }

    fn owner(&self, id: ConversationId) -> Option<NodeId> {
        let hash = xxh3_64(&id.get().to_le_bytes());
        let after = self.0.partition_point(|(point, _)| *point < hash);
        self.0.get(after).or_else(|| self.0.first()).map(|(_, node)| *node)
    }
}

type Build = fn(&[NodeId]) -> Box<dyn Router>;

const DESIGNS: [(&str, Build); 3] = [
    ("rendezvous (ours)", |nodes| Box::new(Rendezvous::build(nodes))),
    ("jump", |nodes| Box::new(Jump::build(nodes))),
    ("ring, 160 points a node", |nodes| Box::new(Ring::build(nodes))),
];

struct Row {
    design: &'static str,
    nodes: u16,
    lookup_ns: Spread,
    max_by_mean: f64,
    deviation: f64,
    moved_join: f64,
    moved_leave_last: f64,
    moved_leave_middle: f64,
}

/// Ids as they are in the wild: snowflakes of one worker, a few milliseconds apart.
fn snowflakes() -> Result<Vec<ConversationId>> {
    let ids = (0..CONVERSATIONS).map(|n| ConversationId::new(((1_700_000_000 + n * 7) << 22) | (3 << 12) | (n % 5)));
    ids.collect::<Option<_>>().context("snowflakes are positive")
}

fn nodes(count: u16) -> Vec<NodeId> {
    (0..count).map(NodeId::new).collect()
}

fn owners(router: &dyn Router, ids: &[ConversationId]) -> Vec<Option<NodeId>> {
    ids.iter().map(|id| router.owner(*id)).collect()
}

fn moved(before: &[Option<NodeId>], after: &[Option<NodeId>]) -> f64 {
    let moved = before.iter().zip(after).filter(|(old, new)| old != new).count();
    float(moved) / float(before.len())
}

/// Largest share by mean share, and the standard deviation of the shares by their mean.
fn balance(owners: &[Option<NodeId>], count: u16) -> (f64, f64) {
    let mut shares: HashMap<NodeId, usize> = nodes(count).into_iter().map(|node| (node, 0)).collect();
    for owner in owners.iter().flatten() {
        *shares.entry(*owner).or_default() += 1;
    }
    let mean = float(owners.len()) / f64::from(count);
    let largest = shares.values().copied().map(float).fold(0.0, f64::max);
    let variance = shares.values().map(|share| (float(*share) - mean).powi(2)).sum::<f64>() / f64::from(count);
    (largest / mean, variance.sqrt() / mean)
}

fn lookup_ns(router: &dyn Router, ids: &[ConversationId]) -> f64 {
    let started = Instant::now();
    for id in ids.iter().take(LOOKUPS_PER_ROUND) {
        black_box(router.owner(black_box(*id)));
    }
    started.elapsed().as_secs_f64() * 1e9 / float(LOOKUPS_PER_ROUND)
}

fn measure(count: u16, ids: &[ConversationId]) -> Vec<Row> {
    let routers: Vec<_> = DESIGNS.iter().map(|(_, build)| build(&nodes(count))).collect();
    let mut times = vec![Vec::new(); routers.len()];
    // The first round warms up; the designs take turns, so that a disturbance hits all of them.
    for round in 0..=ROUNDS {
        for (router, times) in routers.iter().zip(&mut times) {
            let ns = lookup_ns(router.as_ref(), ids);
            if round > 0 {
                times.push(ns);
            }
        }
    }
    let designs = DESIGNS.iter().zip(routers.iter().zip(&times));
    let rows = designs.map(|((design, build), (router, times))| {
        let now = owners(router.as_ref(), ids);
        let moved_to = |nodes: &[NodeId]| moved(&now, &owners(build(nodes).as_ref(), ids));
        let mut without_middle = nodes(count);
        without_middle.remove(without_middle.len() / 2);
        let (max_by_mean, deviation) = balance(&now, count);
        Row {
            design,
            nodes: count,
            lookup_ns: Spread::of(times),
            max_by_mean,
            deviation,
            moved_join: moved_to(&nodes(count + 1)),
            moved_leave_last: moved_to(&nodes(count - 1)),
            moved_leave_middle: moved_to(&without_middle),
        }
    });
    rows.collect()
}

fn print(rows: &[Row]) {
    println!(
        "| nodes | design | ns per lookup | max ÷ mean | std dev ÷ mean | moved: a node joins | last one leaves | middle one leaves | least possible: join / leave |"
    );
    println!("|--:|---|--:|--:|--:|--:|--:|--:|--:|");
    for row in rows {
        println!(
            "| {} | {} | {} | {:.3} | {:.3} | {:.2} % | {:.2} % | {:.2} % | {:.2} / {:.2} % |",
            row.nodes,
            row.design,
            row.lookup_ns,
            row.max_by_mean,
            row.deviation,
            row.moved_join * 100.0,
            row.moved_leave_last * 100.0,
            row.moved_leave_middle * 100.0,
            100.0 / (f64::from(row.nodes) + 1.0),
            100.0 / f64::from(row.nodes),
        );
    }
}

fn panel(title: &str, rows: &[Row], (y_from, logarithmic): (f64, bool), value: fn(&Row) -> f64) -> Panel {
    let line = |design: &str| Line {
        name: design.to_owned(),
        values: rows
            .iter()
            .filter(|row| row.design == design)
            .map(|row| Some(value(row)))
            .collect(),
    };
    Panel {
        title: title.to_owned(),
        x_name: "nodes".to_owned(),
        x_labels: NODE_COUNTS.iter().map(u16::to_string).collect(),
        y_from,
        logarithmic,
        legend: SeriesLabelPosition::UpperLeft,
        lines: DESIGNS.iter().map(|(design, _)| line(design)).collect(),
    }
}

fn main() -> Result<()> {
    let ids = snowflakes()?;
    let rows: Vec<Row> = NODE_COUNTS.iter().flat_map(|count| measure(*count, &ids)).collect();
    println!("{CONVERSATIONS} conversations, {ROUNDS} rounds of {LOOKUPS_PER_ROUND} lookups, median [min–max]\n");
    print(&rows);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/charts/routing.svg");
    let mut moved = panel("% moved when the middle node leaves", &rows, (0.1, true), |row| {
        row.moved_leave_middle * 100.0
    });
    moved.legend = SeriesLabelPosition::LowerLeft;
    let panels = [
        panel("ns per lookup", &rows, (1.0, true), |row| row.lookup_ns.median),
        panel("largest share ÷ mean share", &rows, (1.0, false), |row| {
            row.max_by_mean
        }),
        moved,
    ];
    chart::write(&path, 460, &panels)?;
    println!("\nchart: {}", path.display());
    Ok(())
}
