//! WHAT THE OPERATOR SEES: log lines on stderr, for people or for machines, with the id of the request in each.
//!
//! Never here: a token, a secret, the text of a message, the query of a URL. stdout belongs to the commands.

mod logs;
mod requests;

pub use logs::{Format, start};
pub use requests::RequestSpan;
