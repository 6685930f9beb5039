//! Lines with files, names, answers and people, against a store in memory.

use std::path::Path;
use std::time::Duration;

use super::*;
use crate::domain::{ConversationId, Message, MessageStatus, Seq};
use crate::storage::{AuditStore as _, FileStore as _};

/// A folder with lines in it, and a store that they go into.
struct World {
    folder: tempfile::TempDir,
    store: Arc<MemoryStore>,
    config: Config,
}

/// A line of room `r` by `ann`.
fn line(rest: &str) -> String {
    format!("{{\"room\":\"r\",\"at\":\"2018-11-05T19:30:43Z\",\"author\":\"ann\",{rest}}}\n")
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut config = Config::default();
        config.files.store = Some(crate::config::FilePlace::Folder(folder.path().join("objects")));
        config.limits.upload_bytes = 1_000;
        std::fs::create_dir(folder.path().join("in")).unwrap();
        Self {
            folder,
            store: Arc::default(),
            config,
        }
    }

    fn at(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join("in").join(name)
    }

    fn put(&self, name: &str, bytes: &[u8]) {
        let place = self.at(name);
        std::fs::create_dir_all(place.parent().unwrap()).unwrap();
        std::fs::write(place, bytes).unwrap();
    }

    /// Imports these lines; with `stop` somebody asks to stop when the fifth file is on its way.
    async fn import_until(&self, lines: &str, stop: bool) -> (Tally, bool) {
        self.put("lines.jsonl", lines.as_bytes());
        let path = self.at("lines.jsonl");
        let survey = Survey::of(&path, self.config.limits.content_bytes).unwrap();
        let store = Arc::<MemoryStore>::clone(&self.store);
        let core = Core::start(&self.config, store, Arc::new(NoDelivery)).await.unwrap();
        let files = app::files(&self.config, &core, app::open_blobs(&self.config, true).unwrap());
        let parts = Parts {
            core: &core,
            files: Some(&files),
            folder: Folder::of(&path).unwrap(),
            survey: &survey,
            bar: &ProgressBar::hidden(),
        };
        let mut asked = !stop;
        let done = import(parts, async || {
            if asked {
                std::future::pending::<()>().await;
            }
            asked = true;
            while self.store.blobs_after(None, 10).await.unwrap().len() < 5 {
                tokio::task::yield_now().await;
            }
        });
        let done = done.await.unwrap();
        core.stop().await;
        done
    }

    async fn import(&self, lines: &str) -> Tally {
        self.import_until(lines, false).await.0
    }

    /// What was said in all rooms, in order.
    async fn said(&self) -> Vec<Message> {
        let mut said = Vec::new();
        for id in self.rooms().await {
            said.extend(self.store.messages_after(id, Seq::ZERO, 1_000).await.unwrap());
        }
        said.retain(|message| message.message_type.as_str() != "SYSTEM");
        said
    }

    async fn rooms(&self) -> Vec<ConversationId> {
        self.store.conversation_ids(None, 100).await.unwrap()
    }

    /// Files to which no message refers.
    async fn loose(&self) -> usize {
        let now = crate::domain::Timestamp::from_millis(i64::MAX);
        let loose = self.store.loose_files(crate::domain::FileState::Ready, now, 100).await;
        let mut count = 0;
        let referring: Vec<_> = self.said().await.iter().map(|message| message.message_id).collect();
        let referred = self.store.references(&referring).await.unwrap();
        for file in loose.unwrap() {
            count += usize::from(!referred.iter().any(|(_, id)| *id == file.file_id));
        }
        count
    }
}

fn run(test: impl AsyncFnOnce()) {
    actix_rt::System::new().block_on(test());
}

