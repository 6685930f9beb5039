//! The clients: what they ask for, and that they ask again with the same key until they have an answer.

use std::collections::BTreeMap;

use onescribe::domain::{
    Adding, ClientMessageId, ClientRequestId, Command, Content, ConversationId, Create, CreationKey, DeviceId,
    HeaderPatch, HistoryVisibility, Kind, MessageId, MessageType, Origin, Posting, Principal, Role, Send, Seq,
    Timestamp, Touch, chain,
};

use crate::faults::{Dice, Knobs};
use crate::filing::attachment;
use crate::history::Reply;

/// After so many steps without an answer a client asks again.
const PATIENCE_STEPS: u64 = 80;
/// The most things that one client waits for at once.
const OPEN_MAX: usize = 3;
/// The owner of every group.
const FOUNDER: usize = 0;

/// One thing that a client wants, however often it has to ask.
#[derive(Clone)]
pub(crate) struct Wish {
    client: usize,
    pub(crate) conversation: ConversationId,
    pub(crate) command: Command,
    asked_at: Option<u64>,
    answered: bool,
}

/// A conversation that exists, or will.
struct Place {
    id: ConversationId,
    exists: bool,
}

/// All clients of a run.
pub(crate) struct Workload {
    people: Vec<Principal>,
    clients: usize,
    places: Vec<Place>,
    wishes: Vec<Wish>,
    requests: BTreeMap<usize, usize>,
    known: Vec<(ConversationId, MessageId)>,
    sends_left: usize,
    next_key: usize,
}

impl Workload {
    pub(crate) fn new(dice: &Dice, knobs: &Knobs) -> Self {
        let clients = knobs.clients;
        let mut people: Vec<Principal> = (0..clients).map(person).collect();
        people.extend([Principal::user(901), Principal::user(902)]);
        let mut workload = Self {
            people,
            clients,
            places: Vec::new(),
            wishes: Vec::new(),
            requests: BTreeMap::new(),
            known: Vec::new(),
            sends_left: knobs.sends * clients,
            next_key: 0,
        };
        for number in 0..knobs.conversations {
            workload.found(dice, number);
        }
        workload
    }

    /// Somebody makes a conversation; often somebody else makes the same one at the same time.
    fn found(&mut self, dice: &Dice, number: usize) {
        let direct = number > 0 && dice.below(4) == 0;
        let request = ClientRequestId::parse(&format!("group {number}")).unwrap();
        let creation_key = if direct {
            CreationKey::direct(person(0), person(1))
        } else {
            CreationKey::request(person(0), &request)
        };
        let members = if direct {
            vec![person(1)]
        } else {
            self.people[1..=dice.below(self.clients)].to_vec()
        };
        let create = Create {
            origin: origin(FOUNDER),
            kind: if direct { Kind::Direct } else { Kind::Group },
            title: (!direct).then(|| format!("group {number}")),
            members,
            creation_key: Some(creation_key),
            history_visibility: *dice
                .pick(&[HistoryVisibility::Shared, HistoryVisibility::Joined])
                .unwrap(),
            posting: if direct || dice.below(4) > 0 {
                Posting::All
            } else {
                Posting::Admins
            },
            adding: *dice.pick(&[Adding::All, Adding::Admins]).unwrap(),
        };
        for rival in 0..=dice.below(2) {
            let id = ConversationId::new(i64::try_from(1000 + number * 10 + rival).unwrap()).unwrap();
            let mut create = create.clone();
            if direct && rival == 1 {
                create.origin = origin(1);
                create.members = vec![person(0)];
            }
            self.places.push(Place { id, exists: false });
            self.wish(if direct { rival } else { FOUNDER }, id, Command::Create(create));
        }
    }

    fn wish(&mut self, client: usize, conversation: ConversationId, command: Command) -> usize {
        self.wishes.push(Wish {
            client,
            conversation,
            command,
            asked_at: None,
            answered: false,
        });
        self.wishes.len() - 1
    }

