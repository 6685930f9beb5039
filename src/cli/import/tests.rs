//! An import from a file into a store in memory.

mod files;

use std::io::Write as _;

use super::room::MEMBERS_AT_ONCE;
use super::*;
use crate::storage::memory::MemoryStore;
use crate::storage::{ConversationStore as _, MessageStore as _, PrincipalStore as _};

/// Three rooms in turn, a reply now and then, equal lines, two bad ones.
fn file(lines: u32) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    for n in 0..lines {
        let (room, author, reply) = (n % 3, n % 7, n % 10 == 9);
        let text = if n % 50 < 3 {
            "same".to_owned()
        } else {
            format!("line {n} 你好 \\u{{1f389}}")
        };
        writeln!(
            file,
            "{{\"room\":\"room-{room}\",\"at\":\"2018-11-05T19:30:43Z\",\"author\":\"u{author}\",\"thread_reply\":{reply},\"text\":{text:?}}}"
        )
        .unwrap();
    }
    writeln!(file, "{{\"room\":\"room-0\"}}\nnothing").unwrap();
    file
}

/// Lines without files.
fn parts<'a>(core: &'a Core, survey: &'a Survey, bar: &'a ProgressBar) -> Parts<'a> {
    let folder = Folder::of(&std::env::temp_dir().join(".")).unwrap();
    Parts {
        core,
        files: None,
        folder,
        survey,
        bar,
    }
}

async fn import_once(store: &Arc<MemoryStore>, survey: &Survey) -> (Tally, bool) {
    let core = Core::start(
        &Config::default(),
        Arc::<MemoryStore>::clone(store),
        Arc::new(NoDelivery),
    )
    .await;
    let core = core.unwrap();
    let never = async || std::future::pending().await;
    let done = import(parts(&core, survey, &ProgressBar::hidden()), never)
        .await
        .unwrap();
    core.stop().await;
    done
}

#[test]
fn whoever_asks_twice_to_stop_does_not_wait() {
    let file = file(1_000);
    let survey = Survey::of(file.path(), 65_536).unwrap();
    actix_rt::System::new().block_on(async {
        let store = Arc::new(MemoryStore::default());
        let core = Core::start(&Config::default(), store, Arc::new(NoDelivery))
            .await
            .unwrap();
        let stopped = import(parts(&core, &survey, &ProgressBar::hidden()), async || {}).await;
        assert!(stopped.unwrap_err().to_string().starts_with("stopped at once"));
        core.stop().await;
    });
}

#[test]
fn an_import_started_again_finds_everything_there_and_makes_no_double() {
    let file = file(1_000);
    let survey = Survey::of(file.path(), 65_536).unwrap();
    actix_rt::System::new().block_on(async {
        let store = Arc::new(MemoryStore::default());
        let (first, _) = import_once(&store, &survey).await;
        assert_eq!(
            (first.sent, first.there, first.skipped.count),
            (1_000, 0, 2),
            "{:?}",
            first.skipped
        );
        assert!(first.skipped.named[0].starts_with("line 1001: "), "{:?}", first.skipped);
        let (second, interrupted) = import_once(&store, &survey).await;
        assert_eq!(
            (second.sent, second.there, second.skipped.count, interrupted),
            (0, 1_000, 2, false)
        );
    });
}

#[test]
fn a_room_with_more_authors_than_one_message_can_list_is_filled_in_parts() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    for n in 0..=MEMBERS_AT_ONCE * 2 {
        let rest = "\"at\":\"2018-11-05T19:30:43Z\",\"text\":\"hi\"";
        writeln!(file, "{{\"room\":\"r\",\"author\":\"u{n}\",{rest}}}").unwrap();
    }
    let survey = Survey::of(file.path(), 65_536).unwrap();
    actix_rt::System::new().block_on(async {
        let store = Arc::new(MemoryStore::default());
        let (first, _) = import_once(&store, &survey).await;
        assert_eq!((first.sent, first.skipped.count), (1_001, 0), "{:?}", first.skipped);
        let (second, _) = import_once(&store, &survey).await;
        assert_eq!((second.there, second.skipped.count), (1_001, 0), "{:?}", second.skipped);
    });
}

#[test]
fn lines_keep_their_order_and_a_reply_quotes_the_line_before_it_in_its_room() {
    let file = file(200);
    let survey = Survey::of(file.path(), 65_536).unwrap();
    actix_rt::System::new().block_on(async {
        let store = Arc::new(MemoryStore::default());
        import_once(&store, &survey).await;
        for room in &survey.rooms {
            let agent = store
                .by_external_id(PrincipalType::Agent, &ExternalId::parse(IMPORTER).unwrap())
                .await;
            let key = crate::domain::CreationKey::request(agent.unwrap().unwrap(), &room.name);
            let id = store.by_creation_key(&key).await.unwrap().unwrap();
            let messages = store
                .messages_after(id, crate::domain::Seq::new(1), 1_000)
                .await
                .unwrap();
            assert_eq!(messages.len(), room.lines.len());
            let mut before = None;
            for (message, place) in messages.iter().zip(&room.lines) {
                let Again::Said(said, _) = survey.read(*place).unwrap() else {
                    panic!("something is said")
                };
                assert_eq!(message.content, said.content(&[]));
                let replies = said.quotes == line::Quotes::LineBefore;
                assert_eq!(message.quoted_message_id, before.filter(|_| replies));
                before = Some(message.message_id);
            }
        }
    });
}
