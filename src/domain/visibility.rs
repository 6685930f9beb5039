//! What one user may see of a conversation (INV-VIS-1).

use super::conversation::{Header, HistoryVisibility};
use super::ids::{Principal, Seq};
use super::member::Member;

/// The first seq that this member may see; what they deleted for themselves is left out besides.
#[must_use]
pub fn first_visible(header: &Header, member: &Member) -> Seq {
    let from = match header.history_visibility {
        HistoryVisibility::Shared => Seq::ZERO.next(),
        HistoryVisibility::Joined => member.joined_seq.max(Seq::ZERO.next()),
    };
    from.max(member.cleared_seq.next())
}

/// The members who joined too late to see a message; none where history is shared, and there it costs nothing.
#[must_use]
pub fn blind_to(header: &Header, members: impl Iterator<Item = Member>, seq: Seq) -> Vec<Principal> {
    if header.history_visibility == HistoryVisibility::Shared {
        return Vec::new();
    }
    let blind = members.filter(|member| seq < first_visible(header, member));
    let mut blind: Vec<Principal> = blind.map(|member| member.principal).collect();
    blind.sort_unstable();
    blind
}