#[test]
fn files_become_attachments_and_the_same_bytes_are_kept_once() {
    run(async || {
        let world = World::new();
        world.put("a.txt", b"bytes");
        world.put("sub/b", b"bytes");
        let lines = line(
            "\"files\":[{\"path\":\"a.txt\",\"media_type\":\"text/plain\"},{\"path\":\"./sub/b\",\"name\":\"../\u{202e}B\"}]",
        ) + &line("\"text\":\"look\",\"message_type\":\"OWN\",\"files\":[{\"path\":\"a.txt\"}]")
            + &line(
                "\"content\":{\"attachments\":[{\"n\":1e400,\"file_id\":\"7\"}]},\"message_type\":\"FILE\",\"files\":[{\"path\":\"a.txt\",\"file_id\":\"7\"}]",
            );
        let tally = world.import(&lines).await;
        assert_eq!((tally.sent, tally.files, tally.skipped.count), (3, 4, 0), "{tally:?}");
        let said = world.said().await;
        let ids: Vec<Vec<_>> = said.iter().map(|message| message.content.files()).collect();
        assert_eq!(
            said[0].content.as_str(),
            format!(
                "{{\"attachments\":[{{\"file_id\":\"{}\",\"name\":\"a.txt\",\"media_type\":\"text/plain\",\"size\":5}},\
                 {{\"file_id\":\"{}\",\"name\":\"B\",\"media_type\":\"application/octet-stream\",\"size\":5}}],\
                 \"said_at\":\"2018-11-05T19:30:43Z\"}}",
                ids[0][0], ids[0][1]
            )
        );
        assert_eq!(said[0].message_type.as_str(), "FILE");
        assert!(
            said[1]
                .content
                .as_str()
                .starts_with("{\"text\":\"look\",\"attachments\":[{"),
            "{said:?}"
        );
        assert_eq!(
            said[2].content.as_str(),
            format!(
                "{{\"attachments\":[{{\"n\":1e400,\"file_id\":\"{}\"}}],\"said_at\":\"2018-11-05T19:30:43Z\"}}",
                ids[2][0]
            )
        );
        let files = self::files(&world, &said).await;
        assert!(
            files.iter().all(|file| file.blob.blob_id == files[0].blob.blob_id),
            "{files:?}"
        );
        assert!(files.iter().all(|file| file.uploader == said[0].sender), "{files:?}");
    });
}

async fn files(world: &World, said: &[Message]) -> Vec<crate::domain::File> {
    let ids: Vec<_> = said.iter().flat_map(|message| message.content.files()).collect();
    world.store.files(&ids).await.unwrap()
}

#[test]
fn an_import_with_files_that_is_started_again_uploads_nothing_twice() {
    run(async || {
        let world = World::new();
        let mut lines = String::new();
        for n in 0..40 {
            world.put(&format!("{n}"), format!("bytes {n}").as_bytes());
            lines += &line(&format!("\"ref\":\"{n}\",\"files\":[{{\"path\":\"{n}\"}}]"));
        }
        lines += &line("\"text\":\"that one\",\"reply_to\":\"39\"");
        let (first, interrupted) = world.import_until(&lines, true).await;
        assert!(interrupted && (4..41).contains(&first.sent), "{first:?}");
        let second = world.import(&lines).await;
        assert_eq!((second.sent + first.sent, second.there), (41, first.sent), "{second:?}");
        assert_eq!(first.files + second.files, 40);
        let third = world.import(&lines).await;
        assert_eq!((third.sent, third.there, third.files), (0, 41, 0), "{third:?}");
        let said = world.said().await;
        assert_eq!(
            (said.len(), files(&world, &said).await.len(), world.loose().await),
            (41, 40, 0)
        );
        assert_eq!(said[40].quoted_message_id, Some(said[39].message_id));
    });
}

