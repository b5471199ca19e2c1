-- Write outcomes with their effects, then lease ready jobs, in one step.
-- What is unusual comes as one JSON: details of outcomes by position, whether order matters, puts, runs of jobs, events.
-- Answers one row. verdicts: a word for each settlement in order, null if all were written. more, next_due: whether the worker
-- may ask again at once, and when next. bookmarks: where the claims began, if bookmarks were sent. lease_…: the granted leases
-- as columns, best first, null if there are none. (As an array of a composite type they took a tenth longer.)
-- Lock order: leases, records, new ids, parents, lanes, stream heads; claiming passes over what is locked.
CREATE FUNCTION {set}exchange(
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
    a_bookmarks json,
    a_keep_count bigint,
    a_keep_age bigint,
    a_failures integer,
    a_log boolean,
    a_now bigint
)
RETURNS TABLE (
    verdicts text[],
    more boolean,
    next_due bigint,
    now bigint,
    bookmarks json,
    fence bigint,
    lease_id uuid[],
    lease_claimed bigint[],
    lease_until bigint[],
    lease_task text[],
    lease_queue text[],
    lease_payload bytea[],
    lease_headers bytea[],
    lease_priority smallint[],
    lease_attempt integer[],
    lease_lost integer[],
    lease_enqueued_at bigint[],
    lease_lane text[],
    lease_parent uuid[]
)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET jit = off
AS $packhorse$
DECLARE
    v_now bigint := {set}call_time(a_now);
    v_decided integer[];    -- positions that were refused for their order, with the words why
    v_words text[];
    v_held integer[];
    v_satisfied integer[];  -- positions whose wait is over before it began
    v_written integer[];
    v_refused integer[];    -- positions that are not written
    v_stopped integer[];    -- positions that were cancelled instead of going on
    v_ids uuid[];           -- ended jobs, and in full those that concern others
    v_ended {set}ended_job[];
    v_newcomers {set}newcomer[];
    v_made record;
    v_created uuid[];
    v_run json;
    v_leased uuid[];
    v_claimed uuid[];
    v_ready text[];         -- queues in which this call made something ready
    v_changes bytea := '';
    v_claim record;
