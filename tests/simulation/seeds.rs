//! Many seeds, one seed again, and whether the seeds reach what they are meant to reach.

use std::collections::BTreeSet;

use crate::checks;
use crate::faults::{Dice, Knobs};
use crate::world::{Run, World};

/// The seeds of the fast suite.
const SEEDS: u64 = 1_000;
/// After so many bad seeds nobody needs another one.
const COMPLAINTS_MAX: usize = 5;
/// The most findings that are shown of one seed.
const FINDINGS_SHOWN: usize = 5;

pub(crate) fn run(seed: u64) -> Run {
    let dice = Dice::new(seed);
    let knobs = Knobs::draw(&dice);
    World::run(dice, knobs)
}

fn from_environment(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name} must be a number, not {text:?}")),
    )
}

/// `None` when the run keeps every invariant.
fn complaint(seed: u64, run: &Run) -> Option<String> {
    let findings = checks::judge(run);
    let list: Vec<String> = findings
        .iter()
        .take(FINDINGS_SHOWN)
        .map(|found| format!("  {}: {}", found.invariant, found.text))
        .collect();
    (!findings.is_empty()).then(|| {
        format!(
            "seed {seed} has {} findings; see them again with\n  ONESCRIBE_SIM_SEED={seed} cargo test --test simulation every_seed\n{}\n",
            findings.len(),
            list.join("\n"),
        )
    })
}

#[test]
fn every_seed_keeps_every_invariant() {
    let (first, count) = match from_environment("ONESCRIBE_SIM_SEED") {
        Some(seed) => (seed, 1),
        None => (0, from_environment("ONESCRIBE_SIM_SEEDS").unwrap_or(SEEDS)),
    };
    let (mut corners, mut complaints) = (BTreeSet::new(), Vec::new());
    for seed in first..first + count {
        let mut run = run(seed);
        corners.append(&mut run.history.corners);
        complaints.extend(complaint(seed, &run));
        if complaints.len() == COMPLAINTS_MAX {
            break;
        }
        if count > SEEDS && (seed + 1) % 1_000 == 0 {
            eprintln!("{} of {count} seeds", seed + 1);
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    eprintln!("{corners:#?}");
}
