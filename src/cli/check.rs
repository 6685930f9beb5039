//! `onescribe check`: proves that a store keeps its promises, also one that is in use.

mod audit;
mod events;
mod objects;

use std::collections::HashSet;
use std::process::ExitCode;

use anyhow::Context as _;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use indicatif::{HumanCount, ProgressBar};
use tokio::time::Instant;

use self::audit::{Counts, Finding};
use self::objects::Objects;
use super::progress;
use crate::app;
use crate::clock::{Clock as _, SystemClock};
use crate::config::Config;
use crate::domain::{ConversationId, MessageId, MessageStatus, Notification};
use crate::storage::{Store, StoreResult};

/// Conversations that are read at once.
const AT_ONCE: usize = 4;
/// Conversation ids that are in memory at once.
const PAGE_IDS: u32 = 1_000;
/// References to files that are in memory at once, each with the content of its message.
const PAGE_REFERENCES: u32 = 200;
/// Findings that are printed; a store with more is not read by a person line by line.
const PRINTED_MAX: usize = 200;

/// What a whole run comes to.
#[derive(Debug, Default)]
struct Report {
    counts: Counts,
    findings: Vec<Finding>,
    /// All of them, also those that are not kept.
    found: usize,
}

/// `onescribe check`
#[derive(Clone, Copy, Debug, clap::Args)]
pub(super) struct Arguments {
    /// Remove objects of files that no row names, as a crash or a restored database leaves them, if they are older than an hour
    #[arg(long)]
    remove_orphans: bool,
}

const NOT_FINISHED: &str = "the check could not be finished, so it proves nothing";
/// The exit code when the store cannot be read to the end: nothing is proved, neither order nor damage.
const NOT_PROVED: u8 = 2;

/// Prints what was checked and what was found: 0 = in order, 1 = findings, 2 = it could not be finished.
pub(super) async fn run(config: Config, arguments: Arguments) -> ExitCode {
    prove(config, arguments).await.unwrap_or_else(|error| {
        super::fail(&error);
        ExitCode::from(NOT_PROVED)
    })
}

async fn prove(config: Config, arguments: Arguments) -> anyhow::Result<ExitCode> {
    let store = app::open(&config.database, false).await?;
    let started = Instant::now();
    let report = check(store.as_ref(), &progress::bar(0, "conversations")).await;
    let objects = files(&config, store.as_ref(), arguments).await;
    store.close().await;
    let report = report.context(NOT_FINISHED)?;
    let objects = objects.context(NOT_FINISHED)?;
    let Counts {
        conversations,
        messages,
        changes,
        members,
        quotes,
        reacted,
        events,
        notifications,
        references,
    } = report.counts;
    println!(
        "checked {} conversations, {} messages, {} changes, {} memberships, {} quotes, {} messages with reactions, \
         {} events, {} notifications, {} references to files in {}",
        HumanCount(conversations),
        HumanCount(messages),
        HumanCount(changes),
        HumanCount(members),
        HumanCount(quotes),
        HumanCount(reacted),
        HumanCount(events),
        HumanCount(notifications),
        HumanCount(references),
        progress::rate(messages, started.elapsed()),
    );
    println!(
        "checked {} objects of files, removed {} that no row names",
        HumanCount(objects.looked),
        HumanCount(objects.removed)
    );
    Ok(tell(&report, &objects))
}

/// Prints what was found.
fn tell(report: &Report, objects: &Objects) -> ExitCode {
    let found = report.found + objects.found;
    if found == 0 {
        println!(
            "in order: no hole, no double; heads, counts, hash chain, changes, quotes, marks, notifications, files, \
             read positions and events agree"
        );
        return ExitCode::SUCCESS;
    }
    for finding in &report.findings {
        println!("{finding}");
    }
    for finding in &objects.findings {
        println!("{finding}");
    }
    let printed = report.findings.len() + objects.findings.len();
    if found > printed {
        println!("… and {} more", found - printed);
    }
    println!("{found} findings: this store is damaged or was written by something else");
    ExitCode::FAILURE
}

/// Objects against rows. A store without files needs no place for them.
async fn files(config: &Config, store: &dyn Store, arguments: Arguments) -> anyhow::Result<Objects> {
    match app::open_blobs(config, false) {
        Ok(blobs) => objects::objects(store, &blobs, SystemClock.now(), arguments.remove_orphans).await,
        Err(_) if store.blobs_after(None, 1).await?.is_empty() => Ok(Objects::default()),
        Err(error) => Err(error),
    }
}

