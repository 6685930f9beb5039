//! What belongs to one user alone: written with commits of their INBOX, into rows of other conversations.

use onescribe::domain::{
    ActionType, ChangeSeq, ChangeType, Command, Content, Context, Conversation, ConversationId, CountNo, CreationKey,
    Draft, Fact, Facts, Kind, Message, MessageId, Outcome, Personal, Principal, Refusal, Seq, Timestamp, Touch,
};
use onescribe::storage::{Commit, DeviceCursor, Store};

use super::builder::{Held, NOW, conversation_id, create, next_id, origin, send, send_raw};
use super::suite::Fixture;

pub(crate) const ANNA: Principal = Principal::user(1);
pub(crate) const BEN: Principal = Principal::user(2);
/// Same number, other kind.
const BOT: Principal = Principal::agent(2);

/// A user's INBOX, and what its writer would do.
pub(crate) struct Inbox {
    held: Held,
    owner: Principal,
}

impl Inbox {
    pub(crate) async fn of(store: &dyn Store, owner: Principal) -> Self {
        let mut held = Held::new();
        let command = create(Kind::Inbox, owner, &[], Some(CreationKey::inbox(owner)));
        held.commit(&mut *store.writer(), &[command]).await;
        Self { held, owner }
    }

    /// Nobody has been told anything yet.
    pub(crate) fn unmade(owner: Principal) -> Self {
        let held = Held::new();
        Self { held, owner }
    }

    /// What these commands ask the store for, with what the store says.
    async fn decide(&mut self, store: &dyn Store, commands: &[Command]) -> (Vec<Outcome>, Option<Commit>) {
        let mut facts = Facts::default();
        self.held.now += 1;
        loop {
            let mut draft = Draft::new(self.held.id, self.held.state.as_ref());
            let mut ids = || Ok(MessageId::new(next_id()).unwrap());
            let mut context = Context {
                now: Timestamp::from_millis(self.held.now),
                next_id: &mut ids,
                facts: &facts,
            };
            let mut outcomes = Vec::new();
            let mut need = None;
            for command in commands {
                match draft.decide(command, &mut context) {
                    Ok(outcome) => outcomes.push(outcome),
                    Err(Refusal::Needs(fact)) => need = Some(fact),
                    Err(Refusal::Rejected(error)) => panic!("{error}"),
                }
            }
            match need {
                Some(Fact::Position(id, who, seq)) => {
                    let found = store.position(id, who, seq).await.unwrap();
                    facts.positions.insert((id, who, seq), found);
                }
                Some(Fact::Actionable(id, who)) => {
                    let found = store.actionable(id, who).await.unwrap();
                    facts.actionables.insert((id, who), found);
                }
                Some(Fact::Message(id)) => {
                    let found = store.touchable(self.held.id, id).await.unwrap();
                    facts.messages.insert(id, found);
                }
                Some(Fact::Notification(id)) => {
                    facts.notifications.insert(id, store.notification(id).await.unwrap());
                }
                Some(Fact::Keyed(who, key)) => {
                    let found = store.notification_by_key(who, &key).await.unwrap();
                    facts.keyed.insert((who, key), found);
                }
                Some(Fact::PendingFrom(who, from)) => {
                    let found = store.pending_from(who, from, 50).await.unwrap();
                    facts.pending_from.insert((who, from), found);
                }
                Some(Fact::Ties(one, other)) => {
                    facts.ties.insert((one, other), store.ties(one, other).await.unwrap());
                }
                Some(other) => panic!("{other:?}"),
                None => {
                    let expected = self.held.state.as_ref().map(|state| state.head.counters());
                    let commit = draft.finish().map(|batch| Commit {
                        conversation_id: self.held.id,
                        expected,
                        events: batch.events,
                        header: batch.header,
                        head: batch.head,
                        member_count: batch.member_count,
                    });
                    return (outcomes, commit);
                }
            }
        }
    }

    pub(crate) async fn does(&mut self, store: &dyn Store, acts: &[Personal]) -> Vec<Outcome> {
        let commands = self.commands(acts);
        self.gets(store, &commands).await
    }

