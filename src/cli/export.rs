//! `onescribe export`: what was said in a store, as `import` takes it. Reads a store that is in use, page by page.
//!
//! Never here: what was recalled or deleted, what belongs to one user alone (INBOX, read positions, favourites).

mod folder;
mod line;
mod objects;
mod walk;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use indicatif::{HumanCount, ProgressBar};
use tokio::time::Instant;

use self::folder::Folder;
use self::walk::{LeftOut, Names};
use super::{check, progress};
use crate::app;
use crate::blobs::Blobs;
use crate::config::Config;
use crate::domain::{ConversationId, Kind, Principal};
use crate::storage::Store;

/// Conversation ids that are in memory at once.
const PAGE_IDS: u32 = 1_000;
/// Lost files that are named one by one.
const NAMED_MAX: usize = 50;
/// The exit code when there is no export.
const NOT_DONE: u8 = 2;

/// Write conversations, messages and files to a folder, for `import`.
///
/// `onescribe import FOLDER/messages.jsonl` makes them again, in any other store. Groups and DIRECTs with their members, roles and settings; messages in order with their authors, times, types, quotes and
/// files, edited ones with their present words. Left out are recalled and deleted messages, what the server says itself,
/// every INBOX, and what is on messages or one user's alone: reactions, pins, read positions, favourites, contacts, profiles.
/// What is recalled while an export runs may be in it. The folder is private to you: keep it so.
///
/// Exits with 0 when all is there, with 1 when the bytes of a file are lost (it says which), with 2 when there is no export.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// A folder that is empty or not there yet; messages.jsonl is in it when, and only when, the export is whole
    folder: PathBuf,
    /// Only this conversation; can be given several times
    #[arg(long, value_name = "ID", value_parser = conversation_id)]
    conversation: Vec<ConversationId>,
}

/// What an export works with.
struct Export<'a> {
    store: &'a dyn Store,
    /// Why there is none matters only where a message has files.
    blobs: anyhow::Result<Arc<Blobs>>,
    folder: Folder,
    names: Names,
    tally: Tally,
}

/// What was written, and what was left out.
#[derive(Debug, Default)]
struct Tally {
    conversations: u64,
    messages: u64,
    files: u64,
    left_out: LeftOut,
    lost: u64,
    named: Vec<String>,
}

/// Prints what was written: 0 = all is there, 1 = bytes of files are lost, 2 = there is no export.
pub(super) async fn run(config: Config, arguments: Arguments) -> ExitCode {
    write(config, arguments).await.unwrap_or_else(|error| {
        super::fail(&error.context("there is no export"));
        ExitCode::from(NOT_DONE)
    })
}

async fn write(config: Config, arguments: Arguments) -> anyhow::Result<ExitCode> {
    let store = app::open(&config.database, false).await?;
    let started = Instant::now();
    let blobs = app::open_blobs(&config, false);
    let bar = progress::bar(0, "conversations");
    let done = export(store.as_ref(), blobs, &arguments, &bar).await;
    bar.finish_and_clear();
    store.close().await;
    let (tally, lines) = done?;
    println!(
        "{}: {} conversations, {} messages, {} files in {}",
        lines.display(),
        HumanCount(tally.conversations),
        HumanCount(tally.messages),
        HumanCount(tally.files),
        progress::rate(tally.messages, started.elapsed()),
    );
    let LeftOut {
        recalled,
        deleted,
        streaming,
        by_server,
        inboxes,
        quotes,
    } = tally.left_out;
    println!(
        "left out: {} recalled, {} deleted, {} still growing and {} messages by the server, {} inboxes, {} quotes of what is \
         left out",
        HumanCount(recalled),
        HumanCount(deleted),
        HumanCount(streaming),
        HumanCount(by_server),
        HumanCount(inboxes),
        HumanCount(quotes),
    );
    for named in &tally.named {
        println!("lost: {named}");
    }
    let unnamed = tally
        .lost
        .saturating_sub(u64::try_from(tally.named.len()).unwrap_or_default());
    if unnamed > 0 {
        println!("… and {} more", HumanCount(unnamed));
    }
    Ok(if tally.lost == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Writes everything, or those conversations that are asked for. Answers where the lines are.
async fn export(
    store: &dyn Store,
    blobs: anyhow::Result<Arc<Blobs>>,
    arguments: &Arguments,
    bar: &ProgressBar,
) -> anyhow::Result<(Tally, PathBuf)> {
    for id in &arguments.conversation {
        let Some((header, _)) = store.access(*id, Principal::SYSTEM).await? else {
            bail!("there is no conversation {id}");
        };
        if header.kind == Kind::Inbox {
            bail!("{id} is an INBOX: only groups and DIRECTs are exported");
        }
    }
    let mut export = Export {
        store,
        blobs,
        folder: Folder::begin(&arguments.folder)?,
        names: Names::default(),
        tally: Tally::default(),
    };
    if arguments.conversation.is_empty() {
        bar.set_length(check::count(store).await?);
        let mut after = None;
        loop {
            let page = store.conversation_ids(after, PAGE_IDS).await?;
            let Some(last) = page.last() else { break };
            after = Some(*last);
            export.conversations(&page, bar).await?;
        }
    } else {
        bar.set_length(u64::try_from(arguments.conversation.len())?);
        let mut asked = arguments.conversation.clone();
        asked.sort_unstable();
        asked.dedup();
        export.conversations(&asked, bar).await?;
    }
    let whole = export
        .folder
        .finish()
        .context("the export could not be brought to disk")?;
    Ok((export.tally, whole))
}

impl Export<'_> {
    async fn conversations(&mut self, ids: &[ConversationId], bar: &ProgressBar) -> anyhow::Result<()> {
        for id in ids {
            self.conversation(*id)
                .await
                .with_context(|| format!("conversation {id}"))?;
            bar.inc(1);
            bar.set_message(format!("{} messages", HumanCount(self.tally.messages)));
        }
        Ok(())
    }
}

impl Tally {
    fn lost(&mut self, what: String) {
        self.lost += 1;
        if self.named.len() < NAMED_MAX {
            self.named.push(what);
        }
    }
}

fn conversation_id(text: &str) -> Result<ConversationId, &'static str> {
    ConversationId::parse(text).ok_or("must be a conversation_id: a decimal number")
}