#[test]
fn what_is_no_file_in_the_folder_costs_its_line_and_says_what_to_do() {
    run(async || {
        let world = World::new();
        std::fs::write(world.folder.path().join("secret"), "outside").unwrap();
        std::os::unix::fs::symlink("../secret", world.at("link")).unwrap();
        std::os::unix::fs::symlink(world.folder.path(), world.at("out")).unwrap();
        std::os::unix::fs::symlink("good", world.at("inner")).unwrap();
        let fifo = std::process::Command::new("mkfifo").arg(world.at("fifo")).status();
        assert!(fifo.unwrap().success());
        world.put("good", b"good");
        world.put("empty", b"");
        world.put("large", &[7; 1_001]);
        std::fs::create_dir(world.at("folder")).unwrap();
        let absolute = world.folder.path().join("secret");
        let absolute = absolute.to_str().unwrap();
        let bad = [
            ("../secret", "is not inside the folder"),
            ("a/../../secret", "is not inside the folder"),
            (absolute, "is not inside the folder"),
            ("", "is not inside the folder"),
            ("a\\u0000b", "is not inside the folder"),
            ("link", "leads out of the folder"),
            ("out/secret", "leads out of the folder"),
            ("fifo", "is no file"),
            ("folder", "is no file"),
            (".", "is no file"),
            ("missing\\u202etxt", "missing\\u{202e}txt\" is missing in"),
            ("large", "has 1001 bytes, and limits.upload_bytes is 1000"),
            ("good/x", "cannot be read"),
        ];
        let mut lines = String::new();
        for (path, _) in bad {
            // The good one is not uploaded in vain.
            lines += &line(&format!("\"files\":[{{\"path\":\"good\"}},{{\"path\":\"{path}\"}}]"));
        }
        lines += &line("\"files\":[{\"path\":\"empty\"},{\"path\":\"inner\",\"name\":\"\u{202e}\"}]");
        let tally = tokio::time::timeout(Duration::from_secs(20), world.import(&lines))
            .await
            .unwrap();
        assert_eq!((tally.sent, tally.files), (1, 2), "{tally:?}");
        assert_eq!(tally.skipped.named.len(), bad.len(), "{:#?}", tally.skipped);
        for (n, (path, why)) in bad.iter().enumerate() {
            let start = format!("line {}: ", n + 1);
            let named = tally
                .skipped
                .named
                .iter()
                .find(|named| named.starts_with(&start))
                .unwrap();
            assert!(named.contains(why), "{path}: {named}");
        }
        assert_eq!(world.loose().await, 0);
    });
}

#[test]
fn a_line_that_was_skipped_comes_in_when_its_file_is_there() {
    run(async || {
        let world = World::new();
        let lines =
            line("\"ref\":\"1\",\"files\":[{\"path\":\"late\"}]") + &line("\"text\":\"yes\",\"reply_to\":\"1\"");
        let first = world.import(&lines).await;
        assert_eq!((first.sent, first.skipped.count), (0, 2), "{first:?}");
        assert!(
            first.skipped.named[1].contains("reply_to names no line before it"),
            "{first:?}"
        );
        world.put("late", b"now");
        let second = world.import(&lines).await;
        assert_eq!((second.sent, second.skipped.count), (2, 0), "{second:?}");
    });
}

#[test]
fn lines_that_contradict_themselves_are_named() {
    let bad = [
        ("\"text\":\"a\",\"content\":{\"text\":\"a\"}", "leave one of them out"),
        (
            "\"text\":\"a\",\"thread_reply\":true,\"reply_to\":\"1\"",
            "leave one of them out",
        ),
        ("\"message_type\":\"TEXT\"", "needs text, content or files"),
        ("\"text\":\"a\",\"message_type\":\"text\"", "message_type"),
        ("\"text\":\"a\",\"message_type\":\"SYSTEM\"", "made by the server"),
        ("\"content\":7", "content"),
        ("\"content\":{\"text\":\"\\u0000\"}", "content"),
        ("\"text\":\"a\",\"author_type\":\"SYSTEM\"", "nobody's"),
        ("\"text\":\"a\",\"author_id\":\"x\"", "author_id"),
        (
            "\"files\":[{\"path\":\"a\",\"file_id\":\"1\"}]",
            "no entry of content.attachments",
        ),
        (
            "\"content\":{\"attachments\":[{\"file_id\":\"1\"}]},\"message_type\":\"FILE\",\"files\":[{\"path\":\"a\"}]",
            "give each the file_id",
        ),
        (
            "\"text\":\"a\",\"files\":[{\"path\":\"a\",\"media_type\":\"png\"}]",
            "media_type",
        ),
    ];
    run(async || {
        let world = World::new();
        let lines: String = bad.iter().map(|(rest, _)| line(rest)).collect();
        let tally = world.import(&lines).await;
        assert_eq!(tally.skipped.named.len(), bad.len(), "{:#?}", tally.skipped);
        for ((rest, why), named) in bad.iter().zip(&tally.skipped.named) {
            assert!(named.contains(why), "{rest}: {named}");
        }
    });
}

