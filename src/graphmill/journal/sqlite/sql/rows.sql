-- name: last_result
SELECT coalesce(max(row), 0) FROM results;

-- name: insert_result
INSERT INTO results (
  run, key, generation, position, status, kind, content, seal, digest, at, attempts, queued_s, duration_s, item_id, input, output, error,
  more, spent
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: add_result
-- A transaction of its own, with its own fence. The row's number is given: what is not counted follows what is, without a gap.
INSERT INTO results (
  row, run, key, generation, position, status, kind, content, seal, digest, at, attempts, queued_s, duration_s, item_id, input, output,
  error, more, spent
)
SELECT * FROM (VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?))
WHERE EXISTS (SELECT 1 FROM runs WHERE number = ? AND epoch = ?);

-- name: insert_step
INSERT INTO steps (run, key, generation, path, seal, content, attempts, duration_s, began_s, digest, output, error, usage, spent)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: insert_attempt
INSERT INTO attempts (run, key, generation, path, attempt, kind, digest, error, usage, spent)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (run, key, generation, path, attempt) DO NOTHING;

-- name: replace_attempt
-- After insert_attempt, and apart from it: so that those really inserted can be counted.
UPDATE attempts SET kind = new.kind, digest = new.digest, error = new.error, usage = new.usage, spent = new.spent
FROM (
  SELECT ? AS run, ? AS key, ? AS generation, ? AS path, ? AS attempt, ? AS kind, ? AS digest, ? AS error, ? AS usage,
    ? AS spent
) AS new
WHERE attempts.run = new.run AND attempts.key = new.key AND attempts.generation = new.generation
  AND attempts.path = new.path AND attempts.attempt = new.attempt;

-- name: insert_calls
INSERT INTO calls (run, base, keys, digest, body) VALUES (?, ?, ?, ?, ?);

-- name: insert_wanted
INSERT INTO wanted (run, key, generation, seal) VALUES (?, ?, ?, ?) ON CONFLICT (run, key) DO NOTHING;

-- name: raise_wanted
UPDATE wanted SET generation = new.generation, seal = new.seal
FROM (SELECT ? AS run, ? AS key, ? AS generation, ? AS seal) AS new
WHERE wanted.run = new.run AND wanted.key = new.key AND wanted.generation < new.generation;

-- name: insert_suspect
INSERT INTO suspects (run, key, crashes, alone, seal) VALUES (?, ?, ?, ?, ?) ON CONFLICT (run, key) DO NOTHING;

-- name: replace_suspect
UPDATE suspects SET crashes = new.crashes, alone = new.alone, seal = new.seal
FROM (SELECT ? AS run, ? AS key, ? AS crashes, ? AS alone, ? AS seal) AS new
WHERE suspects.run = new.run AND suspects.key = new.key;

-- name: put_orphans
INSERT OR REPLACE INTO orphans (run, keys, digest) VALUES (?, ?, ?);
