-- Make jobs ready, or put them behind their lane and behind those that have come due there.
-- Answers the queues in which there is something to claim.
CREATE FUNCTION {schema}.ask_1(a_newcomers {schema}.newcomer[], a_now bigint)
RETURNS text[]
LANGUAGE plpgsql
AS $packhorse$
DECLARE
    v_arrived record := {schema}.arrive_1(a_newcomers, a_now);
BEGIN
    IF v_arrived.o_newcomers IS NULL THEN
        RETURN v_arrived.o_queues;
    END IF;
    RETURN v_arrived.o_queues || {schema}.admit_1(v_arrived.o_newcomers, a_now);
END
$packhorse$;
