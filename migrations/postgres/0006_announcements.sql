-- Work in the background: announcements. RUNNING (1), DONE (2), FAILED (3).
-- request_key: the operator's client_request_id; fingerprint: of what was asked for with it. audience: ALL, or principals as
-- type:id; it, body and payload are emptied when the job ends. after_type, after_id: whoever comes up to here, in the order of
-- principals, has been dealt with. holder: which process works on it, until lease_until.
CREATE TABLE im_job (
    job_id      BIGINT NOT NULL,
    state       SMALLINT NOT NULL,
    request_key BYTEA NOT NULL,
    fingerprint BYTEA NOT NULL,
    audience    TEXT NOT NULL,
    body        TEXT NOT NULL,
    payload     TEXT,
    done        BIGINT NOT NULL,
    total       BIGINT NOT NULL,
    missed      BIGINT NOT NULL,
    after_type  SMALLINT NOT NULL,
    after_id    BIGINT NOT NULL,
    holder      BYTEA NOT NULL,
    lease_until BIGINT NOT NULL,
    created_at  BIGINT NOT NULL,
    updated_at  BIGINT NOT NULL,
    PRIMARY KEY (job_id),
    CONSTRAINT uq_job_request UNIQUE (request_key)
);
CREATE INDEX ix_job_state ON im_job (state, job_id);