BEGIN
    IF cardinality(a_ids) > 0 AND a_unusual IS NULL THEN
        SELECT *
        INTO v_written, v_ids, v_ended
        FROM {set}settle_done(a_ids, a_tokens, a_results, a_keep_count, a_keep_age, v_now);
        v_changes := {set}pack_event('d', v_ids);
    ELSIF cardinality(a_ids) > 0 THEN
        IF (a_unusual ->> 'ordered')::boolean THEN
            SELECT *
            INTO v_decided, v_words, v_held, v_satisfied, v_newcomers
            FROM {set}decide_in_order(a_ids, a_tokens, a_unusual -> 'details', a_unusual -> 'puts', v_now);
        END IF;
        SELECT *
        INTO v_written, v_stopped, v_ids, v_ended, v_ready, v_changes
        FROM {set}settle_outcomes(
            a_ids, a_tokens, a_results, a_unusual -> 'details', v_decided, v_satisfied,
            a_keep_count, a_keep_age, a_failures, v_now
        );
        v_changes := {set}pack_event('h', ARRAY(SELECT a_ids[n] FROM unnest(v_held) AS held (n)))
            || coalesce(v_changes, '');
    END IF;
    IF coalesce(cardinality(v_written), 0) < cardinality(a_ids) THEN
        v_refused := ARRAY(
            SELECT n
            FROM generate_subscripts(a_ids, 1) AS settlement (n)
            WHERE n <> ALL (coalesce(v_written || v_held, '{}'))
        );
        IF cardinality(v_refused) > 0 THEN
            verdicts := ARRAY(
                SELECT coalesce(refused.o_word, 'written')
                FROM generate_subscripts(a_ids, 1) AS settlement (n)
                LEFT JOIN {set}refusal_reasons(a_ids, a_tokens, v_refused, v_decided, v_words) AS refused
                    ON refused.o_n = settlement.n
                ORDER BY settlement.n
            );
        END IF;
    END IF;
    v_refused := v_refused || v_stopped;  -- effects of both are dropped
    IF a_unusual IS NOT NULL THEN
        IF v_ended IS NOT NULL AND a_unusual -> 'runs' IS NOT NULL THEN
            -- A job that ends may enqueue its successor under the same unique key.
            PERFORM {set}free_unique_keys(ARRAY(SELECT id FROM unnest(v_ended) WHERE scope IS NOT NULL));
        END IF;
        FOR v_run IN
            SELECT value
            FROM json_array_elements(a_unusual -> 'runs')
        LOOP
            v_made := {set}create_jobs(
                v_run, (a_unusual ->> 'keyed')::boolean, (a_unusual ->> 'laned')::boolean, v_refused, v_now
            );
            v_newcomers := v_newcomers || v_made.o_newcomers;
            v_ready := v_ready || v_made.o_ready;
            v_created := v_created || v_made.o_created;
        END LOOP;
        v_changes := v_changes || {set}pack_event('q', v_created);
    END IF;

    IF a_worker IS NOT NULL THEN
        v_newcomers := {set}remove_due_laned(a_queues, v_now) || v_newcomers;
    END IF;
    IF v_ids IS NOT NULL OR v_ended IS NOT NULL OR v_newcomers IS NOT NULL THEN
        v_ready := v_ready || {set}follow_up_ended(v_ids, v_ended, v_newcomers, v_now);
    END IF;

    now := v_now;
    more := false;
    IF a_worker IS NOT NULL THEN
        v_claim := {set}claim(
            a_worker, a_token, a_lease, a_number, a_again, a_queues, a_counts, a_mosts, a_bytes, a_bookmarks,
            a_keep_count, a_keep_age, a_failures, v_now
        );
        v_leased := v_claim.o_leased;
        v_claimed := v_claim.o_claimed;
        more := v_claim.o_more;
        next_due := v_claim.o_next_due;
        fence := v_claim.o_fence;
        v_ready := v_ready || v_claim.o_ready;
        v_changes := v_changes || coalesce(v_claim.o_changes, '') || {set}pack_event('s', v_claimed);
        IF a_bookmarks IS NOT NULL THEN
            bookmarks := (
                SELECT json_agg(began)
                FROM (
                    SELECT DISTINCT ON (queue, priority) queue, priority, since, seq
                    FROM {schema}.running
                    WHERE id = ANY (v_claimed)
                    ORDER BY queue, priority, since, seq
                ) AS began
            );
        END IF;
    END IF;
    -- Others need not wake for what this worker has taken itself.
    IF v_ready IS NOT NULL AND (more OR a_worker IS NULL OR NOT v_ready <@ a_queues) THEN
        PERFORM {set}wake_idle_workers(v_now);
    END IF;

    IF a_log THEN
        PERFORM {set}log_changes(v_changes, v_now);
    END IF;
    IF a_unusual -> 'events' IS NOT NULL THEN
        PERFORM {set}append_events(a_unusual -> 'events', v_refused, v_now);
    END IF;

    IF a_worker IS NULL THEN
        RETURN NEXT;
        RETURN;
    END IF;
    RETURN QUERY
    SELECT
        verdicts, more, next_due, now, bookmarks, fence,
        array_agg(id), array_agg(claimed), array_agg(until), array_agg(task), array_agg(queue), array_agg(payload),
        array_agg(headers), array_agg(priority), array_agg(attempt), array_agg(lost), array_agg(enqueued_at), array_agg(lane),
        array_agg(parent)
    FROM (
        SELECT
            running.id, running.claimed, running.until, jobs.task, running.queue, jobs.payload, jobs.headers,
            running.priority, running.attempt, running.lost, jobs.enqueued_at, running.lane, running.parent
        FROM (  -- the limit lets the planner expect one, and look each up by its id
            SELECT unnest(v_leased) AS id
            LIMIT cardinality(v_leased)
        ) AS leased
        JOIN {schema}.running ON running.id = leased.id
        JOIN {schema}.jobs ON jobs.id = leased.id
        ORDER BY running.priority, running.since, running.seq
    ) AS lease;
END
$packhorse$;
