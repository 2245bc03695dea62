-- name: make_allowances
CREATE TABLE IF NOT EXISTS allowances (
    account TEXT PRIMARY KEY,
    at REAL NOT NULL,           -- when it was last looked at
    requests_at REAL NOT NULL,  -- when the last slice of requests is over
    tokens_at REAL NOT NULL,
    closed_until REAL NOT NULL,
    requests_per_minute INTEGER,
    tokens_per_minute INTEGER
) WITHOUT ROWID;

-- name: make_slices
-- What was given out in the last minute.
CREATE TABLE IF NOT EXISTS slices (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    account TEXT NOT NULL,
    holder TEXT NOT NULL,
    at REAL NOT NULL,           -- when the last of it may be used
    tokens INTEGER NOT NULL
);

-- name: allowance
SELECT at, requests_at, tokens_at, closed_until FROM allowances WHERE account = ?;

-- name: put_allowance
INSERT INTO allowances (account, at, requests_at, tokens_at, closed_until) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (account) DO UPDATE SET
    at = excluded.at, requests_at = excluded.requests_at, tokens_at = excluded.tokens_at, closed_until = excluded.closed_until;

-- name: shift_slices
UPDATE slices SET at = at - ? WHERE account = ?;

-- name: forget_slices
DELETE FROM slices WHERE account = ? AND at <= ?;

-- name: slices
SELECT at, tokens, holder FROM slices WHERE account = ? ORDER BY at;

-- name: add_slice
INSERT INTO slices (account, holder, at, tokens) VALUES (?, ?, ?, ?);

-- name: last_slice
SELECT max(number) FROM slices WHERE account = ?;

-- name: return_tokens
UPDATE slices SET tokens = tokens - ? WHERE number = ? AND account = ? AND holder = ?;

-- name: note_learned
UPDATE allowances SET requests_per_minute = ?, tokens_per_minute = ? WHERE account = ?;

-- name: learned
SELECT account, requests_per_minute, tokens_per_minute, closed_until FROM allowances
WHERE requests_per_minute IS NOT NULL OR tokens_per_minute IS NOT NULL ORDER BY account;
