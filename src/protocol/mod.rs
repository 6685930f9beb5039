//! WHAT CLIENTS SEE: serde types of the wire contract. No actix, no decision, no row of a database.

pub mod admin;
pub mod announcements;
pub mod convert;
pub mod error;
pub mod events;
pub mod fields;
pub mod files;
pub mod frame;
pub mod notifications;
pub mod reply;
pub mod rest;
pub mod sync;
pub mod view;
pub mod webhooks;
