-- Make jobs ready again whose leases never reached the worker: the attempt does not count, and what is to be cancelled ends.
-- Answers the queues in which jobs became ready, and the packed changes.
CREATE FUNCTION {set}return_leases(
    a_ids uuid[],
    a_token uuid,
    a_keep_count bigint,
    a_keep_age bigint,
    a_failures integer,
    a_now bigint,
    OUT o_ready text[],
    OUT o_changes bytea
)
LANGUAGE plpgsql
AS $packhorse$
DECLARE
    v_ids uuid[];
    v_ended {set}ended_job[];
BEGIN
    SELECT settled.o_ids, settled.o_ended, settled.o_ready, settled.o_changes
    INTO v_ids, v_ended, o_ready, o_changes
    FROM {set}settle_outcomes(
        a_ids,
        array_fill(a_token, ARRAY[cardinality(a_ids)]),
        NULL,
        (
            SELECT json_agg(json_build_object('n', n, 'kind', 'again', 'charged', false))
            FROM generate_subscripts(a_ids, 1) AS given (n)
        ),
        NULL, NULL, a_keep_count, a_keep_age, a_failures, a_now
    ) AS settled;
    IF v_ids IS NOT NULL THEN
        o_ready := o_ready || {set}follow_up_ended(v_ids, v_ended, NULL, a_now);
    END IF;
END
$packhorse$;
