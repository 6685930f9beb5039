//! What a user does for themselves. Their INBOX is the single writer, so the reports of all their devices meet in one
//! place: the highest position wins, whatever the order of arrival (INV-READ-1).

use std::collections::HashMap;
use std::sync::Arc;

use super::{Context, Draft, Fact, Outcome, Refusal};
use crate::domain::change::{Change, ChangeType};
use crate::domain::command::Origin;
use crate::domain::content::Content;
use crate::domain::conversation::Kind;
use crate::domain::error::DomainError;
use crate::domain::event::Event;
use crate::domain::ids::{ConversationId, MessageId, Seq, Timestamp};
use crate::domain::personal::{
    Action, ActionType, Actionable, Personal, Position, Settings, SettingsPatch, check_action,
};
use crate::domain::time::rfc3339;

/// What the acts of one draft have come to, on top of what the store says.
#[derive(Default)]
pub(super) struct Acts {
    places: HashMap<ConversationId, Place>,
    actions: HashMap<(MessageId, ActionType), Action>,
    /// Messages that left (−1) or came back to (+1) the unread ones.
    shifts: Vec<(ConversationId, Seq, i64)>,
}

/// A user's place in one conversation.
#[derive(Clone, Copy)]
struct Place {
    last_read_seq: Seq,
    settings: Settings,
    /// Up to here nothing is unread, and what is above it.
    floor: Seq,
    unread_above: u64,
}

/// Who acts, and when.
pub(super) struct Actor<'a> {
    pub(super) origin: &'a Origin,
    pub(super) now: Timestamp,
}

impl Actor<'_> {
    /// What the acting device is not told by its reply, it is told like every other.
    pub(super) fn untold(&self) -> Origin {
        Origin {
            device: None,
            ..self.origin.clone()
        }
    }
}

/// What an action is to become.
struct Wanted {
    active: bool,
    remind_at: Option<Timestamp>,
    payload: Option<Content>,
}

impl Acts {
    fn place(&self, id: ConversationId, position: &Position) -> Place {
        let fresh = || {
            let own = &position.membership;
            Place {
                last_read_seq: own.last_read_seq,
                settings: own.into(),
                floor: position.at.max(own.last_read_seq).max(own.cleared_seq),
                unread_above: position.unread_count,
            }
        };
        let mut place = self.places.get(&id).copied().unwrap_or_else(fresh);
        // The store knows nothing of this draft: the higher floor is the later word.
        let stored = fresh();
        if stored.floor > place.floor {
            (place.floor, place.unread_above) = (stored.floor, stored.unread_above);
        }
        place
    }

    fn unread(&self, id: ConversationId, place: &Place) -> u64 {
        let shifts = self.shifts.iter();
        let above = shifts.filter(|(conversation, seq, _)| *conversation == id && *seq > place.floor);
        place
            .unread_above
            .saturating_add_signed(above.map(|(_, _, shift)| *shift).sum())
    }
}

