//! `onescribe import`: the lines of a file go through the writers of the conversations like those of any sender.
//!
//! Each line has a key of its own, made from the line, so an import that was interrupted is simply started again:
//! what is there already is answered with the first message and makes no double (INV-IDEM-1).

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use indicatif::{HumanCount, ProgressBar};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};

use super::progress;
use super::signals::Signals;
use super::survey::{Place, Room, Skipped, Survey};
use crate::app::{self, Answer, CommandError, Core, NewConversation, NoDelivery, ServiceError};
use crate::config::Config;
use crate::domain::chain::content_hash;
use crate::domain::{
    Adding, Command, ConversationId, ExternalId, HistoryVisibility, MessageId, MessageType, Name, Origin, Outcome,
    Posting, Principal, PrincipalType, Send, Subject,
};

/// Lines of one room that are under way at once.
const WINDOW: usize = 256;
/// Rooms that are under way at once.
const ROOMS_AT_ONCE: usize = 8;
/// Members of one creation or addition: each is listed in one SYSTEM message.
const MEMBERS_AT_ONCE: usize = 500;
/// How often a line is tried before the import gives up, with a pause between.
const TRIES_MAX: u32 = 60;
const PAUSE: Duration = Duration::from_secs(1);
/// The principal that owns the groups.
const IMPORTER: &str = "import";

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// JSON Lines: {"room", "at", "author", "text", "thread_reply"?}
    file: PathBuf,
}

/// What became of the lines.
#[derive(Debug, Default)]
struct Tally {
    sent: u64,
    there: u64,
    skipped: Skipped,
}

pub(super) async fn run(mut config: Config, arguments: Arguments) -> anyhow::Result<ExitCode> {
    let mut signals = Signals::catch()?;
    let path = arguments.file;
    let content_bytes_max = config.limits.content_bytes;
    let survey = Survey::of(&path, content_bytes_max).with_context(|| format!("cannot read {}", path.display()))?;
    // Whoever may write to the database may make users.
    config.auth.auto_provision = true;
    let store = app::open(&config.database, config.database.auto_migrate).await?;
    let core = Core::start(&config, store, Arc::new(NoDelivery)).await?;
    let started = Instant::now();
    let interrupt = async || signals.next().await;
    let done = import(&core, &survey, &progress::bar(survey.lines, "lines"), interrupt).await;
    core.stop().await;
    let (tally, interrupted) = done?;
    let handled = tally.sent + tally.there + tally.skipped.count;
    println!(
        "{}: {} sent, {} already there, {} skipped; {} rooms in {}",
        path.display(),
        HumanCount(tally.sent),
        HumanCount(tally.there),
        HumanCount(tally.skipped.count),
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
async fn import(
    core: &Core,
    survey: &Survey,
    bar: &ProgressBar,
    mut interrupt: impl AsyncFnMut(),
) -> anyhow::Result<(Tally, bool)> {
    let stop = AtomicBool::new(false);
    let agent = Subject {
        kind: PrincipalType::Agent,
        name: Name::External(ExternalId::parse(IMPORTER)?),
    };
    let importer = Importer {
        owner: core.principals.resolve(&agent).await?,
        core,
        survey,
        bar,
        stop: &stop,
    };
    let rooms = async {
        let tallies = stream::iter(&survey.rooms).map(|room| importer.room(room));
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
    bar.finish_and_clear();
    let mut total = Tally::default();
    total.skipped.join(&survey.skipped);
    for tally in tallies? {
        total.sent += tally.sent;
        total.there += tally.there;
        total.skipped.join(&tally.skipped);
    }
    Ok((total, stop.load(Ordering::Relaxed)))
}

struct Importer<'a> {
    core: &'a Core,
    survey: &'a Survey,
    bar: &'a ProgressBar,
    stop: &'a AtomicBool,
    owner: Principal,
}

/// A line that its writer has been asked to take.
struct UnderWay {
    place: Place,
    send: Send,
    answer: oneshot::Receiver<Answer>,
}

impl Importer<'_> {
    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    async fn room(&self, room: &Room) -> anyhow::Result<Tally> {
        let authors: Vec<Subject> = room.authors.iter().map(user).collect();
        let principals = self.core.principals.resolve_named(&authors).await?;
        let authors: HashMap<&ExternalId, Principal> = room.authors.iter().zip(principals).collect();
        let conversation_id = self.conversation(room).await?;
        let mut sending = Sending {
            importer: self,
            conversation_id,
            window: VecDeque::new(),
            last: None,
            tally: Tally::default(),
        };
        for place in &room.lines {
            if self.stopped() {
                break;
            }
            let (said, key) = self.survey.read(*place)?;
            // A reply has to know the id of what it answers.
            let room_left = if said.is_reply { 0 } else { WINDOW - 1 };
            sending.settle_down_to(room_left).await?;
            let principal = authors.get(&said.author).copied();
            sending.ask(
                *place,
                Send {
                    origin: Origin {
                        principal: principal.context("an author is no member of their room")?,
                        device: None,
                    },
                    client_message_id: key,
                    message_type: MessageType::Text,
                    content_hash: content_hash(said.content.as_str()),
                    content: said.content,
                    quoted_message_id: sending.last.filter(|_| said.is_reply),
                    expected_last_seq: None,
                },
            );
        }
        sending.settle_down_to(0).await?;
        Ok(sending.tally)
    }

    /// The group of a room, with all of its authors in it. A second run finds the group of the first.
    async fn conversation(&self, room: &Room) -> anyhow::Result<ConversationId> {
        let members: Vec<Subject> = room.authors.iter().map(user).collect();
        for _ in 0..TRIES_MAX {
            match self.group(room, &members).await {
                Ok(id) => return Ok(id),
                Err(error) if error.code.retryable() && !self.stopped() => sleep(PAUSE).await,
                Err(error) => bail!("the group of room {} cannot be made: {error}", room.name),
            }
        }
        bail!(
            "the group of room {} could not be made for a minute; see that the database is up",
            room.name
        )
    }

    async fn group(&self, room: &Room, members: &[Subject]) -> Result<ConversationId, ServiceError> {
        let origin = Origin {
            principal: self.owner,
            device: None,
        };
        let mut parts = members.chunks(MEMBERS_AT_ONCE);
        let new = NewConversation::Group {
            title: room.name.to_string(),
            members: parts.next().unwrap_or_default().to_vec(),
            client_request_id: Some(room.name.clone()),
            history_visibility: HistoryVisibility::Shared,
            posting: Posting::All,
            adding: Adding::Admins,
        };
        let made = self.core.conversations.create(origin.clone(), new).await?;
        let id = made.seen.header.conversation_id;
        // What was there before may lack authors who came later; those who are members already change nothing.
        let rest = if made.created {
            parts
        } else {
            members.chunks(MEMBERS_AT_ONCE)
        };
        for part in rest {
            self.core.conversations.add_members(origin.clone(), id, part).await?;
        }
        Ok(id)
    }
}

/// The lines of one room on their way, in order.
struct Sending<'a> {
    importer: &'a Importer<'a>,
    conversation_id: ConversationId,
    window: VecDeque<UnderWay>,
    /// The message before, in the order of the file.
    last: Option<MessageId>,
    tally: Tally,
}

