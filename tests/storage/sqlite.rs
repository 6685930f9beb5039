//! The contract on SQLite.

use crate::database::TestDatabase;
use crate::suite::Fixture;

async fn fixture() -> Option<Fixture> {
    Some(Fixture::on(TestDatabase::sqlite()).await)
}

crate::suite::contract!(fixture());
crate::suite::database_contract!(fixture());
