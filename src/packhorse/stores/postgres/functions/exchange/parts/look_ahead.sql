-- What is left in queues after a claim: whether anything could be leased now, and the next moment something falls due.
-- Looks first behind the last lease of the claim: what was claimed before it lies dead at the head of its queue.
CREATE FUNCTION {set}look_ahead(
    a_queues text[],
    a_paused text[],
    a_last uuid,
    a_now bigint,
    OUT o_more boolean,
    OUT o_next_due bigint
)
LANGUAGE plpgsql
AS $packhorse$
DECLARE
    v_queue text;
    v_open boolean;
    v_due bigint;
BEGIN
    PERFORM 1
    FROM {schema}.running AS last
    CROSS JOIN LATERAL (
        SELECT 1
        FROM {schema}.ready
        WHERE ready.queue = last.queue
          AND (ready.priority, ready.since, ready.seq) > (last.priority, last.since, last.seq)
        ORDER BY ready.queue, ready.priority, ready.since, ready.seq
        LIMIT 1
    ) AS next
    WHERE last.id = a_last;
    o_more := FOUND;
    FOREACH v_queue IN ARRAY a_queues LOOP
        v_open := v_queue <> ALL (a_paused);
        IF v_open AND NOT o_more THEN
            PERFORM 1
            FROM {schema}.ready
            WHERE queue = v_queue
            ORDER BY queue, priority, since, seq
            LIMIT 1;
            o_more := FOUND;
        END IF;
        v_due := {set}earliest_due(v_queue, -1);
        IF v_due <= a_now THEN
            o_more := o_more OR v_open;
            v_due := {set}earliest_due(v_queue, a_now);
        END IF;
        o_next_due := least(o_next_due, v_due);
    END LOOP;
END
$packhorse$;
