//! What is said in a walk, with mentions and files, and who may show and read which file.

use onescribe::domain::{BlobId, ClientMessageId, Content, FileId, MessageType, Origin, Send, Timestamp, chain};
use onescribe::storage::{FinishedFile, NewBlob, NewFile, Store};

use super::model::User;
use super::stack::principal;
use super::walk::{USERS, Walk};

/// Files that there are from the beginning: the first is of the first user, and so on. Few, so that many have been shown.
const FILES: usize = 3;

fn uploader(file: usize) -> User {
    file % USERS
}

fn file_id(file: usize) -> FileId {
    FileId::new(i64::try_from(file + 1).unwrap()).unwrap()
}

/// The file that a text names as `#7`.
fn shown_in(text: &str) -> Option<usize> {
    text.split_once('#')?.1.parse().ok()
}

/// Everybody uploads their files.
pub(crate) async fn upload_all(store: &dyn Store) {
    let created_at = Timestamp::default();
    for file in 0..FILES {
        let (file_id, blob_id) = (file_id(file), BlobId::new(file_id(file).get()).unwrap());
        let blob = NewBlob {
            blob_id,
            object_key: format!("{file}"),
            size_bytes: 1,
            created_at,
        };
        store.add_blob(&blob).await.unwrap();
        let new = NewFile {
            file_id,
            uploader: principal(uploader(file)),
            name: "a".to_owned(),
            media_type: "image/png".to_owned(),
            blob_id,
            created_at,
        };
        store.add_file(&new).await.unwrap();
        let sha256 = chain::content_hash(&blob.object_key);
        store.settle_blob(blob_id, sha256, 1, created_at).await.unwrap();
        let finished = FinishedFile {
            file_id,
            media_type: new.media_type,
            blob_id,
            dimensions: None,
            thumbnail: None,
        };
        assert!(store.finish_file(&finished).await.unwrap());
    }
}

impl Walk {
    pub(crate) fn text(&mut self) -> String {
        match self.chance.below(12) {
            0 => format!("hello @{}", self.chance.below(USERS)),
            1 => "hello @all".to_owned(),
            2..=4 => {
                // One of them goes round.
                let file = if self.chance.one_in(3) {
                    self.chance.below(FILES)
                } else {
                    0
                };
                format!("look #{file}")
            }
            _ => format!("text {}", self.chance.below(1_000)),
        }
    }

    /// Who uploaded it, and who sees a message that shows it.
    fn may_read(&self, user: User, file: usize) -> bool {
        let shows = |text: &str| shown_in(text) == Some(file);
        let mut rooms = self.places.iter().map(|place| &place.room);
        uploader(file) == user || rooms.any(|room| room.visible(user).iter().any(|(_, said)| shows(&said.text)))
    }

    /// May this user say this, where it said `before`?
    pub(crate) fn may_show(&mut self, user: User, text: &str, before: &str) -> bool {
        let Some(file) = shown_in(text) else { return true };
        let may = shown_in(before) == Some(file) || self.may_read(user, file);
        if !may {
            self.happened("a file was refused");
        } else if uploader(file) != user {
            self.happened("a file of another was shown");
        }
        may
    }

    /// Which files each user may read; nothing refers to a file but messages that show it.
    pub(crate) async fn compare_files(&self) {
        let ids: Vec<FileId> = (0..FILES).map(file_id).collect();
        for user in 0..USERS {
            let found = self.store.readable_files(&ids, principal(user)).await.unwrap();
            let mut found: Vec<FileId> = found.into_iter().map(|file| file.file_id).collect();
            found.sort_unstable();
            let readable = (0..FILES).filter(|file| self.may_read(user, *file));
            assert_eq!(found, readable.map(file_id).collect::<Vec<_>>(), "files of user {user}");
        }
        let strays = self.store.stray_references(None, 10_000).await.unwrap().strays;
        assert_eq!(strays, [], "a file is kept for nothing");
    }
}

/// With mentions and files where the text has some.
pub(crate) fn content(text: &str) -> Content {
    let mut json = serde_json::json!({ "text": text });
    if text.contains("@all") {
        json["mention_all"] = true.into();
    } else if let Some((before, user)) = text.split_once('@') {
        let user: User = user.parse().unwrap();
        let (offset, id) = (before.len(), principal(user).id.to_string());
        json["mentions"] = serde_json::json!([{"user_id": id, "offset": offset, "length": 2}]);
    }
    if let Some(file) = shown_in(text) {
        json["attachments"] = serde_json::json!([{"file_id": file_id(file).to_string(), "name": "a"}]);
    }
    Content::trusted(&json.to_string())
}

pub(crate) fn send(origin: Origin, key: &str, text: &str) -> Send {
    let content = content(text);
    Send {
        origin,
        client_message_id: ClientMessageId::parse(key).unwrap(),
        message_type: MessageType::Text,
        content_hash: chain::content_hash(content.as_str()),
        content,
        quoted_message_id: None,
        expected_last_seq: None,
    }
}
