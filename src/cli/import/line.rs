//! One line of a file for `import`: something that was said, or what a room is and who is in it.

use std::collections::HashMap;
use std::path::{Component, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::cli::said_at::{self, SAID_AT_BYTES_MAX};
use crate::domain::decide::check_title;
use crate::domain::time::parse_rfc3339;
use crate::domain::{
    Adding, ClientRequestId, Content, ExternalId, FileId, FileName, HistoryVisibility, InvalidField, Kind, MediaType,
    MessageType, Name, Posting, Principal, PrincipalType, Role, Status, Subject,
};

/// Stands for files that are not uploaded yet, so that the rest of a line can be judged.
const NO_FILE_YET: i64 = i64::MAX;
const ATTACHMENTS: &str = "attachments";
/// As over REST.
const AVATAR_URL_CHARS_MAX: usize = 2_048;

/// A line as it stands in the file. What is not there and what is `null` mean the same.
#[derive(Debug, Deserialize)]
struct Line<'a> {
    room: String,
    at: Option<String>,
    author: Option<String>,
    author_id: Option<String>,
    author_type: Option<String>,
    #[serde(default)]
    thread_reply: bool,
    text: Option<String>,
    message_type: Option<String>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    files: Option<Vec<FileLine>>,
    #[serde(rename = "ref")]
    name: Option<String>,
    reply_to: Option<String>,
    kind: Option<String>,
    title: Option<String>,
    avatar_url: Option<String>,
    history_visibility: Option<String>,
    posting: Option<String>,
    adding: Option<String>,
    status: Option<String>,
    members: Option<Vec<MemberLine>>,
}

#[derive(Debug, Deserialize)]
struct FileLine {
    path: String,
    file_id: Option<String>,
    name: Option<String>,
    media_type: Option<String>,
}

#[derive(Debug, Deserialize)]
struct MemberLine {
    author: Option<String>,
    author_id: Option<String>,
    author_type: Option<String>,
    role: Option<String>,
}

/// Somebody, as a line names them: by the id of the host's own user system, by ours, or by both.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(in crate::cli) struct Who {
    pub(super) kind: PrincipalType,
    pub(super) external_id: Option<ExternalId>,
    /// With an external id: the id that whoever is new here gets, if nobody has it.
    pub(super) id: Option<i64>,
}

/// A line that was understood.
#[derive(Debug)]
pub(super) enum Entry {
    Said(Box<Said>),
    About(Box<About>),
}

/// Something that was said.
#[derive(Debug)]
pub(in crate::cli) struct Said {
    pub(super) room: ClientRequestId,
    pub(super) author: Who,
    pub(in crate::cli) message_type: MessageType,
    /// As it stands in the line: without `said_at`, and without the files of `files`.
    words: Content,
    at: Box<str>,
    pub(super) files: Vec<Attached>,
    pub(super) quotes: Quotes,
    /// By which other lines name it.
    pub(super) name: Option<Box<str>>,
}

/// What a line answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Quotes {
    Nothing,
    /// What stands just before it in its room.
    LineBefore,
    /// The line of that name.
    Line(Box<str>),
}

/// A file that belongs to a line.
#[derive(Clone, Debug)]
pub(super) struct Attached {
    /// Inside the folder of the lines.
    pub(super) path: PathBuf,
    /// The id in the content that stands for it; none of them has one where `attachments` is still to be made.
    pub(super) stands_for: Option<FileId>,
    pub(super) name: FileName,
    pub(super) media_type: Option<MediaType>,
}

/// What a room is, as far as the line says it, and who is in it.
#[derive(Clone, Debug)]
pub(super) struct About {
    pub(super) room: ClientRequestId,
    pub(super) kind: Option<Kind>,
    pub(super) title: Option<String>,
    pub(super) avatar_url: Option<String>,
    pub(super) history_visibility: HistoryVisibility,
    pub(super) posting: Posting,
    pub(super) adding: Adding,
    pub(super) status: Status,
    pub(super) members: Option<Vec<(Who, Role)>>,
}

/// An entry of `attachments`, as it is made for files that come without one.
#[derive(Serialize)]
struct Attachment<'a> {
    file_id: String,
    name: &'a str,
    media_type: &'a str,
    size: u64,
}

/// What became of a file that was uploaded.
#[derive(Debug)]
pub(in crate::cli) struct Uploaded {
    pub(super) file_id: FileId,
    pub(super) name: String,
    pub(super) media_type: String,
    pub(super) size_bytes: u64,
}

/// Reads one line.
///
/// # Errors
/// What is wrong, in words for whoever made the file.
pub(super) fn parse(text: &[u8], content_bytes_max: usize) -> Result<Entry, String> {
    let line: Line<'_> = serde_json::from_slice(text).map_err(|error| format!("is not what is expected: {error}"))?;
    let room = ClientRequestId::parse(&line.room).map_err(named("room"))?;
    let says = line.text.is_some() || line.content.is_some() || line.files.is_some();
    let is_said = says || line.at.is_some() || line.author.is_some() || line.author_id.is_some();
    if !is_said && (line.kind.is_some() || line.members.is_some()) {
        return about(room, line).map(|about| Entry::About(Box::new(about)));
    }
    said(room, line, content_bytes_max).map(|said| Entry::Said(Box::new(said)))
}

