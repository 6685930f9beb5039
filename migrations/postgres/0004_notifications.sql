-- What users are told in their INBOX: a row beside each NOTIFICATION message, with its id. FRIEND_REQUEST (1),
-- GROUP_INVITE (2), ANNOUNCEMENT (3); PENDING (1), ACCEPTED (2), DECLINED (3), EXPIRED (4).
-- pending_key: while it is pending, no second one has it. due_at: when it expires, or is carried out at the latest.
CREATE TABLE im_notification (
    notification_id BIGINT NOT NULL,
    inbox_id        BIGINT NOT NULL,
    owner_type      SMALLINT NOT NULL,
    owner_id        BIGINT NOT NULL,
    kind            SMALLINT NOT NULL,
    from_type       SMALLINT NOT NULL,
    from_id         BIGINT NOT NULL,
    body            TEXT,
    conversation_id BIGINT,
    payload         TEXT,
    state           SMALLINT NOT NULL,
    pending_key     BYTEA,
    read_at         BIGINT,
    created_at      BIGINT NOT NULL,
    updated_at      BIGINT NOT NULL,
    due_at          BIGINT,
    PRIMARY KEY (notification_id),
    CONSTRAINT uq_notification_pending UNIQUE (owner_type, owner_id, pending_key)
);
CREATE INDEX ix_notification_owner ON im_notification (owner_type, owner_id, notification_id);
CREATE INDEX ix_notification_state ON im_notification (owner_type, owner_id, state, notification_id);
CREATE INDEX ix_notification_due ON im_notification (due_at, notification_id);

-- Who knows whom: two rows for each two, since the friend request that was accepted.
CREATE TABLE im_contact (
    owner_type      SMALLINT NOT NULL,
    owner_id        BIGINT NOT NULL,
    other_type      SMALLINT NOT NULL,
    other_id        BIGINT NOT NULL,
    notification_id BIGINT NOT NULL,
    created_at      BIGINT NOT NULL,
    PRIMARY KEY (owner_type, owner_id, other_type, other_id)
);

-- Who blocks whom. heeded: the writer of the DIRECT of the two has been told.
CREATE TABLE im_block (
    owner_type SMALLINT NOT NULL,
    owner_id   BIGINT NOT NULL,
    other_type SMALLINT NOT NULL,
    other_id   BIGINT NOT NULL,
    heeded     BOOLEAN NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (owner_type, owner_id, other_type, other_id)
);
