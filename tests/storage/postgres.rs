//! The contract on PostgreSQL.

crate::suite::contract!(crate::database::TestDatabase::postgres());
