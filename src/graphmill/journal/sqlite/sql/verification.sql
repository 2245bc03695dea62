-- name: indexed_results
-- How many rows the table holds, and the first of them that is not found through the index.
SELECT count(*), min(CASE WHEN EXISTS (
  SELECT 1 FROM results AS i INDEXED BY results_by_item
  WHERE i.run = r.run AND i.key = r.key AND i.generation = r.generation AND i.row = r.row
) THEN NULL ELSE r.row END)
FROM results AS r NOT INDEXED WHERE r.row BETWEEN ?2 AND ?3 AND r.run = ?1;

-- name: indexed_steps
-- How many rows the index leads to that are the rows it speaks of.
SELECT count(*) FROM steps AS i INDEXED BY steps_by_item CROSS JOIN steps AS r NOT INDEXED ON r.row = i.row
WHERE i.run = ? AND +r.run = i.run AND r.key = i.key AND r.generation = i.generation AND r.path = i.path AND r.content = i.content;

-- name: indexed_attempts
SELECT count(*) FROM attempts AS i INDEXED BY attempts_by_item CROSS JOIN attempts AS r NOT INDEXED ON r.row = i.row
WHERE i.run = ? AND +r.run = i.run AND r.key = i.key AND r.generation = i.generation AND r.path = i.path AND r.attempt = i.attempt;
