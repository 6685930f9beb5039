-- What a user's own view of a conversation needs: mentions, how much of the history is cleared, who hides what.

-- Whom the present text of a message mentions; (0, 0) = everybody, and then nobody else is named.
CREATE TABLE im_mention (
    conversation_id BIGINT NOT NULL,
    principal_type  SMALLINT NOT NULL,
    principal_id    BIGINT NOT NULL,
    seq             BIGINT NOT NULL,
    PRIMARY KEY (conversation_id, principal_type, principal_id, seq)
);

-- count_no at cleared_seq: nothing up to there is unread.
ALTER TABLE im_member ADD COLUMN cleared_count_no BIGINT NOT NULL DEFAULT 0;
-- Who has cleared a message that is edited.
CREATE INDEX ix_member_cleared ON im_member (conversation_id, cleared_seq);
-- Who has deleted it for themselves.
CREATE INDEX ix_user_action_message ON im_user_action (message_id, action_type);
