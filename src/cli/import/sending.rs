//! The lines of one room on their way to its writer, in order.

use std::collections::{HashMap, VecDeque};

use anyhow::{Context as _, bail};
use tokio::sync::oneshot;
use tokio::time::sleep;

use super::files::Uploads;
use super::line::{Quotes, Said, Who};
use super::survey::{Place, Room};
use super::{Importer, PAUSE, TRIES_MAX, Tally};
use crate::app::{Answer, CommandError, ServiceError};
use crate::domain::chain::content_hash;
use crate::domain::{
    ClientMessageId, Command, ConversationId, KeyRecord, MessageId, Origin, Outcome, Principal, Send, Seq,
};

/// Lines of one room that are under way at once.
const WINDOW: usize = 256;

/// The lines of one room on their way, in order.
pub(super) struct Sending<'a> {
    importer: &'a Importer<'a>,
    room: &'a Room,
    conversation_id: ConversationId,
    principals: &'a HashMap<Who, Principal>,
    window: VecDeque<UnderWay>,
    /// The message before, in the order of the file.
    last: Option<(MessageId, Seq)>,
    /// The messages of those lines that others answer.
    answered: HashMap<Box<str>, MessageId>,
    pub(super) tally: Tally,
}

/// A line that its writer has been asked to take.
struct UnderWay {
    place: Place,
    name: Option<Box<str>>,
    send: Send,
    answer: oneshot::Receiver<Answer>,
}

impl<'a> Sending<'a> {
    pub(super) fn new(
        importer: &'a Importer<'a>,
        room: &'a Room,
        conversation_id: ConversationId,
        principals: &'a HashMap<Who, Principal>,
    ) -> Self {
        Self {
            importer,
            room,
            conversation_id,
            principals,
            window: VecDeque::new(),
            last: None,
            answered: HashMap::new(),
            tally: Tally::default(),
        }
    }

    /// The place of the newest line, once all are answered.
    pub(super) async fn head(&mut self) -> anyhow::Result<Seq> {
        self.settle_down_to(0).await?;
        Ok(self.last.map_or(Seq::ZERO, |(_, seq)| seq))
    }

    pub(super) async fn say(&mut self, place: Place, said: Said, key: ClientMessageId) -> anyhow::Result<()> {
        let quoted_message_id = match &said.quotes {
            Quotes::Nothing => None,
            // An answer has to know the id of what it answers.
            Quotes::LineBefore => {
                self.settle_down_to(0).await?;
                self.last.map(|(id, _)| id)
            }
            Quotes::Line(name) => {
                let quoted = self.named(name).await?;
                if quoted.is_none() {
                    let why = "reply_to names no line before it in its room that is stored; mend that line, or take \
                               reply_to out, and import again";
                    self.skip(place, why);
                    return Ok(());
                }
                quoted
            }
        };
        self.settle_down_to(WINDOW - 1).await?;
        let principal = self.principals.get(&said.author).copied();
        let principal = principal.context("an author is no member of their room")?;
        let mut there = None;
        let content = if said.files.is_empty() {
            said.content(&[])
        } else {
            // What is there needs no upload, and with other files it would be another message.
            there = self.there(principal, &key).await?;
            let files = match &there {
                Some(_) => Uploads::Done(Vec::new()),
                None => self.importer.upload(principal, place, &said.files).await?,
            };
            match files {
                Uploads::Done(files) => {
                    self.tally.files += u64::try_from(files.len()).unwrap_or_default();
                    said.content(&files)
                }
                Uploads::Refused(why) => {
                    self.skip(place, why);
                    return Ok(());
                }
                Uploads::Stopped => return Ok(()),
            }
        };
        let send = Send {
            origin: Origin {
                principal,
                device: None,
            },
            client_message_id: key,
            message_type: said.message_type,
            content_hash: content_hash(content.as_str()),
            content,
            quoted_message_id,
            expected_last_seq: None,
        };
        let name = said.name.filter(|name| self.room.answered.contains(name));
        let answer = match there {
            Some(first) => answered(first),
            None => self.ask(&send),
        };
        self.window.push_back(UnderWay {
            place,
            name,
            send,
            answer,
        });
        Ok(())
    }

    fn ask(&self, send: &Send) -> oneshot::Receiver<Answer> {
        // Whoever may write to the database speaks in the name of all, also where only admins post.
        let command = Command::SendFor(send.clone());
        self.importer.core.ask(self.conversation_id, command)
    }

    /// What was stored for this line by an earlier run.
    async fn there(&self, author: Principal, key: &ClientMessageId) -> anyhow::Result<Option<KeyRecord>> {
        let keys = [(author, key.clone())];
        let store = &self.importer.core.store;
        let look = async || -> Result<_, ServiceError> { Ok(store.keys(self.conversation_id, &keys).await?) };
        let found = self.importer.tried("an earlier line cannot be looked up", look).await?;
        Ok(found.into_iter().next().map(|(_, first)| first))
    }

    /// The message of the line of this name, once it is there.
    async fn named(&mut self, name: &str) -> anyhow::Result<Option<MessageId>> {
        while !self.answered.contains_key(name)
            && let Some(first) = self.window.pop_front()
        {
            self.settle(first).await?;
        }
        Ok(self.answered.get(name).copied())
    }

    fn skip(&mut self, place: Place, why: impl std::fmt::Display) {
        self.tally.skipped.add(place.number, why);
        self.importer.bar.inc(1);
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
        let place = line.place;
        let mut answer = line.answer;
        for _ in 0..TRIES_MAX {
            let error = match answer.await.unwrap_or(Err(CommandError::Unavailable)) {
                Ok(outcome) => return self.settled(&outcome, line.name),
                Err(error) => error,
            };
            match &error {
                CommandError::Refused(refused) if !refused.code().retryable() => {
                    self.skip(place, refused);
                    return Ok(());
                }
                _ if self.importer.stopped() => return Ok(()),
                _ => sleep(PAUSE).await,
            }
            answer = self.ask(&line.send);
        }
        bail!(
            "line {} could not be stored for a minute; see that the database is up, then run the same command again",
            place.number
        )
    }

    fn settled(&mut self, outcome: &Outcome, name: Option<Box<str>>) -> anyhow::Result<()> {
        let last = match outcome {
            Outcome::Sent(message) => {
                self.tally.sent += 1;
                (message.message_id, message.seq)
            }
            Outcome::Duplicate(first) => {
                self.tally.there += 1;
                (first.message_id, first.seq)
            }
            other => bail!("a send led to {other:?}: this is a bug"),
        };
        self.last = Some(last);
        self.answered.extend(name.map(|name| (name, last.0)));
        self.importer.bar.inc(1);
        Ok(())
    }
}

/// The answer to a line that needs none.
fn answered(first: KeyRecord) -> oneshot::Receiver<Answer> {
    let (sender, receiver) = oneshot::channel();
    // The other end is in our hands.
    sender.send(Ok(Outcome::Duplicate(first))).ok();
    receiver
}
