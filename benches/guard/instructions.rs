//! Instructions per message, counted by valgrind. The program runs itself twice with different numbers of repetitions;
//! the difference is what the repetitions cost, without start and end. Hashes are taken off: under valgrind SHA-256 has to do
//! without the instructions that the hardware has for it, and would hide everything else.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::message::HotPath;
use crate::spread::float;

const FEW: usize = 200;
const MANY: usize = 1_200;

/// A part of the way of a message.
#[derive(Clone, Copy)]
pub(crate) enum Case {
    Read,
    Decide,
    Encode,
    Assemble,
    ContentHash,
    ChainHash,
}

impl Case {
    /// Those that are compared.
    const COMPARED: [Self; 4] = [Self::Read, Self::Decide, Self::Encode, Self::Assemble];
    const HASHES: [Self; 2] = [Self::ContentHash, Self::ChainHash];

    const fn name(self) -> &'static str {
        match self {
            Self::Read => "instructions: read a send from its frame, without the hash",
            Self::Decide => "instructions: decide one send, without the hash",
            Self::Encode => "instructions: encode one push",
            Self::Assemble => "instructions: put a message into the statement of its commit",
            Self::ContentHash => "instructions: hash of the content",
            Self::ChainHash => "instructions: hash of the chain",
        }
    }

    /// The hash that is a part of it.
    const fn hash(self) -> Option<Self> {
        match self {
            Self::Read => Some(Self::ContentHash),
            Self::Decide => Some(Self::ChainHash),
            _ => None,
        }
    }

    pub(crate) fn parse(name: &str) -> Result<Self> {
        let all = Self::COMPARED.into_iter().chain(Self::HASHES);
        let case = all.into_iter().find(|case| case.name() == name);
        case.with_context(|| format!("no case {name}"))
    }

    /// Carries it out so many times.
    pub(crate) fn repeat(self, times: usize) -> Result<()> {
        let path = HotPath::new()?;
        match self {
            Self::Read => (0..times).for_each(|_| assert!(HotPath::read(), "the frame is understood")),
            Self::Decide => {
                for _ in 0..times {
                    black_box(path.decide()?);
                }
            }
            Self::Encode => (0..times).for_each(|_| drop(black_box(path.encode()))),
            Self::Assemble => {
                for _ in 0..times / path.commits() {
                    black_box(path.assemble());
                }
            }
            Self::ContentHash => {
                for _ in 0..times {
                    black_box(path.content_hash());
                }
            }
            Self::ChainHash => {
                for _ in 0..times {
                    black_box(path.chain_hash());
                }
            }
        }
        Ok(())
    }

    /// Messages that so many repetitions stand for.
    fn messages(self, times: usize) -> Result<usize> {
        Ok(match self {
            Self::Assemble => {
                let commits = HotPath::new()?.commits();
                times / commits * commits
            }
            _ => times,
        })
    }

    /// Assembling is done for many messages at once, so it needs more of them.
    const fn times(self) -> (usize, usize) {
        match self {
            Self::Assemble => (FEW * 16, MANY * 16),
            _ => (FEW, MANY),
        }
    }
}

/// Of every case that is compared.
pub(crate) fn count() -> Result<BTreeMap<String, f64>> {
    let mut counted = BTreeMap::new();
    for case in Case::COMPARED {
        let hash = case.hash().map(per_message).transpose()?.unwrap_or_default();
        counted.insert(case.name().to_owned(), (per_message(case)? - hash).round());
    }
    Ok(counted)
}

fn per_message(case: Case) -> Result<f64> {
    let (few, many) = case.times();
    let instructions = run(case, many)?.checked_sub(run(case, few)?);
    let instructions = instructions.context("more repetitions cost less")?;
    let messages = case.messages(many)? - case.messages(few)?;
    Ok(float(instructions) / float(messages))
}

/// Instructions of the whole program.
fn run(case: Case, times: usize) -> Result<usize> {
    let out = tempfile::NamedTempFile::new()?;
    let ran = Command::new("valgrind")
        .args(["--tool=callgrind", "--quiet"])
        .arg(format!("--callgrind-out-file={}", out.path().display()))
        .arg(std::env::current_exe()?)
        .args(["--repeat", case.name(), &times.to_string()])
        .output();
    let ran = match ran {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            bail!("valgrind is not installed: `apt-get install valgrind`, or run with `-- --only ratios`")
        }
        ran => ran?,
    };
    ensure!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let text = std::fs::read_to_string(out.path())?;
    let total = text
        .lines()
        .find_map(|line| line.strip_prefix("summary: ").or(line.strip_prefix("totals: ")));
    Ok(total.context("valgrind has not written a total")?.trim().parse()?)
}
