//! The judges of the change log: messages, roles and headers are what it says, and whoever changed something was
//! allowed to. Rights are worked out anew from the log itself.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::checks::Findings;
use crate::history::{StoredChange, StoredMessage, Who};
use crate::membership::{json, principals};
use crate::snapshot::Stored;
use crate::world::Run;

/// The status of a message after a change of this type; `None` = it is about no message.
fn status_after(change_type: &str) -> Option<&'static str> {
    ["EDITED", "RECALLED", "DELETED"]
        .into_iter()
        .find(|status| *status == change_type)
}

/// INV-CHG-1: whatever became of a message is in the log, RECALLED and DELETED are final (B60, B62), the words are gone
/// (B58), and the newest that stands is the last message (B59).
pub(crate) fn messages_are_what_the_log_says(run: &Run) -> Findings {
    let mut found = Findings::of("INV-CHG-1");
    for place in &run.stored {
        let mut by_message: BTreeMap<i64, Vec<&StoredChange>> = BTreeMap::new();
        for change in place
            .changes
            .iter()
            .filter(|change| status_after(&change.change_type).is_some())
        {
            by_message
                .entry(change.message_id.unwrap_or_default())
                .or_default()
                .push(change);
        }
        for message in &place.messages {
            let changes = by_message.remove(&message.message_id).unwrap_or_default();
            became(place, message, &changes, &mut found);
        }
        found.unless(by_message.is_empty(), || {
            format!(
                "{}: changes of messages that are not there: {by_message:?}",
                place.conversation
            )
        });
        let stands = |message: &&StoredMessage| !matches!(message.status, "RECALLED" | "DELETED");
        let newest = place
            .messages
            .iter()
            .rev()
            .find(stands)
            .map_or(0, |message| message.seq);
        found.unless(place.last_message_seq == newest, || {
            format!(
                "{}: the newest that stands is {newest}, the head says {}",
                place.conversation, place.last_message_seq
            )
        });
    }
    found
}

fn became(place: &Stored, message: &StoredMessage, changes: &[&StoredChange], found: &mut Findings) {
    let last = changes.last();
    let status = last
        .and_then(|last| status_after(&last.change_type))
        .unwrap_or("NORMAL");
    let number = last.map_or(0, |last| last.change_seq);
    found.unless((message.status, message.change_seq) == (status, number), || {
        format!("{}: {message:?} is not what {changes:?} made of it", place.conversation)
    });
    let rank = |change: &StoredChange| match change.change_type.as_str() {
        "EDITED" => 0,
        "RECALLED" => 1,
        _ => 2,
    };
    let final_ones_last = changes.windows(2).all(|pair| {
        let (earlier, later) = (rank(pair[0]), rank(pair[1]));
        earlier < later || (earlier, later) == (0, 0)
    });
    found.unless(final_ones_last, || {
        format!("{}: something followed what is final: {changes:?}", place.conversation)
    });
    let words = json(&message.content);
    let gone = match status {
        "RECALLED" => words["recalled"] == true && words["text"].is_null(),
        "DELETED" => words["deleted"] == true && words["text"].is_null(),
        _ => true,
    };
    found.unless(gone, || format!("{}: words are left: {message:?}", place.conversation));
}

/// The header is what the changes of it left, and nothing follows the end.
pub(crate) fn headers_are_what_the_log_says(run: &Run) -> Findings {
    let mut found = Findings::of("HEADER");
    for place in &run.stored {
        let mut said: BTreeMap<String, Value> = BTreeMap::new();
        for change in &place.changes {
            let over = said.get("status").is_some_and(|status| status == "DISSOLVED");
            found.unless(!over, || format!("{}: {change:?} after the end", place.conversation));
            if change.change_type == "CONVERSATION_UPDATED" {
                let fields = json(&change.payload);
                let fields = fields.as_object().into_iter().flatten();
                said.extend(fields.map(|(name, value)| (name.clone(), value.clone())));
            }
        }
        for (name, value) in &said {
            found.unless(place.header.get(name.as_str()) == Some(value), || {
                format!(
                    "{}: {name} was said to be {value}, stored is {:?}",
                    place.conversation, place.header
                )
            });
        }
        let ended = said.contains_key("status");
        let last = place
            .messages
            .last()
            .map(|message| json(&message.content)["event"].clone());
        found.unless(
            ended == place.is_dissolved && (!ended || last == Some("dissolved".into())),
            || {
                format!(
                    "{}: ended is {ended}, the last message says {last:?}",
                    place.conversation
                )
            },
        );
    }
    found
}

