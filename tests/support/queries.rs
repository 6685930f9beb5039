//! Hears the statements of every store of this process that was opened to tell of them (`OpenOptions::log_statements`).

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// SQLite says that a statement has ended a little after its last row has come.
const AFTER_THE_LAST: Duration = Duration::from_millis(100);

/// A statement.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query {
    /// Its first words.
    pub(crate) summary: String,
    /// All of it.
    pub(crate) text: String,
}

impl Visit for Query {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "summary" => value.clone_into(&mut self.summary),
            "db.statement" => value.clone_into(&mut self.text),
            _ => {}
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {}
}

/// All of them since they were cleared.
#[derive(Clone, Default)]
pub(crate) struct Queries(Arc<Mutex<Vec<Query>>>);

impl Queries {
    /// Hears from now on; once in a process.
    pub(crate) fn listen() -> Self {
        let queries = Self::default();
        tracing::subscriber::set_global_default(queries.clone()).expect("no other test listens");
        queries
    }

    pub(crate) fn clear(&self) {
        self.0.lock().unwrap().clear();
    }

    /// Those so far, once no more come.
    pub(crate) async fn heard(&self) -> Vec<Query> {
        loop {
            let seen = self.0.lock().unwrap().clone();
            tokio::time::sleep(AFTER_THE_LAST).await;
            if seen.len() == self.0.lock().unwrap().len() {
                return seen;
            }
        }
    }
}

impl Subscriber for Queries {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "sqlx::query"
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn event(&self, event: &Event<'_>) {
        let mut query = Query::default();
        event.record(&mut query);
        // A short statement is its own summary.
        if query.text.is_empty() {
            query.text.clone_from(&query.summary);
        }
        // What a new connection is told first is nobody's act.
        let first = query.summary.split(' ').next().unwrap_or_default().to_uppercase();
        if !["SET", "PRAGMA"].contains(&first.as_str()) {
            self.0.lock().unwrap().push(query);
        }
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
