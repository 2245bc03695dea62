-- What was used of each model: each row tells what no other does, and the run's own adds them up, but for results that it does not count yet.
ALTER TABLE results ADD COLUMN spent BLOB;
ALTER TABLE steps ADD COLUMN spent BLOB;
ALTER TABLE attempts ADD COLUMN spent BLOB;
ALTER TABLE runs ADD COLUMN usage BLOB;
