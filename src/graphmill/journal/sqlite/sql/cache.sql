-- name: cache_schema
CREATE TABLE answers (
    row INTEGER PRIMARY KEY,
    key BLOB NOT NULL UNIQUE,
    model BLOB NOT NULL,
    made_at REAL NOT NULL,
    used_at REAL NOT NULL,
    digest BLOB NOT NULL,
    body BLOB NOT NULL
);

-- name: cache_find
SELECT model, made_at, used_at, digest, body FROM answers WHERE key = ?;

-- name: cache_keep
-- The first answer is kept, so that everybody gets the same.
INSERT INTO answers (key, model, made_at, used_at, digest, body) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO NOTHING;

-- name: cache_use
UPDATE answers SET used_at = ? WHERE key = ?;

-- name: cache_drop
DELETE FROM answers WHERE key = ?;

-- name: cache_models
SELECT model, count(*), sum(length(body)), min(made_at), max(used_at) FROM answers GROUP BY model ORDER BY model;

-- name: cache_unused
SELECT count(*), coalesce(sum(length(body)), 0) FROM answers WHERE used_at < ?;

-- name: cache_prune
DELETE FROM answers WHERE row IN (SELECT row FROM answers WHERE used_at < ? LIMIT ?);
