//! Whom a text mentions.

use super::ids::Principal;

/// Whom a text mentions, in the shape in which it is kept: everybody, or a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Mentions {
    /// Nobody: nothing is kept.
    #[default]
    Nobody,
    /// These, in order, each once; never empty.
    These(Vec<Principal>),
    /// Everybody, and then nobody else is named.
    Everybody,
}

impl Mentions {
    /// From what stands in a text: in any order, with repeats.
    #[must_use]
    pub fn new(all: bool, mut principals: Vec<Principal>) -> Self {
        if all {
            return Self::Everybody;
        }
        principals.sort_unstable();
        principals.dedup();
        if principals.is_empty() {
            Self::Nobody
        } else {
            Self::These(principals)
        }
    }

    /// Those of them that are wanted.
    #[must_use]
    pub fn only(self, wanted: impl Fn(Principal) -> bool) -> Self {
        match self {
            Self::These(principals) => Self::new(
                false,
                principals.into_iter().filter(|principal| wanted(*principal)).collect(),
            ),
            other => other,
        }
    }

    /// Is this principal among them?
    #[must_use]
    pub fn includes(&self, principal: Principal) -> bool {
        match self {
            Self::Nobody => false,
            Self::These(principals) => principals.binary_search(&principal).is_ok(),
            Self::Everybody => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Content, MessageType};

    const ANN: Principal = Principal::user(1);
    const BOT: Principal = Principal::agent(1);

    fn of(json: &str) -> Mentions {
        Content::parse(json, &MessageType::Text, 10_000)
            .unwrap()
            .mentions(&MessageType::Text)
    }

    #[test]
    fn each_is_mentioned_once_and_all_means_nobody_else() {
        let both = "[{\"agent_id\":\"1\",\"offset\":0,\"length\":1},{\"user_id\":\"1\",\"offset\":0,\"length\":1},\
                    {\"agent_id\":\"1\",\"offset\":1,\"length\":1}]";
        assert_eq!(
            of(&format!("{{\"text\":\"ab\",\"mentions\":{both}}}")),
            Mentions::These(vec![ANN, BOT])
        );
        let all = format!("{{\"text\":\"ab\",\"mention_all\":true,\"mentions\":{both}}}");
        assert_eq!(of(&all), Mentions::Everybody);
        for nobody in [
            "{\"text\":\"the word \\\"mentions\\\":[] in a text\"}",
            "{\"text\":\"ab\",\"mentions\":[],\"mention_all\":false}",
            "{\"text\":\"ab\",\"mentions\":null}",
        ] {
            assert_eq!(of(nobody), Mentions::Nobody, "{nobody}");
        }
    }

    #[test]
    fn a_key_that_was_spelled_with_escapes_mentions_too() {
        let escaped = "{\"text\":\"ab\",\"\\u006dention_all\":true}";
        assert_eq!(of(escaped), Mentions::Everybody);
    }

    #[test]
    fn only_a_text_mentions() {
        let other = MessageType::parse("MY_OWN").unwrap();
        let content = Content::parse("{\"text\":\"ab\",\"mention_all\":true}", &other, 1_000).unwrap();
        assert_eq!(content.mentions(&other), Mentions::Nobody);
        let two = Mentions::new(false, vec![BOT, ANN, BOT]);
        assert!(two.includes(BOT) && !two.includes(Principal::user(2)));
        assert_eq!(two.only(|principal| principal == ANN), Mentions::These(vec![ANN]));
    }
}
