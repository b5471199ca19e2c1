-- Work was made ready: say so if a worker's last ask came back empty. Nobody asleep costs one small read.
CREATE FUNCTION {set}wake_idle_workers(a_now bigint)
RETURNS void
LANGUAGE plpgsql
AS $packhorse$
BEGIN
    PERFORM 1
    FROM {schema}.idle_workers
    WHERE until > a_now
    LIMIT 1;
    IF FOUND THEN
        PERFORM {set}notify('work');
    END IF;
END
$packhorse$;