    /// What these acts ask the store for: nothing of it is stored yet.
    pub(crate) async fn does_later(&mut self, store: &dyn Store, acts: &[Personal]) -> Commit {
        let commands = self.commands(acts);
        self.gets_later(store, &commands).await
    }

    /// As [`Inbox::gets`], but nothing of it is stored yet.
    pub(crate) async fn gets_later(&mut self, store: &dyn Store, commands: &[Command]) -> Commit {
        self.decide(store, commands).await.1.expect("something to commit")
    }

    pub(crate) fn id(&self) -> ConversationId {
        self.held.id
    }

    /// What is decided next is decided then.
    pub(crate) fn at(&mut self, now: i64) {
        self.held.now = now;
    }

    fn commands(&self, acts: &[Personal]) -> Vec<Command> {
        let command = |act: &Personal| Command::Personal {
            origin: origin(self.owner),
            act: act.clone(),
        };
        acts.iter().map(command).collect()
    }

    /// Whatever comes to the INBOX, as one commit.
    pub(crate) async fn gets(&mut self, store: &dyn Store, commands: &[Command]) -> Vec<Outcome> {
        let (outcomes, commit) = self.decide(store, commands).await;
        if let Some(commit) = commit {
            assert_eq!(store.writer().commit(std::slice::from_ref(&commit)).await, vec![Ok(())]);
            for event in &commit.events {
                Conversation::apply(&mut self.held.state, event);
            }
        }
        outcomes
    }
}

/// A group of ANNA, BEN and BOT with four messages of ANNA's (seqs 2 to 5).
pub(crate) async fn four(fixture: &Fixture) -> (Held, Vec<Message>) {
    let mut writer = fixture.store.writer();
    let mut held = Held::group(&mut *writer, ANNA, &[BEN, BOT]).await;
    let sends = ["one", "two", "three", "four"].map(|words| send(ANNA, words, words));
    held.commit(&mut *writer, &sends).await;
    let messages = fixture.store.messages_after(held.id, Seq::new(1), 10).await.unwrap();
    (held, messages)
}

pub(crate) fn read(room: &Held, seq: i64) -> Personal {
    Personal::Read {
        conversation_id: room.id,
        seq: Seq::new(seq),
    }
}

pub(crate) fn mute(room: &Held) -> Personal {
    Personal::Settings {
        conversation_id: room.id,
        muted: Some(true),
        pinned: None,
        marked_unread: None,
    }
}

pub(crate) fn clear(room: &Held, seq: i64) -> Personal {
    Personal::Clear {
        conversation_id: room.id,
        up_to_seq: Seq::new(seq),
    }
}

pub(crate) fn set(message: &Message, action_type: ActionType) -> Personal {
    Personal::Set {
        message_id: message.message_id,
        action_type,
        remind_at: None,
        payload: None,
    }
}

pub(crate) fn unset(message: &Message, action_type: ActionType) -> Personal {
    let message_id = message.message_id;
    Personal::Unset {
        message_id,
        action_type,
    }
}

/// `(last_read_seq, last_read_count_no, cleared_seq, unread_count)`, the same one by one and in the list.
async fn own(store: &dyn Store, room: &Held, who: Principal) -> (i64, i64, i64, u64) {
    let seen = store.seen(room.id, who).await.unwrap().unwrap();
    let listed = store.list(who, None, 50).await.unwrap();
    let listed = listed
        .iter()
        .find(|seen| seen.header.conversation_id == room.id)
        .unwrap();
    assert_eq!(listed.unread_count, seen.unread_count);
    assert_eq!(listed.last_message, seen.last_message);
    let own = seen.membership.unwrap();
    (
        own.last_read_seq.get(),
        own.last_read_count_no.get(),
        own.cleared_seq.get(),
        seen.unread_count,
    )
}