    /// What is asked next: something new, something again, or nothing.
    pub(crate) fn next(&mut self, dice: &Dice, step: u64) -> Option<(usize, Wish)> {
        let client = dice.below(self.clients);
        let open: Vec<usize> = (0..self.wishes.len())
            .filter(|wish| self.wishes[*wish].client == client && !self.wishes[*wish].answered)
            .collect();
        let is_due = |wish: &&usize| match self.wishes[**wish].asked_at {
            None => true,
            Some(asked_at) => step - asked_at > PATIENCE_STEPS,
        };
        let due = open.iter().find(is_due).copied();
        let hasty = || dice.per_mille(60).then(|| dice.pick(&open).copied()).flatten();
        let wish = match due.or_else(hasty) {
            Some(wish) => wish,
            None if open.len() < OPEN_MAX => self.invent(dice, client)?,
            None => return None,
        };
        self.wishes[wish].asked_at = Some(step);
        Some((wish, self.wishes[wish].clone()))
    }

    pub(crate) fn asked(&mut self, request: usize, wish: usize) {
        self.requests.insert(request, wish);
    }

    fn invent(&mut self, dice: &Dice, client: usize) -> Option<usize> {
        if self.sends_left == 0 {
            return None;
        }
        let existing: Vec<ConversationId> = self
            .places
            .iter()
            .filter(|place| place.exists)
            .map(|place| place.id)
            .collect();
        let place = if dice.per_mille(20) {
            ConversationId::new(999).unwrap() // there is none
        } else {
            *dice.pick(&existing)?
        };
        self.sends_left -= 1;
        match dice.below(100) {
            0..8 => self.repeat(dice, client, false),
            8..16 => self.repeat(dice, client, true),
            16..24 => {
                let members = (0..=dice.below(2))
                    .filter_map(|_| dice.pick(&self.people).copied())
                    .collect();
                Some(self.wish(
                    client,
                    place,
                    Command::AddMembers {
                        origin: origin(client),
                        members,
                    },
                ))
            }
            24..30 => {
                let target = *dice.pick(&self.people)?;
                Some(self.wish(
                    client,
                    place,
                    Command::RemoveMember {
                        origin: origin(client),
                        target,
                    },
                ))
            }
            30..32 => {
                let target = person(client);
                Some(self.wish(
                    client,
                    place,
                    Command::RemoveMember {
                        origin: origin(client),
                        target,
                    },
                ))
            }
            32..44 => self.manage(dice, client, place),
            44..60 => self.touch(dice, client),
            _ => {
                self.next_key += 1;
                let key = format!("key {}", self.next_key);
                let send = self.message(dice, client, &key);
                Some(self.wish(client, place, Command::Send(send)))
            }
        }
    }

    /// Settings, roles, and seldom the end.
    fn manage(&mut self, dice: &Dice, client: usize, place: ConversationId) -> Option<usize> {
        let origin = origin(client);
        let command = match dice.below(12) {
            0..6 => Command::Update {
                origin,
                patch: patch(dice),
            },
            6..11 => Command::SetRole {
                origin,
                target: *dice.pick(&self.people)?,
                role: *dice.pick(&[Role::Member, Role::Admin, Role::Admin, Role::Owner])?,
            },
            _ => Command::Dissolve { origin },
        };
        Some(self.wish(client, place, command))
    }

    /// Something is done to a message that somebody knows, often to one of the newest.
    fn touch(&mut self, dice: &Dice, client: usize) -> Option<usize> {
        let newest = self.known.len().saturating_sub(3);
        let (place, message_id) = if dice.below(2) == 0 {
            *dice.pick(&self.known[newest..])?
        } else {
            *dice.pick(&self.known)?
        };
        let touch = match dice.below(6) {
            0..3 => Touch::Edit(Content::trusted(&format!(
                "{{\"text\":\"edit {}\"{}}}",
                self.wishes.len(),
                attachment(dice)
            ))),
            3 | 4 => Touch::Recall {
                received_at: Timestamp::default(),
                // All are sent after that moment: within a window of none, and outside of one that ended long ago.
                window_ms: *dice.pick(&[0, 0, i64::MIN / 2])?,
            },
            _ => Touch::Delete,
        };
        let command = Command::Touch {
            origin: origin(client),
            message_id,
            touch,
        };
        Some(self.wish(client, place, command))
    }

