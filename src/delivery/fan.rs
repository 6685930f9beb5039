//! What a commit means for those who are online, encoded once: one list that every hub walks through in order.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use super::sessions::Sessions;
use super::wire;
use crate::conversation::{Answer, Committed, SessionReply, Step};
use crate::domain::{
    Annotated, ChangeSeq, ChangeType, ConversationId, CountNo, DeviceId, Event, Kind, Marks, Member, Membership,
    Message, Principal,
};
use crate::protocol::reply::Push;
use crate::protocol::view;

/// A hub takes so many bytes of frames at a time, so that connections can be written to in between.
pub const FAN_BYTES_MAX: usize = 256 * 1024;

/// About what a push of a new message takes beside the content.
const NEW_MESSAGE_BYTES: usize = 512;

/// A piece of a commit. Never empty.
#[derive(Debug)]
pub struct Fan {
    /// Where.
    pub conversation_id: ConversationId,
    /// What, in the order in which the conversation produced it.
    pub items: Vec<Item>,
}

/// One thing for some sessions.
#[derive(Debug)]
pub enum Item {
    /// For every session of every member, but the spared device.
    Push {
        /// What they get.
        frame: Frame,
        /// The device whose reply says the same.
        spare: Option<(Principal, DeviceId)>,
        /// What those get instead who may not see it.
        hidden: Option<Hidden>,
        /// What those get instead who are online and have reacted to the message: to them `me` is true. Only they have
        /// a frame of their own, one for all who gave the same reactions.
        reacted: HashMap<Principal, Bytes>,
    },
    /// The principal is a member from here on: tells its sessions, and they get what follows.
    Join {
        /// Who.
        principal: Principal,
        /// The finished frame; none for what joins in silence.
        frame: Option<Bytes>,
    },
    /// For every session of one principal, whether they listen here or not.
    Own {
        /// Whose.
        principal: Principal,
        /// The finished frame.
        frame: Bytes,
    },
    /// The principal is a member no longer: tells its sessions, and they get nothing that follows (B96).
    Leave {
        /// Who.
        principal: Principal,
        /// The finished frame.
        frame: Bytes,
    },
    /// The answer to a send, exactly where it stands among the pushes.
    Reply {
        /// Whose.
        to: SessionReply,
        /// What became of it.
        answer: Answer,
    },
    /// As `Push`, and nobody misses it.
    Typing {
        /// The finished frame.
        frame: Bytes,
        /// The device on which somebody writes.
        spare: (Principal, DeviceId),
    },
}

/// A frame for many.
#[derive(Debug)]
pub enum Frame {
    /// It is there.
    Made(Bytes),
    /// A message that is new. It is encoded when the first session needs it, once for all hubs: most of the time nobody
    /// but the sender is there to be told.
    New(Arc<Message>, OnceLock<Bytes>),
}

impl Frame {
    /// The finished frame.
    pub fn get(&self) -> &Bytes {
        match self {
            Self::Made(frame) => frame,
            Self::New(message, made) => {
                made.get_or_init(|| wire::text(&Push::message(view::Message::unmarked(message))))
            }
        }
    }

    /// About as long as it will be.
    fn len(&self) -> usize {
        match self {
            Self::Made(frame) => frame.len(),
            Self::New(message, _) => NEW_MESSAGE_BYTES + message.content.as_str().len(),
        }
    }
}

/// A change to something that some members may not see: they learn its number and nothing else.
#[derive(Debug)]
pub struct Hidden {
    /// In order.
    pub from: Vec<Principal>,
    /// The finished frame.
    pub frame: Bytes,
}

impl Item {
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Join { frame, .. } => frame.as_ref().map_or(0, Bytes::len),
            Self::Push { frame, .. } => frame.len(),
            Self::Own { frame, .. } | Self::Leave { frame, .. } | Self::Typing { frame, .. } => frame.len(),
            Self::Reply { .. } => 256, // about what will be written
        }
    }
}

