//! What happens to a group in one step: its members, their roles, its settings, its end.

use std::sync::Arc;

use onescribe::domain::{Adding, Change, HeaderPatch, HistoryVisibility, Posting, Role};
use onescribe::protocol::view;
use onescribe::service::ServiceError;

use super::model::User;
use super::stack::{principal, subject};
use super::steps::{asked, refused, value};
use super::walk::{Place, USERS, Walk};

/// What an act on a group answers: its first change, none where nothing had to change.
type Changed = Option<Arc<Change>>;

impl Walk {
    /// An act on the group has been answered, with its first change: the acting device is spared that one.
    pub(crate) fn changed(
        &mut self,
        place: usize,
        acting: usize,
        answer: Result<Changed, ServiceError>,
        allowed: bool,
        events: &[&str],
    ) {
        if !allowed {
            refused(answer);
            return;
        }
        let change = answer.unwrap_or_else(|error| panic!("{error}"));
        if let Some(change) = change.filter(|_| self.learns(acting)) {
            self.devices[acting].change(&value(&view::Change::from(change.as_ref())));
        }
        let now = self.now();
        let room = &mut self.places[place].room;
        for event in events {
            room.system(event, now);
        }
    }

    pub(crate) async fn add(&mut self, place: usize, user: User, acting: usize) {
        let new = self.chance.below(USERS);
        let Place { id, room, .. } = &self.places[place];
        let allowed = room.open && room.group && room.has(user, room.add);
        let known = room.members.contains_key(&new);
        let (origin, conversations) = (self.origin(acting), &self.stack.conversations);
        let answer = asked(async || conversations.add_members(origin.clone(), *id, &[subject(new)]).await)
            .await
            .map(|done| done.change);
        if allowed && !known {
            let room = &mut self.places[place].room;
            room.join(new);
            room.changes += 1;
        }
        let events: &[&str] = if known { &[] } else { &["member_added"] };
        self.changed(place, acting, answer, allowed, events);
    }

    pub(crate) async fn remove(&mut self, place: usize, user: User, acting: usize) {
        let target = self.chance.below(USERS);
        if target == user {
            return;
        }
        let Place { id, room, .. } = &self.places[place];
        let role = |user: User| room.members.get(&user).map(|own| own.role);
        let may = matches!(
            (role(user), role(target)),
            (Some(Role::Owner), Some(Role::Admin | Role::Member)) | (Some(Role::Admin), Some(Role::Member))
        );
        let allowed = room.open && room.group && may;
        let (origin, conversations) = (self.origin(acting), &self.stack.conversations);
        let answer = asked(async || {
            conversations
                .remove_member(origin.clone(), *id, principal(target))
                .await
        })
        .await
        .map(|done| done.change);
        if allowed {
            let room = &mut self.places[place].room;
            room.part(target);
            room.changes += 1;
        }
        self.changed(place, acting, answer, allowed, &["member_removed"]);
    }

    pub(crate) async fn leave(&mut self, place: usize, user: User, acting: usize) {
        let Place { id, room, .. } = &self.places[place];
        let allowed = room.open && room.group && room.has(user, Role::Member);
        let owned = room.has(user, Role::Owner);
        let (origin, conversations) = (self.origin(acting), &self.stack.conversations);
        let answer = asked(async || conversations.remove_member(origin.clone(), *id, principal(user)).await)
            .await
            .map(|done| done.change);
        let mut events = vec!["member_removed"];
        if allowed {
            let room = &mut self.places[place].room;
            room.part(user);
            room.changes += 1;
            match room.heir() {
                Some(heir) if owned => {
                    room.members.entry(heir).and_modify(|own| own.role = Role::Owner);
                    room.changes += 1;
                    events.push("role_changed");
                }
                Some(_) => {}
                None => {
                    room.open = false;
                    room.changes += 1;
                    events.push("dissolved");
                }
            }
        }
        self.changed(place, acting, answer, allowed, &events);
    }

    pub(crate) async fn give_role(&mut self, place: usize, user: User, acting: usize) {
        let (target, role) = (self.chance.below(USERS), self.chance.below(3));
        let role = [Role::Member, Role::Admin, Role::Owner][role];
        let Place { id, room, .. } = &self.places[place];
        let had = room.members.get(&target).map(|own| own.role);
        let owner = room.open && room.group && room.has(user, Role::Owner);
        let same = had == Some(role);
        let allowed = owner && had.is_some() && (same || target != user);
        let (origin, conversations) = (self.origin(acting), &self.stack.conversations);
        let answer = asked(async || {
            conversations
                .set_role(origin.clone(), *id, principal(target), role)
                .await
        })
        .await
        .map(|done| done.change);
        let changes = allowed && !same;
        if changes {
            let room = &mut self.places[place].room;
            room.members.entry(target).and_modify(|own| own.role = role);
            room.changes += 1;
            if role == Role::Owner {
                room.members.entry(user).and_modify(|own| own.role = Role::Admin);
                room.changes += 1;
            }
        }
        let events: &[&str] = if changes { &["role_changed"] } else { &[] };
        self.changed(place, acting, answer, allowed, events);
    }

    pub(crate) async fn update(&mut self, place: usize, user: User, acting: usize) {
        let Place { id, room, .. } = &self.places[place];
        let allowed = room.open && room.group && room.has(user, Role::Admin);
        let (mut patch, mut after, mut events) = (HeaderPatch::default(), room.clone(), Vec::new());
        match self.chance.below(4) {
            0 => {
                after.joined_only = !room.joined_only;
                let to = if after.joined_only {
                    HistoryVisibility::Joined
                } else {
                    HistoryVisibility::Shared
                };
                patch.history_visibility = Some(to);
            }
            1 => {
                let all = room.post == Role::Admin;
                after.post = if all { Role::Member } else { Role::Admin };
                patch.posting = Some(if all { Posting::All } else { Posting::Admins });
            }
            2 => {
                let all = room.add == Role::Admin;
                after.add = if all { Role::Member } else { Role::Admin };
                patch.adding = Some(if all { Adding::All } else { Adding::Admins });
            }
            _ => {
                patch.title = Some(Some(format!("title {}", self.now())));
                events.push("title_changed");
            }
        }
        let (origin, conversations) = (self.origin(acting), &self.stack.conversations);
        let answer = asked(async || conversations.update(origin.clone(), *id, patch.clone()).await)
            .await
            .map(|done| done.change);
        if allowed {
            after.changes += 1;
            self.places[place].room = after;
        }
        self.changed(place, acting, answer, allowed, &events);
    }

    pub(crate) async fn dissolve(&mut self, place: usize, user: User, acting: usize) {
        let Place { id, room, .. } = &self.places[place];
        let allowed = room.group && room.has(user, Role::Owner);
        let (id, open) = (*id, room.open);
        if self.chance.below(8) > 0 && open {
            return; // seldom: nothing happens there any more
        }
        let (origin, conversations) = (self.origin(acting), &self.stack.conversations);
        let answer = asked(async || conversations.dissolve(origin.clone(), id).await)
            .await
            .map(|done| done.change);
        if allowed && open {
            let room = &mut self.places[place].room;
            room.open = false;
            room.changes += 1;
        }
        let events: &[&str] = if open { &["dissolved"] } else { &[] };
        self.changed(place, acting, answer, allowed, events);
    }
}
