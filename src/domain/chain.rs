//! The fingerprints that let anybody who holds the messages prove that none was dropped, reordered or altered.
//!
//! `content_hash` = SHA-256 of the content as first stored, in compact form.
//!
//! `chain_hash` = SHA-256 of, in this order (all integers big-endian):
//!
//! | bytes | what |
//! | --: | --- |
//! | 32 | `chain_hash` of the message before; of the first one: SHA-256 of the ASCII text `onescribe/chain/1` and the `conversation_id` (8 bytes) |
//! | 8 | `seq` |
//! | 8 | `message_id` |
//! | 1 | sender type: 1 USER, 2 AGENT, 3 SYSTEM |
//! | 8 | sender id |
//! | 4 + n | length and UTF-8 bytes of `client_message_id` (length 0 where it is null) |
//! | 4 + n | length and bytes of `message_type` |
//! | 32 | `content_hash` |
//! | 8 | `sent_at` in milliseconds since 1970 |

use std::fmt;

use sha2::{Digest as _, Sha256};

use super::ids::ConversationId;
use super::message::Message;

/// A SHA-256.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Of these 32 bytes.
    #[must_use]
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// From the 32 bytes at rest; `None` for any other length.
    #[must_use]
    pub fn from_slice(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// The 32 bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// In hexadecimal.
    #[must_use]
    pub fn hex(&self) -> Hex {
        // Every push shows two of them, and a call of the formatter for each byte shows in profiles.
        let mut hex = [0_u8; 64];
        for (pair, byte) in hex.chunks_exact_mut(2).zip(self.0) {
            pair.copy_from_slice(&[hex_digit(byte >> 4), hex_digit(byte & 0x0f)]);
        }
        Hex(hex)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.hex().as_str())
    }
}

/// A [`Digest`] as 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, Debug)]
pub struct Hex([u8; 64]);

impl Hex {
    /// The digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

const fn hex_digit(nibble: u8) -> u8 {
    // Without a branch: a hash is chance, so half of the guesses of a processor would be wrong.
    b'0' + nibble + (nibble / 10) * (b'a' - b'0' - 10)
}

/// The hash of content in compact form.
#[must_use]
pub fn content_hash(compact: &str) -> Digest {
    Digest(Sha256::digest(compact.as_bytes()).into())
}

/// What stands before the first message of a conversation.
#[must_use]
pub fn genesis(conversation_id: ConversationId) -> Digest {
    let mut hash = Sha256::new();
    hash.update(b"onescribe/chain/1");
    hash.update(conversation_id.get().to_be_bytes());
    Digest(hash.finalize().into())
}

/// The hash of `message` on top of the one before it. The message's own `chain_hash` is not looked at.
#[must_use]
pub fn chain_hash(previous: &Digest, message: &Message) -> Digest {
    let key = message.client_message_id.as_ref().map_or("", |key| key.as_str());
    let mut hash = Sha256::new();
    hash.update(previous.0);
    hash.update(message.seq.get().to_be_bytes());
    hash.update(message.message_id.get().to_be_bytes());
    hash.update(message.sender.kind.code().to_be_bytes().get(1..).unwrap_or_default());
    hash.update(message.sender.id.to_be_bytes());
    for text in [key, message.message_type.as_str()] {
        hash.update(u32::try_from(text.len()).unwrap_or(u32::MAX).to_be_bytes());
        hash.update(text.as_bytes());
    }
    hash.update(message.content_hash.0);
    hash.update(message.sent_at.millis().to_be_bytes());
    Digest(hash.finalize().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_shows_as_64_lower_case_hex_digits() {
        let text = content_hash("").to_string();
        assert_eq!(text, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        let bytes: Vec<u8> = (0..=31).map(|byte| byte * 8).collect();
        let plain: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(Digest::from_slice(&bytes).unwrap().to_string(), plain.concat());
    }
}
