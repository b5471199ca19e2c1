-- Work was made ready: say so if a worker's last ask came back empty. Nobody asleep costs one small read.
CREATE FUNCTION {schema}.wake_1(a_now bigint)
RETURNS void
LANGUAGE plpgsql
AS $packhorse$
BEGIN
    PERFORM 1
    FROM {schema}.sleepers
    WHERE until > a_now
    LIMIT 1;
    IF FOUND THEN
        PERFORM {schema}.notify_1('work');
    END IF;
END
$packhorse$;
