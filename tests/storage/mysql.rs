//! The contract on MySQL or MariaDB.

crate::suite::contract!(crate::database::TestDatabase::mysql());
