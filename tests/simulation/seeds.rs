//! Many seeds, one seed again, and whether the seeds reach what they are meant to reach.

use std::collections::BTreeSet;

use crate::checks;
use crate::faults::{Dice, Knobs};
use crate::world::{Run, World};

/// The seeds of the fast suite.
const SEEDS: u64 = 1_000;

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

fn assert_sound(seed: u64, run: &Run) {
    let findings = checks::judge(run);
    let list: Vec<String> = findings
        .iter()
        .take(10)
        .map(|found| format!("{}: {}", found.invariant, found.text))
        .collect();
    assert!(
        findings.is_empty(),
        "seed {seed} breaks {} rules; run it again with\n  ONESCRIBE_SIM_SEED={seed} cargo test --test simulation every_seed\n{}",
        findings.len(),
        list.join("\n"),
    );
}

#[test]
fn every_seed_keeps_every_invariant() {
    let (first, count) = match from_environment("ONESCRIBE_SIM_SEED") {
        Some(seed) => (seed, 1),
        None => (0, from_environment("ONESCRIBE_SIM_SEEDS").unwrap_or(SEEDS)),
    };
    let mut corners = BTreeSet::new();
    for seed in first..first + count {
        let mut run = run(seed);
        corners.append(&mut run.history.corners);
        assert_sound(seed, &run);
        if count > SEEDS && (seed + 1) % 1_000 == 0 {
            eprintln!("{} of {count} seeds", seed + 1);
        }
    }
    eprintln!("{corners:#?}");
}
