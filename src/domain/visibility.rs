//! What one user may see of a conversation (INV-VIS-1).

use super::conversation::{Header, HistoryVisibility};
use super::ids::{Principal, Seq};
use super::member::{Member, Membership};

/// The first seq that the conversation shows to this member; what they cleared or deleted for themselves is left out
/// besides.
#[must_use]
pub fn first_shared(header: &Header, member: &Member) -> Seq {
    match header.history_visibility {
        HistoryVisibility::Shared => Seq::ZERO.next(),
        HistoryVisibility::Joined => member.joined_seq.max(Seq::ZERO.next()),
    }
}

/// The first seq that this member sees, also by their own will; what they deleted one by one is left out besides.
#[must_use]
pub fn first_visible(header: &Header, membership: &Membership) -> Seq {
    first_shared(header, &membership.member).max(membership.cleared_seq.next())
}

/// To whom a change to this message is HIDDEN, in order: the members who joined too late (where history is shared that
/// costs nothing), and those who hide it from themselves.
#[must_use]
pub fn blind_to(
    header: &Header,
    members: impl Iterator<Item = Member>,
    seq: Seq,
    hidden_for: &[Principal],
) -> Vec<Principal> {
    let mut blind = hidden_for.to_vec();
    if header.history_visibility == HistoryVisibility::Joined {
        let late = members.filter(|member| seq < first_shared(header, member));
        blind.extend(late.map(|member| member.principal));
    }
    blind.sort_unstable();
    blind.dedup();
    blind
}
