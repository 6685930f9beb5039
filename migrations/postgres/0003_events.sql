-- Events for other systems. The messages and changes of the conversations are the outbox; these tables say how far their
-- events have a place in the store-wide log, what stands there, and what became of it at each webhook.
DROP TABLE im_outbox;

-- One row: the newest place, since when places are given (0 = nobody wants any), when the feed was asked last. Whoever gives
-- places holds it until the commit, so that they rise in commit order.
CREATE TABLE im_event_log (
    log_id         SMALLINT NOT NULL,
    newest         BIGINT NOT NULL,
    active_since   BIGINT NOT NULL,
    feed_asked_at  BIGINT NOT NULL,
    PRIMARY KEY (log_id)
);
INSERT INTO im_event_log (log_id, newest, active_since, feed_asked_at) VALUES (1, 0, 0, 0);

-- How far the events of a conversation have their place, and in which period (im_event_log.active_since).
CREATE TABLE im_event_cursor (
    conversation_id BIGINT NOT NULL,
    seq             BIGINT NOT NULL,
    change_seq      BIGINT NOT NULL,
    active_since    BIGINT NOT NULL,
    PRIMARY KEY (conversation_id)
);

-- References only: what is told of an event is read when it is told.
CREATE TABLE im_event (
    event_no        BIGINT NOT NULL,
    notice_type     SMALLINT NOT NULL,
    conversation_id BIGINT NOT NULL,
    seq             BIGINT,
    change_seq      BIGINT,
    message_id      BIGINT,
    recipients      TEXT,
    placed_at       BIGINT NOT NULL,
    PRIMARY KEY (event_no)
);

-- Conversations in which it is to be looked at due_at who has missed a message after told_seq.
CREATE TABLE im_push (
    conversation_id BIGINT NOT NULL,
    told_seq        BIGINT NOT NULL,
    last_seq        BIGINT NOT NULL,
    due_at          BIGINT NOT NULL,
    PRIMARY KEY (conversation_id)
);
CREATE INDEX ix_push_due ON im_push (due_at);

-- Who is called, for what, with which secrets (JSON), up to which event there are deliveries, and which process calls.
CREATE TABLE im_webhook (
    webhook_id  BIGINT NOT NULL,
    name        BYTEA NOT NULL,
    url         TEXT NOT NULL,
    notices     BIGINT NOT NULL,
    secrets     TEXT NOT NULL,
    event_no    BIGINT NOT NULL,
    version     BIGINT NOT NULL,
    holder      BYTEA NOT NULL,
    lease_until BIGINT NOT NULL,
    created_at  BIGINT NOT NULL,
    updated_at  BIGINT NOT NULL,
    PRIMARY KEY (webhook_id),
    CONSTRAINT uq_webhook_name UNIQUE (name)
);

-- PENDING (1), DELIVERED (2), DEAD (3).
CREATE TABLE im_delivery (
    webhook_id      BIGINT NOT NULL,
    event_no        BIGINT NOT NULL,
    conversation_id BIGINT NOT NULL,
    state           SMALLINT NOT NULL,
    attempts        BIGINT NOT NULL,
    next_attempt_at BIGINT NOT NULL,
    last_error      TEXT,
    created_at      BIGINT NOT NULL,
    finished_at     BIGINT,
    PRIMARY KEY (webhook_id, event_no)
);
CREATE INDEX ix_delivery_state ON im_delivery (webhook_id, state, event_no);

-- These rows are updated again and again: the new version stays on its page.
ALTER TABLE im_event_log SET (fillfactor = 20);
ALTER TABLE im_event_cursor SET (fillfactor = 60);
