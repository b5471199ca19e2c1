-- Jobs have ended: say so once if somebody watches one of them.
CREATE FUNCTION {set}notify_ended(a_ids uuid[], a_now bigint)
RETURNS void
LANGUAGE plpgsql
AS $packhorse$
BEGIN
    PERFORM 1
    FROM {schema}.watched_jobs
    WHERE (SELECT 1 FROM {schema}.watched_jobs LIMIT 1) IS NOT NULL  -- most often nobody watches anything
      AND id = ANY (a_ids)
      AND until > a_now
    LIMIT 1;
    IF FOUND THEN
        PERFORM {set}notify('ends');
    END IF;
END
$packhorse$;
