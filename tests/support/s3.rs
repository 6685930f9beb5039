//! A real S3 endpoint on files of its own, which checks every signature. It can be stopped and started again.

use std::net::SocketAddr;
use std::path::PathBuf;

use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;
use s3s_fs::FileSystem;
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};

/// The name of its key.
pub(crate) const KEY_ID: &str = "the key of the tests";
/// Its key.
pub(crate) const KEY: &str = "the secret of the tests";
/// Its bucket.
pub(crate) const BUCKET: &str = "files";

/// The endpoint, and where its objects lie.
pub(crate) struct S3 {
    folder: tempfile::TempDir,
    address: SocketAddr,
    serving: Option<JoinHandle<()>>,
}

impl S3 {
    /// Starts it with one empty bucket.
    pub(crate) async fn start() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::create_dir(folder.path().join(BUCKET)).expect("a bucket");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let mut s3 = Self {
            folder,
            address,
            serving: None,
        };
        s3.serve(listener);
        s3
    }

    fn serve(&mut self, listener: TcpListener) {
        let files = FileSystem::new(self.folder.path()).expect("the folder is there");
        let mut builder = S3ServiceBuilder::new(files);
        builder.set_auth(SimpleAuth::from_single(KEY_ID, KEY));
        let service = builder.build();
        self.serving = Some(tokio::spawn(async move {
            // Dropped with this task, it closes every connection.
            let mut connections = JoinSet::new();
            while let Ok((socket, _)) = listener.accept().await {
                let service = service.clone();
                connections.spawn(async move {
                    let connection = Builder::new(TokioExecutor::new());
                    connection.serve_connection(TokioIo::new(socket), service).await.ok();
                });
            }
        }));
    }

    /// Where it listens.
    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The files of its objects, those of unfinished uploads too; not what it notes about them.
    pub(crate) fn objects(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut folders = vec![self.folder.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).expect("a folder") {
                let path = entry.expect("an entry").path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_none_or(|kind| kind != "json") {
                    found.push(path);
                }
            }
        }
        found
    }

    /// Closes its port and every connection.
    pub(crate) async fn stop(&mut self) {
        if let Some(serving) = self.serving.take() {
            serving.abort();
            serving.await.ok();
        }
    }

    /// Comes back on the same port.
    pub(crate) async fn start_again(&mut self) {
        let listener = TcpListener::bind(self.address).await.expect("its port is free");
        self.serve(listener);
    }
}

impl Drop for S3 {
    fn drop(&mut self) {
        if let Some(serving) = self.serving.take() {
            serving.abort();
        }
    }
}
