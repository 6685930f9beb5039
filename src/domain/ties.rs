//! What is between two principals whatever conversation they are in: contacts, and who has blocked whom.

use super::ids::{MessageId, Principal, Timestamp};

/// Somebody whom a user knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contact {
    /// Who.
    pub principal: Principal,
    /// How they are shown.
    pub display_name: Option<String>,
    /// A picture.
    pub avatar_url: Option<String>,
    /// Since when.
    pub created_at: Timestamp,
}

/// Somebody whom a user has blocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Who.
    pub principal: Principal,
    /// Since when.
    pub created_at: Timestamp,
}

/// What is between two principals.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ties {
    /// They are contacts, by this friend request.
    pub contact: Option<MessageId>,
    /// Who of the two has blocked the other, in order, and whether the writer of their DIRECT has taken notice.
    pub blockers: Vec<(Principal, bool)>,
}

impl Ties {
    /// Is there a block, in one direction or in both?
    #[must_use]
    pub fn is_blocked(&self) -> bool {
        !self.blockers.is_empty()
    }

    /// Has this one of the two blocked the other?
    #[must_use]
    pub fn is_blocked_by(&self, principal: Principal) -> bool {
        self.blockers.iter().any(|(blocker, _)| *blocker == principal)
    }
}
