-- Remove ended jobs beyond their keep, oldest first, and all that is over, of each kind at most as many as the limit.
-- Answers how many jobs and how many others were removed, whether there may be more, and the shelf after which the next
-- call goes on. A shelf is locked while it is pruned, so that two pruners do not take its excess twice.
CREATE FUNCTION {schema}.prune_1(
    a_limit integer,
    a_remember bigint,
    a_linger bigint,
    a_watched bigint,
    a_events bigint,
    a_after integer,
    a_now bigint,
    OUT o_jobs integer,
    OUT o_others integer,
    OUT o_more boolean,
    OUT o_after integer
)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET jit = off
AS $packhorse$
DECLARE
    v_now bigint := {schema}.moment_1(a_now);
    v_left integer := a_limit;
    v_last integer;
    v_shelves boolean;
    v_shelf record;
    v_cut record;
    v_ids uuid[];
    v_gone uuid[];
BEGIN
    SELECT max(id), count(*) = 500
    INTO v_last, v_shelves
    FROM (SELECT id FROM {schema}.shelves WHERE id > a_after ORDER BY id LIMIT 500) AS next;
    FOR v_shelf IN  -- by the counts, more than is kept of that end in the queue; or the oldest is over its age
        SELECT shelves.*
        FROM {schema}.shelves
        LEFT JOIN (
            SELECT queue, sum(done) AS done, sum(dead) AS dead, sum(cancelled) AS cancelled
            FROM (
                SELECT queue, done, dead, cancelled
                FROM {schema}.folded
                WHERE queue = ANY (ARRAY(SELECT queue FROM {schema}.shelves WHERE id > a_after AND id <= v_last))
                UNION ALL
                SELECT queue, done, dead, cancelled
                FROM {schema}.deltas
            ) AS parts
            GROUP BY queue
        ) AS counts USING (queue)
        WHERE shelves.id > a_after
          AND shelves.id <= v_last
          AND (
              CASE verdict WHEN 'done' THEN done WHEN 'dead' THEN dead ELSE cancelled END > keep_count
              OR (
                  SELECT finished
                  FROM {schema}.ends
                  WHERE shelf = shelves.id
                  ORDER BY shelf, finished, id
                  LIMIT 1
              ) + keep_age <= v_now
          )
        ORDER BY shelves.id
        FOR UPDATE OF shelves SKIP LOCKED
    LOOP
        EXIT WHEN v_left = 0;
        -- The newest that may go, for the count or for the age; what is older goes too.
        SELECT finished, id
        INTO v_cut
        FROM (
            SELECT v_now - v_shelf.keep_age AS finished, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid AS id
            UNION ALL
            (
                SELECT finished, id
                FROM {schema}.ends
                WHERE shelf = v_shelf.id
                ORDER BY shelf DESC, finished DESC, id DESC
                OFFSET v_shelf.keep_count
                LIMIT 1
            )
        ) AS cuts
        ORDER BY finished DESC, id DESC
        LIMIT 1;
        WITH gone AS (
            DELETE FROM {schema}.ends
            WHERE ctid = ANY (ARRAY(
                SELECT ctid
                FROM {schema}.ends
                WHERE shelf = v_shelf.id
                  AND (finished, id) <= (v_cut.finished, v_cut.id)
                  AND NOT EXISTS (
                      SELECT 1
                      FROM {schema}.watched
                      WHERE watched.id = ends.id
                        AND least(until, ends.finished + a_watched) > v_now
                  )
                ORDER BY shelf, finished, id
                LIMIT v_left
                FOR UPDATE SKIP LOCKED
            ))
            RETURNING id, token
        ), buried AS (
            INSERT INTO {schema}.tombs (forget, id, token, verdict)
            SELECT
                v_now + CASE WHEN get_byte(uuid_send(id), 6) >> 4 = 8 THEN a_remember ELSE a_linger END,
                id,
                token,
                v_shelf.verdict
            FROM gone
            ON CONFLICT (id) DO UPDATE
            SET forget = excluded.forget,
                token = excluded.token,
                verdict = excluded.verdict
        ), counted AS (
            INSERT INTO {schema}.deltas (queue, done, dead, cancelled)
            SELECT
                v_shelf.queue,
                CASE v_shelf.verdict WHEN 'done' THEN -count(*) ELSE 0 END,
                CASE v_shelf.verdict WHEN 'dead' THEN -count(*) ELSE 0 END,
                CASE v_shelf.verdict WHEN 'cancelled' THEN -count(*) ELSE 0 END
            FROM gone
            HAVING count(*) > 0
        )
        SELECT array_agg(id)
        INTO v_ids
        FROM gone;
        IF v_ids IS NOT NULL THEN
            v_gone := v_gone || v_ids;
            v_left := v_left - cardinality(v_ids);
        END IF;
    END LOOP;
    IF v_gone IS NOT NULL THEN  -- all at once, so that their records are locked by id whatever their shelf
        PERFORM {schema}.forget_1(v_gone);
    END IF;
    o_jobs := a_limit - v_left;
    SELECT *
    INTO o_others, o_more
    FROM {schema}.sweep_1(a_limit, a_events, v_now);
    o_more := o_more OR v_left = 0 OR v_shelves;
    o_after := CASE WHEN v_left = 0 THEN a_after WHEN v_shelves THEN v_last ELSE 0 END;
END
$packhorse$;
