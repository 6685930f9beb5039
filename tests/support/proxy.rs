//! A TCP proxy that breaks things on purpose: between the server and its database it loses the answer to a COMMIT,
//! refuses, or goes silent; between a client and the server it swallows what the client says.
//!
//! It knows no protocol. A commit is recognised by a mark: bytes that the server sends with what makes its work
//! permanent, and with nothing else (connections through the proxy must not use TLS).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, Result};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// How long a [`Cut::Late`] commit is on its way.
const LATE: Duration = Duration::from_millis(300);
/// One read: larger than any commit of a test, so that one which is recognised is there as a whole.
const CHUNK: usize = 256 * 1024;

/// What happens to a COMMIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// It is done and answered.
    No,
    /// The connection breaks before it reaches the database: nothing is stored.
    Before,
    /// It is done for certain, but the connection breaks before the answer.
    After,
    /// The connection breaks while it is on its way: only the database knows.
    During,
    /// The connection of the server breaks at once, but the database gets the commit a moment later: who asks in the
    /// meantime finds nothing.
    Late,
}

/// What the proxy does with connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// Forwards both ways.
    Open,
    /// Forwards nothing, closes nothing: a network that swallows packets.
    Silent,
    /// Forwards only what the target says: packets of the client are lost.
    ClientMuted,
    /// Closes every connection, the present ones too.
    Refusing,
}

#[derive(Debug)]
struct Plan {
    target: String,
    mark: Vec<u8>,
    cuts: Mutex<VecDeque<Cut>>,
    done: AtomicUsize,
    flow: watch::Sender<Flow>,
}

impl Plan {
    fn next_cut(&self) -> Cut {
        let cut = self
            .cuts
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop_front()
            .unwrap_or(Cut::No);
        if cut != Cut::No {
            self.done.fetch_add(1, Ordering::SeqCst);
        }
        cut
    }
}

/// Listens until it is dropped; then its connections break.
#[derive(Debug)]
pub(crate) struct Proxy {
    port: u16,
    plan: Arc<Plan>,
    listener: JoinHandle<()>,
}

impl Proxy {
    /// In front of `target` (`host:port`), on a free port of 127.0.0.1. `mark` is what a commit is recognised by;
    /// none = there are no commits.
    pub(crate) async fn start(target: &str, mark: &[u8]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let plan = Arc::new(Plan {
            target: target.to_owned(),
            mark: mark.to_owned(),
            cuts: Mutex::default(),
            done: AtomicUsize::new(0),
            flow: watch::Sender::new(Flow::Open),
        });
        let listener = tokio::spawn(listen(listener, Arc::clone(&plan)));
        Self { port, plan, listener }
    }

    /// Where it listens.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// What happens to the next commits, one by one; those after them are left alone.
    pub(crate) fn cut_commits(&self, cuts: impl IntoIterator<Item = Cut>) {
        self.plan
            .cuts
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend(cuts);
    }

    /// How many of the planned commits have not come by yet.
    pub(crate) fn cuts_left(&self) -> usize {
        self.plan.cuts.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// How many commits were cut in any way.
    pub(crate) fn cuts_done(&self) -> usize {
        self.plan.done.load(Ordering::SeqCst)
    }

    /// From now on, for the present connections as well.
    pub(crate) fn set(&self, flow: Flow) {
        self.plan.flow.send_replace(flow);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.listener.abort();
        self.set(Flow::Refusing);
    }
}

async fn listen(listener: TcpListener, plan: Arc<Plan>) {
    while let Ok((client, _)) = listener.accept().await {
        let plan = Arc::clone(&plan);
        // An error here is a connection that ended: both ends see it for themselves.
        tokio::spawn(async move { pump(client, &plan).await.ok() });
    }
}

/// Forwards between one client and the target until either ends or a cut is due.
async fn pump(mut client: TcpStream, plan: &Plan) -> Result<()> {
    let mut flow = plan.flow.subscribe();
    if *flow.borrow_and_update() == Flow::Refusing {
        return Ok(());
    }
    let mut target = TcpStream::connect(&plan.target).await?;
    client.set_nodelay(true)?;
    target.set_nodelay(true)?;
    let (mut asked, mut answered) = (vec![0; CHUNK], vec![0; CHUNK]);
    let mut tail = Vec::new();
    loop {
        let now = *flow.borrow();
        tokio::select! {
            changed = flow.changed() => {
                if changed.is_err() || *flow.borrow_and_update() == Flow::Refusing {
                    return Ok(());
                }
            }
            read = client.read(&mut asked), if now != Flow::Silent => {
                let chunk = &asked[..read?];
                if chunk.is_empty() {
                    return Ok(());
                }
                if now == Flow::ClientMuted {
                    continue;
                }
                let cut = if has_mark(&plan.mark, &mut tail, chunk) { plan.next_cut() } else { Cut::No };
                if cut != Cut::No {
                    return carry_out(cut, client, target, chunk).await;
                }
                target.write_all(chunk).await?;
            }
            read = target.read(&mut answered), if now != Flow::Silent => {
                let chunk = &answered[..read?];
                if chunk.is_empty() {
                    return Ok(());
                }
                client.write_all(chunk).await?;
            }
        }
    }
}

async fn carry_out(cut: Cut, client: TcpStream, mut target: TcpStream, chunk: &[u8]) -> Result<()> {
    match cut {
        Cut::No | Cut::Before => {}
        Cut::During => target.write_all(chunk).await?,
        Cut::After => {
            finish(&mut target, chunk).await?;
            drop(client);
        }
        Cut::Late => {
            drop(client);
            tokio::time::sleep(LATE).await;
            finish(&mut target, chunk).await?;
        }
    }
    Ok(())
}

/// A database does all that it was sent before it sees the end of the connection and closes its own side: so when
/// this returns, the commit is done.
async fn finish(target: &mut TcpStream, chunk: &[u8]) -> Result<()> {
    target.write_all(chunk).await?;
    target.shutdown().await?;
    let mut swallowed = vec![0; CHUNK];
    while target.read(&mut swallowed).await? > 0 {}
    Ok(())
}

/// Does the mark end in this chunk? `tail` holds the last bytes of the one before.
fn has_mark(mark: &[u8], tail: &mut Vec<u8>, chunk: &[u8]) -> bool {
    if mark.is_empty() {
        return false;
    }
    tail.extend_from_slice(chunk);
    let found = tail.windows(mark.len()).any(|bytes| bytes == mark);
    let keep = if found { 0 } else { tail.len().min(mark.len() - 1) };
    tail.drain(..tail.len() - keep);
    found
}
