//! One conversation's state and what is done with a batch: look up, decide, commit, apply, publish, answer.
//!
//! It lives inside the actor, which guarantees that one batch at a time is under way. Free of actix, so that it can
//! be driven by any executor.

use std::collections::HashMap;
use std::sync::Arc;

use super::batch::{self, Plan, Planned};
use super::committer::Committer;
use super::facts;
use super::gap;
use super::messages::{Answer, CommandError, Committed, Publisher, Step};
use super::pending::Pending;
use crate::clock::Clock;
use crate::domain::{Batch, ChangeSeq, Conversation, ConversationId, DomainError, Event, Facts, Kind, Principal, Seq};
use crate::ids::Ids;
use crate::storage::{Commit, CommitError, Store, StoreError};

/// How often a batch is decided again because a key turned out to be used.
const KEY_ROUNDS_MAX: usize = 2;
/// A commit whose answer was lost and that is not stored may still be on its way: so often it is looked for.
const LATE_LOOKS_MAX: u32 = 10;
/// The most messages that are told to sessions after a gap; beyond it they see the gap and sync.
const MISSED_MAX: u32 = 1_000;

/// What every writer works with.
pub struct Parts {
    /// Where facts are kept.
    pub store: Arc<dyn Store>,
    /// How they get there.
    pub committer: Committer,
    /// Where ids come from.
    pub ids: Arc<Ids>,
    /// Where time comes from.
    pub clock: Arc<dyn Clock>,
    /// Where facts go.
    pub publisher: Arc<dyn Publisher>,
}

/// What is known of the stored state.
enum Memory {
    /// Must be loaded.
    Unloaded(Untold),
    /// Equal to the store; `None` = no such conversation.
    Loaded(Option<Conversation>),
}

/// What this process has to know at the next load to tell its sessions what they have missed.
#[derive(Default)]
struct Untold {
    /// What it told them last, if it told them anything.
    told: Option<Conversation>,
    /// Its own batch whose outcome was unknown.
    own: Vec<Event>,
}

/// A batch of ours that was not stored when it was looked for, and that no later commit has ruled out.
struct Late {
    events: Vec<Event>,
    looks_left: u32,
}

/// The single writer of one conversation.
pub struct ConversationWriter {
    id: ConversationId,
    parts: Arc<Parts>,
    memory: Memory,
    late: Option<Late>,
}

impl ConversationWriter {
    /// Loads at the first batch.
    #[must_use]
    pub fn new(id: ConversationId, parts: Arc<Parts>) -> Self {
        Self {
            id,
            parts,
            memory: Memory::Unloaded(Untold::default()),
            late: None,
        }
    }