fn said(room: ClientRequestId, line: Line<'_>, content_bytes_max: usize) -> Result<Said, String> {
    let at = line.at.filter(|at| parse_rfc3339(at).is_some());
    let at = at.ok_or("at must be a time like 2018-11-05T19:30:43Z")?;
    let files = line.files.unwrap_or_default();
    let message_type = match (&line.message_type, &line.content) {
        (None, None) if !files.is_empty() => "FILE",
        (None, _) => "TEXT",
        (Some(word), _) => word,
    };
    let words = match (&line.text, line.content) {
        (Some(_), Some(_)) => return Err("has text and content: leave one of them out".to_owned()),
        (Some(text), None) => worded(text)?,
        (None, Some(raw)) => raw.get().to_owned(),
        (None, None) if files.is_empty() => return Err("needs text, content or files".to_owned()),
        (None, None) => "{}".to_owned(),
    };
    let said = Said {
        room,
        author: who(
            line.author_type.as_deref(),
            line.author.as_deref(),
            line.author_id.as_deref(),
        )?,
        message_type: MessageType::parse(message_type).map_err(|error| error.to_string())?,
        words: Content::compact(&words, content_bytes_max).map_err(|error| error.to_string())?,
        at: at.into(),
        files: files.iter().map(attached).collect::<Result<_, _>>()?,
        quotes: match (line.thread_reply, line.reply_to) {
            (true, Some(_)) => return Err("has thread_reply and reply_to: leave one of them out".to_owned()),
            (true, None) => Quotes::LineBefore,
            (false, Some(name)) => Quotes::Line(name.into()),
            (false, None) => Quotes::Nothing,
        },
        name: line.name.map(Into::into),
    };
    said.check(content_bytes_max.saturating_add(SAID_AT_BYTES_MAX))?;
    Ok(said)
}

impl Said {
    /// Its content alone is not the whole message.
    pub(in crate::cli) fn has_files(&self) -> bool {
        !self.words.files().is_empty() || !self.files.is_empty()
    }

    /// What it says, with its files in it, in the order of `files`.
    pub(in crate::cli) fn content(&self, uploaded: &[Uploaded]) -> Content {
        let ids = self.files.iter().zip(uploaded);
        let ids = ids.filter_map(|(file, uploaded)| Some((file.stands_for?, uploaded.file_id)));
        let words = self.words.with_files(&ids.collect::<HashMap<_, _>>());
        let mut words = words.as_str().to_owned();
        if self.lacks_attachments() {
            let list = uploaded.iter().map(|file| Attachment {
                file_id: file.file_id.to_string(),
                name: &file.name,
                media_type: &file.media_type,
                size: file.size_bytes,
            });
            let list = serde_json::to_string(&list.collect::<Vec<_>>()).unwrap_or_default();
            let comma = if words == "{}" { "" } else { "," };
            words.truncate(words.len().saturating_sub(1));
            for part in [comma, "\"", ATTACHMENTS, "\":", &list, "}"] {
                words.push_str(part);
            }
        }
        Content::trusted(&said_at::with(&words, &self.at))
    }

    /// Its content does not say yet which files it has.
    fn lacks_attachments(&self) -> bool {
        self.files.iter().any(|file| file.stands_for.is_none())
    }

    fn check(&self, bytes_max: usize) -> Result<(), String> {
        let named = self.words.files();
        let stranger = self.files.iter().filter_map(|file| file.stands_for);
        if let Some(stranger) = stranger.into_iter().find(|file| !named.contains(file)) {
            return Err(format!(
                "files: no entry of content.attachments has the file_id {stranger}"
            ));
        }
        let some_stand = self.files.iter().any(|file| file.stands_for.is_some());
        if self.lacks_attachments() && (some_stand || has_attachments(self.words.as_str())) {
            let hint = "files: give each the file_id of its entry in content.attachments, or leave these out";
            return Err(hint.to_owned());
        }
        let no_file_yet = self.files.iter().filter_map(|file| {
            Some(Uploaded {
                file_id: file.stands_for.or_else(|| FileId::new(NO_FILE_YET))?,
                name: file.name.as_str().to_owned(),
                media_type: file.media_type.clone().unwrap_or_default().to_string(),
                size_bytes: u64::MAX,
            })
        });
        let whole = self.content(&no_file_yet.collect::<Vec<_>>());
        Content::parse(whole.as_str(), &self.message_type, bytes_max)
            .map(drop)
            .map_err(|error| error.to_string())
    }
}

