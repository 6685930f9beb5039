//! Reminders that are due: told once to whoever is connected, and to everybody else when they are (B115). Each is claimed
//! from the store first, so that no two processes tell of one.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::error::ServiceError;
use super::messages::Messages;
use crate::clock::Clock;
use crate::domain::{Action, Code, Marked, Principal, Timestamp};
use crate::storage::{DuePosition, DueReminder, Store};

/// How often it is looked.
const EVERY: Duration = Duration::from_millis(500);
/// How many are looked at in one step.
const LOOKED_AT_MAX: u32 = 1_000;

/// Somebody has to be reminded.
#[derive(Clone, Debug)]
pub struct Reminder {
    /// Who.
    pub principal: Principal,
    /// Of what, as it is now: of a recalled message without its words.
    pub message: Marked,
    /// As they set it.
    pub action: Action,
}

/// The watch over what is due.
pub struct Reminders {
    store: Arc<dyn Store>,
    messages: Arc<Messages>,
    clock: Arc<dyn Clock>,
}

impl Reminders {
    /// Claims from `store`, looks at messages as their users see them.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, messages: Arc<Messages>, clock: Arc<dyn Clock>) -> Self {
        Self { store, messages, clock }
    }

    /// Tells of every reminder when it is due and its user `is_here`. Runs until it is dropped.
    pub async fn watch(&self, is_here: impl Fn(Principal) -> bool, tell: impl Fn(&Reminder)) {
        let mut watch = Watch {
            claimed: VecDeque::new(),
            fresh: just_after(self.clock.now()),
            waiting: None,
        };
        loop {
            if let Err(error) = self.look(&mut watch, &is_here, &tell).await {
                tracing::warn!(%error, "reminders that are due have to wait");
            }
            tokio::time::sleep(EVERY).await;
        }
    }

    /// One look: at what has become due since the last one, and at a part of what waits for its user to come.
    async fn look(
        &self,
        watch: &mut Watch,
        is_here: &impl Fn(Principal) -> bool,
        tell: &impl Fn(&Reminder),
    ) -> Result<(), ServiceError> {
        self.tell(watch, tell).await?;
        let now = self.clock.now();
        let full = usize::try_from(LOOKED_AT_MAX).unwrap_or(usize::MAX);
        let fresh = self.store.due_reminders(now, Some(watch.fresh), LOOKED_AT_MAX).await?;
        let waiting = self.store.due_reminders(now, watch.waiting, LOOKED_AT_MAX).await?;
        watch.fresh = match fresh.last() {
            Some(last) if fresh.len() >= full => last.position(),
            _ => just_after(now),
        };
        // At the end the round begins anew.
        watch.waiting = waiting
            .last()
            .filter(|_| waiting.len() >= full)
            .map(DueReminder::position);
        for due in fresh.into_iter().chain(waiting) {
            if is_here(due.principal) && self.store.claim_reminder(&due).await? {
                watch.claimed.push_back(due);
            }
        }
        self.tell(watch, tell).await
    }

    async fn tell(&self, watch: &mut Watch, tell: &impl Fn(&Reminder)) -> Result<(), ServiceError> {
        while let Some(due) = watch.claimed.front() {
            match self.messages.get(due.principal, due.action.message_id).await {
                Ok(message) => tell(&Reminder {
                    principal: due.principal,
                    message,
                    action: due.action.clone(),
                }),
                // Not theirs to see any more: then there is nothing to be reminded of.
                Err(error) if error.code == Code::NotFound => {}
                Err(error) => return Err(error),
            }
            watch.claimed.pop_front();
        }
        Ok(())
    }
}

/// How far the watch has come.
struct Watch {
    /// Claimed and not told yet: the store did not answer in between.
    claimed: VecDeque<DueReminder>,
    /// What is due after this was not looked at.
    fresh: DuePosition,
    /// Up to here those were looked at, in this round, whose users were not here.
    waiting: Option<DuePosition>,
}

