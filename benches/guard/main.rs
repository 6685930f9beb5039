//! Has the write path become slower? Counts instructions of the code that waits for nothing (under valgrind, so that
//! the machine's mood does not matter), and measures ratios of designs that take turns on the same databases. Both are
//! compared with `benches/guard/baseline.json`; a regression ends it with 1.
//!
//! `tests/run databases -- cargo bench --bench guard` (two minutes); `-- --accept` writes the present figures as the new
//! baseline, `-- --only instructions` needs no database.

#[path = "../support/bare_insert.rs"]
mod bare_insert;
mod baseline;
#[expect(dead_code, reason = "shared with the other benchmarks, which need more of it")]
#[path = "../support/closed_loop.rs"]
mod closed_loop;
#[expect(
    dead_code,
    clippy::expect_used,
    reason = "shared with the tests, which need more of it"
)]
#[path = "../../tests/support/database.rs"]
mod database;
#[path = "../support/design.rs"]
mod design;
mod instructions;
#[path = "../support/hot_path.rs"]
mod message;
mod ratios;
#[expect(dead_code, reason = "shared with the other benchmarks, which need more of it")]
#[path = "../support/row_lock.rs"]
mod row_lock;
#[path = "../support/single_writer.rs"]
mod single_writer;
#[path = "../support/spread.rs"]
mod spread;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, ValueEnum};
use mimalloc::MiMalloc;

use crate::baseline::Baseline;
use crate::instructions::Case;

// As in the server.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

#[derive(Parser)]
struct Options {
    /// Write what was measured as the new baseline.
    #[arg(long)]
    accept: bool,
    /// Leave the other half out.
    #[arg(long)]
    only: Option<Half>,
    /// Interleaved rounds of the ratios.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Milliseconds that each design has in a round.
    #[arg(long, default_value_t = 1_500)]
    millis: u64,
    /// cargo says so.
    #[arg(long, hide = true)]
    bench: bool,
    /// Only carry a case out so many times: what valgrind looks at.
    #[arg(long, hide = true, num_args = 2, value_names = ["CASE", "TIMES"])]
    repeat: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Half {
    Instructions,
    Ratios,
}

fn main() -> Result<ExitCode> {
    let options = Options::parse();
    if let [case, times] = options.repeat.as_slice() {
        return Case::parse(case)?.repeat(times.parse()?).map(|()| ExitCode::SUCCESS);
    }
    let mut measured = Baseline::default();
    if options.only != Some(Half::Ratios) {
        measured.instructions = instructions::count()?;
    }
    if options.only != Some(Half::Instructions) {
        measured.ratios = ratios::measure(options.rounds, std::time::Duration::from_millis(options.millis))?;
    }
    if options.accept {
        measured.accept()?;
        return Ok(ExitCode::SUCCESS);
    }
    Ok(if measured.compare(&Baseline::load()?) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
