//! Who is where: deals members, senders and connections to conversations. Pure arithmetic, the same in every run.

use super::PlanError;

/// The bounds of one run.
pub(super) const CONVERSATIONS_MAX: u32 = 100_000;
/// Members of one conversation.
pub(super) const MEMBERS_MAX: u32 = 100_000;
/// Memberships of all conversations together.
pub(super) const MEMBERSHIPS_MAX: u64 = 2_000_000;
/// Connections at once.
pub(super) const CONNECTIONS_MAX: u32 = 60_000;
/// Devices of one user.
pub(super) const DEVICES_MAX: u32 = 16;

/// How many of everything. The members of conversation `c` are the users from `c * members` on, counted around.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Groups that are made for this run.
    pub conversations: u32,
    /// Members of each of them.
    pub members: u32,
    /// All users; none: as many as there are memberships, everybody in one conversation.
    pub users: Option<u32>,
    /// Members who send, dealt to the conversations in turn; none: one in each conversation.
    pub senders: Option<u32>,
    /// Connections of all users; none: everybody is online with every device. Senders come first.
    pub connections: Option<u32>,
    /// Devices of each user.
    pub devices: u32,
}

/// One member that sends in one conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SenderPlace {
    pub(super) user: u32,
    pub(super) conversation: u32,
}

impl Shape {
    pub(super) fn check(&self) -> Result<(), PlanError> {
        let bad = |what: String| Err(PlanError(what));
        let memberships = self.memberships();
        if self.conversations == 0 || self.conversations > CONVERSATIONS_MAX {
            return bad(format!("--conversations must be 1 to {CONVERSATIONS_MAX}"));
        }
        if self.members == 0 || self.members > MEMBERS_MAX {
            return bad(format!("--members must be 1 to {MEMBERS_MAX}"));
        }
        if memberships > MEMBERSHIPS_MAX {
            return bad(format!(
                "--conversations times --members is {memberships}; at most {MEMBERSHIPS_MAX} memberships can be made"
            ));
        }
        if self.devices == 0 || self.devices > DEVICES_MAX {
            return bad(format!("--devices must be 1 to {DEVICES_MAX} for each user"));
        }
        if self.users() < self.members {
            return bad(format!("--users must be at least --members ({})", self.members));
        }
        if u64::from(self.users()) > memberships {
            return bad(format!(
                "--users must be at most --conversations times --members ({memberships})"
            ));
        }
        if self.senders() == 0 || u64::from(self.senders()) > memberships {
            return bad(format!(
                "--senders must be 1 to --conversations times --members ({memberships})"
            ));
        }
        let connections = self.connections();
        if connections == 0 || connections > CONNECTIONS_MAX {
            return bad(format!(
                "--connections (all users times --devices if not given: {connections}) must be 1 to {CONNECTIONS_MAX}"
            ));
        }
        if connections > self.users().saturating_mul(self.devices) {
            return bad("--connections must be at most all users times --devices".to_owned());
        }
        let needed = u32::try_from(self.sending_users().len()).unwrap_or(u32::MAX);
        if connections < (needed - 1) * self.devices + 1 {
            return bad(format!(
                "--connections {connections} leaves senders offline: the {} senders are {needed} users with {} devices each",
                self.senders(),
                self.devices
            ));
        }
        Ok(())
    }

    fn memberships(&self) -> u64 {
        u64::from(self.conversations) * u64::from(self.members)
    }

    /// All users.
    pub fn users(&self) -> u32 {
        let everybody = u32::try_from(self.memberships()).unwrap_or(u32::MAX);
        self.users.unwrap_or(everybody)
    }

    /// All senders.
    pub fn senders(&self) -> u32 {
        self.senders.unwrap_or(self.conversations)
    }

    /// All connections.
    pub fn connections(&self) -> u32 {
        self.connections
            .unwrap_or_else(|| self.users().saturating_mul(self.devices))
    }

    pub(super) fn member(&self, conversation: u32, place: u32) -> u32 {
        let slot = u64::from(conversation) * u64::from(self.members) + u64::from(place);
        u32::try_from(slot % u64::from(self.users().max(1))).unwrap_or_default()
    }

    pub(super) fn members_of(&self, conversation: u32) -> impl Iterator<Item = u32> {
        (0..self.members).map(move |place| self.member(conversation, place))
    }

