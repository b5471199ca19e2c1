-- The best ready places of a queue, locked, looked for from where earlier claims began: what stood before has been
-- claimed, and is still in the way while an old snapshot of somebody's keeps it. A priority without a hint is looked
-- through from its start.
CREATE FUNCTION {set}claimable_from_bookmark(a_queue text, a_want integer, a_bookmarks json)
RETURNS tid[]
LANGUAGE plpgsql
AS $packhorse$
DECLARE
    v_last smallint := -1;
    v_bookmark record;
    v_places tid[] := '{}';
BEGIN
    FOR v_bookmark IN
        SELECT priority, since, seq
        FROM json_to_recordset(a_bookmarks) AS bookmark (queue text, priority smallint, since bigint, seq bigint)
        WHERE queue = a_queue
        ORDER BY priority
    LOOP
        v_places := v_places || ARRAY(
            SELECT ctid
            FROM {schema}.ready
            WHERE queue = a_queue
              AND priority > v_last
              AND priority < v_bookmark.priority
            ORDER BY queue, priority, since, seq
            LIMIT a_want - cardinality(v_places)
            FOR UPDATE SKIP LOCKED
        );
        v_places := v_places || ARRAY(
            SELECT ctid
            FROM {schema}.ready
            WHERE queue = a_queue
              AND priority = v_bookmark.priority
              AND (since, seq) >= (v_bookmark.since, v_bookmark.seq)
            ORDER BY queue, priority, since, seq
            LIMIT a_want - cardinality(v_places)
            FOR UPDATE SKIP LOCKED
        );
        v_last := v_bookmark.priority;
    END LOOP;
    RETURN v_places || ARRAY(
        SELECT ctid
        FROM {schema}.ready
        WHERE queue = a_queue
          AND priority > v_last
        ORDER BY queue, priority, since, seq
        LIMIT a_want - cardinality(v_places)
        FOR UPDATE SKIP LOCKED
    );
END
$packhorse$;
