//! What a client asks for that has to be looked up: the reply comes when the store has answered.

use std::sync::Arc;

use actix::{ActorFutureExt, AsyncContext, Context, WrapFuture};

use super::{REQUESTS_MAX, SessionActor, origin, overloaded};
use crate::delivery::session::{Asked, Session, Waiting};
use crate::domain::{Code, ConversationId, MessageId, Seq, Touch};
use crate::protocol::frame::{Acknowledged, History};
use crate::protocol::sync::Ask;
use crate::protocol::{reply, view};
use crate::service::{DeviceCursor, HistoryPage, HistoryQuery, ServiceError, SyncPage};
use crate::transport::catching_up::{answer, query};

impl SessionActor {
    /// Finds out where the message is, and hands the act on to that conversation.
    pub(super) fn touch(
        &mut self,
        id: u64,
        message_id: MessageId,
        touch: Touch,
        session: &Arc<Session>,
        ctx: &mut Context<Self>,
    ) {
        let door = Arc::clone(&self.door);
        let asked = async move { door.messages.place_of(message_id).await };
        let session = Arc::clone(session);
        let done = move |actor: &mut Self, conversation_id, _: &mut Context<Self>| {
            let waiting = Waiting {
                frame: id,
                asked: Asked::Touch,
            };
            let Some(reply) = session.await_answer(waiting) else {
                return actor.refuse(Some(id), overloaded());
            };
            let origin = origin(&session);
            let messages = &actor.door.messages;
            messages.dispatch_touch(conversation_id, origin, message_id, touch, reply);
        };
        self.request(id, asked, done, ctx);
    }

    /// Finds the user's INBOX, and hands the read on to it.
    pub(super) fn read(
        &mut self,
        id: u64,
        conversation_id: ConversationId,
        seq: Seq,
        session: &Arc<Session>,
        ctx: &mut Context<Self>,
    ) {
        let (door, reader) = (Arc::clone(&self.door), session.principal());
        let asked = async move { door.inbox.for_read(reader, conversation_id).await };
        let session = Arc::clone(session);
        let done = move |actor: &mut Self, inbox, _: &mut Context<Self>| {
            let waiting = Waiting {
                frame: id,
                asked: Asked::Read,
            };
            let Some(reply) = session.await_answer(waiting) else {
                return actor.refuse(Some(id), overloaded());
            };
            let origin = origin(&session);
            actor
                .door
                .inbox
                .dispatch_read(inbox, origin, conversation_id, seq, reply);
        };
        self.request(id, asked, done, ctx);
    }

    /// Asks the store for something and replies when it answers.
    fn request<T: 'static>(
        &mut self,
        id: u64,
        asked: impl Future<Output = Result<T, ServiceError>> + 'static,
        done: impl FnOnce(&mut Self, T, &mut Context<Self>) + 'static,
        ctx: &mut Context<Self>,
    ) {
        self.request_of(id, 0, asked, done, ctx);
    }

    /// The same for an answer of up to `bytes_max`.
    fn request_of<T: 'static>(
        &mut self,
        id: u64,
        bytes_max: usize,
        asked: impl Future<Output = Result<T, ServiceError>> + 'static,
        done: impl FnOnce(&mut Self, T, &mut Context<Self>) + 'static,
        ctx: &mut Context<Self>,
    ) {
        if self.requests >= REQUESTS_MAX {
            return self.refuse(Some(id), overloaded());
        }
        self.requests += 1;
        self.pace.promised += bytes_max;
        let answered = asked.into_actor(self);
        ctx.spawn(answered.map(move |answer, actor, ctx| {
            actor.requests -= 1;
            actor.pace.promised -= bytes_max;
            match answer {
                Ok(answer) => done(actor, answer, ctx),
                Err(error) => actor.refuse(Some(id), error),
            }
        }));
    }

    pub(super) fn acknowledge(
        &mut self,
        id: u64,
        acks: Vec<Acknowledged>,
        session: &Arc<Session>,
        ctx: &mut Context<Self>,
    ) {
        let (door, session) = (Arc::clone(&self.door), Arc::clone(session));
        let cursors: Vec<DeviceCursor> = acks
            .into_iter()
            .map(|ack| DeviceCursor {
                conversation_id: ack.conversation_id,
                seq: ack.seq,
                change_seq: ack.change_seq,
            })
            .collect();
        let asked = async move {
            let devices = &door.devices;
            devices
                .acknowledge(session.principal(), session.device(), &cursors)
                .await
        };
        self.request(
            id,
            asked,
            move |actor, (), _| actor.reply(&reply::Done { reply_to: id }),
            ctx,
        );
    }

    /// A page of at most about `bytes_max`: 200 large messages would be taken for a client that does not read.
    pub(super) fn history(
        &mut self,
        id: u64,
        history: History,
        bytes_max: usize,
        session: &Session,
        ctx: &mut Context<Self>,
    ) {
        let query = HistoryQuery {
            conversation_id: history.conversation_id,
            before_seq: history.before_seq,
            after_seq: history.after_seq,
            limit: history.limit,
        };
        let (door, viewer) = (Arc::clone(&self.door), session.principal());
        let asked = async move {
            Ok(door
                .messages
                .history(viewer, query)
                .await?
                .within(bytes_max, query.after_seq.is_some()))
        };
        let done = move |actor: &mut Self, page: HistoryPage, _: &mut Context<Self>| {
            actor.reply(&reply::History {
                reply_to: id,
                items: page.items.iter().map(view::Message::from).collect(),
                has_more: page.has_more,
            });
        };
        self.request_of(id, bytes_max, asked, done, ctx);
    }

    /// As with history: the answer must leave room for what is pushed.
    pub(super) fn sync(&mut self, id: u64, ask: Ask, bytes_max: usize, session: &Session, ctx: &mut Context<Self>) {
        let (door, viewer) = (Arc::clone(&self.door), session.principal());
        let query = match query(ask, Some(session.device()), bytes_max) {
            Ok(query) => query,
            Err(error) => return self.refuse(Some(id), error),
        };
        let asked = async move { door.sync.sync(viewer, query).await };
        let done = move |actor: &mut Self, page: SyncPage, _: &mut Context<Self>| match answer(&page) {
            Ok(page) => actor.reply(&reply::Sync { reply_to: id, page }),
            Err(error) => actor.refuse(Some(id), error),
        };
        self.request_of(id, bytes_max, asked, done, ctx);
    }

    pub(super) fn renew(&mut self, id: u64, token: &str, session: &Session, ctx: &mut Context<Self>) {
        let claims = match self.verify(Some(token)) {
            Ok(claims) => claims,
            Err(error) => return self.refuse(Some(id), error),
        };
        let (door, principal) = (Arc::clone(&self.door), session.principal());
        let expires_at = claims.expires_at;
        let asked = async move {
            if door.principals.resolve(&claims.subject).await? == principal {
                return Ok(());
            }
            Err(ServiceError::new(
                Code::Forbidden,
                "this token is of another principal; open another connection",
            ))
        };
        let done = move |actor: &mut Self, (), ctx: &mut Context<Self>| {
            actor.expires_at = expires_at;
            actor.watch_expiry(ctx);
            actor.reply(&reply::Done { reply_to: id });
        };
        self.request(id, asked, done, ctx);
    }
}
