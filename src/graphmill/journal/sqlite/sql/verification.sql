-- name: counted_results
SELECT count(*) FROM results NOT INDEXED WHERE run = ? AND row BETWEEN ? AND ?;

-- name: counted_steps
-- How many rows the index leads to that are of the run.
SELECT count(*) FROM steps AS i INDEXED BY steps_by_run CROSS JOIN steps AS r NOT INDEXED ON r.row = i.row
WHERE i.run = ? AND +r.run = i.run;

-- name: counted_attempts
-- How many rows the index leads to that are the rows it speaks of.
SELECT count(*) FROM attempts AS i INDEXED BY attempts_by_item CROSS JOIN attempts AS r NOT INDEXED ON r.row = i.row
WHERE i.run = ? AND +r.run = i.run AND r.key = i.key AND r.generation = i.generation AND r.path = i.path AND r.attempt = i.attempt;
