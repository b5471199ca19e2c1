-- Remove ended jobs beyond their keep, oldest first, and all that is over, of each kind at most as many as the limit.
-- Answers how many jobs and how many others were removed, whether there may be more, the group after which the next call
-- goes on, and of each group of dead jobs its queue, how many were removed, and when the newest of them died. A group is locked while it is pruned, so that two pruners do not take its excess twice.
CREATE FUNCTION {set}prune(
    a_limit integer,
    a_remember bigint,
    a_linger bigint,
    a_watched bigint,
    a_events bigint,
    a_bytes bigint,
    a_after integer,
    a_now bigint,
    OUT o_jobs integer,
    OUT o_others integer,
    OUT o_more boolean,
    OUT o_after integer,
    OUT o_dead_queues text[],
    OUT o_dead_counts integer[],
    OUT o_dead_newest bigint[]
)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET jit = off
AS $packhorse$
DECLARE
    v_now bigint := {set}call_time(a_now);
    v_left integer := a_limit;
    v_last integer;
    v_more_groups boolean;
    v_group record;
    v_cut record;
    v_ids uuid[];
    v_gone uuid[];
    v_newest bigint;
BEGIN
    SELECT max(id), count(*) = 500
    INTO v_last, v_more_groups
    FROM (SELECT id FROM {schema}.retention_groups WHERE id > a_after ORDER BY id LIMIT 500) AS next;
    FOR v_group IN  -- by the counts, more than is kept of that end in the queue; or the oldest is over its age
        SELECT retention_groups.*
        FROM {schema}.retention_groups
        LEFT JOIN (
            SELECT queue, sum(done) AS done, sum(dead) AS dead, sum(cancelled) AS cancelled
            FROM (
                SELECT queue, done, dead, cancelled
                FROM {schema}.count_totals
                WHERE queue = ANY (ARRAY(SELECT queue FROM {schema}.retention_groups WHERE id > a_after AND id <= v_last))
                UNION ALL
                SELECT queue, done, dead, cancelled
                FROM {schema}.count_deltas
            ) AS parts
            GROUP BY queue
        ) AS counts USING (queue)
        WHERE retention_groups.id > a_after
          AND retention_groups.id <= v_last
          AND (
              CASE verdict WHEN 'done' THEN done WHEN 'dead' THEN dead ELSE cancelled END > keep_count
              OR (
                  SELECT finished
                  FROM {schema}.ended
                  WHERE retention_group = retention_groups.id
                  ORDER BY retention_group, finished, id
                  LIMIT 1
              ) + keep_age <= v_now
          )
        ORDER BY retention_groups.id
        FOR UPDATE OF retention_groups SKIP LOCKED
    LOOP
        EXIT WHEN v_left = 0;
        -- The newest that may go, for the count or for the age; what is older goes too.
        SELECT finished, id
        INTO v_cut
        FROM (
            SELECT v_now - v_group.keep_age AS finished, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid AS id
            UNION ALL
            (
                SELECT finished, id
                FROM {schema}.ended
                WHERE retention_group = v_group.id
                ORDER BY retention_group DESC, finished DESC, id DESC
                OFFSET v_group.keep_count
                LIMIT 1
            )
        ) AS cuts
        ORDER BY finished DESC, id DESC
        LIMIT 1;
        WITH gone AS (
            DELETE FROM {schema}.ended
            WHERE ctid = ANY (ARRAY(
                SELECT ctid
                FROM {schema}.ended
                WHERE retention_group = v_group.id
                  AND (finished, id) <= (v_cut.finished, v_cut.id)
                  AND NOT EXISTS (
                      SELECT 1
                      FROM {schema}.watched_jobs
                      WHERE watched_jobs.id = ended.id
                        AND least(until, ended.finished + a_watched) > v_now
                  )
                ORDER BY retention_group, finished, id
                LIMIT v_left
                FOR UPDATE SKIP LOCKED
            ))
            RETURNING id, token, finished
        ), buried AS (
            INSERT INTO {schema}.tombstones (forget, id, token, verdict)
            SELECT
                v_now + CASE WHEN get_byte(uuid_send(id), 6) >> 4 = 8 THEN a_remember ELSE a_linger END,
                id,
                token,
                v_group.verdict
            FROM gone
            ON CONFLICT (id) DO UPDATE
            SET forget = excluded.forget,
                token = excluded.token,
                verdict = excluded.verdict
        ), counted AS (
            INSERT INTO {schema}.count_deltas (queue, done, dead, cancelled)
            SELECT
                v_group.queue,
                CASE v_group.verdict WHEN 'done' THEN -count(*) ELSE 0 END,
                CASE v_group.verdict WHEN 'dead' THEN -count(*) ELSE 0 END,
                CASE v_group.verdict WHEN 'cancelled' THEN -count(*) ELSE 0 END
            FROM gone
            HAVING count(*) > 0
        ), past AS (
            INSERT INTO {schema}.past_count_deltas (queue, enqueued, done, dead, cancelled)
            SELECT
                v_group.queue,
                count(*),
                CASE v_group.verdict WHEN 'done' THEN count(*) ELSE 0 END,
                CASE v_group.verdict WHEN 'dead' THEN count(*) ELSE 0 END,
                CASE v_group.verdict WHEN 'cancelled' THEN count(*) ELSE 0 END
            FROM gone
            HAVING count(*) > 0
        )
        SELECT array_agg(id), max(finished)
        INTO v_ids, v_newest
        FROM gone;
        IF v_ids IS NOT NULL THEN
            v_gone := v_gone || v_ids;
            v_left := v_left - cardinality(v_ids);
            IF v_group.verdict = 'dead' THEN
                o_dead_queues := array_append(o_dead_queues, v_group.queue);
                o_dead_counts := array_append(o_dead_counts, cardinality(v_ids));
                o_dead_newest := array_append(o_dead_newest, v_newest);
            END IF;
        END IF;
    END LOOP;
    IF v_gone IS NOT NULL THEN  -- all at once, so that their records are locked by id whatever their group
        PERFORM {set}forget_jobs(v_gone);
    END IF;
    o_jobs := a_limit - v_left;
    SELECT *
    INTO o_others, o_more
    FROM {set}sweep_expired(a_limit, a_events, a_bytes, v_now);
    o_more := o_more OR v_left = 0 OR v_more_groups;
    PERFORM {set}fold_past_counts();
    PERFORM {set}remove_empty_retention_groups(a_after, v_last, v_now);
    o_after := CASE WHEN v_left = 0 THEN a_after WHEN v_more_groups THEN v_last ELSE 0 END;
END
$packhorse$;
