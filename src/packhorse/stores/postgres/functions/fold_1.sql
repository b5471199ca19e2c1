-- Fold the counts that calls left behind into one row a queue; those that another call is folding are passed over.
CREATE FUNCTION {schema}.fold_1()
RETURNS void
LANGUAGE plpgsql
AS $packhorse$
BEGIN
    PERFORM 1
    FROM (SELECT queue FROM {schema}.deltas LIMIT 5000) AS latest
    HAVING count(*) > 100 + 2 * count(DISTINCT queue);
    IF NOT FOUND THEN
        RETURN;
    END IF;
    WITH gone AS (
        DELETE FROM {schema}.deltas
        WHERE ctid = ANY (ARRAY(SELECT ctid FROM {schema}.deltas LIMIT 5000 FOR UPDATE SKIP LOCKED))
        RETURNING *
    )
    INSERT INTO {schema}.deltas (queue, scheduled, ready, running, waiting, done, dead, cancelled)
    SELECT
        queue, sum(scheduled), sum(ready), sum(running), sum(waiting), sum(done), sum(dead), sum(cancelled)
    FROM gone
    GROUP BY queue;
END
$packhorse$;
