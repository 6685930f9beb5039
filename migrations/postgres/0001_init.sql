-- Ids and times (milliseconds since 1970, UTC) are BIGINT, codes SMALLINT, comparison keys BYTEA: compared byte for byte.

-- What a conversation is, and the counters that its one writer owns.
CREATE TABLE im_conversation (
    conversation_id    BIGINT NOT NULL,
    kind               SMALLINT NOT NULL,
    title              TEXT,
    avatar_url         TEXT,
    owner_type         SMALLINT,
    owner_id           BIGINT,
    history_visibility SMALLINT NOT NULL,
    posting            SMALLINT NOT NULL,
    adding             SMALLINT NOT NULL,
    status             SMALLINT NOT NULL,
    created_at         BIGINT NOT NULL,
    updated_at         BIGINT NOT NULL,
    creation_key       BYTEA,
    last_seq           BIGINT NOT NULL,
    last_change_seq    BIGINT NOT NULL,
    last_count_no      BIGINT NOT NULL,
    chain_hash         BYTEA NOT NULL,
    last_message_seq   BIGINT NOT NULL,
    last_activity_at   BIGINT NOT NULL,
    member_count       BIGINT NOT NULL,
    PRIMARY KEY (conversation_id),
    CONSTRAINT uq_conversation_creation_key UNIQUE (creation_key)
);

-- The hot table: these three unique keys and no further index.
CREATE TABLE im_message (
    message_id        BIGINT NOT NULL,
    conversation_id   BIGINT NOT NULL,
    seq               BIGINT NOT NULL,
    sender_type       SMALLINT NOT NULL,
    sender_id         BIGINT NOT NULL,
    client_message_id BYTEA,
    message_type      TEXT NOT NULL,
    content           TEXT NOT NULL,
    quoted_message_id BIGINT,
    status            SMALLINT NOT NULL,
    sent_at           BIGINT NOT NULL,
    edited_at         BIGINT,
    change_seq        BIGINT NOT NULL,
    count_no          BIGINT NOT NULL,
    content_hash      BYTEA NOT NULL,
    chain_hash        BYTEA NOT NULL,
    PRIMARY KEY (message_id),
    CONSTRAINT uq_message_seq UNIQUE (conversation_id, seq),
    CONSTRAINT uq_message_client_key UNIQUE (conversation_id, sender_type, sender_id, client_message_id)
);

-- Recalled and deleted messages of users and agents: what is taken off the unread counts above a position.
CREATE TABLE im_gone (
    conversation_id BIGINT NOT NULL,
    seq             BIGINT NOT NULL,
    PRIMARY KEY (conversation_id, seq)
);

-- The numbered log of everything that alters what is already there.
CREATE TABLE im_change (
    conversation_id BIGINT NOT NULL,
    change_seq      BIGINT NOT NULL,
    change_type     TEXT NOT NULL,
    message_id      BIGINT,
    payload         TEXT,
    actor_type      SMALLINT NOT NULL,
    actor_id        BIGINT NOT NULL,
    changed_at      BIGINT NOT NULL,
    PRIMARY KEY (conversation_id, change_seq)
);

-- Present (status 1) and former (status 2) members, with their own view of the conversation.
CREATE TABLE im_member (
    conversation_id    BIGINT NOT NULL,
    principal_type     SMALLINT NOT NULL,
    principal_id       BIGINT NOT NULL,
    status             SMALLINT NOT NULL,
    role               SMALLINT NOT NULL,
    joined_seq         BIGINT NOT NULL,
    joined_at          BIGINT NOT NULL,
    left_at            BIGINT,
    cleared_seq        BIGINT NOT NULL,
    last_read_seq      BIGINT NOT NULL,
    last_read_count_no BIGINT NOT NULL,
    marked_unread      BOOLEAN NOT NULL,
    muted              BOOLEAN NOT NULL,
    pinned             BOOLEAN NOT NULL,
    PRIMARY KEY (conversation_id, principal_type, principal_id)
);
CREATE INDEX ix_member_principal ON im_member (principal_type, principal_id, conversation_id);

-- Users and agents.
CREATE TABLE im_principal (
    principal_type SMALLINT NOT NULL,
    principal_id   BIGINT NOT NULL,
    external_id    BYTEA,
    display_name   TEXT,
    avatar_url     TEXT,
    status         SMALLINT NOT NULL,
    created_at     BIGINT NOT NULL,
    updated_at     BIGINT NOT NULL,
    PRIMARY KEY (principal_type, principal_id),
    CONSTRAINT uq_principal_external_id UNIQUE (principal_type, external_id)
);