/// A commit in pieces of about `bytes_max`.
#[must_use]
pub fn fans(committed: &Committed, sessions: &Sessions, bytes_max: usize) -> Vec<Fan> {
    let mut fans = Vec::new();
    let mut items = Vec::new();
    let mut bytes = 0;
    let mut flush = |items: &mut Vec<Item>| {
        if !items.is_empty() {
            fans.push(Fan {
                conversation_id: committed.conversation_id,
                items: std::mem::take(items),
            });
        }
    };
    for (at, step) in committed.steps.iter().enumerate() {
        let before = items.len();
        match step {
            Step::Answer(to, answer) => items.push(Item::Reply {
                to: *to,
                answer: answer.clone(),
            }),
            Step::Event(event) => of_event(committed, at, event, sessions, &mut items),
        }
        bytes += items.iter().skip(before).map(Item::bytes).sum::<usize>();
        if bytes >= bytes_max {
            flush(&mut items);
            bytes = 0;
        }
    }
    flush(&mut items);
    fans
}

fn of_event(committed: &Committed, at: usize, event: &Event, sessions: &Sessions, items: &mut Vec<Item>) {
    match event {
        Event::Created { members, .. } | Event::MembersAdded { members } => {
            // A group may have 100,000 members; only those who are here are told.
            let here = members.iter().filter(|member| sessions.is_online(member.principal));
            items.extend(here.map(|member| join(committed, at, member)));
        }
        Event::MemberRemoved { principal, left } => items.push(Item::Leave {
            principal: *principal,
            frame: wire::text(&Push::ConversationLeft {
                conversation_id: committed.conversation_id.get(),
                reason: if *left { "LEFT" } else { "REMOVED" },
            }),
        }),
        Event::MessageSent { message, device } => {
            let (frame, reacted) = new_message(committed, message, sessions);
            items.push(Item::Push {
                frame,
                spare: device.clone().map(|device| (message.sender, device)),
                hidden: None,
                reacted,
            });
        }
        Event::ReadMoved {
            conversation_id,
            principal,
            seq,
            peer,
            ..
        } => {
            let frame = |peer| Item::Own {
                principal: peer,
                frame: wire::text(&Push::read(*conversation_id, *principal, *seq)),
            };
            items.extend(peer.filter(|peer| sessions.is_online(*peer)).map(frame));
        }
        Event::Changed { .. } => items.extend(changed(committed, event, sessions)),
        // Told by the change that follows.
        Event::RoleChanged { .. }
        | Event::HeaderChanged { .. }
        | Event::MessageChanged { .. }
        | Event::SettingsChanged { .. }
        | Event::ActionChanged { .. }
        | Event::Mentioned { .. }
        | Event::Referenced { .. }
        | Event::Reacted { .. }
        | Event::Pinned { .. }
        | Event::Notified { .. }
        | Event::NotificationChanged { .. }
        | Event::ContactMade { .. }
        | Event::ContactEnded { .. }
        | Event::BlockChanged { .. }
        | Event::BlocksHeeded { .. } => {}
    }
}

/// The push of a change; some see less of it.
fn changed(committed: &Committed, event: &Event, sessions: &Sessions) -> Option<Item> {
    let Event::Changed {
        change,
        message,
        hidden_from,
        device,
    } = event
    else {
        return None;
    };
    let hidden = || wire::text(&Push::hidden(change, committed.header.kind == Kind::Inbox));
    let (frame, reacted) = match message {
        _ if change.change_type == ChangeType::Hidden => (hidden(), HashMap::new()),
        Some(about) => frames(about, hidden_from, sessions, |message| {
            wire::text(&Push::change(change, Some(message)))
        }),
        None => (wire::text(&Push::change(change, None)), HashMap::new()),
    };
    Some(Item::Push {
        frame: Frame::Made(frame),
        spare: device.clone().map(|device| (change.actor, device)),
        hidden: (!hidden_from.is_empty()).then(|| Hidden {
            from: hidden_from.clone(),
            frame: hidden(),
        }),
        reacted,
    })
}