pub(crate) async fn b72_a_read_moves_the_position_of_its_reader_forward_only(fixture: &Fixture) {
    let store = &*fixture.store;
    let (mut room, _) = four(fixture).await;
    let mut inbox = Inbox::of(store, BEN).await;
    inbox.does(store, &[read(&room, 4)]).await;
    assert_eq!(own(store, &room, BEN).await, (4, 3, 0, 1));
    assert_eq!(
        own(store, &room, BOT).await,
        (1, 0, 0, 4),
        "an agent of that number is another"
    );
    // Decided before BEN sends, stored after it.
    let late = inbox.does_later(store, &[read(&room, 5)]).await;
    room.commit(&mut *store.writer(), &[send(ANNA, "five", "x"), send(BEN, "mine", "x")])
        .await;
    assert_eq!(store.writer().commit(&[late]).await, vec![Ok(())]);
    assert_eq!(own(store, &room, BEN).await, (7, 6, 0, 0));
    let changes = store.changes_after(inbox.held.id, ChangeSeq::ZERO, 10).await.unwrap();
    let kinds: Vec<ChangeType> = changes.iter().map(|change| change.change_type).collect();
    assert_eq!(kinds, [ChangeType::Read, ChangeType::Read]);
}

pub(crate) async fn a_read_beyond_the_head_is_cut_to_it(fixture: &Fixture) {
    let store = &*fixture.store;
    let (mut room, _) = four(fixture).await;
    let position = store.position(room.id, BEN, Seq::new(9_999)).await.unwrap().unwrap();
    assert_eq!(
        (position.at, position.at_count_no, position.unread_count),
        (Seq::new(5), CountNo::new(4), 0)
    );
    assert_eq!(
        store.position(room.id, Principal::user(99), Seq::ZERO).await.unwrap(),
        None
    );
    let mut inbox = Inbox::of(store, BEN).await;
    inbox.does(store, &[read(&room, 9_999)]).await;
    room.commit(&mut *store.writer(), &[send(ANNA, "new", "x")]).await;
    assert_eq!(
        own(store, &room, BEN).await,
        (5, 4, 0, 1),
        "what comes later is not swallowed"
    );
    let pair = create(Kind::Direct, ANNA, &[BEN], Some(CreationKey::direct(ANNA, BEN)));
    let mut direct = Held::new();
    direct.commit(&mut *store.writer(), &[pair]).await;
    let position = store.position(direct.id, BEN, Seq::new(7)).await.unwrap().unwrap();
    assert_eq!((position.at, position.peer), (Seq::ZERO, Some(ANNA)));
}

pub(crate) async fn what_is_cleared_or_deleted_for_me_is_not_unread_and_comes_back(fixture: &Fixture) {
    let store = &*fixture.store;
    let (mut room, messages) = four(fixture).await;
    let mut inbox = Inbox::of(store, BEN).await;
    let delete = |at: usize| set(&messages[at], ActionType::Delete);
    inbox.does(store, &[delete(0), delete(2), delete(2)]).await;
    assert_eq!(own(store, &room, BEN).await.3, 2);
    room.touch(store, ANNA, messages[2].message_id, Touch::Delete).await;
    assert_eq!(own(store, &room, BEN).await.3, 2, "gone and deleted is taken off once");
    let at_two = store.position(room.id, BEN, Seq::new(2)).await.unwrap().unwrap();
    assert_eq!(at_two.unread_count, 2);
    inbox.does(store, &[unset(&messages[0], ActionType::Delete)]).await;
    assert_eq!(own(store, &room, BEN).await.3, 3);
    inbox.does(store, &[clear(&room, 3), clear(&room, 2)]).await;
    assert_eq!(own(store, &room, BEN).await, (1, 0, 3, 1));
    inbox.does(store, &[read(&room, 2)]).await;
    assert_eq!(own(store, &room, BEN).await, (2, 1, 3, 1), "read below what is cleared");
    assert_eq!(own(store, &room, BOT).await.3, 3);
    let hidden = store.touchable(room.id, messages[1].message_id).await.unwrap().unwrap();
    assert_eq!(hidden.hidden_for, vec![BEN]);
    let quote = store
        .quotable(room.id, messages[1].message_id, BEN)
        .await
        .unwrap()
        .unwrap();
    assert!(quote.gone);
}