-- The devices of a principal.
CREATE TABLE im_device (
    principal_type SMALLINT NOT NULL,
    principal_id   BIGINT NOT NULL,
    device_id      BYTEA NOT NULL,
    platform       TEXT,
    created_at     BIGINT NOT NULL,
    last_seen_at   BIGINT NOT NULL,
    PRIMARY KEY (principal_type, principal_id, device_id)
);

-- What each device acknowledged; the conversation stands before the device, since receipts ask for all devices.
CREATE TABLE im_device_cursor (
    principal_type  SMALLINT NOT NULL,
    principal_id    BIGINT NOT NULL,
    conversation_id BIGINT NOT NULL,
    device_id       BYTEA NOT NULL,
    seq             BIGINT NOT NULL,
    change_seq      BIGINT NOT NULL,
    updated_at      BIGINT NOT NULL,
    PRIMARY KEY (principal_type, principal_id, conversation_id, device_id)
);

-- DELETE (1), FAVORITE (2), REMINDER (3) of one user on one message; ACTIVE (1) or INACTIVE (2).
CREATE TABLE im_user_action (
    principal_type  SMALLINT NOT NULL,
    principal_id    BIGINT NOT NULL,
    action_type     SMALLINT NOT NULL,
    message_id      BIGINT NOT NULL,
    conversation_id BIGINT NOT NULL,
    seq             BIGINT NOT NULL,
    status          SMALLINT NOT NULL,
    remind_at       BIGINT,
    fired_at        BIGINT,
    payload         TEXT,
    created_at      BIGINT NOT NULL,
    updated_at      BIGINT NOT NULL,
    PRIMARY KEY (principal_type, principal_id, action_type, message_id)
);
CREATE INDEX ix_user_action_conversation ON im_user_action (principal_type, principal_id, conversation_id, seq);
CREATE INDEX ix_user_action_due ON im_user_action (remind_at, action_type, status);

-- Who reacted with what.
CREATE TABLE im_reaction (
    message_id      BIGINT NOT NULL,
    emoji           BYTEA NOT NULL,
    principal_type  SMALLINT NOT NULL,
    principal_id    BIGINT NOT NULL,
    conversation_id BIGINT NOT NULL,
    created_at      BIGINT NOT NULL,
    PRIMARY KEY (message_id, emoji, principal_type, principal_id)
);

-- Pinned messages.
CREATE TABLE im_pin (
    conversation_id BIGINT NOT NULL,
    message_id      BIGINT NOT NULL,
    pinned_by_type  SMALLINT NOT NULL,
    pinned_by_id    BIGINT NOT NULL,
    pinned_at       BIGINT NOT NULL,
    PRIMARY KEY (conversation_id, message_id)
);

-- The lease of each worker id, and the newest time it gave ids of.
CREATE TABLE im_node (
    worker      SMALLINT NOT NULL,
    node_id     BYTEA NOT NULL,
    lease_until BIGINT NOT NULL,
    last_issued BIGINT NOT NULL,
    address     TEXT,
    updated_at  BIGINT NOT NULL,
    PRIMARY KEY (worker)
);

-- Small values of the store as a whole.
CREATE TABLE im_setting (
    setting_name  BYTEA NOT NULL,
    setting_value TEXT NOT NULL,
    PRIMARY KEY (setting_name)
);

-- Work that follows from what was committed: references only, the body is built when it is delivered.
CREATE TABLE im_outbox (
    outbox_id       BIGINT NOT NULL,
    conversation_id BIGINT NOT NULL,
    event_type      TEXT NOT NULL,
    message_id      BIGINT,
    change_seq      BIGINT,
    target          BYTEA,
    state           SMALLINT NOT NULL,
    attempts        BIGINT NOT NULL,
    next_attempt_at BIGINT NOT NULL,
    created_at      BIGINT NOT NULL,
    finished_at     BIGINT,
    last_error      TEXT,
    PRIMARY KEY (outbox_id)
);
CREATE INDEX ix_outbox_due ON im_outbox (state, next_attempt_at);
CREATE INDEX ix_outbox_conversation ON im_outbox (conversation_id, outbox_id);