    pub(super) fn sender(&self, index: u32) -> SenderPlace {
        let conversation = index % self.conversations.max(1);
        SenderPlace {
            user: self.member(conversation, index / self.conversations.max(1)),
            conversation,
        }
    }

    /// In the order of their first sending.
    fn sending_users(&self) -> Vec<u32> {
        let mut seen = vec![false; usize::try_from(self.users()).unwrap_or_default()];
        let users = (0..self.senders()).map(|index| self.sender(index).user);
        let fresh = users.filter(|user| {
            let seen = usize::try_from(*user).ok().and_then(|user| seen.get_mut(user));
            seen.is_some_and(|seen| !std::mem::replace(seen, true))
        });
        fresh.collect()
    }

    /// The user and device number of every connection; senders come first, device 0 sends.
    pub(super) fn connected(&self) -> Vec<(u32, u32)> {
        let mut order = self.sending_users();
        let mut sends = vec![false; usize::try_from(self.users()).unwrap_or_default()];
        for user in &order {
            if let Some(sends) = usize::try_from(*user).ok().and_then(|user| sends.get_mut(user)) {
                *sends = true;
            }
        }
        let silent = (0..self.users()).zip(&sends).filter(|(_, sends)| !**sends);
        order.extend(silent.map(|(user, _)| user));
        let devices = order
            .into_iter()
            .flat_map(|user| (0..self.devices).map(move |device| (user, device)));
        devices
            .take(usize::try_from(self.connections()).unwrap_or(usize::MAX))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(conversations: u32, members: u32) -> Shape {
        Shape {
            conversations,
            members,
            users: None,
            senders: None,
            connections: None,
            devices: 1,
        }
    }

    #[test]
    fn everybody_is_in_one_conversation_unless_there_are_fewer_users() {
        let alone = shape(10, 10);
        assert_eq!(alone.users(), 100);
        assert_eq!(alone.members_of(3).collect::<Vec<_>>(), (30..40).collect::<Vec<_>>());
        let few = Shape {
            users: Some(32),
            ..shape(1_000, 5)
        };
        assert!(few.check().is_ok());
        for conversation in 0..1_000 {
            let mut members: Vec<u32> = few.members_of(conversation).collect();
            members.sort_unstable();
            members.dedup();
            assert_eq!(members.len(), 5, "nobody is a member twice");
        }
    }

    #[test]
    fn senders_are_spread_over_the_conversations_and_always_online() {
        let wide = Shape {
            senders: Some(20),
            connections: Some(40),
            ..shape(10, 10)
        };
        assert!(wide.check().is_ok());
        let senders: Vec<SenderPlace> = (0..20).map(|index| wide.sender(index)).collect();
        assert!((0..10).all(|c| senders.iter().filter(|sender| sender.conversation == c).count() == 2));
        let connected = wide.connected();
        assert_eq!(connected.len(), 40);
        assert!(senders.iter().all(|sender| connected.contains(&(sender.user, 0))));
    }

    #[test]
    fn numbers_that_cannot_be_are_refused_by_name() {
        let refused = |shape: Shape, name: &str| {
            let said = shape.check().unwrap_err().to_string();
            assert!(said.starts_with(name), "{said}");
        };
        refused(shape(0, 1), "--conversations");
        refused(shape(1, 0), "--members");
        refused(shape(100_000, 100_000), "--conversations times");
        refused(
            Shape {
                users: Some(5),
                ..shape(1, 10)
            },
            "--users",
        );
        refused(
            Shape {
                users: Some(11),
                ..shape(1, 10)
            },
            "--users",
        );
        refused(
            Shape {
                senders: Some(11),
                ..shape(1, 10)
            },
            "--senders",
        );
        refused(
            Shape {
                senders: Some(0),
                ..shape(1, 10)
            },
            "--senders",
        );
        refused(
            Shape {
                devices: 17,
                ..shape(1, 10)
            },
            "--devices",
        );
        refused(
            Shape {
                connections: Some(11),
                ..shape(1, 10)
            },
            "--connections",
        );
        refused(
            Shape {
                connections: Some(4),
                ..shape(5, 10)
            },
            "--connections",
        );
        refused(shape(1, 70_000), "--connections");
    }
}
