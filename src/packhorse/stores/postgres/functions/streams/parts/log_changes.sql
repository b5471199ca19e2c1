-- Append one packed event to the lifecycle of jobs, if anything happened: the version of model/event.py, then the changes.
CREATE FUNCTION {set}log_changes(a_data bytea, a_now bigint)
RETURNS void
LANGUAGE plpgsql
AS $packhorse$
BEGIN
    IF length(a_data) > 0 THEN
        INSERT INTO {schema}.lifecycle (at, data)
        VALUES (a_now, '\x01'::bytea || a_data);
    END IF;
END
$packhorse$;
