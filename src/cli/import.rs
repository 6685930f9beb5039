//! `onescribe import`: the lines of a file go through the writers of the conversations like those of any sender.
//!
//! Each line has a key of its own, made from the line, so an import that was interrupted is simply started again:
//! what is there already is answered with the first message and makes no double (INV-IDEM-1). Files are looked for in the
//! folder of the lines only, and those of a line that is there already are not uploaded again.

mod files;
mod line;
mod room;
mod sending;
mod survey;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use indicatif::{HumanCount, ProgressBar};
use tokio::time::{Instant, sleep};

use self::files::Folder;
pub(super) use self::room::MEMBERS_AT_ONCE;
use self::survey::Skipped;
pub(super) use self::survey::{Again, Survey};
use super::progress;
use super::signals::Signals;
use crate::app::{self, Core, Files, NoDelivery, ServiceError};
use crate::config::Config;
use crate::domain::{ExternalId, Name, Principal, PrincipalType, Subject};

/// Rooms that are under way at once.
const ROOMS_AT_ONCE: usize = 8;
/// How often something is tried before the import gives up, with a pause between.
const TRIES_MAX: u32 = 60;
const PAUSE: Duration = Duration::from_secs(1);
/// The external id of the agent that makes the groups.
pub(super) const IMPORTER: &str = "import";

/// Send the lines of a file through the server's own writers.
///
/// One JSON object a line: {"room", "at", "author", "text"}, and as needed "thread_reply" (it answers the line before it
/// in its room), "ref" (its name) and "reply_to" (the name of a line before it), "message_type" and "content" instead of
/// "text", "files": [{"path", "name", "media_type"}] with paths inside the folder of this file, "author_id" (an id of this
/// server), "author_type" (USER, AGENT or SYSTEM). A line {"room", "kind": "GROUP" or "DIRECT", "title", "members":
/// [{"author", "role"}]} says what a room is and who is in it. `onescribe export` writes all of this.
///
/// Interrupted, the same command goes on. Exits with 0 when every line is stored, with 1 when some were skipped.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// JSON Lines, as above
    file: PathBuf,
}

/// What became of the lines.
#[derive(Debug, Default)]
struct Tally {
    sent: u64,
    there: u64,
    files: u64,
    skipped: Skipped,
}

/// What an import works with.
struct Parts<'a> {
    core: &'a Core,
    /// Where a line has one.
    files: Option<&'a Files>,
    folder: Folder,
    survey: &'a Survey,
    bar: &'a ProgressBar,
}

pub(super) async fn run(mut config: Config, arguments: Arguments) -> anyhow::Result<ExitCode> {
    let mut signals = Signals::catch()?;
    let path = arguments.file;
    let cannot = || format!("cannot read {}", path.display());
    let survey = Survey::of(&path, config.limits.content_bytes).with_context(cannot)?;
    let folder = Folder::of(&path).with_context(cannot)?;
    // Whoever may write to the database may make users.
    config.auth.auto_provision = true;
    // Nobody may have more than half of the seats.
    config.files.uploads_at_once = config.files.uploads_at_once.max(2 * ROOMS_AT_ONCE);
    let blobs = survey.has_files.then(|| app::open_blobs(&config, true)).transpose()?;
    let store = app::open(&config.database, config.database.auto_migrate).await?;
    let core = Core::start(&config, store, Arc::new(NoDelivery)).await?;
    let files = blobs.map(|blobs| app::files(&config, &core, blobs));
    let started = Instant::now();
    let interrupt = async || signals.next().await;
    let parts = Parts {
        core: &core,
        files: files.as_ref(),
        folder,
        survey: &survey,
        bar: &progress::bar(survey.lines, "lines"),
    };
    let done = import(parts, interrupt).await;
    drop(files);
    core.stop().await;
    let (tally, interrupted) = done?;
    let handled = tally.sent + tally.there + tally.skipped.count;
    println!(
        "{}: {} sent, {} already there, {} skipped; {} files uploaded; {} rooms in {}",
        path.display(),
        HumanCount(tally.sent),
        HumanCount(tally.there),
        HumanCount(tally.skipped.count),
        HumanCount(tally.files),
        survey.rooms.len(),
        progress::rate(tally.sent + tally.there, started.elapsed()),
    );
    for named in &tally.skipped.named {
        println!("skipped {named}");
    }
    if interrupted {
        let lines = survey.lines + survey.skipped.count;
        println!("interrupted after {handled} of {lines} lines; the same command goes on from there");
    }
    let complete = !interrupted && tally.skipped.count == 0;
    Ok(if complete { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Sends everything; `true` = somebody asked to stop before the end. Whoever asks twice does not wait for the answers.
async fn import(parts: Parts<'_>, mut interrupt: impl AsyncFnMut()) -> anyhow::Result<(Tally, bool)> {
    let stop = AtomicBool::new(false);
    let agent = Subject {
        kind: PrincipalType::Agent,
        name: Name::External(ExternalId::parse(IMPORTER)?),
    };
    let importer = Importer {
        owner: parts.core.principals.resolve(&agent).await?,
        core: parts.core,
        files: parts.files,
        folder: parts.folder,
        survey: parts.survey,
        bar: parts.bar,
        stop: &stop,
    };
    let rooms = async {
        let tallies = stream::iter(&importer.survey.rooms).map(|room| importer.room(room));
        tallies
            .buffer_unordered(ROOMS_AT_ONCE)
            .try_collect::<Vec<Tally>>()
            .await
    };
    let interrupt = async {
        interrupt().await;
        stop.store(true, Ordering::Relaxed);
        // The rooms end by themselves when what is under way is answered.
        interrupt().await;
    };
    let tallies = tokio::select! {
        tallies = rooms => tallies,
        () = interrupt => Err(anyhow!("stopped at once; the same command goes on from what is stored")),
    };
    parts.bar.finish_and_clear();
    let mut total = Tally::default();
    total.skipped.join(&parts.survey.skipped);
    for tally in tallies? {
        total.sent += tally.sent;
        total.there += tally.there;
        total.files += tally.files;
        total.skipped.join(&tally.skipped);
    }
    Ok((total, stop.load(Ordering::Relaxed)))
}

struct Importer<'a> {
    core: &'a Core,
    /// Where a line has one.
    files: Option<&'a Files>,
    folder: Folder,
    survey: &'a Survey,
    bar: &'a ProgressBar,
    stop: &'a AtomicBool,
    owner: Principal,
}

impl Importer<'_> {
    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Does something that can be done twice, again and again where that may help; the refusal, where it may not.
    async fn attempt<T>(
        &self,
        what: &str,
        act: impl AsyncFn() -> Result<T, ServiceError>,
    ) -> anyhow::Result<Result<T, ServiceError>> {
        for _ in 0..TRIES_MAX {
            match act().await {
                Err(error) if error.code.retryable() && self.stopped() => bail!("{what}: {error}"),
                Err(error) if error.code.retryable() => sleep(PAUSE).await,
                done => return Ok(done),
            }
        }
        bail!("{what}: tried for a minute; see that the database is up, then run the same command again")
    }

    /// As [`Importer::attempt`], where a refusal ends the import.
    async fn tried<T>(&self, what: &str, act: impl AsyncFn() -> Result<T, ServiceError>) -> anyhow::Result<T> {
        let done = self.attempt(what, act).await?;
        done.map_err(|error| anyhow!("{what}: {error}"))
    }
}