/// Roles as the log has them, from the creation on.
struct Roles {
    roles: BTreeMap<Who, String>,
    /// Who left as the owner with the change before, or handed the group over with it.
    handing_over: Option<Who>,
}

impl Roles {
    fn of(place: &Stored) -> Self {
        let mut roles = BTreeMap::new();
        if !place.is_group {
            let members = place.members.keys();
            roles = members.map(|member| (*member, "MEMBER".to_owned())).collect();
        } else if let Some(first) = place.messages.first() {
            let created = json(&first.content);
            for member in principals(&created["members"]) {
                roles.insert(member, "MEMBER".to_owned());
            }
            for owner in principals(&Value::from(vec![created["actor"].clone()])) {
                roles.insert(owner, "OWNER".to_owned());
            }
        }
        let handing_over = None;
        Self { roles, handing_over }
    }

    fn is(&self, who: Who, roles: &[&str]) -> bool {
        self.roles.get(&who).is_some_and(|role| roles.contains(&role.as_str()))
    }

    fn manages(&self, who: Who) -> bool {
        self.is(who, &["OWNER", "ADMIN"])
    }

    fn allows(&self, place: &Stored, change: &StoredChange) -> bool {
        let (actor, payload) = (change.actor, json(&change.payload));
        let sender = || {
            let message = place
                .messages
                .iter()
                .find(|message| Some(message.message_id) == change.message_id);
            message.map(|message| message.sender)
        };
        match change.change_type.as_str() {
            "EDITED" => sender() == Some(actor) && self.roles.contains_key(&actor),
            "RECALLED" => self.roles.contains_key(&actor) && (sender() == Some(actor) || self.manages(actor)),
            "CONVERSATION_UPDATED" if payload["status"] == "DISSOLVED" => {
                self.is(actor, &["OWNER"]) || (self.roles.is_empty() && self.handing_over == Some(actor))
            }
            "CONVERSATION_UPDATED" | "DELETED" => self.manages(actor),
            "MEMBER_UPDATED" => self.is(actor, &["OWNER"]) || self.handing_over == Some(actor),
            "MEMBER_REMOVED" => principals(&payload["members"]).iter().all(|gone| {
                let leaves = *gone == actor && payload["reason"] == "LEFT";
                leaves || self.is(actor, &["OWNER"]) || (self.is(actor, &["ADMIN"]) && self.is(*gone, &["MEMBER"]))
            }),
            _ => self.roles.contains_key(&actor),
        }
    }

    fn take(&mut self, change: &StoredChange) {
        let payload = json(&change.payload);
        let owned = self.is(change.actor, &["OWNER"]);
        let mut hands_over = false;
        match change.change_type.as_str() {
            "MEMBER_ADDED" => {
                let new = principals(&payload["members"]).into_iter();
                self.roles.extend(new.map(|member| (member, "MEMBER".to_owned())));
            }
            "MEMBER_REMOVED" => {
                for gone in principals(&payload["members"]) {
                    hands_over = gone == change.actor && owned;
                    self.roles.remove(&gone);
                }
            }
            "MEMBER_UPDATED" => {
                let role = payload["role"].as_str().unwrap_or_default();
                for member in principals(&Value::from(vec![payload["principal"].clone()])) {
                    hands_over = role == "OWNER" && owned;
                    self.roles.insert(member, role.to_owned());
                }
            }
            _ => {}
        }
        self.handing_over = hands_over.then_some(change.actor);
    }
}

/// Each change was made by somebody who was allowed to at that number, and the roles that are left are the stored ones.
pub(crate) fn who_changed_it_was_allowed_to(run: &Run) -> Findings {
    let mut found = Findings::of("RIGHTS");
    for place in &run.stored {
        let mut roles = Roles::of(place);
        for change in &place.changes {
            found.unless(roles.allows(place, change), || {
                format!(
                    "{}: {change:?} by somebody who is {:?}",
                    place.conversation,
                    roles.roles.get(&change.actor)
                )
            });
            roles.take(change);
        }
        let stored = place.members.iter().map(|(who, member)| (*who, member.role.to_owned()));
        let stored: BTreeMap<Who, String> = stored.collect();
        found.unless(stored == roles.roles, || {
            format!(
                "{}: roles are {stored:?}, the log says {:?}",
                place.conversation, roles.roles
            )
        });
    }
    found
}