    /// An earlier send of this client, answered or not: as it was, or with other words under the same key.
    fn repeat(&mut self, dice: &Dice, client: usize, other_words: bool) -> Option<usize> {
        let is_send = |wish: &&Wish| wish.client == client && matches!(wish.command, Command::Send(_));
        let earlier: Vec<Wish> = self.wishes.iter().filter(is_send).cloned().collect();
        let earlier = dice.pick(&earlier)?.clone();
        let Command::Send(send) = &earlier.command else {
            return None;
        };
        let command = if other_words {
            Command::Send(self.message(dice, client, send.client_message_id.as_str()))
        } else {
            earlier.command.clone()
        };
        Some(self.wish(client, earlier.conversation, command))
    }

    fn message(&self, dice: &Dice, client: usize, key: &str) -> Send {
        let content = format!(
            "{{\"text\":\"{key} {} {}\"{}}}",
            self.wishes.len(),
            "x".repeat(dice.below(20)),
            attachment(dice)
        );
        let quoted = dice.per_mille(150).then(|| dice.pick(&self.known)).flatten();
        Send {
            origin: origin(client),
            client_message_id: ClientMessageId::parse(key).unwrap(),
            message_type: MessageType::parse(dice.pick(&["TEXT", "TEXT", "OWN_TYPE"]).unwrap()).unwrap(),
            content_hash: chain::content_hash(&content),
            content: Content::trusted(&content),
            quoted_message_id: quoted.map(|(_, message)| *message),
            expected_last_seq: dice
                .per_mille(50)
                .then(|| Seq::new(i64::try_from(dice.below(20)).unwrap())),
        }
    }

    /// An answer arrived. Answers the conversation that is known to exist from now on, if one was made.
    pub(crate) fn heard(&mut self, request: usize, reply: &Reply) {
        let Some(wish) = self.requests.get(&request).and_then(|wish| self.wishes.get_mut(*wish)) else {
            return;
        };
        match reply {
            Reply::Retry(_) => {
                if !wish.answered {
                    wish.asked_at = None;
                }
                return;
            }
            Reply::Sent { message_id, .. } => {
                let known = (wish.conversation, MessageId::new(*message_id).unwrap());
                if !self.known.contains(&known) {
                    self.known.push(known);
                }
            }
            _ => {}
        }
        wish.answered = true;
    }

    /// The store has it.
    pub(crate) fn found_out(&mut self, id: ConversationId) {
        for place in self.places.iter_mut().filter(|place| place.id == id) {
            place.exists = true;
        }
    }

    /// Conversations that were asked for and may not exist yet.
    pub(crate) fn expected_places(&self) -> Vec<ConversationId> {
        self.places
            .iter()
            .filter(|place| !place.exists)
            .map(|place| place.id)
            .collect()
    }

    /// Everybody has said everything and has an answer.
    pub(crate) fn is_done(&self) -> bool {
        self.wishes.iter().all(|wish| wish.answered)
            && (self.sends_left == 0 || !self.places.iter().any(|place| place.exists))
    }

    /// Nothing new from here on; what is open goes on.
    pub(crate) fn stop_inventing(&mut self) {
        self.sends_left = 0;
    }
}

/// Other settings, or the same ones again.
fn patch(dice: &Dice) -> HeaderPatch {
    let mut patch = HeaderPatch::default();
    match dice.below(4) {
        0 => {
            let titles = [Some("one".to_owned()), Some("two".to_owned()), None];
            patch.title = dice.pick(&titles).cloned();
        }
        1 => patch.posting = dice.pick(&[Posting::All, Posting::All, Posting::Admins]).copied(),
        2 => patch.adding = dice.pick(&[Adding::All, Adding::Admins]).copied(),
        _ => {
            patch.history_visibility = dice
                .pick(&[HistoryVisibility::Shared, HistoryVisibility::Joined])
                .copied();
            patch.avatar_url = Some(None);
        }
    }
    patch
}

/// The principal of a client; the last kind of it is an agent.
fn person(client: usize) -> Principal {
    let id = i64::try_from(client + 1).unwrap();
    if client == 2 {
        Principal::agent(1)
    } else {
        Principal::user(id)
    }
}

fn origin(client: usize) -> Origin {
    Origin {
        principal: person(client),
        device: client.is_multiple_of(2).then(|| DeviceId::parse("phone").unwrap()),
    }
}
