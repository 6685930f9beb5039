//! Onescribe: an IM message server. It stores every message once, numbers it, and brings it to every device of every member.
//!
//! # The idea in five lines
//!
//! 1. [`domain`] decides, and nothing else does. It is pure: no async, no clock, no database, no actix.
//! 2. One actor of [`conversation`] owns one conversation: it alone numbers and commits its messages.
//! 3. What is committed is a fact. [`delivery`] spreads facts; it never decides.
//! 4. Reads go straight to [`storage`]; they never wait for an actor.
//! 5. What clients see ([`protocol`]), rules ([`domain`]) and rows (`storage/sql`) are three sets of types.
//!
//! # The map
//!
//! ```text
//! src/
//! ├── main.rs          starts cli
//! ├── cli/             one file per command
//! │   ├── bench/       how `bench` tells what it measured
//! │   ├── check/       what `check` compares, and a store that is damaged on purpose
//! │   ├── export/      conversations on their way into a folder
//! │   └── import/      lines and files on their way in, room by room
//! ├── app/             composition root: builds every part from the config, in order, and stops them in reverse
//! ├── clock.rs         where time comes from
//! ├── ids.rs           hands out ids: snowflake, worker lease and clock put together
//! ├── domain/          RULES: pure functions and values
//! │   └── decide/      commands become events, a file per kind of act; one place gives numbers
//! ├── protocol/        WHAT CLIENTS SEE: serde types of the wire
//! ├── storage/         FACTS AT REST: traits in the words of the domain
//! │   ├── memory/      the model for tests and the simulation, with faults on demand
//! │   └── sql/         one SQL text for SQLite, PostgreSQL and MySQL/MariaDB
//! ├── conversation/    THE SINGLE WRITER: actor, batch, group commit
//! ├── routing/         WHO OWNS A CONVERSATION: node, arbiter, running actor, worker-id lease
//! ├── delivery/        FACTS ON THEIR WAY: outbox per connection
//! │   └── hub/         the hub of an arbiter: which session listens to what
//! ├── relay/           FACTS THAT LEAVE THE HOUSE: the log of events for other systems, the feed, webhooks
//! │   └── webhooks/    who calls them, whom, and how
//! │       └── call/    its tests
//! ├── service/         USE CASES: called by REST and WebSocket alike, speak domain
//! │   ├── announcing/  at what pace they are told; their tests
//! │   ├── files/       what is uploaded and downloaded, and what is seen of pictures
//! │   ├── reminders/   their tests
//! │   └── sync/        what a device that was away has to be told
//! ├── transport/       THE DOORS: extract, ask the service, respond
//! │   ├── rest/        one file per resource
//! │   │   └── files/   forms, parts of files, names in headers
//! │   └── ws/          upgrade, one actor per connection, frames
//! │       └── actor/   what a connection asks the store for
//! ├── auth/            token -> principal
//! ├── blobs/           BYTES AT REST: the objects of files, in a folder or in a bucket
//! ├── load/            THE LOAD: clients for `bench`, know the contract and nothing of the inside
//! ├── config/          every key typed and checked at the start, all errors at once
//! └── telemetry/       logs
//! ```
//!
//! What may import what stands in `tests/architecture/folders.rs`, which crate may be where in
//! `tests/architecture/crates.rs`; both are held up by `cargo test --test architecture`, and so is this map.
//!
//! # One send
//!
//! A door ([`transport`]) bounds size and rate, parses the frame ([`protocol`]) and calls [`service`], which hands a
//! command to the [`routing::Bus`]. The registry finds or starts the conversation's actor. What arrives while a
//! commit is under way is the next batch; [`domain::decide`] turns it into events with the next numbers; a committer
//! lane stores the batches of many conversations in one transaction, with a compare-and-set on both counters. Only
//! then memory changes, callers are answered, and [`delivery`] encodes each event once for all sessions.
//!
//! If the commit fails, memory is as it was and callers get a retryable error. If it was fenced, or its outcome is
//! unknown, the writer loads anew and finds out which of its keys are stored before it answers; a seq is never tried
//! twice.
//!
//! # What is one user's alone
//!
//! Read positions, settings, actions and reminders go the same way: the writer of the user's INBOX, a conversation
//! with one member, decides them one after the other, so that all devices of a user meet in one place. A commit of an
//! INBOX writes the user's rows of other conversations by updates that only go forward, and one change of its log.
//!
//! Friend requests and invitations are messages of the INBOX with a row beside them, in one commit; what follows from an
//! acceptance is carried out elsewhere, by steps that can be done twice, and found again by whoever looks after a crash.
//! Who blocks whom is decided there, too, and the writer of the DIRECT of the two has it in its memory: a numbered change
//! fences every writer that does not know of it, so that a send asks for nothing more.
//!
//! # What other systems are told
//!
//! Numbers without holes make each conversation's own log its outbox: a commit writes nothing for other systems. [`relay`]
//! follows the heads, and gives every event a place in one store-wide log; the feed and the webhooks read that. What is
//! told of an event is read when it is told.
//!
//! # Files
//!
//! A message refers to files by what it says (`content.attachments`); its writer asks the store which of them the sender
//! may read, and the commit that gives the number keeps a row per reference. Those rows are the only right of others to
//! read a file and the only thing that keeps it: they go with the words. What nothing refers to goes later, in steps that
//! look again; the keys between the tables hold where a commit comes later still.
//!
//! # Invariants
//!
//! | name | text |
//! | --- | --- |
//! | INV-SEQ-1 | seq of a conversation is 1, 2, 3 … without holes, never reused |
//! | INV-SEQ-2 | a number given to a client is stored |
//! | INV-SEQ-3 | live events reach a session in seq order |
//! | INV-IDEM-1 | one (conversation, sender, client_message_id) has one message for ever; every answer about it is the same |
//! | INV-OWN-1 | a commit carries the counters it was decided on; if either moved, nothing of it is stored |
//! | INV-CHG-1 | change_seq of a conversation is 1, 2, 3 … without holes; whatever alters what is already there has one |
//! | INV-COST-1 | the statements and rows of a send do not depend on the number of members |
//! | INV-OUT-1 | whatever is an event for other systems gets one place in their log: in the order of its conversation, and in commit order |
//! | INV-VIS-1 | no path shows a message outside the user's visible range, or one the user deleted, or the old content of a recalled one |
//! | INV-READ-1 | a read position never falls and never passes last_seq |
//! | INV-NOTE-1 | a notification and its message are one commit and say the same; of several answers one stands |
//! | INV-BLOCK-1 | once a block is answered, nothing that the blocked sends into the DIRECT of the two gets a seq |
//! | INV-FILE-1 | a message refers only to files that its sender may read; a file stays while a message that stands refers to it |
//! | INV-UNREAD-1 | unread is never negative and does not count one's own messages |
//!
//! # What is deliberately absent
//!
//! - **A second process.** One binary and one database are a whole server. Redis, a queue or a coordinator would each be
//!   one more thing that can disagree with the database.
//! - **Locks in the database.** Safety is the compare-and-set of the commit; the worker lease only keeps ids apart.
//! - **A timer in the commit.** A batch is what came while the last commit was under way; an idle server adds no delay.
//! - **Retries of a seq.** What is not known to be stored is looked up, never tried again under the same number.
//! - **State in sessions that the store does not have.** A connection may be cut at any moment; nothing is lost with it.

pub mod app;
pub mod auth;
pub mod blobs;
pub mod cli;
pub mod clock;
pub mod config;
pub mod conversation;
pub mod delivery;
pub mod domain;
pub mod ids;
pub mod load;
pub mod protocol;
pub mod relay;
pub mod routing;
pub mod service;
pub mod storage;
pub mod telemetry;
pub mod transport;
