//! The committed figures, and what counts as worse.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::spread::short;

/// Instructions may grow by so much: a changed compiler or library is no regression of ours.
const INSTRUCTIONS_TOLERANCE: f64 = 0.03;
/// Ratios may be worse by so much. On a machine with other work on it medians of three rounds differ by a fifth.
const RATIO_TOLERANCE: f64 = 0.3;

/// What is better: a larger or a smaller one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Better {
    Larger,
    Smaller,
}

/// A ratio with its direction.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Ratio {
    pub(crate) value: f64,
    pub(crate) better: Better,
}

/// Figures by name.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Baseline {
    /// Per message.
    pub(crate) instructions: BTreeMap<String, f64>,
    pub(crate) ratios: BTreeMap<String, Ratio>,
}

fn path() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "benches", "guard", "baseline.json"]
        .iter()
        .collect()
}

impl Baseline {
    pub(crate) fn load() -> Result<Self> {
        let text = std::fs::read_to_string(path()).context("there is no baseline: make one with --accept")?;
        serde_json::from_str(&text).context("the baseline cannot be read: make a new one with --accept")
    }

    /// What was not measured this time stays as it was.
    pub(crate) fn accept(self) -> Result<()> {
        let mut new = Self::load().unwrap_or_default();
        new.instructions.extend(self.instructions);
        new.ratios.extend(self.ratios);
        std::fs::write(path(), serde_json::to_string_pretty(&new)? + "\n")?;
        println!("\nwritten: {}", path().display());
        Ok(())
    }

    /// Prints every figure beside the committed one; `false` when one is worse than it may be.
    pub(crate) fn compare(&self, committed: &Self) -> bool {
        println!("\n| figure | now | baseline | change | may be | |\n|---|--:|--:|--:|--:|---|");
        let instructions = self.instructions.iter().map(|(name, now)| {
            let was = committed.instructions.get(name).copied();
            line(name, *now, was, Better::Smaller, INSTRUCTIONS_TOLERANCE)
        });
        let ratios = self.ratios.iter().map(|(name, now)| {
            let was = committed.ratios.get(name).map(|was| was.value);
            line(name, now.value, was, now.better, RATIO_TOLERANCE)
        });
        let worse: Vec<&str> = instructions.chain(ratios).flatten().collect();
        if worse.is_empty() {
            println!("\nNothing is slower than the baseline allows.");
        } else {
            println!("\nREGRESSION: {}.", worse.join("; "));
            println!("Find the commit that did it. If it is meant to be so, say why in a commit with `-- --accept`.");
        }
        worse.is_empty()
    }
}

/// One row; the name when it is worse than it may be.
fn line(name: &str, now: f64, was: Option<f64>, better: Better, tolerance: f64) -> Option<&str> {
    let Some(was) = was else {
        println!(
            "| {name} | {} | – | | | new: take it in with `-- --accept` |",
            short(now)
        );
        return None;
    };
    let change = now / was - 1.0;
    let (worse, sign) = match better {
        Better::Larger => (change < -tolerance, '−'),
        Better::Smaller => (change > tolerance, '+'),
    };
    println!(
        "| {name} | {} | {} | {:+.1} % | {sign}{:.0} % | {} |",
        short(now),
        short(was),
        change * 100.0,
        tolerance * 100.0,
        if worse { "WORSE" } else { "" }
    );
    worse.then_some(name)
}
