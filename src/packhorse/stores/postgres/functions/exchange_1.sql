-- Write outcomes with their effects, then lease ready jobs, in one step.
-- What is unusual comes as one JSON: details of outcomes by position, whether order matters, puts, runs of jobs, events.
-- Answers a row for each settlement that was not written, one for each lease, best first, and last the outlook, with
-- where the claims began if hints are used.
-- Lock order: leases, records, new ids, parents, lanes, stream heads; claiming passes over what is locked.
CREATE FUNCTION {schema}.exchange_1(
    a_ids uuid[],
    a_tokens uuid[],
    a_results bytea[],
    a_unusual json,
    a_worker uuid,
    a_token uuid,
    a_lease bigint,
    a_number bigint,
    a_again boolean,
    a_queues text[],
    a_counts integer[],
    a_mosts integer[],
    a_bytes bigint,
    a_hints json,
    a_keep_count bigint,
    a_keep_age bigint,
    a_failures integer,
    a_log boolean,
    a_now bigint
)
RETURNS TABLE (
    o_n integer,
    o_word text,
    o_id uuid,
    o_claimed bigint,
    o_until bigint,
    o_task text,
    o_queue text,
    o_payload bytea,
    o_headers bytea,
    o_priority smallint,
    o_attempt integer,
    o_lost integer,
    o_born bigint,
    o_lane text,
    o_parent uuid,
    o_more boolean,
    o_next_due bigint,
    o_now bigint,
    o_hints json,
    o_fence bigint
)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET jit = off
AS $packhorse$
DECLARE
    v_now bigint := {schema}.moment_1(a_now);
    v_decided integer[];    -- positions that were refused for their order, with the words why
    v_words text[];
    v_held integer[];
    v_satisfied integer[];  -- positions whose wait is over before it began
    v_written integer[];
    v_refused integer[];    -- positions that are not written
    v_stopped integer[];    -- positions that were cancelled instead of going on
    v_ids uuid[];           -- ended jobs, and in full those that concern others
    v_ended {schema}.ended[];
    v_newcomers {schema}.newcomer[];
    v_made record;
    v_created uuid[];
    v_run json;
    v_leased uuid[] := '{}';
    v_claimed uuid[];
    v_ready text[];         -- queues in which this call made something ready
    v_changes bytea := '';
    v_lease record;