fn about(room: ClientRequestId, line: Line<'_>) -> Result<About, String> {
    let kind = word("kind", line.kind.as_deref(), Kind::parse, "GROUP or DIRECT")?;
    if kind == Some(Kind::Inbox) {
        return Err("kind must be GROUP or DIRECT: an INBOX is the server's".to_owned());
    }
    if let Some(title) = &line.title {
        check_title(title).map_err(|error| error.to_string())?;
    }
    let avatar_url = line.avatar_url.unwrap_or_default();
    if avatar_url.chars().count() > AVATAR_URL_CHARS_MAX || avatar_url.chars().any(char::is_control) {
        return Err("avatar_url must have at most 2048 characters and no control characters".to_owned());
    }
    let visibility = word(
        "history_visibility",
        line.history_visibility.as_deref(),
        HistoryVisibility::parse,
        "SHARED or JOINED",
    );
    let members = line.members.map(|members| {
        let members = members.into_iter().map(|member| {
            let who = who(
                member.author_type.as_deref(),
                member.author.as_deref(),
                member.author_id.as_deref(),
            )?;
            let role = word("role", member.role.as_deref(), Role::parse, "MEMBER, ADMIN or OWNER")?;
            Ok((who, role.unwrap_or(Role::Member)))
        });
        members.collect::<Result<Vec<_>, String>>()
    });
    Ok(About {
        room,
        kind,
        title: line.title,
        avatar_url: Some(avatar_url).filter(|url| !url.is_empty()),
        history_visibility: visibility?.unwrap_or(HistoryVisibility::Shared),
        posting: word("posting", line.posting.as_deref(), Posting::parse, "ALL or ADMINS")?.unwrap_or(Posting::All),
        adding: word("adding", line.adding.as_deref(), Adding::parse, "ADMINS or ALL")?.unwrap_or(Adding::Admins),
        status: word("status", line.status.as_deref(), Status::parse, "ACTIVE or DISSOLVED")?.unwrap_or(Status::Active),
        members: members.transpose()?,
    })
}

fn who(kind: Option<&str>, external_id: Option<&str>, id: Option<&str>) -> Result<Who, String> {
    let kind = word("author_type", kind, PrincipalType::parse, "USER or AGENT")?.unwrap_or(PrincipalType::User);
    let known = |id: &str| Principal::parse(kind, id).ok_or("author_id must be a decimal id in quotes");
    let who = Who {
        kind,
        external_id: external_id
            .map(ExternalId::parse)
            .transpose()
            .map_err(named("author"))?,
        id: id
            .filter(|_| kind != PrincipalType::System)
            .map(known)
            .transpose()?
            .map(|known| known.id),
    };
    let is_named = who.external_id.is_some() || who.id.is_some();
    if is_named == (kind == PrincipalType::System) {
        return Err("author must be the id of a user or an agent (of SYSTEM nobody's)".to_owned());
    }
    Ok(who)
}

impl Who {
    /// As the service takes it.
    pub(super) fn subject(&self) -> Option<Subject> {
        let external = self.external_id.clone().map(Name::External);
        Some(Subject {
            kind: self.kind,
            name: external.or(self.id.map(Name::Id))?,
        })
    }
}

fn attached(line: &FileLine) -> Result<Attached, String> {
    let path = PathBuf::from(&line.path);
    let is_plain = path
        .components()
        .all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    if line.path.is_empty() || line.path.contains('\0') || !is_plain {
        return Err(format!(
            "files: {:?} is not inside the folder of this file: give a path from there, without `..`",
            line.path
        ));
    }
    let name = line.name.as_deref().unwrap_or(&line.path);
    let id = |id: &str| FileId::parse(id).ok_or("files: file_id must be a decimal id in quotes");
    let media_type = |text: &str| MediaType::parse(text).ok_or("files: media_type must be like image/png");
    Ok(Attached {
        name: FileName::parse(name).map_err(|error| format!("files: {error}"))?,
        stands_for: line.file_id.as_deref().map(id).transpose()?,
        media_type: line.media_type.as_deref().map(media_type).transpose()?,
        path,
    })
}

fn worded(text: &str) -> Result<String, String> {
    #[derive(Serialize)]
    struct Words<'a> {
        text: &'a str,
    }
    serde_json::to_string(&Words { text }).map_err(|error| error.to_string())
}

fn has_attachments(words: &str) -> bool {
    let members = serde_json::from_str::<HashMap<std::borrow::Cow<'_, str>, &RawValue>>(words);
    members.is_ok_and(|members| members.contains_key(ATTACHMENTS))
}

fn word<T>(field: &str, word: Option<&str>, parse: fn(&str) -> Option<T>, hint: &str) -> Result<Option<T>, String> {
    let parsed = |word: &str| parse(word).ok_or_else(|| format!("{field} must be {hint}"));
    word.map(parsed).transpose()
}

fn named(field: &'static str) -> impl Fn(InvalidField) -> String {
    move |error| format!("{field} {}", error.hint)
}
