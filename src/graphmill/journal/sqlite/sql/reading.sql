-- name: heads
-- In input order, from the table alone: an index that is damaged can hide nothing here. Bodies are not touched.
WITH again AS MATERIALIZED (
  SELECT key, max(generation) AS newest FROM results NOT INDEXED
  WHERE run = ? AND row BETWEEN ? AND ? AND generation > 1 GROUP BY key
)
SELECT r.run, r.key, r.generation, r.position, r.status, r.kind, r.content, r.seal, r.row, coalesce(again.newest, 0)
FROM results AS r NOT INDEXED LEFT JOIN again ON again.key = r.key
WHERE r.run = ? AND r.row BETWEEN ? AND ?
ORDER BY r.position, r.row;

-- name: results_since
SELECT count(*) FROM results NOT INDEXED WHERE run = ? AND row BETWEEN ? AND ? AND at >= ?;

-- name: results_by_prefix
-- An id comes before the bodies in a row, so that they are not read.
SELECT row FROM results NOT INDEXED WHERE run = ? AND row BETWEEN ? AND ? AND substr(item_id, 1, ?) = ?;

-- name: results_by_row
SELECT * FROM results WHERE row IN (@some);

-- name: wanted_of
SELECT run, key, generation, seal FROM wanted WHERE run = ? AND key IN (@many);

-- name: wanted_one
SELECT run, key, generation, seal FROM wanted WHERE run = ? AND key = ?;

-- name: step_heads
SELECT run, key, generation, path, seal, row FROM steps INDEXED BY steps_by_run WHERE run = ?;

-- name: steps_by_row
SELECT * FROM steps WHERE row IN (@some);

-- name: call_heads
-- keys stands before the body, so that this reads no body that has a page of its own.
SELECT row, keys FROM calls INDEXED BY calls_by_run WHERE run = ? ORDER BY row;

-- name: calls_by_row
SELECT run, base, keys, digest, body FROM calls WHERE row = ?;

-- name: history_attempts
SELECT * FROM attempts WHERE run = ? AND key = ? ORDER BY generation, path, attempt;

-- name: wanted
SELECT run, key, generation, seal FROM wanted WHERE run = ?;

-- name: suspects
SELECT run, key, crashes, alone, seal FROM suspects WHERE run = ?;

-- name: suspect
SELECT run, key, crashes, alone, seal FROM suspects WHERE run = ? AND key = ?;

-- name: orphans
SELECT keys, digest FROM orphans WHERE run = ?;

-- name: size
-- length() of a blob is in the row's header: bodies are not read.
SELECT
  (SELECT coalesce(sum(150 + length(item_id) + coalesce(length(input), 0) + coalesce(length(output), 0) + coalesce(length(error), 0)), 0)
   FROM results NOT INDEXED WHERE run = ? AND row BETWEEN ? AND ?)
  + (SELECT coalesce(sum(150 + coalesce(length(output), 0) + coalesce(length(error), 0)), 0) FROM steps WHERE run = ?)
  + (SELECT coalesce(sum(140 + coalesce(length(error), 0)), 0) FROM attempts WHERE run = ?)
  + (SELECT coalesce(sum(60 + length(keys) + length(body)), 0) FROM calls WHERE run = ?)
  + (SELECT coalesce(sum(length(body)), 0) FROM manifests WHERE run = ?)
  + (SELECT coalesce(sum(length(keys)), 0) FROM orphans WHERE run = ?)
  + 40 * (SELECT count(*) FROM wanted WHERE run = ?);
