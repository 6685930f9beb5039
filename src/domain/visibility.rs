//! What one user may see of a conversation (INV-VIS-1).

use super::conversation::{Header, HistoryVisibility};
use super::ids::Seq;
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