impl Draft<'_> {
    pub(super) fn personal(
        &mut self,
        origin: &Origin,
        act: &Personal,
        context: &mut Context<'_>,
    ) -> Result<Outcome, Refusal> {
        let (header, _) = self.existing()?;
        if header.kind != Kind::Inbox || self.member(origin.principal).is_none() {
            return Err(DomainError::Forbidden("only its user writes to an inbox").into());
        }
        let actor = Actor {
            origin,
            now: context.now,
        };
        match act {
            Personal::Read { conversation_id, seq } => self.read(&actor, *conversation_id, *seq, context),
            Personal::Settings {
                conversation_id,
                muted,
                pinned,
                marked_unread,
            } => {
                let patch = SettingsPatch {
                    muted: *muted,
                    pinned: *pinned,
                    marked_unread: *marked_unread,
                    cleared: None,
                };
                self.settings(&actor, *conversation_id, patch, context)
            }
            Personal::Clear {
                conversation_id,
                up_to_seq,
            } => {
                let position = position(&actor, *conversation_id, *up_to_seq, context)?;
                let place = self.acts.place(*conversation_id, &position);
                let patch = SettingsPatch {
                    cleared: Some((position.at, position.at_count_no))
                        .filter(|_| position.at > place.settings.cleared_seq),
                    ..SettingsPatch::default()
                };
                let changed = self.set(&actor.untold(), &actor, *conversation_id, place, patch)?;
                Ok(Outcome::Changed(changed))
            }
            Personal::Set {
                message_id,
                action_type,
                remind_at,
                payload,
            } => {
                check_action(*action_type, *remind_at).map_err(DomainError::from)?;
                let wanted = Wanted {
                    active: true,
                    remind_at: remind_at.filter(|_| *action_type == ActionType::Reminder),
                    payload: payload.clone(),
                };
                self.act(&actor, *message_id, *action_type, wanted, context)
            }
            Personal::Unset {
                message_id,
                action_type,
            } => {
                let wanted = Wanted {
                    active: false,
                    remind_at: None,
                    payload: None,
                };
                self.act(&actor, *message_id, *action_type, wanted, context)
            }
            Personal::Answer {
                notification_id,
                answer,
            } => self.answer(&actor, *notification_id, *answer, context),
            Personal::Block { principal, blocked } => self.block(&actor, *principal, *blocked, context),
            Personal::EndContact { principal } => self.end_contact(&actor, *principal, context),
        }
    }

    fn settings(
        &mut self,
        actor: &Actor<'_>,
        id: ConversationId,
        patch: SettingsPatch,
        context: &Context<'_>,
    ) -> Result<Outcome, Refusal> {
        let position = position(actor, id, Seq::ZERO, context)?;
        let place = self.acts.place(id, &position);
        let changed = self.set(&actor.untold(), actor, id, place, patch)?;
        Ok(Outcome::Changed(changed))
    }

    fn read(
        &mut self,
        actor: &Actor<'_>,
        id: ConversationId,
        seq: Seq,
        context: &Context<'_>,
    ) -> Result<Outcome, Refusal> {
        let position = position(actor, id, seq, context)?;
        let mut place = self.acts.place(id, &position);
        let unread_count = self.acts.unread(id, &place);
        let mut change = None;
        if position.at > place.last_read_seq {
            place.last_read_seq = position.at;
            place.settings.marked_unread = false;
            self.acts.places.insert(id, place);
            self.events.push(Event::ReadMoved {
                conversation_id: id,
                principal: actor.origin.principal,
                seq: position.at,
                count_no: position.at_count_no,
                peer: position.peer,
            });
            let payload = format!(
                "{{\"conversation_id\":\"{id}\",\"last_read_seq\":{},\"unread_count\":{unread_count}}}",
                position.at
            );
            let payload = Some(Content::trusted(&payload));
            change = Some(self.change(ChangeType::Read, payload, actor.origin, actor.now, None)?);
        } else if position.at == place.last_read_seq {
            // Reading at the present position takes the mark away. The reply tells the number of the change.
            let patch = SettingsPatch {
                marked_unread: Some(false),
                ..SettingsPatch::default()
            };
            change = self.set(actor.origin, actor, id, place, patch)?;
        }
        Ok(Outcome::Read {
            last_read_seq: place.last_read_seq,
            unread_count,
            change,
        })
    }

    /// Changes what differs; `origin` names the device that is spared the push.
    fn set(
        &mut self,
        origin: &Origin,
        actor: &Actor<'_>,
        id: ConversationId,
        mut place: Place,
        patch: SettingsPatch,
    ) -> Result<Option<Arc<Change>>, DomainError> {
        let before = place.settings;
        let differs = |new: Option<bool>, old: bool| new.filter(|new| *new != old);
        let patch = SettingsPatch {
            muted: differs(patch.muted, before.muted),
            pinned: differs(patch.pinned, before.pinned),
            marked_unread: differs(patch.marked_unread, before.marked_unread),
            cleared: patch.cleared,
        };
        if patch.is_empty() {
            return Ok(None);
        }
        place.settings = patch.on(before);
        self.acts.places.insert(id, place);
        self.events.push(Event::SettingsChanged {
            conversation_id: id,
            principal: actor.origin.principal,
            patch,
        });
        let payload = Content::trusted(&settings_json(id, &place.settings));
        let change = self.change(ChangeType::SettingsUpdated, Some(payload), origin, actor.now, None)?;
        Ok(Some(change))
    }

    fn act(
        &mut self,
        actor: &Actor<'_>,
        id: MessageId,
        action_type: ActionType,
        wanted: Wanted,
        context: &Context<'_>,
    ) -> Result<Outcome, Refusal> {
        let principal = actor.origin.principal;
        let fact = context.facts.actionables.get(&(id, principal));
        let fact = fact.ok_or(Refusal::Needs(Fact::Actionable(id, principal)))?;
        let found = fact.as_ref().ok_or(NO_SUCH_MESSAGE)?;
        let before = self.action(id, action_type, found).cloned();
        let deleted = self
            .action(id, ActionType::Delete, found)
            .is_some_and(|delete| delete.active);
        // What I set before I can always take back; a deletion can also be repeated.
        let hidden = !found.visible || (deleted && action_type != ActionType::Delete);
        if hidden && (wanted.active || before.is_none()) {
            return Err(NO_SUCH_MESSAGE.into());
        }
        let mut action = Action {
            action_type,
            message_id: id,
            conversation_id: found.conversation_id,
            seq: found.seq,
            active: wanted.active,
            remind_at: wanted.remind_at,
            payload: wanted.payload,
            updated_at: actor.now,
        };
        let same = |before: &Action| (before.remind_at, &before.payload) == (action.remind_at, &action.payload);
        match before {
            // Nothing was ever there to be taken back: nothing is kept.
            None if !wanted.active => return Ok(Outcome::Acted(action, None)),
            Some(before) if !wanted.active && !before.active => return Ok(Outcome::Acted(before, None)),
            Some(before) if wanted.active && before.active && same(&before) => return Ok(Outcome::Acted(before, None)),
            // Kept as it was, for the audit.
            Some(before) if !wanted.active => (action.remind_at, action.payload) = (before.remind_at, before.payload),
            _ => {}
        }
        let change = self.put(actor, found, action.clone(), deleted)?;
        Ok(Outcome::Acted(action, Some(change)))
    }

    fn action<'a>(&'a self, id: MessageId, action_type: ActionType, found: &'a Actionable) -> Option<&'a Action> {
        let drafted = self.acts.actions.get(&(id, action_type));
        drafted.or_else(|| found.action(action_type))
    }

    fn put(
        &mut self,
        actor: &Actor<'_>,
        found: &Actionable,
        action: Action,
        was_deleted: bool,
    ) -> Result<Arc<Change>, DomainError> {
        if action.action_type == ActionType::Delete && found.counts && action.active != was_deleted {
            let shift = if action.active { -1 } else { 1 };
            self.acts.shifts.push((found.conversation_id, found.seq, shift));
        }
        let kind = if action.active {
            ChangeType::ActionSet
        } else {
            ChangeType::ActionCleared
        };
        let payload = Content::trusted(&action_json(&action));
        self.acts
            .actions
            .insert((action.message_id, action.action_type), action.clone());
        self.events.push(Event::ActionChanged {
            principal: actor.origin.principal,
            action,
        });
        self.change(kind, Some(payload), &actor.untold(), actor.now, None)
    }
}

