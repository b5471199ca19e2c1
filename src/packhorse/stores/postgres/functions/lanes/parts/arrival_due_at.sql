-- The moment at which a job that arrives comes due, behind those of its lane that have arrived: theirs may be later, for the
-- clock may have been set back.
CREATE FUNCTION {set}arrival_due_at(a_queue text, a_lane text, a_now bigint)
RETURNS bigint
LANGUAGE sql STABLE
AS $packhorse$
    SELECT greatest(a_now, (
        SELECT before.due
        FROM {schema}.scheduled AS before
        WHERE before.queue = a_queue
          AND before.lane = a_lane
          AND before.arrived
        ORDER BY before.queue, before.lane, before.due DESC
        LIMIT 1
    ))
$packhorse$;
