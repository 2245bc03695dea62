-- name: insert_run
INSERT INTO runs (
  id, epoch, state, reason, generation, created_at, changed_at, elapsed_s, total, is_read, owner_host, owner_pid, owner_since,
  first, last, rows, steps, attempts, wanted, suspects, orphans, calls, usage, digest
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: next_run_number
SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'runs'), 0) + 1;

-- name: update_run
-- Fenced: changes nothing once another owner has raised the epoch.
UPDATE runs SET
  epoch = ?, state = ?, reason = ?, generation = ?, changed_at = ?, elapsed_s = ?, total = ?, is_read = ?,
  owner_host = ?, owner_pid = ?, owner_since = ?,
  first = ?, last = ?, rows = ?, steps = ?, attempts = ?, wanted = ?, suspects = ?, orphans = ?, calls = ?, usage = ?, digest = ?
WHERE number = ? AND epoch = ?;

-- name: update_counters
-- Fenced like update_run, and less to write.
UPDATE runs SET
  changed_at = ?, first = ?, last = ?, rows = ?, steps = ?, attempts = ?, wanted = ?, suspects = ?, orphans = ?, calls = ?, usage = ?,
  digest = ?
WHERE number = ? AND epoch = ?;

-- name: last_of_run
SELECT max(row) FROM results NOT INDEXED WHERE run = ? AND row BETWEEN ? AND ?;

-- name: spent_uncounted
SELECT * FROM results NOT INDEXED WHERE run = ? AND row BETWEEN ? AND ? AND spent IS NOT NULL;

-- name: all_runs
SELECT * FROM runs NOT INDEXED ORDER BY number;

-- name: one_run
SELECT * FROM runs WHERE number = ?;

-- name: named_run
SELECT * FROM runs WHERE id = CAST(? AS TEXT);

-- name: delete_run
DELETE FROM runs WHERE number = ?;

-- name: put_manifest
INSERT OR REPLACE INTO manifests (run, body, digest) VALUES (?, ?, ?);

-- name: manifest
SELECT body, digest FROM manifests WHERE run = ?;

-- name: delete_manifest
DELETE FROM manifests WHERE run = ?;

-- name: meta
SELECT value FROM meta WHERE name = ?;

-- name: put_meta
INSERT OR REPLACE INTO meta (name, value) VALUES (?, ?);

-- name: insert_request
INSERT INTO requests (run, word, argument, at, digest) VALUES (?, ?, ?, ?, ?);

-- name: requests
SELECT seq, run, word, argument, at, digest FROM requests WHERE run = ? AND seq > ? ORDER BY seq;

-- name: delete_requests
DELETE FROM requests WHERE run = ?;
