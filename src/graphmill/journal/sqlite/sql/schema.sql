-- name: schema
-- The tables of a journal. Until 0.1 is released a change here raises VERSION in database.py, and older journals are refused.
-- Text that may hold anything (half of a surrogate pair, NUL) is stored as the bytes of its UTF-8.
-- seal: CRC-32 of the columns before it, for reads of many rows that do not touch bodies. digest: of the whole row.

CREATE TABLE meta (
  name TEXT NOT NULL PRIMARY KEY,
  value ANY
) STRICT, WITHOUT ROWID;

-- first and last are the lowest and highest row of its results; rows to calls count what the other tables hold of it.
-- Numbers are never given twice: they are bytes to lock, and what readers hold on to.
CREATE TABLE runs (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  epoch INTEGER NOT NULL,
  state INTEGER NOT NULL,
  reason BLOB NOT NULL,
  generation INTEGER NOT NULL,
  created_at REAL NOT NULL,
  changed_at REAL NOT NULL,
  elapsed_s REAL NOT NULL,
  total INTEGER,
  is_read INTEGER NOT NULL,
  owner_host BLOB,
  owner_pid INTEGER,
  owner_since REAL,
  first INTEGER NOT NULL,
  last INTEGER NOT NULL,
  rows INTEGER NOT NULL,
  steps INTEGER NOT NULL,
  attempts INTEGER NOT NULL,
  wanted INTEGER NOT NULL,
  suspects INTEGER NOT NULL,
  orphans INTEGER NOT NULL,
  calls INTEGER NOT NULL,
  usage BLOB,
  digest BLOB NOT NULL
) STRICT;

-- Apart from runs, whose rows are rewritten at every commit.
CREATE TABLE manifests (
  run INTEGER PRIMARY KEY,
  body BLOB NOT NULL,
  digest BLOB NOT NULL
) STRICT;

-- By row number alone. Keys are hashes: an index of them would have nearly every insert touch a page of its own, and cost more than
-- all else that is written. Who looks up many keys sorts them first (see lookup.py); who looks up one passes over the run's rows.
-- The number has a name, since VACUUM may change those that have none.
CREATE TABLE results (
  row INTEGER PRIMARY KEY,
  run INTEGER NOT NULL,
  key BLOB NOT NULL,
  generation INTEGER NOT NULL,
  position INTEGER NOT NULL,
  status INTEGER NOT NULL,
  kind INTEGER NOT NULL,
  content BLOB NOT NULL,
  seal INTEGER NOT NULL,
  digest BLOB NOT NULL,
  at REAL NOT NULL,
  attempts INTEGER NOT NULL,
  queued_s REAL NOT NULL,
  duration_s REAL NOT NULL,
  item_id BLOB NOT NULL,
  input BLOB,
  output BLOB,
  error BLOB,
  more BLOB,
  spent BLOB
) STRICT;

CREATE TABLE steps (
  row INTEGER PRIMARY KEY,
  run INTEGER NOT NULL,
  key BLOB NOT NULL,
  generation INTEGER NOT NULL,
  path BLOB NOT NULL,
  seal INTEGER NOT NULL,
  content BLOB NOT NULL,
  attempts INTEGER NOT NULL,
  duration_s REAL NOT NULL,
  began_s REAL NOT NULL,
  digest BLOB NOT NULL,
  output BLOB,
  error BLOB,
  usage BLOB,
  spent BLOB
) STRICT;

CREATE INDEX steps_by_run ON steps (run);

CREATE TABLE attempts (
  row INTEGER PRIMARY KEY,
  run INTEGER NOT NULL,
  key BLOB NOT NULL,
  generation INTEGER NOT NULL,
  path BLOB NOT NULL,
  attempt INTEGER NOT NULL,
  kind INTEGER NOT NULL,
  digest BLOB NOT NULL,
  error BLOB,
  usage BLOB,
  spent BLOB
) STRICT;

CREATE UNIQUE INDEX attempts_by_item ON attempts (run, key, generation, path, attempt);

-- What passed between steps and models. No resume reads it. A row holds the calls of one commit that are alike, as lines of JSON,
-- compressed; keys names the item of each. base is the row that was its dictionary, 0 for none.
CREATE TABLE calls (
  row INTEGER PRIMARY KEY,
  run INTEGER NOT NULL,
  base INTEGER NOT NULL,
  keys BLOB NOT NULL,
  digest BLOB NOT NULL,
  body BLOB NOT NULL
) STRICT;

CREATE INDEX calls_by_run ON calls (run);

CREATE TABLE wanted (
  run INTEGER NOT NULL,
  key BLOB NOT NULL,
  generation INTEGER NOT NULL,
  seal INTEGER NOT NULL,
  PRIMARY KEY (run, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE suspects (
  run INTEGER NOT NULL,
  key BLOB NOT NULL,
  crashes INTEGER NOT NULL,
  alone INTEGER NOT NULL,
  seal INTEGER NOT NULL,
  PRIMARY KEY (run, key)
) STRICT, WITHOUT ROWID;

-- All keys of a run side by side: they are only ever replaced together.
CREATE TABLE orphans (
  run INTEGER PRIMARY KEY,
  keys BLOB NOT NULL,
  digest BLOB NOT NULL
) STRICT;

CREATE TABLE requests (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  run INTEGER NOT NULL,
  word BLOB NOT NULL,
  argument BLOB NOT NULL,
  at REAL NOT NULL,
  digest BLOB NOT NULL
) STRICT;

CREATE INDEX requests_by_run ON requests (run, seq);

-- Runs that are forgotten, but whose rows are still being deleted.
CREATE TABLE leftovers (
  run INTEGER PRIMARY KEY,
  first INTEGER NOT NULL,
  last INTEGER NOT NULL
) STRICT;

INSERT INTO meta (name, value) VALUES ('runs', 0);
