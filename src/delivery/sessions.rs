//! Who is online: one session per (principal, device) in this process, the newest one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use dashmap::DashMap;
use dashmap::mapref::entry::Entry;

use super::session::Session;
use super::wire::Close;
use crate::domain::{DeviceId, Principal};

/// The directory of sessions, whatever their hub.
#[derive(Default)]
pub struct Sessions {
    newest: DashMap<(Principal, DeviceId), Arc<Session>>,
    online: DashMap<Principal, Lines>,
    count: AtomicUsize,
}

/// How many sessions a principal has here, replaced ones included until they have ended.
#[derive(Default)]
struct Lines {
    all: usize,
    /// Those that are told of what happens.
    welcomed: usize,
}

impl Sessions {
    /// Enters a session. An older one of the same device is told that it is replaced, at once and whatever waits for
    /// it. Enter before reading the memberships from the store: what is committed later is then seen as a push.
    pub fn enter(&self, session: &Arc<Session>) {
        self.count.fetch_add(1, Ordering::SeqCst);
        self.online.entry(session.principal()).or_default().all += 1;
        let loser = match self.newest.entry((session.principal(), session.device().clone())) {
            Entry::Vacant(vacant) => {
                vacant.insert(Arc::clone(session));
                None
            }
            // The hellos of two connections may overtake each other: the later connection wins.
            Entry::Occupied(taken) if taken.get().id() > session.id() => Some(Arc::clone(session)),
            Entry::Occupied(mut taken) => Some(taken.insert(Arc::clone(session))),
        };
        if let Some(loser) = loser {
            loser.outbox().close(Close::Replaced);
        }
    }

    /// Takes a session out. The late end of a replaced one does not take out the newer one (B93).
    pub fn leave(&self, session: &Session) {
        self.count.fetch_sub(1, Ordering::SeqCst);
        if let Entry::Occupied(mut online) = self.online.entry(session.principal()) {
            online.get_mut().all -= 1;
            online.get_mut().welcomed -= usize::from(session.is_welcomed());
            if online.get().all == 0 {
                online.remove();
            }
        }
        let key = (session.principal(), session.device().clone());
        self.newest.remove_if(&key, |_, newest| newest.id() == session.id());
    }

    /// Has this principal a session here?
    #[must_use]
    pub fn is_online(&self, principal: Principal) -> bool {
        self.online.contains_key(&principal)
    }

    /// The session was welcomed: what happens from here on reaches it. Called by its hub, as [`Sessions::leave`] is.
    pub fn welcome(&self, session: &Session) {
        if !session.welcome()
            && let Some(mut lines) = self.online.get_mut(&session.principal())
        {
            lines.welcomed += 1;
        }
    }

    /// Is anybody of this principal here who is told of what happens? While a session's memberships are read nothing
    /// is: what is committed meanwhile it finds by sync, but what stands in no log would be lost (B115).
    #[must_use]
    pub fn is_reached(&self, principal: Principal) -> bool {
        self.online.get(&principal).is_some_and(|lines| lines.welcomed > 0)
    }

    /// The session of a device.
    #[must_use]
    pub fn of_device(&self, principal: Principal, device: &DeviceId) -> Option<Arc<Session>> {
        let found = self.newest.get(&(principal, device.clone()));
        found.map(|session| Arc::clone(&session))
    }

    /// All sessions of a principal.
    #[must_use]
    pub fn of(&self, principal: Principal) -> Vec<Arc<Session>> {
        if !self.is_online(principal) {
            return Vec::new();
        }
        let own = self.newest.iter().filter(|entry| entry.key().0 == principal);
        own.map(|entry| Arc::clone(entry.value())).collect()
    }

    /// How many sessions there are, replaced ones included until they have ended.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// How many sends of all sessions wait for their answers.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.newest.iter().map(|session| session.waiting()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delivery::tests::support::{device, session};

    #[actix::test]
    async fn b93_the_newest_connection_of_a_device_wins_and_the_late_end_of_the_old_one_changes_nothing() {
        let sessions = Sessions::default();
        let ann = Principal::user(1);
        let [old, new] = [1, 2].map(|id| session(id, ann, "phone"));
        sessions.enter(&old);
        sessions.enter(&new);
        assert!(!old.outbox().is_open() && new.outbox().is_open());
        sessions.leave(&old);
        assert_eq!(
            sessions.of_device(ann, &device("phone")).map(|found| found.id()),
            Some(2)
        );
        assert!(sessions.is_online(ann));
        sessions.leave(&new);
        assert!(!sessions.is_online(ann) && sessions.of_device(ann, &device("phone")).is_none());
        assert_eq!(sessions.count(), 0);
    }

    #[actix::test]
    async fn b115_a_principal_is_reached_when_a_session_was_welcomed_and_not_while_it_is_made_ready() {
        let (sessions, ann) = (Sessions::default(), Principal::user(1));
        let [phone, desk] = [(1, "phone"), (2, "desk")].map(|(id, device)| session(id, ann, device));
        sessions.enter(&phone);
        sessions.enter(&desk);
        assert!(sessions.is_online(ann) && !sessions.is_reached(ann));
        sessions.welcome(&phone);
        sessions.welcome(&phone);
        assert!(sessions.is_reached(ann));
        sessions.leave(&phone);
        assert!(
            sessions.is_online(ann) && !sessions.is_reached(ann),
            "the desk is not ready yet"
        );
        sessions.welcome(&desk);
        assert!(sessions.is_reached(ann));
        sessions.leave(&desk);
        assert!(!sessions.is_online(ann) && !sessions.is_reached(ann));
    }

    #[actix::test]
    async fn b93_a_hello_that_was_overtaken_does_not_replace_the_later_connection() {
        let sessions = Sessions::default();
        let [old, new] = [1, 2].map(|id| session(id, Principal::user(1), "phone"));
        sessions.enter(&new);
        sessions.enter(&old);
        assert!(!old.outbox().is_open() && new.outbox().is_open());
    }

    #[actix::test]
    async fn other_devices_and_other_kinds_of_principal_do_not_replace_each_other() {
        let sessions = Sessions::default();
        let all = [
            session(1, Principal::user(1), "phone"),
            session(2, Principal::user(1), "Phone"),
            session(3, Principal::agent(1), "phone"),
        ];
        for one in &all {
            sessions.enter(one);
        }
        assert!(all.iter().all(|one| one.outbox().is_open()));
        let ids = |principal| {
            let mut ids: Vec<u64> = sessions.of(principal).iter().map(|found| found.id()).collect();
            ids.sort_unstable();
            ids
        };
        assert_eq!(
            (ids(Principal::user(1)), ids(Principal::agent(1))),
            (vec![1, 2], vec![3])
        );
        assert_eq!(ids(Principal::user(2)), Vec::<u64>::new());
    }
}
