//! How long one message takes in the code that waits for nothing. The bars: `decide` ≤ 1 µs, a push ≤ 2 µs.
//!
//! `cargo bench --bench hot_path` (half a minute).

#[expect(dead_code, reason = "shared with the guard, which takes hashes apart")]
#[path = "support/hot_path.rs"]
mod message;

use criterion::{Criterion, Throughput};
use mimalloc::MiMalloc;

use crate::message::HotPath;

// As in the server.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> anyhow::Result<()> {
    let path = HotPath::new()?;
    let mut criterion = Criterion::default().configure_from_args();
    criterion.bench_function("read a send from its frame", |bench| bench.iter(HotPath::read));
    criterion.bench_function("decide one send", |bench| bench.iter(|| path.decide().is_ok()));
    criterion.bench_function("encode one push", |bench| bench.iter(|| path.encode()));
    let mut together = criterion.benchmark_group("commits in one statement");
    together.throughput(Throughput::Elements(u64::try_from(path.commits())?));
    together.bench_function(path.commits().to_string(), |bench| bench.iter(|| path.assemble()));
    together.finish();
    criterion.final_summary();
    Ok(())
}
