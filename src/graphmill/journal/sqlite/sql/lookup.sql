-- name: newest_generation
SELECT coalesce(max(generation), 0) FROM results NOT INDEXED WHERE run = ? AND row BETWEEN ? AND ?;

-- name: next_heads
SELECT run, key, generation, position, status, kind, content, seal, row FROM results NOT INDEXED
WHERE run = ? AND row BETWEEN ? AND ? ORDER BY row LIMIT ?;

-- name: scan_results
SELECT run, key, generation, position, status, kind, content, seal, row FROM results NOT INDEXED
WHERE run = ? AND row BETWEEN ? AND ? AND key IN (@many);

-- name: make_result_lookup
CREATE TEMP TABLE found_results (key BLOB, generation INTEGER, row INTEGER, PRIMARY KEY (key, generation)) WITHOUT ROWID;

-- name: fill_result_lookup
-- Sorted first: then the table is written from one end to the other.
INSERT INTO found_results SELECT key, generation, row FROM results NOT INDEXED
WHERE run = ? AND row BETWEEN ? AND ? ORDER BY key, generation;

-- name: look_up_results
SELECT r.run, r.key, r.generation, r.position, r.status, r.kind, r.content, r.seal, r.row
FROM found_results AS f CROSS JOIN results AS r ON r.row = f.row WHERE f.key IN (@many) ORDER BY f.key, f.generation;

-- name: make_step_lookup
CREATE TEMP TABLE found_steps (key BLOB, row INTEGER, PRIMARY KEY (key, row)) WITHOUT ROWID;

-- name: fill_step_lookup
INSERT INTO found_steps VALUES (?, ?);

-- name: make_call_lookup
CREATE TEMP TABLE found_calls (key BLOB, row INTEGER, PRIMARY KEY (key, row)) WITHOUT ROWID;

-- name: fill_call_lookup
INSERT OR IGNORE INTO found_calls VALUES (?, ?);

-- name: look_up_calls
SELECT row FROM found_calls WHERE key = ? ORDER BY row;

-- name: look_up_steps
SELECT s.* FROM found_steps AS f CROSS JOIN steps AS s ON s.row = f.row WHERE f.key = ? ORDER BY s.generation, s.row;
