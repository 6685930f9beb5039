//! A principal who talks REST.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::PATIENCE;
use super::tokens::user_token;

/// One page of history; the most that the contract allows.
const PAGE: usize = 200;

/// `USER id` at one server. Connections are kept alive and reused.
#[derive(Clone, Debug)]
pub(crate) struct Rest {
    http: reqwest::Client,
    url: String,
    token: String,
}

/// Status and body of an answer; a body that is no JSON is `null`.
pub(crate) type Answer = (StatusCode, Value);

impl Rest {
    /// `url` as the server printed it.
    pub(crate) fn new(url: &str, user: u64) -> Self {
        let http = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build().unwrap();
        Self {
            http,
            url: url.to_owned(),
            token: user_token(user),
        }
    }

    /// Any request; an error is one of the connection.
    pub(crate) async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> reqwest::Result<Answer> {
        let mut request = self
            .http
            .request(method, format!("{}{path}", self.url))
            .bearer_auth(&self.token);
        if let Some(body) = body {
            request = request.json(body);
        }
        let response = request.send().await?;
        let status = response.status();
        let body = response.bytes().await?;
        Ok((status, serde_json::from_slice(&body).unwrap_or(Value::Null)))
    }

    /// A GET that must succeed.
    pub(crate) async fn get(&self, path: &str) -> Value {
        let (status, body) = self.call(Method::GET, path, None).await.unwrap();
        assert!(status.is_success(), "GET {path}: {status} {body}");
        body
    }

    /// A POST that must succeed.
    pub(crate) async fn post(&self, path: &str, body: &Value) -> Value {
        let (status, answer) = self.call(Method::POST, path, Some(body)).await.unwrap();
        assert!(status.is_success(), "POST {path} {body}: {status} {answer}");
        answer
    }

    /// Makes a GROUP with these users (beside oneself) and gives its id.
    pub(crate) async fn group(&self, title: &str, users: impl IntoIterator<Item = u64>) -> String {
        let members: Vec<Value> = users
            .into_iter()
            .map(|id| json!({"type": "USER", "id": id.to_string()}))
            .collect();
        let made = self
            .post(
                "/v1/conversations",
                &json!({"kind": "GROUP", "title": title, "members": members}),
            )
            .await;
        made["conversation_id"].as_str().expect("a conversation id").to_owned()
    }

    /// `POST …/messages` with a text.
    pub(crate) async fn send(&self, conversation: &str, key: &str, text: &str) -> reqwest::Result<Answer> {
        let body = json!({"client_message_id": key, "message_type": "TEXT", "content": {"text": text}});
        let path = format!("/v1/conversations/{conversation}/messages");
        self.call(Method::POST, &path, Some(&body)).await
    }

    /// Every message after `seq`, page by page.
    pub(crate) async fn history_after(&self, conversation: &str, mut seq: u64) -> Vec<Value> {
        let mut all = Vec::new();
        loop {
            let path = format!("/v1/conversations/{conversation}/messages?after_seq={seq}&limit={PAGE}");
            let page = self.get(&path).await;
            let items = page["items"].as_array().expect("items").clone();
            if let Some(last) = items.last() {
                seq = last["seq"].as_u64().expect("a seq");
            }
            all.extend(items);
            if page["has_more"] != true {
                return all;
            }
        }
    }
}