/// A push that shows a message: the frame of those who have not reacted to it, and the frames of those who have.
fn frames(
    about: &Annotated,
    hidden_from: &[Principal],
    sessions: &Sessions,
    push: impl Fn(view::Message<'_>) -> Bytes,
) -> (Bytes, HashMap<Principal, Bytes>) {
    let encode = |marks: &Marks| push(view::Message::new(&about.message, marks));
    let mut gave: HashMap<Principal, Vec<usize>> = HashMap::new();
    for (at, reaction) in about.reactions.iter().enumerate() {
        for reactor in &reaction.by {
            let principal = reactor.principal;
            if sessions.is_online(principal) && hidden_from.binary_search(&principal).is_err() {
                gave.entry(principal).or_default().push(at);
            }
        }
    }
    let mut by_set: HashMap<Vec<usize>, Bytes> = HashMap::new();
    let own = |(principal, set): (Principal, Vec<usize>)| {
        let frame = by_set.entry(set).or_insert_with(|| encode(&about.marks_for(principal)));
        (principal, frame.clone())
    };
    let reacted = gave.into_iter().map(own).collect();
    (encode(&about.marks_for_others()), reacted)
}

/// Nobody can have reacted to a message that was just stored. One that another writer stored may have been changed
/// before we found it: then the same list tells of its changes, and what is on it.
fn new_message(
    committed: &Committed,
    message: &Arc<Message>,
    sessions: &Sessions,
) -> (Frame, HashMap<Principal, Bytes>) {
    let changed = || {
        committed.steps.iter().find_map(|step| match step {
            Step::Event(Event::Changed {
                message: Some(about), ..
            }) => (about.message.message_id == message.message_id).then_some(about),
            _ => None,
        })
    };
    if message.change_seq > ChangeSeq::ZERO
        && let Some(about) = changed()
    {
        let (frame, reacted) = frames(about, &[], sessions, |message| wire::text(&Push::message(message)));
        return (Frame::Made(frame), reacted);
    }
    (Frame::New(Arc::clone(message), OnceLock::new()), HashMap::new())
}

/// The conversation as a new member sees it: after the whole commit, nothing unread. What they cleared when they were here
/// before stays cleared.
fn join(committed: &Committed, at: usize, member: &Member) -> Item {
    if committed.header.kind == Kind::Inbox {
        // It is where one's own acts are counted; nobody has to be told that it is there.
        let principal = member.principal;
        return Item::Join { principal, frame: None };
    }
    let membership = Membership {
        member: *member,
        last_read_seq: member.joined_seq,
        last_read_count_no: committed.head.last_count_no,
        cleared_seq: committed.cleared.get(&member.principal).copied().unwrap_or_default(),
        cleared_count_no: CountNo::ZERO,
        marked_unread: false,
        muted: false,
        pinned: false,
    };
    let view = view::Conversation::new(
        &committed.header,
        &committed.head,
        u64::try_from(committed.member_count).unwrap_or(u64::MAX),
        view::Me::new(&membership, 0, 0),
        last_message(committed, at, member.principal).map(view::Message::unmarked),
    );
    Item::Join {
        principal: member.principal,
        frame: Some(wire::text(&Push::ConversationJoined {
            conversation: Box::new(view),
        })),
    }
}

/// The newest message of the commit; if the member goes again within it, the newest before that (B96).
fn last_message(committed: &Committed, joined_at: usize, principal: Principal) -> Option<&Message> {
    let removed =
        |step: &Step| matches!(step, Step::Event(Event::MemberRemoved { principal: gone, .. }) if *gone == principal);
    let stay = committed.steps.iter().skip(joined_at).take_while(|step| !removed(step));
    let messages = stay.filter_map(|step| match step {
        Step::Event(Event::MessageSent { message, .. }) => Some(message.as_ref()),
        _ => None,
    });
    messages.last()
}
