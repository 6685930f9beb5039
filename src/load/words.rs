//! What is said: message contents of a wanted size, or those that somebody hands in.

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

/// Contents that a run takes turns with.
const VARIANTS: usize = 64;
const WORDS: [&str; 24] = [
    "the", "kettle", "is", "on", "and", "we", "meet", "at", "noon", "by", "river", "bring", "your", "notes", "please",
    "who", "has", "seen", "that", "letter", "from", "last", "week", "yet",
];

/// Contents of messages of the type TEXT, each a JSON object.
#[derive(Clone, Debug)]
pub struct Words(Vec<Box<str>>);

impl Words {
    /// Texts of exactly `bytes` bytes (at least 1), the same for the same seed.
    #[must_use]
    pub fn of_size(bytes: usize, seed: u64) -> Self {
        let mut chance = StdRng::seed_from_u64(seed);
        let contents = (0..VARIANTS).map(|_| {
            let mut text = String::with_capacity(bytes + 8);
            while text.len() < bytes {
                let word = WORDS.get(chance.random_range(0..WORDS.len())).unwrap_or(&"yes");
                text.push_str(word);
                text.push(' ');
            }
            text.truncate(bytes.max(1));
            // No text is all white space.
            if text.ends_with(' ') {
                text.pop();
                text.push('.');
            }
            format!("{{\"text\":\"{text}\"}}").into()
        });
        Self(contents.collect())
    }

    /// These contents (JSON objects of the type TEXT), in this order; none where there are none.
    #[must_use]
    pub fn of_contents(contents: Vec<Box<str>>) -> Option<Self> {
        (!contents.is_empty()).then_some(Self(contents))
    }

    /// How many different ones there are, and the bytes of all of them.
    #[must_use]
    pub fn extent(&self) -> (usize, usize) {
        (self.0.len(), self.0.iter().map(|content| content.len()).sum())
    }

    /// What a sender says in its message with this number: always the same, so that a retry is the same act.
    pub(super) fn content(&self, sender: u32, number: u64) -> &str {
        let count = u64::try_from(self.0.len()).unwrap_or(1).max(1);
        // Senders begin at different places.
        let place = (u64::from(sender).wrapping_mul(7_919).wrapping_add(number)) % count;
        let content = usize::try_from(place).ok().and_then(|place| self.0.get(place));
        content.map_or("{\"text\":\".\"}", |content| content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_the_size_asked_for_and_depend_on_the_seed_alone() {
        for bytes in [1, 2, 110, 4_096] {
            let (one, same, other) = (
                Words::of_size(bytes, 7),
                Words::of_size(bytes, 7),
                Words::of_size(bytes, 8),
            );
            for n in 0..100 {
                let content: serde_json::Value = serde_json::from_str(one.content(3, n)).unwrap();
                assert_eq!(content["text"].as_str().unwrap().len(), bytes);
                assert_eq!(one.content(3, n), same.content(3, n));
            }
            assert!(bytes < 100 || one.content(0, 0) != other.content(0, 0));
        }
    }
}
