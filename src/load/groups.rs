//! Makes the groups of a run over REST, as a client would.

use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::LoadError;
use super::plan::{Plan, Target};
use super::wire::Id;

/// Groups that are made at once.
const AT_ONCE: usize = 16;
/// Members of one creation or addition.
const MEMBERS_AT_ONCE: usize = 500;
/// How often a request is tried that the server asks to repeat.
const TRIES_MAX: u32 = 100;
/// When to try again where the server does not say.
const PAUSE: Duration = Duration::from_millis(200);
/// How long one request may take.
const REQUEST_MAX: Duration = Duration::from_secs(30);

/// A group that is there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    pub(super) id: Id,
    pub(super) head: u64,
}

#[derive(Deserialize)]
struct Made {
    conversation_id: Id,
    last_seq: u64,
}

/// What a refusal says.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Problem {
    code: String,
    detail: String,
    retryable: bool,
    retry_after_ms: Option<u64>,
}

struct Maker<'a> {
    client: reqwest::Client,
    base: String,
    plan: &'a Plan,
    run: u32,
    token: &'a (dyn Fn(u32) -> Result<String, LoadError> + 'a),
}

/// Makes all groups, in their order; `made` is told after each.
pub(super) async fn make(
    plan: &Plan,
    target: &Target,
    run: u32,
    token: &dyn Fn(u32) -> Result<String, LoadError>,
    made: &dyn Fn(u32),
) -> Result<Vec<Group>, LoadError> {
    let client = reqwest::Client::builder().timeout(REQUEST_MAX).build();
    let maker = Maker {
        client: client.map_err(|error| LoadError::Setup(error.to_string()))?,
        base: format!("http://{}{}", target.host, target.path),
        plan,
        run,
        token,
    };
    let groups = stream::iter(0..plan.shape.conversations).map(|index| maker.group(index));
    let mut count = 0;
    let counted = groups.buffered(AT_ONCE).inspect_ok(|_| {
        count += 1;
        made(count);
    });
    counted.try_collect().await
}

impl Maker<'_> {
    async fn group(&self, index: u32) -> Result<Group, LoadError> {
        let owner = self.plan.shape.member(index, 0);
        let members: Vec<Value> = self
            .plan
            .shape
            .members_of(index)
            .skip(1)
            .map(|user| self.user(user))
            .collect();
        let mut parts = members.chunks(MEMBERS_AT_ONCE);
        let mut body = json!({
            "kind": "GROUP",
            "title": format!("load {:08x}/{index}", self.run),
            "members": parts.next().unwrap_or_default(),
            "client_request_id": format!("load-{:08x}-{index}", self.run),
        });
        let token = (self.token)(owner)?;
        let made = match (&self.plan.api_key, body.as_object_mut()) {
            (Some(key), Some(fields)) => {
                fields.insert("owner".to_owned(), self.user(owner));
                self.ask(reqwest::Method::POST, "/admin/v1/conversations", key, Some(&body))
                    .await?
            }
            _ => {
                self.ask(reqwest::Method::POST, "/v1/conversations", &token, Some(&body))
                    .await?
            }
        };
        let mut group: Made = understood(made)?;
        let path = format!("/v1/conversations/{}", group.conversation_id.0);
        let is_large = members.len() > MEMBERS_AT_ONCE;
        for part in parts {
            let body = json!({ "members": part });
            self.ask(reqwest::Method::POST, &format!("{path}/members"), &token, Some(&body))
                .await?;
        }
        if is_large {
            group = understood(self.ask(reqwest::Method::GET, &path, &token, None).await?)?;
        }
        Ok(Group {
            id: group.conversation_id,
            head: group.last_seq,
        })
    }

    fn user(&self, user: u32) -> Value {
        json!({ "type": "USER", "external_id": format!("{}{user}", self.plan.user_prefix) })
    }

    /// Asks until it is answered for good.
    async fn ask(
        &self,
        method: reqwest::Method,
        path: &str,
        bearer: &str,
        body: Option<&Value>,
    ) -> Result<Value, LoadError> {
        let mut last = Problem::default();
        for _ in 0..TRIES_MAX {
            let mut request = self
                .client
                .request(method.clone(), format!("{}{path}", self.base))
                .bearer_auth(bearer);
            if let Some(body) = body {
                request = request.json(body);
            }
            let response = request.send().await.map_err(|error| self.unreachable(&error))?;
            let status = response.status();
            let body: Value = response.json().await.unwrap_or_default();
            if status.is_success() {
                return Ok(body);
            }
            last = serde_json::from_value(body).unwrap_or_default();
            if !last.retryable {
                return Err(LoadError::Setup(format!(
                    "the groups cannot be made: {path} was answered with {status} {} {}{}",
                    last.code,
                    last.detail,
                    hint(&last.code)
                )));
            }
            sleep(last.retry_after_ms.map_or(PAUSE, Duration::from_millis)).await;
        }
        Err(LoadError::Setup(format!(
            "the groups cannot be made: {path} was answered with {} {TRIES_MAX} times",
            last.code
        )))
    }

    fn unreachable(&self, error: &reqwest::Error) -> LoadError {
        let cause = std::iter::successors(std::error::Error::source(error), |error| error.source()).last();
        let cause = cause.map_or_else(|| error.to_string(), ToString::to_string);
        LoadError::Setup(format!(
            "{} cannot be reached ({cause}): does the server run, and is --url right?",
            self.base
        ))
    }
}

fn understood(body: Value) -> Result<Made, LoadError> {
    let made = serde_json::from_value(body);
    made.map_err(|error| {
        LoadError::Setup(format!(
            "the answer to a new group is not understood ({error}): is this Onescribe?"
        ))
    })
}

fn hint(code: &str) -> &'static str {
    match code {
        "unauthenticated" => {
            "\nThe server does not take these tokens: give its auth.hs256_secret (--secret), or run this with its --config or --database-url"
        }
        "not_found" => "\nUsers are made on first sight only with auth.auto_provision = true",
        "" => "\nThat is no answer of this kind of server: is --url right?",
        _ => "",
    }
}