#[test]
fn people_are_who_they_were_in_directs_and_groups() {
    run(async || {
        let world = World::new();
        let lines = "{\"room\":\"d\",\"at\":\"2018-11-05T19:30:43Z\",\"author_id\":\"9\",\"text\":\"a stranger\"}\n\
             {\"room\":\"d\",\"at\":\"2018-11-05T19:30:43Z\",\"author\":\"ann\",\"author_id\":\"777\",\"text\":\"hi\"}\n\
             {\"room\":\"d\",\"kind\":\"DIRECT\",\"members\":[{\"author_id\":\"7\"},{\"author\":\"ann\",\"author_id\":\"777\"}]}\n\
             {\"room\":\"g\",\"at\":\"2018-11-05T19:30:43Z\",\"author\":\"777\",\"text\":\"another\"}\n\
             {\"room\":\"g\",\"at\":\"2018-11-05T19:30:43Z\",\"author\":\"bot\",\"author_type\":\"AGENT\",\"text\":\"I\"}\n\
             {\"room\":\"n\",\"kind\":\"DIRECT\",\"members\":[]}\n";
        let tally = world.import(lines).await;
        assert_eq!((tally.sent, tally.skipped.count), (3, 2), "{tally:?}");
        let named = |start: &str| tally.skipped.named.iter().any(|named| named.starts_with(start));
        assert!(named("line 1: you are not a member"), "{tally:?}");
        assert!(
            named("line 6: the conversation of room n cannot be made: "),
            "{tally:?}"
        );
        let said = world.said().await;
        let of = |text: &str| {
            said.iter()
                .find(|said| said.content.as_str().contains(text))
                .unwrap()
                .sender
        };
        assert_eq!(of("hi"), Principal::user(777), "the id that mentions name stays");
        assert_ne!(
            of("another"),
            Principal::user(777),
            "who is called so outside is somebody else"
        );
        assert_eq!(of("\"I\"").kind, PrincipalType::Agent);
        assert!(said.iter().all(|message| message.status == MessageStatus::Normal));
        assert_eq!(world.rooms().await.len(), 2);
    });
}

#[test]
fn who_has_left_is_not_let_in_again_by_a_second_run() {
    run(async || {
        let world = World::new();
        let lines = line("\"text\":\"I am off\"")
            + "{\"room\":\"r\",\"members\":[{\"author\":\"bob\",\"role\":\"OWNER\"}],\"kind\":\"GROUP\",\"posting\":\"ADMINS\"}\n";
        world.import(&lines).await;
        let heads = world.heads().await;
        let again = world.import(&lines).await;
        assert_eq!((again.there, again.skipped.count), (1, 0), "{again:?}");
        assert_eq!(world.heads().await, heads, "a second run says nothing");
        let id = world.rooms().await[0];
        let members = world.store.members(id, None, 10).await.unwrap();
        assert_eq!(members.len(), 2, "{members:?}");
        let more = world.import(&(lines + &line("\"text\":\"once more\""))).await;
        assert_eq!((more.sent, more.there), (1, 1), "{more:?}");
        assert_eq!(world.store.members(id, None, 10).await.unwrap().len(), 2);
    });
}

impl World {
    /// How far each room is.
    async fn heads(&self) -> Vec<Seq> {
        let mut heads = Vec::new();
        for id in self.rooms().await {
            heads.push(self.store.ledger(id).await.unwrap().unwrap().head.last_seq);
        }
        heads
    }
}

/// A path of the test itself, so that it is looked at where it is.
#[test]
fn the_folder_is_that_of_the_lines_whatever_leads_there() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("real")).unwrap();
    std::fs::write(folder.path().join("real/lines"), "").unwrap();
    std::os::unix::fs::symlink("real", folder.path().join("other")).unwrap();
    let of = |path: &Path| format!("{:?}", Folder::of(path).unwrap());
    assert_eq!(
        of(&folder.path().join("other/lines")),
        of(&folder.path().join("real/lines"))
    );
}
