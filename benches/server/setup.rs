//! Tokens, and conversations made over REST.

use anyhow::{Context, Result};
use futures_util::{StreamExt, TryStreamExt, stream};
use jsonwebtoken::{EncodingKey, Header, encode};
use onescribe::clock::{Clock, SystemClock};
use serde_json::{Value, json};

use crate::process::SECRET;

const CREATING_AT_ONCE: usize = 16;
const TOKEN_MILLIS: i64 = 3_600_000;

/// A user's token.
pub(crate) fn token(user: usize) -> Result<String> {
    let exp = (SystemClock.now().millis() + TOKEN_MILLIS) / 1_000;
    let claims = json!({ "sub": user.to_string(), "exp": exp });
    Ok(encode(
        &Header::default(),
        &claims,
        &EncodingKey::from_secret(SECRET.as_bytes())?,
    )?)
}

/// Makes a group of `members` for each entry, the first of them being the creator. Answers the ids in that order.
pub(crate) async fn groups(address: &str, groups: Vec<Vec<usize>>) -> Result<Vec<i64>> {
    let client = reqwest::Client::builder().build()?;
    let made = groups.into_iter().map(|members| group(&client, address, members));
    stream::iter(made).buffered(CREATING_AT_ONCE).try_collect().await
}

async fn group(client: &reqwest::Client, address: &str, members: Vec<usize>) -> Result<i64> {
    let creator = members.first().context("a group has a creator")?;
    let others: Vec<Value> = members
        .iter()
        .skip(1)
        .map(|user| json!({ "type": "USER", "id": user.to_string() }))
        .collect();
    let response = client
        .post(format!("http://{address}/v1/conversations"))
        .bearer_auth(token(*creator)?)
        .json(&json!({ "kind": "GROUP", "title": "load", "members": others }))
        .send()
        .await?;
    let status = response.status();
    let body: Value = response.json().await?;
    let id = body
        .get("conversation_id")
        .or_else(|| body.pointer("/conversation/conversation_id"));
    id.and_then(Value::as_str)
        .and_then(|id| id.parse().ok())
        .with_context(|| format!("{status}: {body}"))
}
