//! A room as a conversation: found or made, filled, and at last handed over to those who run it.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::line::{About, Who};
use super::sending::Sending;
use super::survey::{Again, Room};
use super::{Importer, Tally};
use crate::app::{NewConversation, ServiceError};
use crate::domain::{
    Adding, ClientMessageId, Code, ConversationId, HeaderPatch, HistoryVisibility, Kind, Origin, Posting, Principal,
    Role, Seq, Status, Subject,
};

/// Members of one creation or addition: each is listed in one SYSTEM message.
pub(in crate::cli) const MEMBERS_AT_ONCE: usize = 500;
/// Keys that are looked up at once.
const KEYS_AT_ONCE: usize = 256;

/// Who is who in a room.
type Principals = HashMap<Who, Principal>;

impl Importer<'_> {
    /// Brings a room in. What cannot be made of it costs its own lines and no others.
    pub(super) async fn room(&self, room: &Room) -> anyhow::Result<Tally> {
        let principals = self.principals(room).await?;
        let make = async || match room.kind() {
            Kind::Direct => self.direct(room, &principals).await,
            Kind::Group | Kind::Inbox => self.group(room, &principals).await,
        };
        let what = format!("the conversation of room {}", room.name);
        let id = match self.attempt(&what, make).await? {
            Ok(id) => id,
            Err(error) => return self.without(room, &format!("{what} cannot be made: {error}")),
        };
        let mut sending = Sending::new(self, room, id, &principals);
        for place in &room.lines {
            if self.stopped() {
                break;
            }
            match self.survey.read(*place)? {
                Again::Said(said, key) => sending.say(*place, *said, key).await?,
                Again::Joined(members) => {
                    let head = sending.head().await?;
                    let members = members.iter().filter_map(|who| principals.get(who).copied());
                    self.join(room, id, &members.collect::<Vec<_>>(), head).await?;
                }
            }
        }
        sending.head().await?;
        if let (Some(about), Kind::Group, false) = (&room.about, room.kind(), self.stopped()) {
            let hand_over = async || self.hand_over(room, about, id, &principals).await;
            self.tried(&format!("{what} cannot be handed over"), hand_over).await?;
        }
        Ok(sending.tally)
    }

    /// Skips all lines of a room.
    fn without(&self, room: &Room, why: &str) -> anyhow::Result<Tally> {
        let mut tally = Tally::default();
        if room.said == 0 {
            tally.skipped.add(room.number, why);
        }
        for place in &room.lines {
            if let Again::Said(..) = self.survey.read(*place)? {
                tally.skipped.add(place.number, why);
            }
        }
        self.bar.inc(room.said);
        Ok(tally)
    }

    /// Everybody who is named in a room.
    async fn principals(&self, room: &Room) -> anyhow::Result<Principals> {
        let mut principals = HashMap::new();
        for who in room.authors.iter().chain(room.members.iter().flatten()) {
            if !principals.contains_key(who) {
                let found = self.tried("an author cannot be found", async || self.principal(who).await);
                principals.insert(who.clone(), found.await?);
            }
        }
        Ok(principals)
    }

    /// Who somebody is. Whoever is new here and has an id of ours in the file keeps it: mentions name people by it.
    async fn principal(&self, who: &Who) -> Result<Principal, ServiceError> {
        let Some(subject) = who.subject() else {
            return Ok(Principal::SYSTEM);
        };
        let store = &self.core.store;
        if let (Some(external_id), Some(id)) = (&who.external_id, who.id)
            && store.by_external_id(who.kind, external_id).await?.is_none()
        {
            let wanted = Principal { kind: who.kind, id };
            if store.known(&[wanted]).await?.is_empty() {
                let now = self.core.clock.now();
                return Ok(store.adopt_external_id(wanted, external_id, now).await?);
            }
        }
        self.core.principals.resolve_one(&subject).await
    }

    /// The DIRECT of those who are listed; it may have been there for long.
    async fn direct(&self, room: &Room, principals: &Principals) -> Result<ConversationId, ServiceError> {
        let mut pair = listed(room, principals).into_iter();
        let (Some(one), other, None) = (pair.next(), pair.next(), pair.next()) else {
            let detail = "a DIRECT has two members, or one who talks to themselves: list them in its first line";
            return Err(ServiceError::new(Code::InvalidRequest, detail));
        };
        let new = NewConversation::Direct {
            member: other.unwrap_or(one).into(),
        };
        let made = self.core.conversations.create(origin(one), new).await?;
        Ok(made.seen.header.conversation_id)
    }

    /// The group of a room, with all who are in it from the start. A second run finds the group of the first.
    async fn group(&self, room: &Room, principals: &Principals) -> Result<ConversationId, ServiceError> {
        let founders: BTreeSet<Principal> = room
            .founders
            .iter()
            .filter_map(|who| principals.get(who).copied())
            .collect();
        let people = founders.into_iter().filter(|founder| *founder != Principal::SYSTEM);
        let people: Vec<Principal> = people.collect();
        let subjects: Vec<Subject> = people.iter().copied().map(Subject::from).collect();
        let (first, rest) = subjects.split_at(subjects.len().min(MEMBERS_AT_ONCE));
        let about = room.about.as_ref();
        let title = about.and_then(|about| about.title.as_deref());
        let new = NewConversation::Group {
            title: title.unwrap_or(room.name.as_str()).to_owned(),
            members: first.to_vec(),
            client_request_id: Some(room.name.clone()),
            history_visibility: about.map_or(HistoryVisibility::Shared, |about| about.history_visibility),
            posting: Posting::All,
            adding: Adding::Admins,
        };
        let made = self.core.conversations.create(origin(self.owner), new).await?;
        let header = &made.seen.header;
        let id = header.conversation_id;
        if made.created {
            self.add(id, rest).await?;
        } else if header.status == Status::Active {
            // What was there before may lack authors who came later; those who are members already change nothing.
            let done = self.done(room, id, principals).await?;
            let people = people.into_iter().filter(|one| !done.contains(one));
            self.add(id, &people.map(Subject::from).collect::<Vec<_>>()).await?;
        }
        Ok(id)
    }

    async fn add(&self, id: ConversationId, members: &[Subject]) -> Result<(), ServiceError> {
        for part in members.chunks(MEMBERS_AT_ONCE) {
            let origin = origin(self.owner);
            self.core.conversations.add_members(origin, id, part).await?;
        }
        Ok(())
    }

    /// Those who have left and have nothing more to say: every line of theirs is there.
    async fn done(
        &self,
        room: &Room,
        id: ConversationId,
        principals: &Principals,
    ) -> Result<HashSet<Principal>, ServiceError> {
        let mut done = departed(room, principals);
        let mut keys = Vec::new();
        let lines = if done.is_empty() { &[] } else { room.lines.as_slice() };
        for place in lines {
            let line = self
                .survey
                .read(*place)
                .map_err(|error| ServiceError::internal(&error))?;
            if let Again::Said(said, key) = line
                && let Some(author) = principals.get(&said.author).filter(|author| done.contains(author))
            {
                keys.push((*author, key));
            }
            if keys.len() == KEYS_AT_ONCE {
                self.keep_silent(id, &mut keys, &mut done).await?;
            }
        }
        self.keep_silent(id, &mut keys, &mut done).await?;
        Ok(done)
    }

    /// Takes those out of `done` of whom one of these lines is not there.
    async fn keep_silent(
        &self,
        id: ConversationId,
        keys: &mut Vec<(Principal, ClientMessageId)>,
        done: &mut HashSet<Principal>,
    ) -> Result<(), ServiceError> {
        let found = self.core.store.keys(id, keys).await?;
        let found: HashSet<_> = found.into_iter().map(|(key, _)| key).collect();
        for key in keys.drain(..).filter(|key| !found.contains(key)) {
            done.remove(&key.0);
        }
        Ok(())
    }

    /// Makes members of those who are listed after the message `head`.
    async fn join(&self, room: &Room, id: ConversationId, members: &[Principal], head: Seq) -> anyhow::Result<()> {
        if room.kind() != Kind::Group {
            return Ok(());
        }
        let hidden = room.about.as_ref().map(|about| about.history_visibility) == Some(HistoryVisibility::Joined);
        let join = async || {
            if self.is_closed(id).await? {
                return Ok(());
            }
            // Where members see what was said since they joined, those who spoke before have to join anew.
            for member in members.iter().filter(|_| hidden) {
                let access = self.core.store.access(id, *member).await?;
                let joined = access.and_then(|(_, own)| own).map(|own| own.member.joined_seq);
                if joined.is_some_and(|joined| joined <= head) {
                    self.core
                        .conversations
                        .remove_member(origin(self.owner), id, *member)
                        .await?;
                }
            }
            let members: Vec<Subject> = members.iter().copied().map(Subject::from).collect();
            self.add(id, &members).await
        };
        self.tried(&format!("members cannot join room {}", room.name), join)
            .await
    }

    async fn is_closed(&self, id: ConversationId) -> Result<bool, ServiceError> {
        let access = self.core.store.access(id, self.owner).await?;
        Ok(access.is_none_or(|(header, _)| header.status == Status::Dissolved))
    }

    /// When all is said: those who are not listed leave, and who runs the group does so. Each step can be done again.
    async fn hand_over(
        &self,
        room: &Room,
        about: &About,
        id: ConversationId,
        principals: &Principals,
    ) -> Result<(), ServiceError> {
        let (store, conversations) = (&self.core.store, &self.core.conversations);
        if self.is_closed(id).await? {
            return Ok(());
        }
        for gone in departed(room, principals) {
            let own = store.access(id, gone).await?.and_then(|(_, own)| own);
            // Whoever made them more than that since then had a reason.
            if own.is_some_and(|own| own.member.role == Role::Member) {
                conversations.remove_member(origin(self.owner), id, gone).await?;
            }
        }
        // In other hands it is where an earlier run has done this, and its owner may have changed everything since.
        if self.owner_of(id).await? == Some(self.owner) {
            self.set_up(room, about, id, principals).await?;
        }
        if let (Status::Dissolved, Some(owner)) = (about.status, self.owner_of(id).await?) {
            conversations.dissolve(origin(owner), id).await?;
        }
        Ok(())
    }

    async fn owner_of(&self, id: ConversationId) -> Result<Option<Principal>, ServiceError> {
        let access = self.core.store.access(id, self.owner).await?;
        Ok(access.and_then(|(header, _)| header.owner))
    }

    /// Roles and settings, the owner last: nobody else may do this.
    async fn set_up(
        &self,
        room: &Room,
        about: &About,
        id: ConversationId,
        principals: &Principals,
    ) -> Result<(), ServiceError> {
        let conversations = &self.core.conversations;
        let of_role = |wanted: Role| {
            let of_role = room.roles.iter().filter(move |(_, role)| *role == wanted);
            of_role.filter_map(|(who, _)| principals.get(who).copied())
        };
        for admin in of_role(Role::Admin) {
            conversations
                .set_role(origin(self.owner), id, admin, Role::Admin)
                .await?;
        }
        let untitled = about.title.as_deref() == Some("");
        let patch = HeaderPatch {
            title: untitled.then_some(None),
            avatar_url: Some(about.avatar_url.clone()),
            history_visibility: None,
            posting: Some(about.posting),
            adding: Some(about.adding),
        };
        conversations.update(origin(self.owner), id, patch).await?;
        if let Some(owner) = of_role(Role::Owner).next() {
            conversations
                .set_role(origin(self.owner), id, owner, Role::Owner)
                .await?;
        }
        Ok(())
    }
}

fn origin(principal: Principal) -> Origin {
    Origin {
        principal,
        device: None,
    }
}

fn listed(room: &Room, principals: &Principals) -> BTreeSet<Principal> {
    let members = room.members.iter().flatten();
    members.filter_map(|who| principals.get(who).copied()).collect()
}

/// Authors who are not listed, where somebody is or could be: they have left.
fn departed(room: &Room, principals: &Principals) -> HashSet<Principal> {
    if room.members.is_none() {
        return HashSet::new();
    }
    let members = listed(room, principals);
    let authors = room.authors.iter().filter_map(|who| principals.get(who).copied());
    authors
        .filter(|author| *author != Principal::SYSTEM && !members.contains(author))
        .collect()
}