pub(crate) async fn mentions_count_while_they_are_unread_and_shown(fixture: &Fixture) {
    let store = &*fixture.store;
    let mut room = Held::group(&mut *store.writer(), ANNA, &[BEN, BOT]).await;
    let ben = "{\"text\":\"@b\",\"mentions\":[{\"user_id\":\"2\",\"offset\":0,\"length\":2}]}";
    let bot = ben.replace("user_id", "agent_id");
    let all = "{\"text\":\"all\",\"mention_all\":true}";
    let words = [ben, &bot, all, ben, ben, "{\"text\":\"x\"}"];
    let sends: Vec<Command> = (2..)
        .zip(words)
        .map(|(n, raw)| send_raw(ANNA, &format!("{n}"), raw))
        .collect();
    room.commit(&mut *store.writer(), &sends).await;
    let messages = store.messages_after(room.id, Seq::new(1), 10).await.unwrap();
    let mut inbox = Inbox::of(store, BEN).await;
    let id = room.id;
    let count = async |who| {
        let seen = store.seen(id, who).await.unwrap().unwrap();
        let listed = store.list(who, None, 50).await.unwrap();
        let listed = listed.iter().find(|seen| seen.header.conversation_id == id).unwrap();
        assert_eq!(listed.mention_count, seen.mention_count);
        seen.mention_count
    };
    assert_eq!((count(BEN).await, count(BOT).await, count(ANNA).await), (4, 2, 0));
    let recall = Touch::Recall {
        received_at: Timestamp::default(),
        window_ms: 0,
    };
    room.touch(store, ANNA, messages[3].message_id, recall).await;
    assert_eq!(count(BEN).await, 3, "recalled");
    inbox.does(store, &[set(&messages[4], ActionType::Delete)]).await;
    assert_eq!(count(BEN).await, 2, "deleted for me");
    let plain = Content::trusted("{\"text\":\"nobody\"}");
    room.touch(store, ANNA, messages[0].message_id, Touch::Edit(plain))
        .await;
    assert_eq!(count(BEN).await, 1, "edited");
    inbox
        .does(store, &[unset(&messages[4], ActionType::Delete), clear(&room, 4)])
        .await;
    assert_eq!(count(BEN).await, 1, "what everybody was called for is cleared");
    inbox.does(store, &[read(&room, 6)]).await;
    assert_eq!((count(BEN).await, count(BOT).await), (0, 2));
}

pub(crate) async fn the_last_message_is_the_newest_that_i_have_not_deleted(fixture: &Fixture) {
    let store = &*fixture.store;
    let (room, messages) = four(fixture).await;
    let mut inbox = Inbox::of(store, BEN).await;
    inbox
        .does(
            store,
            &[
                set(&messages[3], ActionType::Delete),
                set(&messages[2], ActionType::Delete),
            ],
        )
        .await;
    let last = async |who| {
        own(store, &room, who).await;
        let seen = store.seen(room.id, who).await.unwrap().unwrap();
        seen.last_message.map(|last| last.message.seq.get())
    };
    assert_eq!((last(BEN).await, last(ANNA).await), (Some(3), Some(5)));
    assert!(store.hidden(messages[3].message_id, BEN).await.unwrap());
    inbox.does(store, &[unset(&messages[3], ActionType::Delete)]).await;
    assert_eq!(last(BEN).await, Some(5));
}

pub(crate) async fn settings_are_of_one_member_and_only_what_changes_is_written(fixture: &Fixture) {
    let store = &*fixture.store;
    let (mut room, _) = four(fixture).await;
    let mut inbox = Inbox::of(store, BEN).await;
    let settings = |muted, pinned, marked_unread| Personal::Settings {
        conversation_id: room.id,
        muted,
        pinned,
        marked_unread,
    };
    inbox.does(store, &[settings(Some(true), None, Some(true))]).await;
    let late = inbox.does_later(store, &[settings(None, Some(true), None)]).await;
    // Sending takes the mark away; settings that were decided before do not bring it back.
    room.commit(&mut *store.writer(), &[send(BEN, "mine", "x")]).await;
    assert_eq!(store.writer().commit(&[late]).await, vec![Ok(())]);
    let flags = async |who| {
        let own = store.seen(room.id, who).await.unwrap().unwrap().membership.unwrap();
        (own.muted, own.pinned, own.marked_unread)
    };
    assert_eq!(
        (flags(BEN).await, flags(BOT).await),
        ((true, true, false), (false, false, false))
    );
}

