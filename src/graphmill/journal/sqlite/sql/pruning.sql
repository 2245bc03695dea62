-- name: insert_leftover
INSERT INTO leftovers (run, first, last) VALUES (?, ?, ?);

-- name: leftovers
SELECT run, first, last FROM leftovers;

-- name: delete_leftover
DELETE FROM leftovers WHERE run = ?;

-- name: delete_results
DELETE FROM results WHERE row IN (SELECT row FROM results NOT INDEXED WHERE run = ? AND row BETWEEN ? AND ? LIMIT ?);

-- name: delete_steps
DELETE FROM steps WHERE row IN (SELECT row FROM steps WHERE run = ? LIMIT ?);

-- name: delete_attempts
DELETE FROM attempts WHERE row IN (SELECT row FROM attempts WHERE run = ? LIMIT ?);

-- name: delete_calls
DELETE FROM calls WHERE row IN (SELECT row FROM calls WHERE run = ? LIMIT ?);

-- name: delete_wanted
DELETE FROM wanted WHERE run = ? AND key IN (SELECT key FROM wanted WHERE run = ? LIMIT ?);

-- name: delete_suspects
DELETE FROM suspects WHERE run = ? AND key IN (SELECT key FROM suspects WHERE run = ? LIMIT ?);

-- name: delete_orphans
DELETE FROM orphans WHERE run = ?;