impl Sending<'_> {
    fn ask(&mut self, place: Place, send: Send) {
        let answer = self
            .importer
            .core
            .ask(self.conversation_id, Command::Send(send.clone()));
        self.window.push_back(UnderWay { place, send, answer });
    }

    async fn settle_down_to(&mut self, left: usize) -> anyhow::Result<()> {
        while self.window.len() > left
            && let Some(first) = self.window.pop_front()
        {
            self.settle(first).await?;
        }
        Ok(())
    }

    /// Waits for the answer to one line; asks again with the same key where that may help.
    async fn settle(&mut self, line: UnderWay) -> anyhow::Result<()> {
        let (place, core) = (line.place, self.importer.core);
        let mut answer = line.answer;
        for _ in 0..TRIES_MAX {
            let error = match answer.await.unwrap_or(Err(CommandError::Unavailable)) {
                Ok(outcome) => return self.settled(&outcome),
                Err(error) => error,
            };
            match &error {
                CommandError::Refused(refused) if !refused.code().retryable() => {
                    self.tally.skipped.add(place.number, refused);
                    self.importer.bar.inc(1);
                    return Ok(());
                }
                _ if self.importer.stopped() => return Ok(()),
                _ => sleep(PAUSE).await,
            }
            answer = core.ask(self.conversation_id, Command::Send(line.send.clone()));
        }
        bail!(
            "line {} could not be stored for a minute; see that the database is up, then run the same command again",
            place.number
        )
    }

    fn settled(&mut self, outcome: &Outcome) -> anyhow::Result<()> {
        let id = match outcome {
            Outcome::Sent(message) => {
                self.tally.sent += 1;
                message.message_id
            }
            Outcome::Duplicate(first) => {
                self.tally.there += 1;
                first.message_id
            }
            other => bail!("a send led to {other:?}: this is a bug"),
        };
        self.last = Some(id);
        self.importer.bar.inc(1);
        Ok(())
    }
}

