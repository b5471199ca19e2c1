-- Keep the newest set before this one, which workers of the release before go on to call, and drop those before it.
DO $packhorse$
DECLARE
    v_newest integer;
    v_command text;
BEGIN
    SELECT max(substring(name FROM '^functions_([0-9]+)$')::integer)
    INTO v_newest
    FROM {schema}.migrations
    WHERE substring(name FROM '^functions_([0-9]+)$')::integer < {set_number};
    FOR v_command IN
        SELECT format('DROP FUNCTION %s', oid::regprocedure)
        FROM pg_proc
        WHERE pronamespace = (SELECT relnamespace FROM pg_class WHERE oid = {migrations}::regclass)
          AND substring(proname FROM '^f([0-9]+)_')::integer < v_newest
    LOOP
        EXECUTE v_command;
    END LOOP;
    FOR v_command IN
        SELECT format('DROP TYPE %s', oid::regtype)
        FROM pg_type
        WHERE typnamespace = (SELECT relnamespace FROM pg_class WHERE oid = {migrations}::regclass)
          AND typtype = 'c'
          AND substring(typname FROM '^f([0-9]+)_')::integer < v_newest
    LOOP
        EXECUTE v_command;
    END LOOP;
    DELETE FROM {schema}.migrations
    WHERE substring(name FROM '^functions_([0-9]+)$')::integer < v_newest;
END
$packhorse$;
