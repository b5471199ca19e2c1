-- All that follows from the end of jobs, however they ended: free unique keys, deliver to parents, hand on slots,
-- hint to watchers. Newcomers of the same call are let in here too, so that lanes are locked once, in order.
-- Answers the queues in which jobs became ready. Ended jobs that have no lane, parent or key need only be in the
-- ids, which are in the order of their ends.
CREATE FUNCTION {set}follow_up_ended(
    a_ids uuid[],
    a_ended {set}ended_job[],
    a_newcomers {set}newcomer[],
    a_now bigint
)
RETURNS text[]
LANGUAGE plpgsql
AS $packhorse$
DECLARE
    v_newcomers {set}newcomer[] := a_newcomers;
    v_parents record;
    v_keyed uuid[];
    v_children boolean;
    v_queues text[];
    v_lanes text[];
    v_ready text[];
BEGIN
    IF a_ids IS NOT NULL THEN
        PERFORM {set}notify_ended(a_ids, a_now);
    END IF;
    IF a_ended IS NOT NULL THEN
        SELECT
            array_agg(id) FILTER (WHERE scope IS NOT NULL),
            bool_or(parent IS NOT NULL),
            array_agg(queue) FILTER (WHERE slot),
            array_agg(lane) FILTER (WHERE slot)
        INTO v_keyed, v_children, v_queues, v_lanes
        FROM unnest(a_ended);
        IF v_keyed IS NOT NULL THEN
            PERFORM {set}free_unique_keys(v_keyed);
        END IF;
        IF v_children THEN
            v_parents := {set}stay_behind_arrivals({set}deliver_to_parents(a_ended, a_now), a_now);
            v_newcomers := v_newcomers || v_parents.o_newcomers;
            v_ready := v_parents.o_queues;
        END IF;
    END IF;
    IF v_lanes IS NOT NULL THEN  -- lanes that newcomers will ask are locked with those that are handed on, in order
        PERFORM {set}lock_lanes(
            v_queues || ARRAY(SELECT queue FROM unnest(v_newcomers) WHERE lane IS NOT NULL AND NOT slot),
            v_lanes || ARRAY(SELECT lane FROM unnest(v_newcomers) WHERE lane IS NOT NULL AND NOT slot)
        );
        v_ready := v_ready || {set}hand_on_slots(v_queues, v_lanes, a_now);
    END IF;
    IF v_newcomers IS NOT NULL THEN
        v_ready := v_ready || {set}admit_to_lanes(v_newcomers, a_now);
    END IF;
    RETURN v_ready;
END
$packhorse$;
