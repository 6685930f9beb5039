//! The contract on SQLite.

crate::suite::contract!(async { Some(crate::database::TestDatabase::sqlite()) });
