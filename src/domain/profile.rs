//! What is known of a user or an agent besides their number.

use super::ids::{ExternalId, Principal};

/// Whether somebody may use the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PrincipalStatus {
    /// They may.
    #[default]
    Active,
    /// Every token of theirs is refused. What they said stays, and so do their memberships.
    Disabled,
}

impl PrincipalStatus {
    /// The small number that stands for it at rest.
    #[must_use]
    pub const fn code(self) -> i16 {
        match self {
            Self::Active => 1,
            Self::Disabled => 2,
        }
    }

    /// The inverse of [`PrincipalStatus::code`].
    #[must_use]
    pub const fn from_code(code: i16) -> Option<Self> {
        match code {
            1 => Some(Self::Active),
            2 => Some(Self::Disabled),
            _ => None,
        }
    }

    /// The word of the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "ACTIVE",
            Self::Disabled => "DISABLED",
        }
    }

    /// The inverse of [`PrincipalStatus::as_str`].
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Active, Self::Disabled]
            .into_iter()
            .find(|status| status.as_str() == text)
    }
}

/// What is known of a principal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Who.
    pub principal: Principal,
    /// Their id in the host's own user system.
    pub external_id: Option<ExternalId>,
    /// How they are shown.
    pub display_name: Option<String>,
    /// A picture; kept as it is, never fetched.
    pub avatar_url: Option<String>,
    /// Whether they may use the server.
    pub status: PrincipalStatus,
}

/// What of a profile changes; `None` = stays, `Some(None)` = is unset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProfilePatch {
    /// Their id in the host's own user system.
    pub external_id: Option<Option<ExternalId>>,
    /// How they are shown.
    pub display_name: Option<Option<String>>,
    /// A picture.
    pub avatar_url: Option<Option<String>>,
    /// Whether they may use the server.
    pub status: Option<PrincipalStatus>,
}
