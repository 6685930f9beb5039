//! What waits for one webhook: a lane for each conversation, in which one delivery is under way at a time. Plain data.

use std::collections::{BTreeSet, HashMap, VecDeque};

use crate::domain::{ConversationId, Delivery, EventNo, Timestamp};

/// A delivery that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Waiting {
    pub(super) event_no: EventNo,
    pub(super) conversation_id: ConversationId,
    pub(super) attempts: u32,
    pub(super) due_at: Timestamp,
    pub(super) created_at: Timestamp,
}

impl From<&Delivery> for Waiting {
    fn from(delivery: &Delivery) -> Self {
        Self {
            event_no: delivery.event_no,
            conversation_id: delivery.conversation_id,
            attempts: delivery.attempts,
            due_at: delivery.next_attempt_at,
            created_at: delivery.created_at,
        }
    }
}

/// All lanes.
#[derive(Default)]
pub(super) struct Lanes {
    lanes: HashMap<ConversationId, VecDeque<Waiting>>,
    /// The heads of the lanes that are not under way, by when they are due.
    heads: BTreeSet<(Timestamp, EventNo, ConversationId)>,
    len: usize,
}

impl Lanes {
    /// How many deliveries wait or are under way.
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// At the end of its lane. Deliveries are added in the order of their events.
    pub(super) fn add(&mut self, waiting: Waiting) {
        let lane = self.lanes.entry(waiting.conversation_id).or_default();
        lane.push_back(waiting);
        self.len += 1;
        if lane.len() == 1 {
            self.show(waiting);
        }
    }

    fn show(&mut self, head: Waiting) {
        self.heads.insert((head.due_at, head.event_no, head.conversation_id));
    }

    /// When the next one is due.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        self.heads.first().map(|(due_at, ..)| *due_at)
    }

    /// Takes one that is due: its lane stands until [`Lanes::done`] or [`Lanes::again`].
    pub(super) fn take_due(&mut self, now: Timestamp) -> Option<Waiting> {
        let first = *self.heads.first().filter(|(due_at, ..)| *due_at <= now)?;
        self.heads.remove(&first);
        self.lanes.get(&first.2)?.front().copied()
    }

    /// It has ended, well or not: its lane goes on.
    pub(super) fn done(&mut self, conversation_id: ConversationId) {
        let Some(lane) = self.lanes.get_mut(&conversation_id) else {
            return;
        };
        if lane.pop_front().is_some() {
            self.len -= 1;
        }
        match lane.front().copied() {
            Some(next) => self.show(next),
            None => drop(self.lanes.remove(&conversation_id)),
        }
    }

    /// It has to be tried again: its lane stands until then.
    pub(super) fn again(&mut self, waiting: Waiting) {
        let lane = self.lanes.get_mut(&waiting.conversation_id);
        if let Some(head) = lane.and_then(VecDeque::front_mut) {
            *head = waiting;
            self.show(waiting);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(event_no: i64, conversation: i64, due: i64) -> Waiting {
        Waiting {
            event_no: EventNo::new(event_no),
            conversation_id: ConversationId::new(conversation).unwrap(),
            attempts: 0,
            due_at: Timestamp::from_millis(due),
            created_at: Timestamp::default(),
        }
    }

    fn due(lanes: &mut Lanes, now: i64) -> Vec<i64> {
        let mut taken = Vec::new();
        while let Some(waiting) = lanes.take_due(Timestamp::from_millis(now)) {
            taken.push(waiting.event_no.get());
        }
        taken
    }

    #[test]
    fn of_each_conversation_one_is_under_way_and_a_failure_stops_only_its_lane() {
        let mut lanes = Lanes::default();
        for (event_no, conversation) in [(1, 7), (2, 7), (3, 8), (4, 8), (5, 9)] {
            lanes.add(waiting(event_no, conversation, 0));
        }
        assert_eq!(lanes.len(), 5);
        assert_eq!(due(&mut lanes, 0), [1, 3, 5]);
        assert_eq!(due(&mut lanes, 0), Vec::<i64>::new());
        lanes.again(waiting(1, 7, 50));
        lanes.done(ConversationId::new(8).unwrap());
        lanes.done(ConversationId::new(9).unwrap());
        lanes.add(waiting(6, 9, 0));
        assert_eq!(due(&mut lanes, 0), [4, 6]);
        assert_eq!(lanes.next_due(), Some(Timestamp::from_millis(50)));
        assert_eq!(due(&mut lanes, 49), Vec::<i64>::new());
        assert_eq!(due(&mut lanes, 50), [1]);
        for id in [7, 8, 9] {
            lanes.done(ConversationId::new(id).unwrap());
        }
        assert_eq!(due(&mut lanes, 50), [2]);
        lanes.done(ConversationId::new(7).unwrap());
        assert_eq!((lanes.len(), lanes.next_due()), (0, None));
    }
}
