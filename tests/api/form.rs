//! Forms with files in, and bytes that come back.

use reqwest::Method;
use serde_json::{Value, json};

use super::world::{Caller, Reply, id_of};

const BOUNDARY: &str = "a boundary of the tests";

/// A form with one part; `disposition` and `headers` are written as they are.
pub(crate) fn form(disposition: &str, headers: &str, bytes: &[u8]) -> Vec<u8> {
    let head = format!("--{BOUNDARY}\r\nContent-Disposition: form-data; {disposition}\r\n{headers}\r\n");
    [head.as_bytes(), bytes, format!("\r\n--{BOUNDARY}--\r\n").as_bytes()].concat()
}

/// The type of such a form.
pub(crate) fn form_type() -> String {
    format!("multipart/form-data; boundary=\"{BOUNDARY}\"")
}

/// Bytes that came back.
pub(crate) struct Download {
    pub(crate) status: u16,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) bytes: Vec<u8>,
}

impl Download {
    /// A header of the answer; empty where there is none.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

impl Caller {
    /// Uploads whatever is in a form.
    pub(crate) async fn post_form(&self, form: impl Into<reqwest::Body>) -> Reply {
        let request = self.http().post(self.at("/v1/files")).bearer_auth(&self.token);
        let request = request.header("content-type", form_type()).body(form);
        Reply::of(request, "POST /v1/files".to_owned()).await
    }

    /// Uploads a file.
    pub(crate) async fn upload(&self, name: &str, media_type: &str, bytes: &[u8]) -> Reply {
        let disposition = format!("name=\"file\"; filename=\"{name}\"");
        let headers = format!("Content-Type: {media_type}\r\n");
        self.post_form(form(&disposition, &headers, bytes)).await
    }

    /// Uploads a file; answers its id.
    pub(crate) async fn uploaded(&self, bytes: &[u8]) -> String {
        id_of(
            &self.upload("a.bin", "application/octet-stream", bytes).await.ok(201),
            "file_id",
        )
    }

    /// Asks for bytes.
    pub(crate) async fn download(&self, path: &str, headers: &[(&str, &str)]) -> Download {
        self.bytes_of(Method::GET, path, headers).await
    }

    /// Asks for bytes by any method.
    pub(crate) async fn bytes_of(&self, method: Method, path: &str, headers: &[(&str, &str)]) -> Download {
        let mut request = self.http().request(method, self.at(path)).bearer_auth(&self.token);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = request.send().await.unwrap();
        Download {
            status: response.status().as_u16(),
            headers: response.headers().clone(),
            bytes: response.bytes().await.unwrap().to_vec(),
        }
    }

    /// Says something that refers to a file; answers the reply.
    pub(crate) async fn send_file(&self, conversation: &str, key: &str, file: &Value) -> Reply {
        let attachment = json!({
            "file_id": file["file_id"], "name": file["name"], "media_type": file["media_type"], "size": file["size"],
        });
        let content = json!({"text": "", "attachments": [attachment]});
        let body = json!({"client_message_id": key, "message_type": "FILE", "content": content});
        self.post(&format!("/v1/conversations/{conversation}/messages"), &body)
            .await
    }
}
