//! Who may do what. Judged by the conversation's writer at the moment the number is given.

use super::conversation::{Adding, Header, Kind, Posting, Status};
use super::error::DomainError;
use super::ids::{Principal, PrincipalType};
use super::member::{Member, Role};

/// Between two of whom one has blocked the other nothing is begun.
pub const BLOCKED: DomainError = DomainError::Forbidden("one of you has blocked the other");
/// There is none, or it is told to somebody else: one answer for both.
pub const NO_SUCH_NOTIFICATION: DomainError = DomainError::NotFound("no such notification");

/// May this member send here? Rights come before state.
pub fn may_send(header: &Header, member: &Member) -> Result<(), DomainError> {
    match (header.kind, header.posting) {
        (Kind::Inbox, _) => return Err(DomainError::Forbidden("only the server writes to an inbox")),
        (Kind::Group, Posting::Admins) if member.role < Role::Admin => {
            return Err(DomainError::Forbidden("only admins may post here"));
        }
        _ => {}
    }
    open(header)
}

/// May this member add others?
pub fn may_add(header: &Header, actor: &Member) -> Result<(), DomainError> {
    fixed(header)?;
    if header.adding == Adding::Admins && actor.role < Role::Admin {
        return Err(DomainError::Forbidden("only admins may add members here"));
    }
    open(header)
}

/// May somebody join by an invitation of `inviter`, as far as they are a member still? An
/// invitation is worth what the right of whoever gave it is worth now.
pub fn may_join(header: &Header, inviter: Option<&Member>) -> Result<(), DomainError> {
    const NO_RIGHT: DomainError =
        DomainError::Forbidden("whoever invited you may not add members to this group any more");
    open(header)?;
    may_add(header, inviter.ok_or(NO_RIGHT)?).map_err(|_| NO_RIGHT)
}

/// May `actor` end the membership of `target` (who may be gone already)? Leaving is not asked here.
pub fn may_remove(header: &Header, actor: &Member, target: Option<&Member>) -> Result<(), DomainError> {
    fixed(header)?;
    match (actor.role, target.map(|target| target.role)) {
        (_, Some(Role::Owner)) => Err(DomainError::Forbidden("nobody removes the owner")),
        (Role::Owner, Some(_)) | (Role::Admin, Some(Role::Member)) => open(header),
        (Role::Owner | Role::Admin, None) => Err(DomainError::NotFound("no such member")),
        _ => Err(DomainError::Forbidden(
            "your role does not allow you to remove this member",
        )),
    }
}

/// May this member leave?
pub fn may_leave(header: &Header) -> Result<(), DomainError> {
    fixed(header)?;
    open(header)
}

/// May this member change the group itself, for which a role of at least `least` is needed? Its state is not asked here.
pub fn may_manage(header: &Header, actor: &Member, least: Role) -> Result<(), DomainError> {
    fixed(header)?;
    match least {
        least if actor.role >= least => Ok(()),
        Role::Owner => Err(DomainError::Forbidden("only the owner of the group may do this")),
        _ => Err(DomainError::Forbidden("only admins of the group may do this")),
    }
}

/// May the holder of the admin key say something here in the name of `sender`? `member` is the sender's membership.
pub fn may_send_for(header: &Header, sender: Principal, member: Option<&Member>) -> Result<(), DomainError> {
    if sender.kind != PrincipalType::System && member.is_none() {
        return Err(DomainError::NotAMember);
    }
    if header.kind == Kind::Inbox {
        return Err(DomainError::Forbidden("an inbox has notifications only"));
    }
    open(header)
}

/// A DIRECT and an INBOX are what they are: members, roles and settings never change.
fn fixed(header: &Header) -> Result<(), DomainError> {
    if header.kind == Kind::Group {
        Ok(())
    } else {
        Err(DomainError::Forbidden(
            "members and settings of this conversation are fixed",
        ))
    }
}

/// May members react to messages here? Also where only admins post.
pub fn may_react(header: &Header) -> Result<(), DomainError> {
    if header.kind == Kind::Inbox {
        return Err(DomainError::Forbidden("nobody reacts to what stands in an inbox"));
    }
    open(header)
}

/// May this member pin messages here, and unpin them?
pub fn may_pin(header: &Header, member: &Member) -> Result<(), DomainError> {
    match header.kind {
        Kind::Inbox => Err(DomainError::Forbidden("nothing is pinned in an inbox")),
        Kind::Group if member.role < Role::Admin => {
            Err(DomainError::Forbidden("only an admin of the group may pin a message"))
        }
        Kind::Group | Kind::Direct => open(header),
    }
}

/// Can this be written to?
pub fn open(header: &Header) -> Result<(), DomainError> {
    if header.status == Status::Active {
        Ok(())
    } else {
        Err(DomainError::Closed)
    }
}
