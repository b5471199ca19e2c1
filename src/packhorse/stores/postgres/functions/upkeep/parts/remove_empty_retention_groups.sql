-- Remove shelves of a range on which nothing has stood for an hour: those of queues and keeps of the past. Shelves that are
-- empty now and then are left. Called last in its transaction: whoever needs a retention_group waits for the latches taken here.
CREATE FUNCTION {set}remove_empty_retention_groups(a_after integer, a_last integer, a_now bigint)
RETURNS void
LANGUAGE plpgsql
AS $packhorse$
DECLARE
    v_group integer;
BEGIN
    UPDATE {schema}.retention_groups
    SET emptied = CASE WHEN emptied = 0 THEN a_now ELSE 0 END
    WHERE id = ANY (ARRAY(
        SELECT id
        FROM {schema}.retention_groups
        WHERE id > a_after
          AND id <= a_last
          AND (emptied = 0) = NOT EXISTS (SELECT 1 FROM {schema}.ended WHERE retention_group = retention_groups.id)
        FOR UPDATE SKIP LOCKED
    ));
    FOR v_group IN
        SELECT id
        FROM {schema}.retention_groups
        WHERE id > a_after
          AND id <= a_last
          AND emptied BETWEEN 1 AND a_now - 3600000000
        FOR UPDATE SKIP LOCKED
    LOOP
        IF pg_try_advisory_xact_lock(hashtext({channel} || ':retention_groups'), v_group & 63) THEN
            DELETE FROM {schema}.retention_groups  -- a statement of its own sees what was put there before the latch was had
            WHERE id = v_group
              AND NOT EXISTS (SELECT 1 FROM {schema}.ended WHERE retention_group = v_group);
        END IF;
    END LOOP;
END
$packhorse$;
