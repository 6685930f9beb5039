//! Onescribe: an IM message server. It stores every message once, numbers it, and brings it to every device of every member.

pub mod app;
pub mod auth;
pub mod cli;
pub mod clock;
pub mod config;
pub mod conversation;
pub mod delivery;
pub mod domain;
pub mod ids;
pub mod protocol;
pub mod routing;
pub mod service;
pub mod storage;
pub mod telemetry;
pub mod transport;
