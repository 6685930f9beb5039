-- Files: what was uploaded, the bytes of it, which are kept once, and the messages that refer to it.

-- Bytes under a key of the object store. live = 1: they are all there, and uploads of the same bytes may take them; NULL:
-- they are being written (sha256 is NULL too), or on their way out. touched_at: when they were last taken or let go; NULL =
-- a file had them when it was looked last.
CREATE TABLE im_blob (
    blob_id    INTEGER NOT NULL,
    object_key BLOB NOT NULL,
    sha256     BLOB,
    size_bytes BIGINT NOT NULL,
    live       SMALLINT,
    touched_at BIGINT,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (blob_id),
    CONSTRAINT uq_blob_object UNIQUE (object_key),
    CONSTRAINT uq_blob_sha256 UNIQUE (sha256, live)
);
CREATE INDEX ix_blob_touched ON im_blob (touched_at);

-- UPLOADING (1), READY (2), EXPIRED (3). unreferenced_since: since when no message refers to it, as far as is known; NULL =
-- one did when it was looked last. Whatever takes a reference away sets it.
CREATE TABLE im_file (
    file_id            INTEGER NOT NULL,
    uploader_type      SMALLINT NOT NULL,
    uploader_id        BIGINT NOT NULL,
    name               TEXT NOT NULL,
    media_type         TEXT NOT NULL,
    state              SMALLINT NOT NULL,
    blob_id            BIGINT NOT NULL,
    thumb_blob_id      BIGINT,
    width              BIGINT,
    height             BIGINT,
    unreferenced_since BIGINT,
    created_at         BIGINT NOT NULL,
    PRIMARY KEY (file_id),
    CONSTRAINT fk_file_blob FOREIGN KEY (blob_id) REFERENCES im_blob (blob_id),
    CONSTRAINT fk_file_thumb FOREIGN KEY (thumb_blob_id) REFERENCES im_blob (blob_id)
);
CREATE INDEX ix_file_blob ON im_file (blob_id);
CREATE INDEX ix_file_thumb ON im_file (thumb_blob_id);
CREATE INDEX ix_file_unreferenced ON im_file (state, unreferenced_since);

-- The messages that stand and refer to a file. The keys to its row and to its bytes let the database itself refuse, however
-- late a commit comes, what would refer to something that has gone.
CREATE TABLE im_file_ref (
    message_id      BIGINT NOT NULL,
    file_id         BIGINT NOT NULL,
    conversation_id BIGINT NOT NULL,
    seq             BIGINT NOT NULL,
    PRIMARY KEY (message_id, file_id),
    CONSTRAINT fk_file_ref_file FOREIGN KEY (file_id) REFERENCES im_file (file_id)
);
CREATE INDEX ix_file_ref_file ON im_file_ref (file_id, conversation_id, seq);
