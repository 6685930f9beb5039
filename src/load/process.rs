//! What processes of this machine take, read from `/proc` (Linux; elsewhere nothing is known).

use std::collections::HashMap;
use std::fs;
use std::net::SocketAddr;

/// Clock ticks a second in `/proc`, the same on every Linux.
const TICKS_PER_SECOND: f64 = 100.0;
/// A tree of processes is not deeper.
const DEPTH_MAX: usize = 64;
/// The state LISTEN in `/proc/net/tcp`.
const LISTEN: &str = "0A";
/// How many open files this process may have, where that is not known.
const OPEN_FILES_UNKNOWN: u64 = u64::MAX;

/// CPU seconds so far and memory now.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sample {
    pub(super) load_cpu_s: f64,
    pub(super) server_cpu_s: Option<f64>,
    pub(super) server_rss_bytes: Option<u64>,
    pub(super) also_cpu_s: Option<f64>,
}

/// Whose CPU and memory is looked at.
#[derive(Clone, Debug, Default)]
pub(super) struct Watched {
    pub(super) server: Option<u32>,
    pub(super) also: Vec<u32>,
}

impl Watched {
    pub(super) fn sample(&self) -> Sample {
        let processes = if self.also.is_empty() { HashMap::new() } else { all() };
        let also = self.also.iter().map(|root| tree_cpu_s(&processes, *root));
        Sample {
            load_cpu_s: stat("self").map_or(0.0, |stat| stat.cpu_s),
            server_cpu_s: self.server.and_then(|pid| Some(stat(&pid.to_string())?.cpu_s)),
            server_rss_bytes: self.server.and_then(rss_bytes),
            also_cpu_s: (!self.also.is_empty()).then(|| also.sum()),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Stat {
    parent: u32,
    cpu_s: f64,
    /// Of children that have ended.
    ended_cpu_s: f64,
}

fn stat(pid: &str) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name stands in parentheses and may contain anything.
    let (_, rest) = text.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<u32>().ok();
    let seconds = |index: usize| Some(f64::from(number(index)?) / TICKS_PER_SECOND);
    Some(Stat {
        parent: number(1)?,
        cpu_s: seconds(11)? + seconds(12)?,
        ended_cpu_s: seconds(13)? + seconds(14)?,
    })
}

fn all() -> HashMap<u32, Stat> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names
        .filter_map(|name| Some((name.parse().ok()?, stat(&name)?)))
        .collect()
}

/// Of a process and all that descend from it, ended children included.
fn tree_cpu_s(processes: &HashMap<u32, Stat>, root: u32) -> f64 {
    let belongs = |pid: u32| {
        let ancestors = std::iter::successors(Some(pid), |pid| Some(processes.get(pid)?.parent));
        ancestors.take(DEPTH_MAX).any(|ancestor| ancestor == root)
    };
    let members = processes.iter().filter(|(pid, _)| belongs(**pid));
    members.map(|(_, stat)| stat.cpu_s + stat.ended_cpu_s).sum()
}

fn rss_bytes(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kibibytes * 1_024)
}

/// Is there such a process?
pub(super) fn exists(pid: u32) -> bool {
    stat(&pid.to_string()).is_some()
}

/// Who listens there, if it is a process of this machine that we may look at.
pub(super) fn listening(address: SocketAddr) -> Option<u32> {
    if !address.ip().is_loopback() {
        return None;
    }
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| fs::read_to_string(path).unwrap_or_default());
    let sockets: Vec<String> = tables.iter().flat_map(|table| inodes(table, address.port())).collect();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.into_iter().find(|pid| holds(*pid, &sockets))
}

/// `socket:[123]` of everybody who listens on that port.
fn inodes(table: &str, port: u16) -> Vec<String> {
    let port = format!(":{port:04X}");
    let rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let listening = rows.filter_map(|fields| {
        let (local, state, inode) = (fields.get(1)?, fields.get(3)?, fields.get(9)?);
        (local.ends_with(&port) && *state == LISTEN).then(|| format!("socket:[{inode}]"))
    });
    listening.collect()
}

fn holds(pid: u32, sockets: &[String]) -> bool {
    let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let mut targets = files.filter_map(|file| fs::read_link(file.path()).ok());
    targets.any(|target| sockets.iter().any(|socket| target.as_os_str() == socket.as_str()))
}

/// How many files this process may have open at once.
pub(super) fn open_files_max() -> u64 {
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let soft = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    soft.unwrap_or(OPEN_FILES_UNKNOWN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_listens_on_a_port_is_found_and_its_cpu_and_memory_read() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let own = std::process::id();
        assert_eq!(listening(listener.local_addr().unwrap()), Some(own));
        let watched = Watched {
            server: Some(own),
            also: vec![own],
        };
        let sample = watched.sample();
        assert!(sample.server_rss_bytes.unwrap() > 1_000_000);
        // Other tests of this process use its CPU between two looks, so only what was read later can be compared.
        let later = watched.sample();
        assert!(later.also_cpu_s.unwrap() >= sample.server_cpu_s.unwrap());
        assert!(open_files_max() > 10);
    }

    #[test]
    fn a_port_of_another_machine_is_nobody_here() {
        assert_eq!(listening("192.0.2.1:80".parse().unwrap()), None);
    }
}
