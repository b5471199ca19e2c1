-- Remove the records of jobs that have left their places, and all that was kept for them.
CREATE FUNCTION {set}forget_jobs(a_ids uuid[])
RETURNS void
LANGUAGE plpgsql
AS $packhorse$
DECLARE
    v_parents uuid[];
BEGIN
    DELETE FROM {schema}.jobs
    WHERE id = ANY (ARRAY(SELECT id FROM {schema}.jobs WHERE id = ANY (a_ids) ORDER BY id FOR UPDATE));
    DELETE FROM {schema}.tries
    WHERE id = ANY (a_ids);
    DELETE FROM {schema}.progress
    WHERE id = ANY (a_ids);
    DELETE FROM {schema}.watched_jobs
    WHERE id = ANY (ARRAY(SELECT id FROM {schema}.watched_jobs WHERE id = ANY (a_ids) ORDER BY id FOR UPDATE));
    -- Nobody delivers any more: the records are gone, and those who were delivering held them until they were done.
    WITH gone AS (
        DELETE FROM {schema}.families
        WHERE id = ANY (a_ids)
        RETURNING id
    )
    SELECT array_agg(id)
    INTO v_parents
    FROM gone;
    IF v_parents IS NOT NULL THEN
        DELETE FROM {schema}.records
        USING unnest(v_parents) AS parent (id)
        WHERE kind = 'packhorse.delivered'
          AND key >= replace(parent.id::text, '-', '') || '/'
          AND key < replace(parent.id::text, '-', '') || '0';
    END IF;
END
$packhorse$;