BEGIN
    IF cardinality(a_ids) > 0 AND a_unusual IS NULL THEN
        SELECT *
        INTO v_written, v_ids, v_ended
        FROM {schema}.done_1(a_ids, a_tokens, a_results, a_keep_count, a_keep_age, v_now);
        v_changes := {schema}.packed_1('d', v_ids);
    ELSIF cardinality(a_ids) > 0 THEN
        IF (a_unusual ->> 'ordered')::boolean THEN
            SELECT *
            INTO v_decided, v_words, v_held, v_satisfied, v_newcomers
            FROM {schema}.decide_1(a_ids, a_tokens, a_unusual -> 'details', a_unusual -> 'puts', v_now);
        END IF;
        SELECT *
        INTO v_written, v_stopped, v_ids, v_ended, v_ready, v_changes
        FROM {schema}.settle_1(
            a_ids, a_tokens, a_results, a_unusual -> 'details', v_decided, v_satisfied,
            a_keep_count, a_keep_age, a_failures, v_now
        );
        v_changes := {schema}.packed_1('h', ARRAY(SELECT a_ids[n] FROM unnest(v_held) AS held (n)))
            || coalesce(v_changes, '');
    END IF;
    IF coalesce(cardinality(v_written), 0) < cardinality(a_ids) THEN
        v_refused := ARRAY(
            SELECT n
            FROM generate_subscripts(a_ids, 1) AS settlement (n)
            WHERE n <> ALL (coalesce(v_written || v_held, '{}'))
        );
        FOR o_n, o_word IN
            SELECT refused.o_n, refused.o_word
            FROM {schema}.refused_1(a_ids, a_tokens, v_refused, v_decided, v_words) AS refused
        LOOP
            RETURN NEXT;
        END LOOP;
        o_n := NULL;
        o_word := NULL;
    END IF;
    v_refused := v_refused || v_stopped;  -- effects of both are dropped
    IF a_unusual IS NOT NULL THEN
        IF v_ended IS NOT NULL AND a_unusual -> 'runs' IS NOT NULL THEN
            -- A job that ends may enqueue its successor under the same unique key.
            PERFORM {schema}.free_1(ARRAY(SELECT id FROM unnest(v_ended) WHERE scope IS NOT NULL));
        END IF;
        FOR v_run IN
            SELECT value
            FROM json_array_elements(a_unusual -> 'runs')
        LOOP
            v_made := {schema}.create_1(
                v_run, (a_unusual ->> 'keyed')::boolean, (a_unusual ->> 'laned')::boolean, v_refused, v_now
            );
            v_newcomers := v_newcomers || v_made.o_newcomers;
            v_ready := v_ready || v_made.o_ready;
            v_created := v_created || v_made.o_created;
        END LOOP;
        v_changes := v_changes || {schema}.packed_1('q', v_created);
    END IF;

    IF a_worker IS NOT NULL THEN
        v_newcomers := {schema}.come_due_1(a_queues, v_now) || v_newcomers;
    END IF;
    IF v_ids IS NOT NULL OR v_ended IS NOT NULL OR v_newcomers IS NOT NULL THEN
        v_ready := v_ready || {schema}.conclude_1(v_ids, v_ended, v_newcomers, v_now);
    END IF;

    o_more := false;
    IF a_worker IS NOT NULL THEN
        v_lease := {schema}.lease_1(
            a_worker, a_token, a_lease, a_number, a_again, a_queues, a_counts, a_mosts, a_bytes, a_hints,
            a_keep_count, a_keep_age, a_failures, v_now
        );
        v_leased := v_lease.o_leased;
        v_claimed := v_lease.o_claimed;
        o_more := v_lease.o_more;
        o_next_due := v_lease.o_next_due;
        o_fence := v_lease.o_fence;
        v_ready := v_ready || v_lease.o_ready;
        v_changes := v_changes || coalesce(v_lease.o_changes, '') || {schema}.packed_1('s', v_claimed);
        RETURN QUERY
        SELECT
            NULL::integer, NULL::text, leases.id, leases.claimed, leases.until, jobs.task, leases.queue,
            jobs.payload, jobs.headers, leases.priority, leases.attempt, leases.lost, jobs.born, leases.lane, leases.parent,
            NULL::boolean, NULL::bigint, NULL::bigint, NULL::json, NULL::bigint
        FROM (  -- the limit lets the planner expect one, and look each up by its id
            SELECT unnest(v_leased) AS id
            LIMIT cardinality(v_leased)
        ) AS leased
        JOIN {schema}.leases ON leases.id = leased.id
        JOIN {schema}.jobs ON jobs.id = leased.id
        ORDER BY leases.priority, leases.since, leases.seq;
        IF a_hints IS NOT NULL THEN
            o_hints := (
                SELECT json_agg(began)
                FROM (
                    SELECT DISTINCT ON (queue, priority) queue, priority, since, seq
                    FROM {schema}.leases
                    WHERE id = ANY (v_claimed)
                    ORDER BY queue, priority, since, seq
                ) AS began
            );
        END IF;
    END IF;
    -- Others need not wake for what this worker has taken itself.
    IF v_ready IS NOT NULL AND (o_more OR a_worker IS NULL OR NOT v_ready <@ a_queues) THEN
        PERFORM {schema}.wake_1(v_now);
    END IF;

    IF a_log THEN
        PERFORM {schema}.log_1(v_changes, v_now);
    END IF;
    IF a_unusual -> 'events' IS NOT NULL THEN
        PERFORM {schema}.publish_1(a_unusual -> 'events', v_refused, v_now);
    END IF;
    o_now := v_now;
    RETURN NEXT;
END
$packhorse$;
