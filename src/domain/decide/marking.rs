//! What members put on a message: reactions and the pin. A repeat changes nothing.

use super::append::principal_json;
use super::touch::{Toucher, unchanged};
use super::{Draft, Outcome, Refusal, Touchable};
use crate::domain::annotated::{Annotated, EMOJIS_MAX, PINS_MAX, REACTIONS_MAX, Reactor};
use crate::domain::change::ChangeType;
use crate::domain::content::Content;
use crate::domain::error::DomainError;
use crate::domain::event::Event;
use crate::domain::ids::Emoji;
use crate::domain::message::MessageStatus;
use crate::domain::{json, policy};

const ONLY_MEMBERS: DomainError = DomainError::Forbidden("only members put something on a message");

impl Draft<'_> {
    pub(super) fn react(
        &mut self,
        by: &Toucher<'_>,
        mut touchable: Touchable,
        emoji: &Emoji,
        added: bool,
    ) -> Result<Outcome, Refusal> {
        by.member.ok_or(ONLY_MEMBERS)?;
        policy::may_react(by.header)?;
        standing(&touchable.annotated)?;
        let (principal, at) = (by.origin.principal, by.now);
        let annotated = &mut touchable.annotated;
        if annotated.has_reacted(emoji, principal) == added {
            return Ok(unchanged(touchable));
        }
        if added {
            room_for(annotated, emoji)?;
            annotated.react(emoji, Reactor { at, principal });
        } else {
            annotated.unreact(emoji, principal);
        }
        let word = json::text(emoji.as_str());
        let who = principal_json(principal);
        let payload = format!("{{\"emoji\":{word},\"principal\":{who},\"added\":{added}}}");
        let payload = Content::trusted(&payload);
        let emoji = emoji.clone();
        self.settle(by, touchable, ChangeType::Reaction, Some(payload), |message| {
            Event::Reacted {
                message,
                emoji,
                principal,
                at,
                added,
            }
        })
    }

    pub(super) fn pin(&mut self, by: &Toucher<'_>, mut touchable: Touchable, pinned: bool) -> Result<Outcome, Refusal> {
        policy::may_pin(by.header, &by.member.ok_or(ONLY_MEMBERS)?)?;
        standing(&touchable.annotated)?;
        if touchable.annotated.pinned == pinned {
            return Ok(unchanged(touchable));
        }
        let (added, removed) = self.pins;
        if pinned && touchable.pins + added >= PINS_MAX + removed {
            let full = "a conversation has at most 100 pinned messages: unpin one first";
            return Err(DomainError::Forbidden(full).into());
        }
        self.pins = (added + usize::from(pinned), removed + usize::from(!pinned));
        touchable.annotated.pinned = pinned;
        let payload = Content::trusted(&format!("{{\"pinned\":{pinned}}}"));
        let (principal, at) = (by.origin.principal, by.now);
        self.settle(by, touchable, ChangeType::Pinned, Some(payload), |message| {
            Event::Pinned {
                message,
                principal,
                at,
                pinned,
            }
        })
    }
}

/// Nothing is put on what was recalled.
fn standing(annotated: &Annotated) -> Result<(), DomainError> {
    match annotated.message.status {
        MessageStatus::Recalled => Err(DomainError::Recalled),
        _ => Ok(()),
    }
}

fn room_for(annotated: &Annotated, emoji: &Emoji) -> Result<(), DomainError> {
    let known = annotated.reactions.iter().any(|reaction| reaction.emoji == *emoji);
    if !known && annotated.reactions.len() >= EMOJIS_MAX {
        return Err(DomainError::Forbidden("a message has at most 50 different reactions"));
    }
    if annotated.reactions_len() >= REACTIONS_MAX {
        return Err(DomainError::Forbidden("a message has at most 2,000 reactions"));
    }
    Ok(())
}
