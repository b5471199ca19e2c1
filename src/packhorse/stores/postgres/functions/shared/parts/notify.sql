-- Notify listeners, unless the transaction says SET LOCAL packhorse.notify = off: one with a NOTIFY in it cannot be prepared
-- for a two-phase commit. Listeners look by themselves, a little later.
CREATE FUNCTION {set}notify(a_topic text)
RETURNS void
LANGUAGE plpgsql
AS $packhorse$
BEGIN
    IF current_setting('packhorse.notify', true) IS DISTINCT FROM 'off' THEN
        PERFORM pg_notify({channel}, a_topic);
    END IF;
END
$packhorse$;
