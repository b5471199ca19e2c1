-- Make jobs ready, or put them behind their lane and behind those that have come due there.
-- Answers the queues in which there is something to claim.
CREATE FUNCTION {set}make_ready(a_newcomers {set}newcomer[], a_now bigint)
RETURNS text[]
LANGUAGE plpgsql
AS $packhorse$
DECLARE
    v_arrived record := {set}stay_behind_arrivals(a_newcomers, a_now);
BEGIN
    IF v_arrived.o_newcomers IS NULL THEN
        RETURN v_arrived.o_queues;
    END IF;
    RETURN v_arrived.o_queues || {set}admit_to_lanes(v_arrived.o_newcomers, a_now);
END
$packhorse$;