fn user(external_id: &ExternalId) -> Subject {
    Subject {
        kind: PrincipalType::User,
        name: Name::External(external_id.clone()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::storage::memory::MemoryStore;
    use crate::storage::{ConversationStore as _, MessageStore as _, PrincipalStore as _};

    /// Three rooms in turn, a reply now and then, equal lines, two bad ones.
    fn file(lines: u32) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        for n in 0..lines {
            let (room, author, reply) = (n % 3, n % 7, n % 10 == 9);
            let text = if n % 50 < 3 {
                "same".to_owned()
            } else {
                format!("line {n} 你好 \\u{{1f389}}")
            };
            writeln!(
                file,
                "{{\"room\":\"room-{room}\",\"at\":\"2018-11-05T19:30:43Z\",\"author\":\"u{author}\",\"thread_reply\":{reply},\"text\":{text:?}}}"
            )
            .unwrap();
        }
        writeln!(file, "{{\"room\":\"room-0\"}}\nnothing").unwrap();
        file
    }

    async fn import_once(store: &Arc<MemoryStore>, survey: &Survey) -> (Tally, bool) {
        let core = Core::start(
            &Config::default(),
            Arc::<MemoryStore>::clone(store),
            Arc::new(NoDelivery),
        )
        .await;
        let core = core.unwrap();
        let never = async || std::future::pending().await;
        let done = import(&core, survey, &ProgressBar::hidden(), never).await.unwrap();
        core.stop().await;
        done
    }

    #[test]
    fn whoever_asks_twice_to_stop_does_not_wait() {
        let file = file(1_000);
        let survey = Survey::of(file.path(), 65_536).unwrap();
        actix_rt::System::new().block_on(async {
            let store = Arc::new(MemoryStore::default());
            let core = Core::start(&Config::default(), store, Arc::new(NoDelivery))
                .await
                .unwrap();
            let stopped = import(&core, &survey, &ProgressBar::hidden(), async || {}).await;
            assert!(stopped.unwrap_err().to_string().starts_with("stopped at once"));
            core.stop().await;
        });
    }

    #[test]
    fn an_import_started_again_finds_everything_there_and_makes_no_double() {
        let file = file(1_000);
        let survey = Survey::of(file.path(), 65_536).unwrap();
        actix_rt::System::new().block_on(async {
            let store = Arc::new(MemoryStore::default());
            let (first, _) = import_once(&store, &survey).await;
            assert_eq!(
                (first.sent, first.there, first.skipped.count),
                (1_000, 0, 2),
                "{:?}",
                first.skipped
            );
            assert!(first.skipped.named[0].starts_with("line 1001: "), "{:?}", first.skipped);
            let (second, interrupted) = import_once(&store, &survey).await;
            assert_eq!(
                (second.sent, second.there, second.skipped.count, interrupted),
                (0, 1_000, 2, false)
            );
        });
    }

    #[test]
    fn a_room_with_more_authors_than_one_message_can_list_is_filled_in_parts() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        for n in 0..=MEMBERS_AT_ONCE * 2 {
            let rest = "\"at\":\"2018-11-05T19:30:43Z\",\"text\":\"hi\"";
            writeln!(file, "{{\"room\":\"r\",\"author\":\"u{n}\",{rest}}}").unwrap();
        }
        let survey = Survey::of(file.path(), 65_536).unwrap();
        actix_rt::System::new().block_on(async {
            let store = Arc::new(MemoryStore::default());
            let (first, _) = import_once(&store, &survey).await;
            assert_eq!((first.sent, first.skipped.count), (1_001, 0), "{:?}", first.skipped);
            let (second, _) = import_once(&store, &survey).await;
            assert_eq!((second.there, second.skipped.count), (1_001, 0), "{:?}", second.skipped);
        });
    }

    #[test]
    fn lines_keep_their_order_and_a_reply_quotes_the_line_before_it_in_its_room() {
        let file = file(200);
        let survey = Survey::of(file.path(), 65_536).unwrap();
        actix_rt::System::new().block_on(async {
            let store = Arc::new(MemoryStore::default());
            import_once(&store, &survey).await;
            for room in &survey.rooms {
                let agent = store
                    .by_external_id(PrincipalType::Agent, &ExternalId::parse(IMPORTER).unwrap())
                    .await;
                let key = crate::domain::CreationKey::request(agent.unwrap().unwrap(), &room.name);
                let id = store.by_creation_key(&key).await.unwrap().unwrap();
                let messages = store
                    .messages_after(id, crate::domain::Seq::new(1), 1_000)
                    .await
                    .unwrap();
                assert_eq!(messages.len(), room.lines.len());
                let mut before = None;
                for (message, place) in messages.iter().zip(&room.lines) {
                    let (said, _) = survey.read(*place).unwrap();
                    assert_eq!(message.content, said.content);
                    assert_eq!(message.quoted_message_id, before.filter(|_| said.is_reply));
                    before = Some(message.message_id);
                }
            }
        });
    }
}
