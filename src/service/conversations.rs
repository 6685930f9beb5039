//! Making conversations, finding them, and who is in them.

use std::sync::Arc;

use super::ask::{Reply, ask, ask_keyed};
use super::error::ServiceError;
use super::messages::member_access;
use super::principals::Principals;
use crate::conversation::CommandError;
use crate::domain::{
    Adding, Change, Code, Command, ConversationId, Create, CreationKey, DomainError, HeaderPatch, HistoryVisibility,
    Kind, Member, NewConversation, Origin, Outcome, Posting, Principal, Role, Subject, policy, visibility,
};
use crate::ids::Ids;
use crate::routing::Bus;
use crate::storage::{ListPosition, MemberPosition, Seen, Store};

/// A conversation that was made, or was there.
#[derive(Clone, Debug)]
pub struct Made {
    /// As its creator sees it.
    pub seen: Seen,
    /// It is new.
    pub created: bool,
}

/// What became of a change of members.
#[derive(Clone, Debug)]
pub struct MembersChanged {
    /// The change; `None` where nothing had to change.
    pub change: Option<Arc<Change>>,
    /// The principals that were named, each once.
    pub members: Vec<Principal>,
}

/// What became of a change of a conversation itself.
#[derive(Clone, Debug)]
pub struct ConversationChanged {
    /// As the caller sees it now.
    pub seen: Seen,
    /// The change; `None` where nothing had to change.
    pub change: Option<Arc<Change>>,
}

/// A page of a list.
#[derive(Clone, Debug)]
pub struct Page<T, P> {
    /// What is on it.
    pub items: Vec<T>,
    /// Where the next one begins; `None` = this is the last.
    pub next: Option<P>,
}

impl<T, P> Page<T, P> {
    /// Cuts what was read, one more than asked for, to a page.
    pub(super) fn cut(mut items: Vec<T>, limit: u32, position: impl Fn(&T) -> P) -> Self {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let more = items.len() > limit;
        items.truncate(limit);
        let next = items.last().filter(|_| more).map(position);
        Self { items, next }
    }
}

/// Use cases around conversations and their members.
pub struct Conversations {
    store: Arc<dyn Store>,
    bus: Arc<dyn Bus>,
    ids: Arc<Ids>,
    principals: Arc<Principals>,
}

