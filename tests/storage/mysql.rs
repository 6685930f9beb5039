//! The contract on MySQL or MariaDB.

use crate::database::TestDatabase;
use crate::suite::Fixture;

async fn fixture() -> Option<Fixture> {
    Some(Fixture::on(TestDatabase::mysql().await?).await)
}

crate::suite::contract!(fixture());
crate::suite::database_contract!(fixture());