const NO_SUCH_MESSAGE: DomainError = DomainError::NotFound("no such message");

fn position(actor: &Actor<'_>, id: ConversationId, seq: Seq, context: &Context<'_>) -> Result<Position, Refusal> {
    let key = (id, actor.origin.principal, seq);
    let fact = context.facts.positions.get(&key);
    let fact = fact.ok_or(Refusal::Needs(Fact::Position(id, actor.origin.principal, seq)))?;
    fact.ok_or(DomainError::NotAMember.into())
}

fn settings_json(id: ConversationId, settings: &Settings) -> String {
    let Settings {
        muted,
        pinned,
        marked_unread,
        cleared_seq,
    } = settings;
    format!(
        "{{\"conversation_id\":\"{id}\",\"muted\":{muted},\"pinned\":{pinned},\"marked_unread\":{marked_unread},\
         \"cleared_seq\":{cleared_seq}}}"
    )
}

/// The action as the wire has it. A payload is JSON that was checked when it came.
fn action_json(action: &Action) -> String {
    let remind_at = action.remind_at.map(|at| format!("\"{}\"", rfc3339(at)));
    format!(
        "{{\"action_type\":\"{}\",\"message_id\":\"{}\",\"conversation_id\":\"{}\",\"status\":\"{}\",\"remind_at\":{},\
         \"payload\":{},\"updated_at\":\"{}\"}}",
        action.action_type.as_str(),
        action.message_id,
        action.conversation_id,
        action.status(),
        remind_at.as_deref().unwrap_or("null"),
        action.payload.as_ref().map_or("null", Content::as_str),
        rfc3339(action.updated_at),
    )
}
