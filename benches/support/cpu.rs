//! CPU time that processes have used, from `/proc` (Linux).

use std::time::Duration;

use anyhow::{Context, Result};
use sqlx::{Connection, MySqlConnection, PgConnection};

/// A clock tick of `/proc`: 100 a second on every Linux that we know.
const TICK: Duration = Duration::from_millis(10);

/// User and system time of a process so far, all its threads.
pub(crate) fn of_process(pid: u32) -> Result<Duration> {
    let fields = stat(pid).with_context(|| format!("process {pid} is gone"))?;
    Ok(TICK * (fields.own))
}

/// User and system time so far of a process, its ended and its running children (PostgreSQL and its backends).
pub(crate) fn of_tree(root: u32) -> Result<Duration> {
    let mut ticks = 0;
    for entry in std::fs::read_dir("/proc")? {
        let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        match stat(pid) {
            Some(fields) if pid == root => ticks += fields.own + fields.ended_children,
            Some(fields) if fields.parent == root => ticks += fields.own,
            _ => {}
        }
    }
    Ok(TICK * ticks)
}

struct Stat {
    parent: u32,
    own: u32,
    ended_children: u32,
}

fn stat(pid: u32) -> Option<Stat> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name stands in parentheses and may contain anything.
    let (_, rest) = text.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<u32>().ok();
    Some(Stat {
        parent: number(1)?,
        own: number(11)? + number(12)?,
        ended_children: number(13)? + number(14)?,
    })
}

/// The main process of a database server on this machine, if it may be known.
pub(crate) async fn database(url: &str) -> Option<u32> {
    let file = match url.split(':').next() {
        Some("postgres") => {
            let mut connection = PgConnection::connect(url).await.ok()?;
            let folder: String = sqlx::query_scalar("SHOW data_directory")
                .fetch_one(&mut connection)
                .await
                .ok()?;
            format!("{folder}/postmaster.pid")
        }
        Some("mysql") => {
            let mut connection = MySqlConnection::connect(url).await.ok()?;
            let query = sqlx::query_scalar("SELECT CAST(@@pid_file AS CHAR)");
            query.fetch_one(&mut connection).await.ok()?
        }
        _ => return None,
    };
    let file = std::fs::read_to_string(file).ok()?;
    file.lines().next()?.trim().parse().ok()
}
