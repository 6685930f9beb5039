//! Belonging to a conversation.

use std::collections::HashMap;

use super::ids::{CountNo, Principal, Seq, Timestamp};

/// What a member may do. Ordered: `Member < Admin < Owner`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// Speaks and reads.
    Member,
    /// Manages members of role MEMBER and the settings.
    Admin,
    /// The one owner of a group.
    Owner,
}

impl Role {
    /// The small number that stands for it at rest.
    #[must_use]
    pub const fn code(self) -> i16 {
        match self {
            Self::Member => 1,
            Self::Admin => 2,
            Self::Owner => 3,
        }
    }

    /// The inverse of [`Role::code`].
    #[must_use]
    pub fn from_code(code: i16) -> Option<Self> {
        [Self::Member, Self::Admin, Self::Owner]
            .into_iter()
            .find(|role| role.code() == code)
    }

    /// The word of the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Member => "MEMBER",
            Self::Admin => "ADMIN",
            Self::Owner => "OWNER",
        }
    }

    /// The inverse of [`Role::as_str`].
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Member, Self::Admin, Self::Owner]
            .into_iter()
            .find(|role| role.as_str() == text)
    }
}

/// A present member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Who.
    pub principal: Principal,
    /// What they may do.
    pub role: Role,
    /// The head when the present membership began: the seq of their own `member_added` message, 1 for the founders
    /// of a GROUP, 0 in a DIRECT.
    pub joined_seq: Seq,
    /// When it began.
    pub joined_at: Timestamp,
}

/// The present members, as a conversation's writer holds them: small, since a group may have 100,000.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members(HashMap<Principal, Standing>);

/// A [`Member`] without its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Standing {
    role: Role,
    joined_seq: Seq,
    joined_at: Timestamp,
}

/// More than a group ever has; room for a count that is wrong is not made.
const ROOM_MAX: usize = 1 << 20;

impl Members {
    /// Nobody yet, and room for so many: growing would leave half as much memory behind.
    #[must_use]
    pub fn for_about(count: usize) -> Self {
        Self(HashMap::with_capacity(count.min(ROOM_MAX)))
    }

    /// The member of that name.
    #[must_use]
    pub fn get(&self, principal: Principal) -> Option<Member> {
        self.0.get(&principal).map(|standing| standing.member(principal))
    }

    /// All of them, in no order.
    pub fn iter(&self) -> impl Iterator<Item = Member> {
        self.0.iter().map(|(principal, standing)| standing.member(*principal))
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Nobody is there.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes one out.
    pub fn remove(&mut self, principal: Principal) {
        self.0.remove(&principal);
    }

    /// Gives one another role.
    pub fn set_role(&mut self, principal: Principal, role: Role) {
        if let Some(standing) = self.0.get_mut(&principal) {
            standing.role = role;
        }
    }
}

impl Standing {
    const fn member(self, principal: Principal) -> Member {
        Member {
            principal,
            role: self.role,
            joined_seq: self.joined_seq,
            joined_at: self.joined_at,
        }
    }
}

impl Extend<Member> for Members {
    fn extend<I: IntoIterator<Item = Member>>(&mut self, members: I) {
        let entry = |member: Member| {
            let Member {
                principal,
                role,
                joined_seq,
                joined_at,
            } = member;
            let standing = Standing {
                role,
                joined_seq,
                joined_at,
            };
            (principal, standing)
        };
        self.0.extend(members.into_iter().map(entry));
    }
}

impl FromIterator<Member> for Members {
    fn from_iter<I: IntoIterator<Item = Member>>(members: I) -> Self {
        let mut all = Self::default();
        all.extend(members);
        all
    }
}

/// A member's own view of a conversation: the `me` of the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Membership {
    /// What the writer knows too.
    pub member: Member,
    /// Read up to here; never falls, never passes the head (INV-READ-1).
    pub last_read_seq: Seq,
    /// `count_no` at `last_read_seq`: unread is the head's `count_no` less this (INV-UNREAD-1).
    pub last_read_count_no: CountNo,
    /// Everything up to here is hidden from this member alone; kept when they leave and come back.
    pub cleared_seq: Seq,
    /// `count_no` at `cleared_seq`: nothing up to there is unread.
    pub cleared_count_no: CountNo,
    /// Marked as unread by hand.
    pub marked_unread: bool,
    /// No `push.required`, not in the total.
    pub muted: bool,
    /// First in the list.
    pub pinned: bool,
}
