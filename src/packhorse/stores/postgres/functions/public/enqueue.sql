-- Enqueue a job from anywhere: psql, a trigger, any language with a driver. It is part of the caller's transaction.
-- The text of args is stored byte for byte; it must be an object, the arguments by their names.
-- Options: queue, priority, delay and at (seconds), key and per_key, tenant, user, correlation_id, headers, attempts,
-- id (words of the caller's choice) or uuid, unique: {"key": …, "within": seconds} or {"key": …, "until": "finished"}.
-- Answers the job that stands for it: with an id or a unique key that is taken, the first one.
CREATE OR REPLACE FUNCTION {schema}.enqueue(task text, args json DEFAULT '{}', options json DEFAULT '{}')
RETURNS uuid
LANGUAGE plpgsql
AS $packhorse$
#variable_conflict use_variable
DECLARE
    v_unknown text;
    v_wrong text;
    v_unique json := options -> 'unique';
    v_id uuid := gen_random_uuid();
    v_digest bytea := '';
    v_word text;
    v_headers text;
    v_runs json[];
    v_holder uuid;
BEGIN
    IF json_typeof(args) IS DISTINCT FROM 'object' OR json_typeof(options) IS DISTINCT FROM 'object' THEN
        RAISE invalid_parameter_value USING MESSAGE = 'args and options are JSON objects',
            HINT = 'For example: enqueue(''greet'', ''{"name": "Ada"}'', ''{"delay": 60}'')';
    END IF;
    SELECT name
    INTO v_unknown
    FROM (
        SELECT json_object_keys(options) AS name
        EXCEPT
        SELECT unnest(ARRAY[
            'queue', 'priority', 'delay', 'at', 'key', 'per_key', 'tenant', 'user', 'correlation_id', 'headers', 'attempts',
            'id', 'uuid', 'unique'
        ])
    ) AS unknown;
    IF v_unknown IS NOT NULL THEN
        RAISE invalid_parameter_value USING MESSAGE = format('there is no option %L', v_unknown),
            HINT = 'Options: queue priority delay at key per_key tenant user correlation_id headers attempts id uuid unique';
    END IF;
    SELECT name
    INTO v_wrong
    FROM (
        SELECT key AS name, key AS kind, json_typeof(value) AS type FROM json_each(options)
        UNION ALL
        SELECT 'unique', 'unique.' || key, json_typeof(value)
        FROM json_each(CASE json_typeof(v_unique) WHEN 'object' THEN v_unique ELSE '{}' END)
    ) AS given
    WHERE type <> CASE
        WHEN kind IN ('priority', 'per_key', 'delay', 'at', 'attempts', 'unique.within') THEN 'number'
        WHEN kind IN ('headers', 'unique') THEN 'object'
        WHEN kind LIKE 'unique.%' AND kind NOT IN ('unique.key', 'unique.until') THEN 'none: there is no such word'
        ELSE 'string'
    END;
    IF v_wrong IS NOT NULL THEN
        RAISE invalid_parameter_value USING MESSAGE = format('this is nothing for the option %s', v_wrong),
            HINT = 'Numbers: priority per_key delay at attempts. Objects: headers unique {"key", "within" or "until"}. Texts: the others';
    END IF;
    IF EXISTS (
        SELECT 1 FROM json_object_keys(coalesce(options -> 'headers', '{}')) AS name
        WHERE name IN ('packhorse', 'correlation_id', 'traceparent', 'tracestate', 'baggage', 'tenant', 'user')
    ) THEN
        RAISE invalid_parameter_value USING
            MESSAGE = 'a header has a name that is taken: packhorse, correlation_id, traceparent, tracestate, baggage, tenant, user; use the options tenant, user and correlation_id';
    END IF;
    FOREACH v_word IN ARRAY ARRAY[
        task, options ->> 'queue', options ->> 'key', options ->> 'tenant', options ->> 'user', options ->> 'correlation_id',
        options ->> 'id', v_unique ->> 'key'
    ] || ARRAY(SELECT json_object_keys(coalesce(options -> 'headers', '{}'))) LOOP
        IF v_word = '' OR octet_length(v_word) > 255 OR v_word ~ '[\x01-\x1f\x7f]' THEN
            RAISE invalid_parameter_value USING MESSAGE = format('%L is no name', v_word),
                HINT = 'Names have 1 to 255 bytes and no control characters';
        END IF;
    END LOOP;
    FOREACH v_word IN ARRAY ARRAY[task, options ->> 'queue'] LOOP
        IF starts_with(v_word, 'packhorse.') THEN
            RAISE invalid_parameter_value USING
                MESSAGE = format('%L is refused: names of queues and tasks that begin with "packhorse." are kept for Packhorse itself', v_word),
                HINT = 'Choose another name';
        END IF;
    END LOOP;
    -- Halves of surrogate pairs, where a backslash is not itself escaped. No backslash stands here: roles read it differently.
    IF strpos(lower(concat(args, options)), chr(92) || 'ud') > 0
        AND replace(concat(args, options), repeat(chr(92), 2), '')
        ~* replace('~ud[89ab]..(?!~ud[c-f])|(?<!~ud[89ab]..)~ud[c-f]', '~', repeat(chr(92), 2))
    THEN
        RAISE invalid_parameter_value USING MESSAGE = 'args or options hold half of a surrogate pair',
            HINT = 'Write a character as UTF-8, or as both escapes of its pair';
    END IF;
    IF task IS NULL
        OR octet_length(args::text) > 1048576
        OR NOT coalesce((options ->> 'priority')::integer, 10) BETWEEN 0 AND 8191
        OR NOT coalesce((options ->> 'per_key')::integer, 1) BETWEEN 1 AND 32767
        OR NOT coalesce((options ->> 'attempts')::integer, 1) BETWEEN 1 AND 1000000
        OR NOT coalesce((options ->> 'delay')::numeric, 0) BETWEEN 0 AND 3155760000
        OR NOT coalesce((options ->> 'at')::numeric, 0) BETWEEN 0 AND 4102444800
        OR (v_unique IS NOT NULL AND v_unique ->> 'key' IS NULL)
        OR NOT coalesce((v_unique ->> 'within')::numeric, 1) BETWEEN 0.000001 AND 3155760000
        OR coalesce(v_unique ->> 'until', 'started') NOT IN ('started', 'finished')
    THEN
        RAISE invalid_parameter_value USING MESSAGE = 'a task, an option or the size of args is out of range',
            HINT = 'priority 0-8191, per_key 1-32767, attempts 1-1000000, delay and at in seconds, unique with a key, args 1 MiB';
    END IF;

    IF options ->> 'id' IS NOT NULL THEN  -- a UUIDv8 of the words, each with its length before it
        FOREACH v_word IN ARRAY ARRAY[{namespace}, options ->> 'id'] LOOP
            v_digest := v_digest || int4send(octet_length(convert_to(v_word, 'UTF8'))) || convert_to(v_word, 'UTF8');
        END LOOP;
        v_digest := substr(sha256(v_digest), 1, 16);
        v_digest := set_byte(v_digest, 6, get_byte(v_digest, 6) & 15 | 128);
        v_digest := set_byte(v_digest, 8, get_byte(v_digest, 8) & 63 | 128);
        v_id := encode(v_digest, 'hex')::uuid;
    ELSIF options ->> 'uuid' IS NOT NULL THEN
        v_id := (options ->> 'uuid')::uuid;
    END IF;
    v_headers := (
        coalesce((options -> 'headers')::jsonb, '{}') || jsonb_strip_nulls(jsonb_build_object(
            'correlation_id', coalesce(options ->> 'correlation_id', v_id::text),
            'tenant', options ->> 'tenant',
            'user', options ->> 'user',
            'packhorse', CASE WHEN coalesce(options ->> 'id', options ->> 'attempts') IS NOT NULL THEN jsonb_build_object(
                'id', options -> 'id',
                'options', jsonb_build_object('attempts', options -> 'attempts')
            ) END
        ))
    )::text;
    IF octet_length(v_headers) > 16384 THEN
        RAISE invalid_parameter_value USING MESSAGE = 'the headers have more than 16 KiB', HINT = 'Put data into args';
    END IF;
    v_runs := ARRAY[json_build_array(json_build_object(
        'id', v_id,
        'task', task,
        'queue', options -> 'queue',
        'priority', options -> 'priority',
        'delay', ((options ->> 'delay')::numeric * 1000000)::bigint,
        'at', ((options ->> 'at')::numeric * 1000000)::bigint,
        'lane', options -> 'key',
        'lane_limit', options -> 'per_key',
        'tenant', options -> 'tenant',
        'unique_key', task || ':' || (v_unique ->> 'key'),
        'scope', CASE WHEN v_unique IS NULL THEN NULL WHEN v_unique ->> 'within' IS NOT NULL THEN 'w' ELSE left(coalesce(v_unique ->> 'until', 'finished'), 1) END,
        'window', ((v_unique ->> 'within')::numeric * 1000000)::bigint,
        'headers', v_headers,
        'payload', args::text
    ))];
    IF coalesce(options ->> 'id', options ->> 'uuid', v_unique ->> 'key') IS NOT NULL THEN
        SELECT o_holder
        INTO v_holder
        FROM {set}enqueue_with_retry(v_runs, v_unique IS NOT NULL, true, NULL);
    ELSE
        SELECT o_holder
        INTO v_holder
        FROM {set}enqueue(v_runs, false, NULL, true, NULL);
    END IF;
    RETURN coalesce(v_holder, v_id);
END
$packhorse$;
