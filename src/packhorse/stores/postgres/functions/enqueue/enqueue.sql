-- Store jobs, all or none. Answers only those whose place is taken: their position and the job that stands for them.
-- The jobs come as runs of JSON; payload and headers are strings in it and are kept byte for byte.
CREATE FUNCTION {set}enqueue(a_runs json[], a_keyed boolean, a_laned boolean, a_log boolean, a_now bigint)
RETURNS TABLE (o_n integer, o_holder uuid)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET jit = off
AS $packhorse$
DECLARE
    v_now bigint := {set}call_time(a_now);
    v_run json;
    v_offset integer := 0;
    v_made record;
    v_created uuid[];
    v_newcomers {set}newcomer[];
    v_ready boolean := false;
BEGIN
    FOREACH v_run IN ARRAY a_runs LOOP
        v_made := {set}create_jobs(v_run, a_keyed, a_laned, NULL, v_now);
        v_created := v_created || v_made.o_created;
        v_newcomers := v_newcomers || v_made.o_newcomers;
        v_ready := v_ready OR v_made.o_ready IS NOT NULL;
        IF v_made.o_others IS NOT NULL THEN
            RETURN QUERY
            SELECT v_offset + n, holder
            FROM unnest(v_made.o_others, v_made.o_holders) AS other (n, holder);
        END IF;
        v_offset := v_offset + json_array_length(v_run);
    END LOOP;
    IF v_newcomers IS NOT NULL THEN
        v_ready := {set}admit_to_lanes(v_newcomers, v_now) IS NOT NULL OR v_ready;
    END IF;
    IF v_ready THEN
        PERFORM {set}wake_idle_workers(v_now);
    END IF;
    IF a_log THEN
        PERFORM {set}log_changes({set}pack_event('q', v_created), v_now);
    END IF;
END
$packhorse$;
