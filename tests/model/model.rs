//! The model: what a conversation means, in the plainest words. Nothing is counted on the way, all is derived.

use std::collections::{BTreeMap, BTreeSet};

use onescribe::domain::{MessageStatus, Role};

/// One of the five.
pub(crate) type User = usize;
/// How long a sender may recall.
pub(crate) const WINDOW_SECS: u64 = 120;

/// A message. `sender` is none for those of the server.
#[derive(Clone, Debug)]
pub(crate) struct Said {
    pub(crate) sender: Option<User>,
    pub(crate) text: String,
    pub(crate) status: MessageStatus,
    pub(crate) at: i64,
    pub(crate) deleted_for: BTreeSet<User>,
    /// Emoji and who gave it.
    pub(crate) reactions: BTreeSet<(String, User)>,
    pub(crate) pinned: bool,
    /// Also who has taken that back.
    pub(crate) ever_deleted_for: BTreeSet<User>,
    pub(crate) reminders: BTreeMap<User, Reminder>,
}

/// A user wants to be reminded of a message, or has wanted to.
#[derive(Clone, Debug)]
pub(crate) struct Reminder {
    pub(crate) due: i64,
    pub(crate) active: bool,
    pub(crate) fired: bool,
}

/// Seq, status, words, reactions (how many, mine?), pinned.
pub(crate) type Line = (i64, MessageStatus, String, BTreeMap<String, (u64, bool)>, bool);

/// A present member.
#[derive(Clone, Debug)]
pub(crate) struct Own {
    pub(crate) role: Role,
    pub(crate) joined: i64,
    pub(crate) read: i64,
    pub(crate) cleared: i64,
    pub(crate) pinned: bool,
    pub(crate) muted: bool,
    pub(crate) marked: bool,
}

/// A conversation. The seq of a message is its place in `said`, from 1.
#[derive(Clone, Debug)]
pub(crate) struct Room {
    pub(crate) group: bool,
    pub(crate) open: bool,
    /// Members see only what came after they joined.
    pub(crate) joined_only: bool,
    /// The least role that may send, and that may add.
    pub(crate) post: Role,
    pub(crate) add: Role,
    pub(crate) members: BTreeMap<User, Own>,
    /// What former members had cleared.
    pub(crate) former: BTreeMap<User, i64>,
    pub(crate) said: Vec<Said>,
    pub(crate) changes: i64,
    pub(crate) active: i64,
}

impl Room {
    pub(crate) fn new(group: bool, joined_only: bool, founders: &[User], now: i64) -> Self {
        let joined = i64::from(group);
        let own = |user: &User| {
            let role = if group && *user == founders[0] {
                Role::Owner
            } else {
                Role::Member
            };
            (*user, Own::new(role, joined, joined))
        };
        let mut room = Self {
            group,
            open: true,
            joined_only,
            post: Role::Member,
            add: Role::Admin,
            members: founders.iter().map(own).collect(),
            former: BTreeMap::new(),
            said: Vec::new(),
            changes: 0,
            active: now,
        };
        if group {
            room.system("conversation_created", now);
        }
        room
    }

    pub(crate) fn head(&self) -> i64 {
        i64::try_from(self.said.len()).unwrap()
    }

    /// Is the member allowed what needs at least this role?
    pub(crate) fn has(&self, user: User, least: Role) -> bool {
        self.members.get(&user).is_some_and(|own| own.role >= least)
    }

    pub(crate) fn say(&mut self, user: User, text: &str, now: i64) {
        self.append(Some(user), text, now);
        let head = self.head();
        if let Some(own) = self.members.get_mut(&user) {
            (own.read, own.marked) = (head, false);
        }
    }

    pub(crate) fn system(&mut self, event: &str, now: i64) {
        self.append(None, event, now);
    }

    fn append(&mut self, sender: Option<User>, text: &str, now: i64) {
        self.active = now;
        self.said.push(Said {
            sender,
            text: text.to_owned(),
            status: MessageStatus::Normal,
            at: now,
            deleted_for: BTreeSet::new(),
            ever_deleted_for: BTreeSet::new(),
            reactions: BTreeSet::new(),
            pinned: false,
            reminders: BTreeMap::new(),
        });
    }

    pub(crate) fn join(&mut self, user: User) {
        let mut own = Own::new(Role::Member, self.head() + 1, self.head() + 1);
        own.cleared = self.former.remove(&user).unwrap_or(0);
        self.members.insert(user, own);
    }