    /// Nothing is known to exist here: no reason to stay in memory.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        match &self.memory {
            Memory::Loaded(state) => state.is_none() && self.late.is_none(),
            Memory::Unloaded(untold) => untold.told.is_none() && untold.own.is_empty(),
        }
    }

    /// Sessions may have missed something: serve a batch soon, an empty one if need be.
    #[must_use]
    pub fn must_reload(&self) -> bool {
        (matches!(self.memory, Memory::Unloaded(_)) || self.late.is_some()) && !self.is_empty()
    }

    /// Serves one batch. Every pending command is answered when this returns.
    ///
    /// What a batch needs seldom is boxed: this future is made, moved and freed for every batch.
    pub async fn serve(&mut self, pending: Vec<Pending>) {
        self.expect_late();
        if matches!(self.memory, Memory::Unloaded(_)) {
            match Box::pin(self.load()).await {
                Ok(found) => {
                    self.late.take_if(|_| !found.is_empty());
                    self.publish(found.into_iter().map(Step::Event).collect()).await;
                }
                Err(error) => {
                    tracing::warn!(conversation_id = %self.id, %error, "a conversation could not be loaded");
                    return answer_all(pending, std::iter::repeat(Err(CommandError::Unavailable)));
                }
            }
        }
        let mut facts = Box::<Facts>::default();
        let mut key_rounds = 0;
        loop {
            let mut planned = match self.plan(&pending, &facts) {
                Plan::Ready(planned) => planned,
                Plan::Needs(needs) => {
                    match Box::pin(facts::fetch(self.parts.store.as_ref(), self.id, needs, &mut facts)).await {
                        Ok(()) => continue,
                        Err(error) => {
                            tracing::warn!(conversation_id = %self.id, %error, "a look-up before a decision failed");
                            return answer_all(pending, std::iter::repeat(Err(CommandError::Unavailable)));
                        }
                    }
                }
            };
            let Some(batch) = planned.batch.take() else {
                return answer_all(pending, planned.answers().into_iter());
            };
            match self.commit(&batch).await {
                Ok(()) => return self.committed(pending, planned, batch).await,
                Err(Some(CommitError::KeyTaken)) if key_rounds < KEY_ROUNDS_MAX => {
                    key_rounds += 1;
                    if Box::pin(self.fetch_keys(&pending, &mut facts)).await.is_err() {
                        return answer_all(
                            pending,
                            planned.answers_without_commit(&CommandError::Unavailable).into_iter(),
                        );
                    }
                }
                Err(error) => return Box::pin(self.not_committed(pending, planned, batch, error)).await,
            }
        }
    }

    /// What may have landed since it was looked for is in the store and not in memory: then memory is not what to decide
    /// on, and those who listen were not told.
    fn expect_late(&mut self) {
        let Some(late) = &mut self.late else { return };
        if let Memory::Loaded(state) = &mut self.memory {
            let (told, own) = (state.take(), late.events.clone());
            self.memory = Memory::Unloaded(Untold { told, own });
        }
        late.looks_left = late.looks_left.saturating_sub(1);
        if late.looks_left == 0 {
            self.late = None;
        }
        self.spare_nobody();
    }

    fn state(&self) -> Option<&Conversation> {
        match &self.memory {
            Memory::Loaded(state) => state.as_ref(),
            Memory::Unloaded(_) => None,
        }
    }

    fn plan(&self, pending: &[Pending], facts: &Facts) -> Plan {
        let ids = &self.parts.ids;
        let commands = pending.iter().map(|pending| &pending.command);
        batch::plan(
            self.id,
            self.state(),
            commands,
            facts,
            self.parts.clock.now(),
            &mut || ids.message_id(),
        )
    }

    /// `Err(None)` = the lane is full.
    async fn commit(&self, batch: &Batch) -> Result<(), Option<CommitError>> {
        let commit = Commit {
            conversation_id: self.id,
            expected: self.state().map(|state| state.head.counters()),
            events: batch.events.clone(),
            header: Arc::clone(&batch.header),
            head: batch.head,
            member_count: batch.member_count,
        };
        let receiver = self.parts.committer.submit(commit).ok_or(None)?;
        // A lane that ended without an answer may have stored it.
        receiver.await.unwrap_or(Err(CommitError::Unknown)).map_err(Some)
    }

    /// Memory changes here, after the commit, and nowhere else.
    async fn committed(&mut self, mut pending: Vec<Pending>, planned: Planned, batch: Batch) {
        // The counters have moved: what was decided before can land no more.
        self.late = None;
        if let Memory::Loaded(state) = &mut self.memory {
            for event in &batch.events {
                Conversation::apply(state, event);
            }
        }
        let is_new_pair =
            matches!(batch.events.first(), Some(Event::Created { header, .. }) if header.kind == Kind::Direct);
        let marks = planned.marks.clone();
        let sessions: Vec<_> = pending.iter_mut().map(Pending::take_session).collect();
        let answers: Vec<_> = sessions.into_iter().zip(planned.answers()).collect();
        let steps = Planned::steps(batch.events, &marks, &answers);
        self.publish(steps).await;
        if is_new_pair {
            self.look_again();
        }
        answer_all(pending, answers.into_iter().map(|(_, answer)| answer));
    }

    /// Who blocked the other while a DIRECT was made may have found none to tell of it. So nothing is decided there on
    /// what was known before it was stored: whoever blocks from here on finds it.
    fn look_again(&mut self) {
        if let Memory::Loaded(state) = &mut self.memory {
            let (told, own) = (state.take(), Vec::new());
            self.memory = Memory::Unloaded(Untold { told, own });
        }
    }

    async fn not_committed(
        &mut self,
        pending: Vec<Pending>,
        planned: Planned,
        batch: Batch,
        error: Option<CommitError>,
    ) {
        match error {
            None => answer_all(
                pending,
                planned.answers_without_commit(&CommandError::Overloaded).into_iter(),
            ),
            Some(CommitError::Exists) => {
                let exists = DomainError::AlreadyCreated {
                    conversation_id: self.id,
                };
                answer_all(pending, planned.answers_without_commit(&exists.into()).into_iter());
            }
            Some(CommitError::Failed | CommitError::KeyTaken) => {
                answer_all(
                    pending,
                    planned.answers_without_commit(&CommandError::Unavailable).into_iter(),
                );
            }
            Some(CommitError::Fenced) => {
                self.late = None;
                self.recover(pending, planned, batch).await;
            }
            Some(CommitError::Unknown) => {
                self.late = Some(Late {
                    events: batch.events.clone(),
                    looks_left: LATE_LOOKS_MAX,
                });
                self.recover(pending, planned, batch).await;
            }
        }
    }

    /// Another writer was here, or the answer to our commit was lost: forget, load, find out what is stored.
    async fn recover(&mut self, mut pending: Vec<Pending>, planned: Planned, batch: Batch) {
        tracing::warn!(conversation_id = %self.id, "a commit was fenced or its outcome is unknown: loading again");
        if let Memory::Loaded(state) = &mut self.memory {
            let (told, own) = (state.take(), batch.events.clone());
            self.memory = Memory::Unloaded(Untold { told, own });
        }
        // Looked up first and loaded afterwards: a batch that lands in between is told before it is answered.
        let mut facts = Facts::default();
        let mut looked = self.look_for(&pending, &batch.events, &mut facts).await;
        if matches!(looked, Ok(true)) {
            self.late = None;
        } else {
            self.spare_nobody();
        }
        let found = self.load().await.unwrap_or_else(|error| {
            (looked, facts) = (Err(error), Facts::default());
            self.spare_nobody();
            Vec::new()
        });
        if let Err(error) = &looked {
            tracing::warn!(conversation_id = %self.id, %error, "what became of a batch could not be found out yet");
        }
        let answers = match looked {
            Ok(true) => planned.answers(),
            Ok(false) | Err(_) => planned.answers_after_reload(pending.iter().map(|pending| &pending.command), &facts),
        };
        if !found.is_empty() {
            let sessions = pending.iter_mut().map(Pending::take_session);
            self.publish(gap::beside_their_messages(found, sessions.zip(&answers)))
                .await;
        }
        answer_all(pending, answers.into_iter());
    }

    /// Whoever asked is not told that it is stored, also where it lands at this moment: then its device is told by a push,
    /// like every other.
    fn spare_nobody(&mut self) {
        if let Memory::Unloaded(Untold { own, .. }) = &mut self.memory {
            own.iter_mut().for_each(Event::spare_nobody);
        }
    }

    /// Is our batch stored? If not, are its keys?
    async fn look_for(&self, pending: &[Pending], own: &[Event], facts: &mut Facts) -> Result<bool, StoreError> {
        let stored = self.is_stored(own).await?;
        if !stored {
            self.fetch_keys(pending, facts).await?;
        }
        Ok(stored)
    }

    /// A batch is stored whole or not at all, so its last message tells; a DIRECT is born without one.
    async fn is_stored(&self, own: &[Event]) -> Result<bool, StoreError> {
        let last_message = own.iter().rev().find_map(|event| match event {
            Event::MessageSent { message, .. } => Some(message.message_id),
            _ => None,
        });
        if let Some(id) = last_message {
            return Ok(self.parts.store.message(id).await?.is_some());
        }
        let last_change = own.iter().rev().find_map(|event| match event {
            Event::Changed { change, .. } => Some(change),
            _ => None,
        });
        if let Some(change) = last_change {
            let before = ChangeSeq::new(change.change_seq.get() - 1);
            let found = self.parts.store.changes_after(self.id, before, 1).await?;
            return Ok(found.first().is_some_and(|found| *found == **change));
        }
        let Some(Event::Created { header, .. }) = own.first() else {
            return Ok(false);
        };
        let found = self.parts.store.access(self.id, Principal::SYSTEM).await?;
        Ok(found.is_some_and(|(found, _)| found == **header))
    }

    /// Makes memory equal to the store, and gives what sessions were not told: it has to be published.
    async fn load(&mut self) -> Result<Vec<Event>, StoreError> {
        let Memory::Unloaded(Untold { told, own }) = &self.memory else {
            return Ok(Vec::new());
        };
        let found = self.parts.store.load(self.id).await?;
        let events = match (told, &found) {
            (Some(told), Some(found)) => self.missed(told, found, own).await?,
            // Not told of before: born by our own batch, born elsewhere, or simply the first load.
            (None, Some(found)) if self.is_stored(own).await? => self.born(found, own).await?,
            _ => Vec::new(),
        };
        self.memory = Memory::Loaded(found);
        Ok(events)
    }

    async fn fetch_keys(&self, pending: &[Pending], facts: &mut Facts) -> Result<(), StoreError> {
        let keys = batch::keys_of(pending.iter().map(|pending| &pending.command));
        facts::look_up(self.parts.store.as_ref(), self.id, keys, facts).await
    }

    /// Our own creation, and what others have said there since.
    async fn born(&self, found: &Conversation, own: &[Event]) -> Result<Vec<Event>, StoreError> {
        let mut told = None;
        for event in own {
            Conversation::apply(&mut told, event);
        }
        let mut events = own.to_vec();
        if let Some(told) = told {
            events.extend(self.missed(&told, found, &[]).await?);
        }
        Ok(events)
    }

    async fn missed(&self, told: &Conversation, found: &Conversation, own: &[Event]) -> Result<Vec<Event>, StoreError> {
        if told.head.counters() == found.head.counters() {
            return Ok(Vec::new());
        }
        let store = &self.parts.store;
        let (seq, change_seq): (Seq, ChangeSeq) = (told.head.last_seq, told.head.last_change_seq);
        let mut messages = store.messages_after(self.id, seq, MISSED_MAX).await?;
        let mut changes = store.changes_after(self.id, change_seq, MISSED_MAX).await?;
        // What was committed after the load is left for the next one.
        messages.retain(|message| message.seq <= found.head.last_seq);
        changes.retain(|change| change.change_seq <= found.head.last_change_seq);
        let mut subjects = Vec::with_capacity(changes.len());
        for change in changes {
            let message = match change.message_id {
                Some(id) => store.touchable(self.id, id).await?,
                None => None,
            };
            subjects.push((change, message));
        }
        Ok(gap::missed(told, found, messages, subjects, own))
    }

    async fn publish(&self, steps: Vec<Step>) {
        let joining = joining(&steps);
        let cleared = if joining.is_empty() {
            HashMap::new()
        } else {
            Box::pin(self.cleared(&joining)).await
        };
        if let Some(state) = self.state().filter(|_| !steps.is_empty()) {
            self.parts.publisher.committed(Committed {
                conversation_id: self.id,
                header: Arc::clone(&state.header),
                head: state.head,
                member_count: state.members.len(),
                cleared,
                steps,
            });
        }
    }

    /// What those who join find cleared. A writer holds nothing of it, and hardly anybody comes back: so it is asked for.
    async fn cleared(&self, joining: &[Principal]) -> HashMap<Principal, Seq> {
        self.parts
            .store
            .cleared(self.id, joining)
            .await
            .unwrap_or_else(|error| {
                tracing::warn!(conversation_id = %self.id, %error, "who joins is not told what they had cleared");
                HashMap::new()
            })
    }
}

/// Who is a member from here on.
fn joining(steps: &[Step]) -> Vec<Principal> {
    let members = steps.iter().filter_map(|step| match step {
        Step::Event(Event::MembersAdded { members }) => Some(members),
        _ => None,
    });
    members.flatten().map(|member| member.principal).collect()
}

fn answer_all(pending: Vec<Pending>, answers: impl Iterator<Item = Answer>) {
    for (pending, answer) in pending.into_iter().zip(answers) {
        pending.answer(answer);
    }
}