async fn check(store: &dyn Store, bar: &ProgressBar) -> StoreResult<Report> {
    bar.set_length(count(store).await?);
    let mut report = Report::default();
    let mut after = None;
    loop {
        let page = store.conversation_ids(after, PAGE_IDS).await?;
        let Some(last) = page.last() else { break };
        after = Some(*last);
        let mut results = stream::iter(page)
            .map(|id| audit::conversation(store, id))
            .buffer_unordered(AT_ONCE);
        while let Some((counts, findings)) = results.try_next().await? {
            bar.inc(1);
            report.add(counts, findings);
            bar.set_message(format!("{} messages", HumanCount(report.counts.messages)));
        }
    }
    reactions(store, &mut report).await?;
    event_log(store, &mut report).await?;
    notifications(store, &mut report).await?;
    references(store, &mut report).await?;
    bar.finish_and_clear();
    report.findings.sort();
    Ok(report)
}

/// Reactions are kept by message, so they are looked through as a whole, also those whose message is lost.
async fn reactions(store: &dyn Store, report: &mut Report) -> StoreResult<()> {
    let mut after = None;
    loop {
        let page = store.stray_reactions(after, PAGE_IDS).await?;
        let findings = page.strays.iter().map(Finding::of).collect();
        let counts = Counts {
            reacted: page.messages,
            ..Counts::default()
        };
        report.add(counts, findings);
        match page.last {
            Some(last) => after = Some(last),
            None => return Ok(()),
        }
    }
}

/// The log of events is one for the whole store.
async fn event_log(store: &dyn Store, report: &mut Report) -> StoreResult<()> {
    let mut walk = events::Walk::begin(store).await?;
    while let Some((events, findings)) = walk.page().await? {
        let counts = Counts {
            events,
            ..Counts::default()
        };
        report.add(counts, findings);
    }
    report.add(Counts::default(), walk.end().await?);
    let mut after = None;
    loop {
        let page = store.audited_cursors(after, PAGE_IDS).await?;
        let Some(last) = page.last() else { return Ok(()) };
        after = Some(last.conversation_id);
        report.add(Counts::default(), page.iter().filter_map(events::beyond).collect());
    }
}

/// Rows of notifications whose message is not there. The others are compared where the message is read.
async fn notifications(store: &dyn Store, report: &mut Report) -> StoreResult<()> {
    let mut after = None;
    loop {
        let rows = store.notifications_after(after, PAGE_IDS).await?;
        let Some(last) = rows.last() else { return Ok(()) };
        after = Some(last.notification_id);
        let mut untold = untold(store, &rows).await?;
        if !untold.is_empty() {
            // On a live store it may have gone with its message in this moment.
            let ids: Vec<MessageId> = untold.iter().map(|row| row.notification_id).collect();
            let again = store.notifications_of(&ids).await?;
            untold = self::untold(store, &again).await?;
        }
        let counts = Counts {
            notifications: u64::try_from(rows.len()).unwrap_or_default(),
            ..Counts::default()
        };
        report.add(counts, untold.iter().map(Finding::untold).collect());
    }
}

async fn untold(store: &dyn Store, rows: &[Notification]) -> StoreResult<Vec<Notification>> {
    let ids: Vec<MessageId> = rows.iter().map(|row| row.notification_id).collect();
    let messages = store.messages_of(&ids).await?;
    let told: HashSet<(MessageId, ConversationId)> = messages
        .iter()
        .filter(|message| message.status != MessageStatus::Deleted)
        .map(|message| (message.message_id, message.conversation_id))
        .collect();
    let stray = rows
        .iter()
        .filter(|row| !told.contains(&(row.notification_id, row.inbox_id)));
    Ok(stray.cloned().collect())
}

/// So are references to files.
async fn references(store: &dyn Store, report: &mut Report) -> StoreResult<()> {
    let mut after = None;
    loop {
        let page = store.stray_references(after, PAGE_REFERENCES).await?;
        let findings = page.strays.iter().map(Finding::of).collect();
        let counts = Counts {
            references: page.references,
            ..Counts::default()
        };
        report.add(counts, findings);
        match page.last {
            Some(last) => after = Some(last),
            None => return Ok(()),
        }
    }
}

/// How many there are, for the bar.
pub(super) async fn count(store: &dyn Store) -> StoreResult<u64> {
    let (mut count, mut after): (u64, Option<ConversationId>) = (0, None);
    loop {
        let page = store.conversation_ids(after, PAGE_IDS).await?;
        let Some(last) = page.last() else { return Ok(count) };
        after = Some(*last);
        count += u64::try_from(page.len()).unwrap_or_default();
    }
}

impl Report {
    fn add(&mut self, counts: Counts, findings: Vec<Finding>) {
        let total = &mut self.counts;
        total.conversations += counts.conversations;
        total.messages += counts.messages;
        total.changes += counts.changes;
        total.members += counts.members;
        total.quotes += counts.quotes;
        total.reacted += counts.reacted;
        total.events += counts.events;
        total.notifications += counts.notifications;
        total.references += counts.references;
        self.found += findings.len();
        let room = PRINTED_MAX.saturating_sub(self.findings.len());
        self.findings.extend(findings.into_iter().take(room));
    }
}

#[cfg(test)]
mod tests;
