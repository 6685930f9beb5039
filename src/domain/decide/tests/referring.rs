//! Files of messages: who may refer to them, and which references stand.

use super::*;
use crate::domain::content::AttachmentType;
use crate::domain::decide::{Fact, Touchable};
use crate::domain::{Annotated, FileId, Touch};

fn file(id: i64) -> FileId {
    FileId::new(id).unwrap()
}

fn with_files(files: &[i64]) -> Content {
    let list: Vec<String> = files.iter().map(|id| format!("{{\"file_id\":\"{id}\"}}")).collect();
    Content::trusted(&format!("{{\"text\":\"\",\"attachments\":[{}]}}", list.join(",")))
}

fn picture(sender: Principal, key: &str, files: &[i64]) -> Send {
    let content = with_files(files);
    Send {
        message_type: MessageType::Attachment(AttachmentType::Image),
        content_hash: content_hash(content.as_str()),
        content,
        ..sending(sender, key, "")
    }
}

fn touch(actor: Principal, message: &Message, touch: Touch) -> Command {
    Command::Touch {
        origin: by(actor),
        message_id: message.message_id,
        touch,
    }
}

fn recall(now: i64) -> Touch {
    Touch::Recall {
        received_at: Timestamp::from_millis(now),
        window_ms: 120_000,
    }
}

impl World {
    fn knows_files(&mut self, reader: Principal, files: &[(i64, bool)]) {
        let known = files.iter().map(|(id, may)| ((file(*id), reader), *may));
        self.facts.files.extend(known);
    }

    fn knows_message(&mut self, message: &Arc<Message>) {
        let touchable = Touchable {
            annotated: Annotated::plain(Arc::clone(message)),
            hidden_for: Vec::new(),
            standing_below: Seq::ZERO,
            pins: 0,
        };
        self.facts.messages.insert(message.message_id, Some(touchable));
    }

    /// What a command tells of references.
    fn references(&mut self, commands: &[Command]) -> Vec<String> {
        let (outcomes, batch) = self.do_all(commands);
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
        let mut told = told(batch.as_ref());
        told.retain(|line| line.starts_with("referenced"));
        told
    }
}

#[test]
fn a_message_refers_only_to_files_that_its_sender_may_read() {
    let mut world = World::group(&[BOB]);
    let send = Command::Send(picture(BOB, "k", &[9, 7]));
    let needs = Err(Refusal::Needs(Fact::Files(BOB, vec![file(7), file(9)])));
    assert_eq!(world.does(&send), needs, "all of them are asked for at once");
    world.knows_files(BOB, &[(7, true), (9, false)]);
    world.knows_files(ANN, &[(9, true)]);
    world.knows_key_is_new(BOB, "k");
    assert!(
        matches!(world.refusal(&send), DomainError::NotFound(_)),
        "what others may read is not theirs"
    );
    world.knows_files(BOB, &[(9, true)]);
    assert_eq!(world.references(&[send]), ["referenced 2 [FileId(7), FileId(9)] []"]);
}

#[test]
fn whatever_the_type_and_in_whosever_name_files_are_asked_for() {
    let mut world = World::group(&[BOB]);
    let text = Send {
        message_type: MessageType::Text,
        ..picture(BOB, "k", &[7])
    };
    assert_eq!(
        world.does(&Command::Send(text)),
        Err(Refusal::Needs(Fact::Files(BOB, vec![file(7)])))
    );
    let told = Command::SendFor(Send {
        origin: by(Principal::SYSTEM),
        ..picture(BOB, "k", &[7])
    });
    assert_eq!(
        world.does(&told),
        Err(Refusal::Needs(Fact::Files(Principal::SYSTEM, vec![file(7)])))
    );
}

#[test]
fn a_message_without_files_asks_for_nothing_and_refers_to_nothing() {
    let mut world = World::group(&[]);
    assert_eq!(world.references(&[send(ANN, "k")]), Vec::<String>::new());
}

#[test]
fn a_repeat_wins_over_a_file_that_has_gone() {
    let mut world = World::group(&[]);
    world.knows_files(ANN, &[(7, true)]);
    let first = world.sent(&Command::Send(picture(ANN, "k", &[7])));
    world.knows_files(ANN, &[(7, false)]);
    let again = world.does(&Command::Send(picture(ANN, "k", &[7])));
    assert_eq!(again, Ok(Outcome::Duplicate(first.record())));
}

#[test]
fn an_edit_asks_only_for_files_that_the_message_does_not_show_yet() {
    let mut world = World::group(&[]);
    world.knows_files(ANN, &[(1, true), (2, true)]);
    let message = world.sent(&Command::Send(picture(ANN, "k", &[1, 2])));
    world.knows_message(&message);
    world.knows_files(ANN, &[(1, false), (2, false)]);
    let edit = |files: &[i64]| touch(ANN, &message, Touch::Edit(with_files(files)));
    assert_eq!(
        world.does(&edit(&[2, 3])),
        Err(Refusal::Needs(Fact::Files(ANN, vec![file(3)])))
    );
    world.knows_files(ANN, &[(3, false)]);
    assert!(matches!(world.refusal(&edit(&[2, 3])), DomainError::NotFound(_)));
    world.knows_files(ANN, &[(3, true)]);
    let edits = [edit(&[2, 3]), edit(&[3])];
    assert_eq!(
        world.references(&edits),
        ["referenced 2 [FileId(3)] [FileId(1)]", "referenced 2 [] [FileId(2)]"],
        "each on top of the one before"
    );
}

#[test]
fn references_go_with_the_words_of_a_message() {
    for gone in [recall(START), Touch::Delete] {
        let mut world = World::group(&[]);
        world.knows_files(ANN, &[(1, true), (2, true)]);
        let message = world.sent(&Command::Send(picture(ANN, "k", &[1, 2])));
        world.knows_message(&message);
        let commands = [touch(ANN, &message, gone)];
        assert_eq!(world.references(&commands), ["referenced 2 [] [FileId(1), FileId(2)]"]);
    }
}

#[test]
fn what_is_recalled_and_deleted_as_well_lets_go_of_its_files_once() {
    let mut world = World::group(&[]);
    world.knows_files(ANN, &[(1, true)]);
    let message = world.sent(&Command::Send(picture(ANN, "k", &[1])));
    world.knows_message(&message);
    let both = [touch(ANN, &message, recall(START)), touch(ANN, &message, Touch::Delete)];
    assert_eq!(world.references(&both), ["referenced 2 [] [FileId(1)]"]);
}