/// Behind everything that is due at `time`.
fn just_after(time: Timestamp) -> DuePosition {
    DuePosition {
        remind_at: Timestamp::from_millis(time.millis().saturating_add(1)),
        message_id: None,
        principal: Principal::SYSTEM,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicI64, Ordering};

    use super::*;
    use crate::clock::ManualClock;
    use crate::conversation::ReplyTo;
    use crate::domain::{
        ActionType, Adding, ClientMessageId, Command, Content, Context, Conversation, ConversationId, Create, Draft,
        Event, Facts, HistoryVisibility, Kind, Message, MessageId, MessageType, Origin, Posting, Send, Seq, Touch,
        chain,
    };
    use crate::routing::Bus;
    use crate::storage::memory::{Fault, Faults, MemoryStore};
    use crate::storage::{Commit, MessageStore as _};

    const ANN: Principal = Principal::user(1);
    const BOB: Principal = Principal::user(2);
    const ROOM: ConversationId = ConversationId::new(7).unwrap();

    struct NoBus;

    impl Bus for NoBus {
        fn dispatch(&self, _: ConversationId, _: Command, _: ReplyTo) {
            panic!("nothing is asked of a writer")
        }
    }

    /// The calls of the store that still fail, once so many have been answered.
    struct Outage {
        answered: AtomicI64,
        failing: AtomicI64,
    }

    impl Faults for Outage {
        fn on_commit(&self, _: &Commit) -> Fault {
            Fault::None
        }

        fn is_down(&self) -> bool {
            self.answered.fetch_sub(1, Ordering::SeqCst) <= 0 && self.failing.fetch_sub(1, Ordering::SeqCst) > 0
        }
    }

    /// A room with messages, and what was told.
    struct World {
        store: MemoryStore,
        clock: Arc<ManualClock>,
        room: Option<Conversation>,
        next_id: i64,
        told: Mutex<Vec<String>>,
        is_here: bool,
    }

    impl World {
        fn new(store: MemoryStore) -> Self {
            let clock = Arc::new(ManualClock::default());
            let told = Mutex::default();
            Self {
                store,
                clock,
                room: None,
                next_id: 100,
                told,
                is_here: true,
            }
        }

        /// Decides and stores.
        async fn commit(&mut self, id: ConversationId, commands: &[Command], facts: &Facts, more: Vec<Event>) {
            let base = self.room.clone().filter(|_| id == ROOM);
            let mut draft = Draft::new(id, base.as_ref());
            let mut next_id = || {
                self.next_id += 1;
                Ok(MessageId::new(self.next_id).unwrap())
            };
            let mut context = Context {
                now: Timestamp::default(),
                next_id: &mut next_id,
                facts,
            };
            for command in commands {
                draft.decide(command, &mut context).unwrap();
            }
            let batch = draft.finish().unwrap();
            let commit = Commit {
                conversation_id: id,
                expected: base.as_ref().map(|base| base.head.counters()),
                events: batch.events.into_iter().chain(more).collect(),
                header: batch.header,
                head: batch.head,
                member_count: batch.member_count,
            };
            assert_eq!(
                self.store.writer().commit(std::slice::from_ref(&commit)).await,
                [Ok(())]
            );
            for event in commit.events.iter().filter(|_| id == ROOM) {
                Conversation::apply(&mut self.room, event);
            }
        }

        /// BOB wants to be reminded of these seqs at these times.
        async fn reminds(&mut self, reminders: &[(&Message, i64)]) {
            let set = |(message, due): &(&Message, i64)| Event::ActionChanged {
                principal: BOB,
                action: Action {
                    action_type: ActionType::Reminder,
                    message_id: message.message_id,
                    conversation_id: ROOM,
                    seq: message.seq,
                    active: true,
                    remind_at: Some(Timestamp::from_millis(*due)),
                    payload: None,
                    updated_at: Timestamp::default(),
                },
            };
            let events = reminders.iter().map(set).collect();
            let inbox = ConversationId::new(8).unwrap();
            let create = create(Kind::Inbox, BOB, &[]);
            self.commit(inbox, &[create], &Facts::default(), events).await;
        }

        fn reminders(&self) -> Reminders {
            let store: Arc<dyn Store> = Arc::new(self.store.clone());
            let clock: Arc<dyn Clock> = Arc::<ManualClock>::clone(&self.clock);
            let messages = Messages::new(Arc::clone(&store), Arc::new(NoBus), Arc::clone(&clock), 120);
            Reminders::new(store, Arc::new(messages), clock)
        }

        /// What is told while the clock goes on by so much and then stands.
        async fn after(&self, millis: i64) -> Vec<String> {
            self.clock.advance(millis);
            let reminders = self.reminders();
            let here = |_| self.is_here;
            let watch = reminders.watch(here, |due| {
                let words = due.message.message.content.as_str();
                self.told.lock().unwrap().push(format!("{} {words}", due.principal));
            });
            tokio::time::timeout(EVERY * 8, watch).await.unwrap_err();
            std::mem::take(&mut *self.told.lock().unwrap())
        }
    }

    fn origin(principal: Principal) -> Origin {
        Origin {
            principal,
            device: None,
        }
    }

    fn create(kind: Kind, owner: Principal, members: &[Principal]) -> Command {
        Command::Create(Create {
            origin: origin(owner),
            kind,
            title: None,
            members: members.to_vec(),
            creation_key: None,
            history_visibility: HistoryVisibility::Shared,
            posting: Posting::All,
            adding: Adding::Admins,
        })
    }

    async fn world(store: MemoryStore, words: &[&str]) -> (World, Vec<Message>) {
        let mut world = World::new(store);
        let mut facts = Facts::default();
        let mut commands = vec![create(Kind::Group, ANN, &[BOB])];
        for word in words {
            let client_message_id = ClientMessageId::parse(word).unwrap();
            facts.keys.insert((ANN, client_message_id.clone()), None);
            commands.push(Command::Send(Send {
                origin: origin(ANN),
                client_message_id,
                message_type: MessageType::Text,
                content: Content::trusted(&format!("\"{word}\"")),
                content_hash: chain::content_hash(word),
                quoted_message_id: None,
                expected_last_seq: None,
            }));
        }
        world.commit(ROOM, &commands, &facts, Vec::new()).await;
        let messages = world
            .store
            .observer()
            .messages_after(ROOM, Seq::new(1), 10)
            .await
            .unwrap();
        (world, messages)
    }

    #[tokio::test(start_paused = true)]
    async fn b115_each_is_told_once_when_it_is_due_and_late_rather_than_never() {
        let (mut world, messages) = world(MemoryStore::new(), &["one", "two", "three"]).await;
        world
            .reminds(&[(&messages[0], 2_000), (&messages[1], 1_000), (&messages[2], 9_000)])
            .await;
        assert_eq!(world.after(999).await, Vec::<String>::new());
        assert_eq!(world.after(1).await, ["USER:2 \"two\""]);
        // Nobody watched for an hour.
        assert_eq!(world.after(3_600_000).await, ["USER:2 \"one\"", "USER:2 \"three\""]);
        assert_eq!(world.after(3_600_000).await, Vec::<String>::new());
    }

    #[tokio::test(start_paused = true)]
    async fn b115_whoever_was_away_when_it_was_due_is_told_when_they_come() {
        let (mut world, messages) = world(MemoryStore::new(), &["one", "two"]).await;
        world.reminds(&[(&messages[0], 1_000), (&messages[1], 2_000)]).await;
        world.is_here = false;
        assert_eq!(world.after(5_000).await, Vec::<String>::new());
        world.is_here = true;
        assert_eq!(world.after(5_000).await, ["USER:2 \"one\"", "USER:2 \"two\""]);
        assert_eq!(world.after(5_000).await, Vec::<String>::new());
    }

    #[tokio::test(start_paused = true)]
    async fn of_what_was_recalled_the_words_are_not_told_and_of_what_is_not_theirs_nothing() {
        let (mut world, messages) = world(MemoryStore::new(), &["one", "two"]).await;
        world.reminds(&[(&messages[0], 1), (&messages[1], 2)]).await;
        let found = world.store.touchable(ROOM, messages[0].message_id).await.unwrap();
        let mut facts = Facts::default();
        facts.messages.insert(messages[0].message_id, found);
        let recall = Command::Touch {
            origin: origin(ANN),
            message_id: messages[0].message_id,
            touch: Touch::Recall {
                received_at: Timestamp::default(),
                window_ms: 0,
            },
        };
        world.commit(ROOM, &[recall], &facts, Vec::new()).await;
        let told = world.after(1).await;
        assert!(
            told.len() == 1 && told[0].contains("recalled") && !told[0].contains("one"),
            "{told:?}"
        );
        let remove = Command::RemoveMember {
            origin: origin(ANN),
            target: BOB,
        };
        world.commit(ROOM, &[remove], &Facts::default(), Vec::new()).await;
        assert_eq!(world.after(1).await, Vec::<String>::new());
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_claimed_when_the_store_went_away_is_told_when_it_is_back() {
        let outage = Arc::new(Outage {
            answered: AtomicI64::new(i64::MAX),
            failing: AtomicI64::new(3),
        });
        let store = MemoryStore::with_faults(Arc::<Outage>::clone(&outage));
        let (mut world, messages) = world(store, &["one"]).await;
        world.reminds(&[(&messages[0], 1)]).await;
        outage.answered.store(3, Ordering::SeqCst); // two looks and the claim, and nothing after them
        assert_eq!(world.after(1).await, ["USER:2 \"one\""]);
    }
}
