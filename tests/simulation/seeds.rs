//! Many seeds, one seed again, and whether the seeds reach what they are meant to reach.

use std::collections::BTreeSet;
use std::panic::catch_unwind;

use indicatif::{ProgressBar, ProgressStyle};

use crate::checks;
use crate::faults::{Dice, Knobs};
use crate::world::{Run, World};

/// The seeds of the fast suite.
const SEEDS: u64 = 1_000;
/// What a thousand seeds must have met; a corner that no seed reaches is not tested.
const CORNERS: [&str; 40] = [
    "answer: AlreadyCreated",
    "answer: ClockMovedBackwards",
    "answer: ConversationNotFound",
    "answer: Forbidden",
    "answer: NotAMember",
    "answer: NotFound",
    "answer: PreconditionFailed",
    "answer: Unavailable",
    "answer: changed",
    "answer: Closed",
    "answer: Recalled",
    "answer: RecallTooLate",
    "answer: created",
    "answer: key reused",
    "answer: nothing to change",
    "answer: repeat",
    "answer: sent",
    "change: CONVERSATION_UPDATED",
    "change: DELETED",
    "change: EDITED",
    "change: MEMBER_REMOVED",
    "change: MEMBER_UPDATED",
    "change: RECALLED",
    "commit: FailBefore",
    "commit: UnknownNotStored",
    "commit: UnknownStored",
    "commit: UnknownStoredLater",
    "result: Exists",
    "result: Fenced",
    "result: KeyTaken",
    "crash: node",
    "crash: node at work",
    "crash: writer",
    "crash: writer at work",
    "database stopped or started",
    "file: expired",
    "file: kept",
    "file: removed",
    "file: uploaded again",
    "passivated",
];
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
    // Only a long run shows how far it is.
    let bar = if count > SEEDS {
        ProgressBar::new(count)
    } else {
        ProgressBar::hidden()
    };
    bar.set_style(ProgressStyle::with_template("{wide_bar} {pos}/{len} seeds, {per_sec}, {eta} left").unwrap());
    let (mut corners, mut complaints) = (BTreeSet::new(), Vec::new());
    for seed in first..first + count {
        bar.inc(1);
        let Ok(mut run) = catch_unwind(|| run(seed)) else {
            complaints.push(format!("seed {seed} panics; ONESCRIBE_SIM_SEED={seed} shows where"));
            break;
        };
        corners.append(&mut run.history.corners);
        complaints.extend(complaint(seed, &run));
        if count == 1 && !complaints.is_empty() {
            eprintln!("{:#?}", run.history);
        }
        if complaints.len() == COMPLAINTS_MAX {
            break;
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    if count >= SEEDS {
        let missed: Vec<&str> = CORNERS
            .into_iter()
            .filter(|corner| !corners.contains(*corner))
            .collect();
        assert!(missed.is_empty(), "no seed reached {missed:?}; these were: {corners:?}");
    }
}

#[test]
fn the_same_seed_gives_the_same_history() {
    for seed in 0..20 {
        let (one, other) = (run(seed), run(seed));
        assert_eq!(
            format!("{:?}", one.history),
            format!("{:?}", other.history),
            "seed {seed}"
        );
    }
}

#[test]
fn crash_and_reload_at_every_step_of_the_write_path() {
    for seed in 0..6 {
        for steps in 0..90 {
            for whole_node in [true, false] {
                let mut world = World::new(Dice::new(seed), Knobs::calm());
                (0..steps).for_each(|_| world.step());
                if whole_node {
                    world.crash_node(0);
                } else {
                    world.crash_all_seats(0);
                }
                let run = world.finish();
                let findings = checks::judge(&run);
                assert!(
                    findings.is_empty(),
                    "seed {seed}, crash after {steps} steps: {findings:?}"
                );
            }
        }
    }
}