    pub(crate) fn part(&mut self, user: User) {
        if let Some(own) = self.members.remove(&user) {
            self.former.insert(user, own.cleared);
        }
    }

    /// Who follows an owner that has left.
    pub(crate) fn heir(&self) -> Option<User> {
        let rank = |own: &Own| (own.role != Role::Admin, own.joined);
        self.members
            .iter()
            .min_by_key(|(user, own)| (rank(own), **user))
            .map(|(user, _)| *user)
    }

    /// Is it of the part of the history that the user sees?
    pub(crate) fn reaches(&self, user: User, seq: i64) -> bool {
        let Some(own) = self.members.get(&user) else {
            return false;
        };
        let first = if self.joined_only { own.joined } else { 1 };
        seq >= first.max(own.cleared + 1)
    }

    pub(crate) fn sees(&self, user: User, seq: i64) -> bool {
        let said = &self.said[usize::try_from(seq - 1).unwrap()];
        self.reaches(user, seq) && said.status != MessageStatus::Deleted && !said.deleted_for.contains(&user)
    }

    /// What the user sees.
    pub(crate) fn visible(&self, user: User) -> Vec<(i64, &Said)> {
        let all = (1..).zip(&self.said);
        all.filter(|(seq, _)| self.sees(user, *seq)).collect()
    }

    /// Of a message at `seq`: who has read it and who has not, in order of joining. Its sender is neither.
    pub(crate) fn readers(&self, seq: i64) -> (Vec<User>, Vec<User>) {
        let sender = self.said[usize::try_from(seq - 1).unwrap()].sender;
        let mut others: Vec<_> = self.members.iter().filter(|(user, _)| Some(**user) != sender).collect();
        others.sort_by_key(|(user, own)| (own.joined, **user));
        let (read, not): (Vec<_>, Vec<_>) = others.into_iter().partition(|(_, own)| own.read >= seq);
        let users = |list: Vec<(&User, &Own)>| list.into_iter().map(|(user, _)| *user).collect();
        (users(read), users(not))
    }

    /// By others, not read, still standing.
    fn news(&self, user: User) -> impl Iterator<Item = &Said> {
        let read = self.members.get(&user).map_or(0, |own| own.read);
        let above = (1..)
            .zip(&self.said)
            .filter(move |(seq, _)| *seq > read && self.sees(user, *seq));
        let counts = move |said: &&Said| said.sender.is_some_and(|sender| sender != user);
        let news = above.map(|(_, said)| said).filter(counts);
        news.filter(|said| said.status != MessageStatus::Recalled)
    }

    pub(crate) fn unread(&self, user: User) -> u64 {
        u64::try_from(self.news(user).count()).unwrap()
    }

    /// Those that name the user, or all.
    pub(crate) fn mentions(&self, user: User) -> u64 {
        let name = format!("@{user}");
        let named = self
            .news(user)
            .filter(|said| said.text.contains(&name) || said.text.contains("@all"));
        u64::try_from(named.count()).unwrap()
    }

    /// The newest that the user sees and that was not taken back.
    pub(crate) fn last(&self, user: User) -> Option<i64> {
        let standing = |seq: &i64| self.said[usize::try_from(seq - 1).unwrap()].status != MessageStatus::Recalled;
        (1..=self.head())
            .rev()
            .find(|seq| self.sees(user, *seq) && standing(seq))
    }
}

impl Said {
    pub(crate) fn line(&self, seq: i64, user: User) -> Line {
        (seq, self.status, self.text.clone(), self.tallies(user), self.pinned)
    }

    fn tallies(&self, user: User) -> BTreeMap<String, (u64, bool)> {
        let mut tallies: BTreeMap<String, (u64, bool)> = BTreeMap::new();
        for (emoji, by) in &self.reactions {
            let tally = tallies.entry(emoji.clone()).or_default();
            *tally = (tally.0 + 1, tally.1 || *by == user);
        }
        tallies
    }

    /// Its words are taken away, and what others have put on it with them.
    pub(crate) fn take_away(&mut self, status: MessageStatus) {
        self.status = status;
        self.text = "recalled".to_owned();
        self.reactions.clear();
        self.pinned = false;
    }
}

impl Own {
    fn new(role: Role, joined: i64, read: i64) -> Self {
        Self {
            role,
            joined,
            read,
            cleared: 0,
            pinned: false,
            muted: false,
            marked: false,
        }
    }
}
