//! Reminders: one look of the watch, by which the model and the devices learn who is reminded of what.

use std::cell::Cell;
use std::future::ready;
use std::sync::Arc;

use onescribe::domain::Principal;
use onescribe::service::{Reminder, Reminders};
use serde_json::Value;

use super::model::User;
use super::stack::principal;
use super::walk::{USERS, Walk};

impl Walk {
    /// Everybody who is here is reminded of what is due. The watch begins anew each time, as after a restart.
    pub(crate) async fn look_for_reminders(&mut self) {
        let (store, clock) = (Arc::clone(&self.store), self.clock.clone());
        let reminders = Reminders::new(store, Arc::clone(&self.stack.messages), clock);
        let here: Vec<Principal> = (0..USERS).filter(|user| self.is_here(*user)).map(principal).collect();
        let told = Cell::new(0);
        let tell = |due: &Reminder| {
            told.set(told.get() + 1);
            self.stack.delivery.remind(due.principal, &due.message, &due.action);
        };
        // It looks once before it stops.
        reminders.watch(|user| here.contains(&user), tell, ready(())).await;
        let expected = self.remind();
        if expected.iter().any(|told| !told.is_empty()) {
            self.happened("somebody was reminded");
        }
        assert_eq!(told.get(), expected.iter().map(Vec::len).sum::<usize>(), "{expected:?}");
        for device in &mut self.devices {
            device.settle(&self.stack).await;
            let mut told: Vec<(i64, Value)> = device.reminded.drain(..).map(|message| shown(&message)).collect();
            let mut expected = expected[device.user].clone();
            expected.retain(|_| device.session.is_some());
            told.sort_by_key(|(seq, words)| (*seq, words.to_string()));
            expected.sort_by_key(|(seq, words)| (*seq, words.to_string()));
            assert_eq!(told, expected, "{} of user {} is reminded", device.name, device.user);
        }
    }

    fn is_here(&self, user: User) -> bool {
        let mut mine = self.devices.iter().filter(|device| device.user == user);
        mine.any(|device| device.session.is_some())
    }

    /// By user: seq and words of each message of which the model reminds them now.
    fn remind(&mut self) -> [Vec<(i64, Value)>; USERS] {
        let mut told: [Vec<(i64, Value)>; USERS] = std::array::from_fn(|_| Vec::new());
        let (now, here) = (
            self.now(),
            std::array::from_fn::<bool, USERS, _>(|user| self.is_here(user)),
        );
        for room in self.places.iter_mut().map(|place| &mut place.room) {
            let mut due = Vec::new();
            for (seq, said) in (1..).zip(&mut room.said) {
                for (user, reminder) in said.reminders.iter_mut().filter(|(user, _)| here[**user]) {
                    if reminder.active && !reminder.fired && reminder.due <= now {
                        reminder.fired = true;
                        due.push((*user, seq, said.text.clone()));
                    }
                }
            }
            // What is not theirs to see any more they are not reminded of, now or later.
            for (user, seq, text) in due.into_iter().filter(|(user, seq, _)| room.sees(*user, *seq)) {
                told[user].push((seq, text.into()));
            }
        }
        told
    }
}

/// Seq and words.
fn shown(message: &Value) -> (i64, Value) {
    let words = match &message["content"]["text"] {
        Value::Null => "recalled".into(),
        words => words.clone(),
    };
    (message["seq"].as_i64().unwrap(), words)
}
