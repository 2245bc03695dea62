-- name: last_result
SELECT coalesce(max(row), 0) FROM results;

-- name: insert_result
INSERT INTO results (
  run, key, generation, position, status, kind, content, seal, digest, at, attempts, queued_s, duration_s, item_id, input, output, error,
  more
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: insert_step
INSERT INTO steps (run, key, generation, path, seal, content, attempts, duration_s, began_s, digest, output, error, usage)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: insert_attempt
INSERT INTO attempts (run, key, generation, path, attempt, kind, digest, error, usage) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (run, key, generation, path, attempt) DO NOTHING;

-- name: replace_attempt
-- After insert_attempt, and apart from it: so that those really inserted can be counted.
UPDATE attempts SET kind = ?6, digest = ?7, error = ?8, usage = ?9
WHERE run = ?1 AND key = ?2 AND generation = ?3 AND path = ?4 AND attempt = ?5;

-- name: insert_wanted
INSERT INTO wanted (run, key, generation, seal) VALUES (?, ?, ?, ?) ON CONFLICT (run, key) DO NOTHING;

-- name: raise_wanted
UPDATE wanted SET generation = ?3, seal = ?4 WHERE run = ?1 AND key = ?2 AND generation < ?3;

-- name: insert_suspect
INSERT INTO suspects (run, key, crashes, alone, seal) VALUES (?, ?, ?, ?, ?) ON CONFLICT (run, key) DO NOTHING;

-- name: replace_suspect
UPDATE suspects SET crashes = ?3, alone = ?4, seal = ?5 WHERE run = ?1 AND key = ?2;

-- name: put_orphans
INSERT OR REPLACE INTO orphans (run, keys, digest) VALUES (?, ?, ?);
