-- Jobs have ended: say so once if somebody watches one of them.
CREATE FUNCTION {schema}.hint_1(a_ids uuid[], a_now bigint)
RETURNS void
LANGUAGE plpgsql
AS $packhorse$
BEGIN
    PERFORM 1
    FROM {schema}.watched
    WHERE (SELECT 1 FROM {schema}.watched LIMIT 1) IS NOT NULL  -- most often nobody watches anything
      AND id = ANY (a_ids)
      AND until > a_now
    LIMIT 1;
    IF FOUND THEN
        PERFORM {schema}.notify_1('ends');
    END IF;
END
$packhorse$;