pub(crate) fn remove(target: Principal) -> Command {
    let origin = origin(ANNA);
    Command::RemoveMember { origin, target }
}

pub(crate) async fn who_has_cleared_how_far_is_known_also_of_former_members(fixture: &Fixture) {
    let store = &*fixture.store;
    let (mut room, _) = four(fixture).await;
    for (who, seq) in [(BEN, 3), (BOT, 4)] {
        let clear = clear(&room, seq);
        Inbox::of(store, who).await.does(store, &[clear]).await;
    }
    room.commit(&mut *store.writer(), &[remove(BEN)]).await;
    let asked = [ANNA, BEN, Principal::user(99), BOT, Principal::agent(99)];
    let cleared = store.cleared(room.id, &asked).await.unwrap();
    assert_eq!(cleared, [(BEN, Seq::new(3)), (BOT, Seq::new(4))].into());
    assert_eq!(store.cleared(room.id, &[ANNA]).await.unwrap(), [].into());
    assert_eq!(store.cleared(conversation_id(), &asked).await.unwrap(), [].into());
}

pub(crate) async fn receipts_tell_how_far_members_and_their_devices_have_come(fixture: &Fixture) {
    let store = &*fixture.store;
    let (room, _) = four(fixture).await;
    Inbox::of(store, BEN).await.does(store, &[read(&room, 4)]).await;
    for (device, seq) in [("phone", 3), ("web", 5)] {
        let device = onescribe::domain::DeviceId::parse(device).unwrap();
        let ack = DeviceCursor {
            conversation_id: room.id,
            seq: Seq::new(seq),
            change_seq: ChangeSeq::ZERO,
        };
        store
            .acknowledge(BOT, &device, &[ack], Timestamp::from_millis(NOW))
            .await
            .unwrap();
    }
    let receipts = store.receipts(room.id, 10).await.unwrap();
    let told: Vec<_> = receipts
        .iter()
        .map(|one| (one.principal, one.last_read_seq.get(), one.delivered_seq.get()))
        .collect();
    assert_eq!(told, [(ANNA, 5, 0), (BEN, 4, 0), (BOT, 1, 5)]);
    assert_eq!(store.receipts(room.id, 2).await.unwrap().len(), 2);
}

pub(crate) async fn users_and_senders_who_move_the_same_rows_never_wait_in_a_circle(fixture: &Fixture) {
    let store = &*fixture.store;
    let mut rooms = Vec::new();
    for _ in 0..4 {
        rooms.push(four(fixture).await.0);
    }
    let mut inboxes = Vec::new();
    for who in [ANNA, BEN, BOT] {
        inboxes.push(Inbox::of(store, who).await);
    }
    for round in 0..10_i64 {
        let sends: Vec<Commit> = rooms
            .iter_mut()
            .map(|room| {
                let words = [ANNA, BEN, BOT].map(|who| send(who, &format!("{round}"), "x"));
                let commit = room.decide(&words);
                room.apply(&commit);
                commit
            })
            .collect();
        let mut owns = Vec::new();
        for inbox in &mut inboxes {
            // What is above the head is cut to it.
            let acts: Vec<Personal> = rooms.iter().rev().map(|room| read(room, 3 + round)).collect();
            // Whoever has read all of it by sending has nothing to write.
            let commands = inbox.commands(&acts);
            owns.extend(inbox.decide(store, &commands).await.1);
        }
        let (mut one, mut other) = (store.writer(), store.writer());
        let (said, done) = tokio::join!(one.commit(&sends), other.commit(&owns));
        assert!(said.iter().chain(&done).all(Result::is_ok), "{said:?} {done:?}");
        for commit in &owns {
            let inbox = inboxes
                .iter_mut()
                .find(|inbox| inbox.held.id == commit.conversation_id)
                .unwrap();
            inbox.held.apply(commit);
        }
    }
    for room in &rooms {
        assert_eq!(own(store, room, BOT).await, (35, 34, 0, 0));
    }
}