impl Conversations {
    /// Reads from `store`, writes through `bus`.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, bus: Arc<dyn Bus>, ids: Arc<Ids>, principals: Arc<Principals>) -> Self {
        Self {
            store,
            bus,
            ids,
            principals,
        }
    }

    /// Makes a conversation, or finds the one that its key names already.
    ///
    /// # Errors
    /// `not_found` when a member is not known and none is to be made; what the writer says.
    pub async fn create(&self, origin: Origin, new: NewConversation) -> Result<Made, ServiceError> {
        let creator = origin.principal;
        let create = self.command(origin, new).await?;
        let key = create.creation_key.clone();
        self.check_blocks(&create).await?;
        if let Some(found) = self.by_key(key.as_ref(), creator).await? {
            return Ok(found);
        }
        let id = self.ids.conversation_id()?;
        let answer = match &key {
            // Without a key a second answer could not tell whether the first attempt made it.
            None => match ask(self.bus.as_ref(), id, Command::Create(create)).await {
                Reply::Answered(answer) => answer,
                Reply::Lost => Err(CommandError::Unavailable),
            },
            Some(_) => ask_keyed(self.bus.as_ref(), id, Command::Create(create)).await,
        };
        match answer {
            Ok(_) => Ok(Made {
                seen: self.get(creator, id).await?,
                created: true,
            }),
            // 100 may ask at once: the winner has the key, the others find it there.
            Err(CommandError::Refused(DomainError::AlreadyCreated { conversation_id })) => {
                match self.by_key(key.as_ref(), creator).await? {
                    Some(found) => Ok(Made {
                        created: found.seen.header.conversation_id == id,
                        ..found
                    }),
                    None => Err(DomainError::AlreadyCreated { conversation_id }.into()),
                }
            }
            Err(CommandError::Unavailable) => Err(unknown_outcome()),
            Err(error) => Err(error.into()),
        }
    }

    async fn command(&self, origin: Origin, new: NewConversation) -> Result<Create, ServiceError> {
        let creator = origin.principal;
        Ok(match new {
            NewConversation::Direct { member } => {
                let members = self.principals.resolve_named(&[member]).await?;
                let key = members.first().map(|other| CreationKey::direct(creator, *other));
                Create {
                    origin,
                    kind: Kind::Direct,
                    title: None,
                    members,
                    creation_key: key,
                    history_visibility: HistoryVisibility::Shared,
                    posting: Posting::All,
                    adding: Adding::Admins,
                }
            }
            NewConversation::Group {
                title,
                members,
                client_request_id,
                history_visibility,
                posting,
                adding,
            } => Create {
                origin,
                kind: Kind::Group,
                title: Some(title),
                members: self.principals.resolve_named(&members).await?,
                creation_key: client_request_id.map(|key| CreationKey::request(creator, &key)),
                history_visibility,
                posting,
                adding,
            },
        })
    }

    /// The one that is there is not given out either. Of a new one its writer judges.
    async fn check_blocks(&self, create: &Create) -> Result<(), ServiceError> {
        let creator = create.origin.principal;
        if let (Kind::Direct, [other]) = (create.kind, create.members.as_slice())
            && *other != creator
            && self.store.ties(creator, *other).await?.is_blocked()
        {
            return Err(policy::BLOCKED.into());
        }
        Ok(())
    }

    async fn by_key(&self, key: Option<&CreationKey>, creator: Principal) -> Result<Option<Made>, ServiceError> {
        let Some(key) = key else {
            return Ok(None);
        };
        let Some(id) = self.store.by_creation_key(key).await? else {
            return Ok(None);
        };
        Ok(Some(Made {
            seen: self.get(creator, id).await?,
            created: false,
        }))
    }

    /// One conversation as `viewer` sees it. The membership is always there.
    ///
    /// # Errors
    /// `not_found`, `not_a_member`.
    pub async fn get(&self, viewer: Principal, id: ConversationId) -> Result<Seen, ServiceError> {
        let seen = self
            .store
            .seen(id, viewer)
            .await?
            .ok_or(DomainError::ConversationNotFound)?;
        if seen.membership.is_none() {
            return Err(DomainError::NotAMember.into());
        }
        Ok(only_visible(seen))
    }

    /// The viewer's conversations, pinned first, then the latest activity.
    ///
    /// # Errors
    /// `unavailable` when the store does not answer.
    pub async fn list(
        &self,
        viewer: Principal,
        after: Option<ListPosition>,
        limit: u32,
    ) -> Result<Page<Seen, ListPosition>, ServiceError> {
        let found = self.store.list(viewer, after, limit.saturating_add(1)).await?;
        let items = found.into_iter().map(only_visible).collect();
        Ok(Page::cut(items, limit, |last: &Seen| ListPosition {
            pinned: last.membership.is_some_and(|membership| membership.pinned),
            last_activity_at: last.head.last_activity_at,
            conversation_id: last.header.conversation_id,
        }))
    }

    /// Present members, in order of joining.
    ///
    /// # Errors
    /// `not_found`, `not_a_member`.
    pub async fn members(
        &self,
        viewer: Principal,
        id: ConversationId,
        after: Option<MemberPosition>,
        limit: u32,
    ) -> Result<Page<Member, MemberPosition>, ServiceError> {
        member_access(self.store.as_ref(), id, viewer).await?;
        let found = self.store.members(id, after, limit.saturating_add(1)).await?;
        Ok(Page::cut(found, limit, |last: &Member| MemberPosition {
            joined_seq: last.joined_seq,
            principal: last.principal,
        }))
    }

    /// Makes principals members.
    ///
    /// # Errors
    /// `not_found` also when a principal is not known and none is to be made; what the writer says.
    pub async fn add_members(
        &self,
        origin: Origin,
        id: ConversationId,
        members: &[Subject],
    ) -> Result<MembersChanged, ServiceError> {
        // Only the writer judges, but a stranger must not make rows of principals by naming them.
        member_access(self.store.as_ref(), id, origin.principal).await?;
        let members = self.principals.resolve_named(members).await?;
        let asked = members.clone();
        let change = self.change(id, Command::AddMembers { origin, members: asked }).await?;
        Ok(MembersChanged { change, members })
    }

    /// Ends a membership: one's own = leaving.
    ///
    /// # Errors
    /// What the writer says.
    pub async fn remove_member(
        &self,
        origin: Origin,
        id: ConversationId,
        target: Principal,
    ) -> Result<MembersChanged, ServiceError> {
        let change = self.change(id, Command::RemoveMember { origin, target }).await?;
        Ok(MembersChanged {
            change,
            members: vec![target],
        })
    }

    /// Changes the header of a group.
    ///
    /// # Errors
    /// What the writer says.
    pub async fn update(
        &self,
        origin: Origin,
        id: ConversationId,
        patch: HeaderPatch,
    ) -> Result<ConversationChanged, ServiceError> {
        let viewer = origin.principal;
        let change = self.change(id, Command::Update { origin, patch }).await?;
        let seen = self.get(viewer, id).await?;
        Ok(ConversationChanged { seen, change })
    }

    /// Gives a member another role; OWNER = hands the group over.
    ///
    /// # Errors
    /// What the writer says.
    pub async fn set_role(
        &self,
        origin: Origin,
        id: ConversationId,
        target: Principal,
        role: Role,
    ) -> Result<MembersChanged, ServiceError> {
        let change = self.change(id, Command::SetRole { origin, target, role }).await?;
        let members = vec![target];
        Ok(MembersChanged { change, members })
    }

    /// Ends a group; its members may still read.
    ///
    /// # Errors
    /// What the writer says.
    pub async fn dissolve(&self, origin: Origin, id: ConversationId) -> Result<ConversationChanged, ServiceError> {
        let viewer = origin.principal;
        let change = self.change(id, Command::Dissolve { origin }).await?;
        let seen = self.get(viewer, id).await?;
        Ok(ConversationChanged { seen, change })
    }

    async fn change(&self, id: ConversationId, command: Command) -> Result<Option<Arc<Change>>, ServiceError> {
        match ask(self.bus.as_ref(), id, command).await {
            Reply::Answered(Ok(Outcome::Changed(change))) => Ok(change),
            Reply::Answered(Ok(other)) => Err(ServiceError::internal(&format!("a change led to {other:?}"))),
            Reply::Answered(Err(CommandError::Unavailable)) | Reply::Lost => Err(unknown_outcome()),
            Reply::Answered(Err(error)) => Err(error.into()),
        }
    }
}

/// `last_message` is the newest that is not gone: if the viewer may not see it, there is none newer to show.
pub(super) fn only_visible(mut seen: Seen) -> Seen {
    let first = seen.membership.map(|own| visibility::first_visible(&seen.header, &own));
    seen.last_message = seen
        .last_message
        .filter(|last| first.is_some_and(|first| last.message.seq >= first));
    seen
}

fn unknown_outcome() -> ServiceError {
    ServiceError::new(
        Code::Unavailable,
        "the outcome is unknown: look at the conversation, then ask again if it is as before",
    )
}
