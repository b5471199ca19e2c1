-- Why settlements were not written: as decided, else repeated if the token settled this job before, else lost.
CREATE FUNCTION {set}refusal_reasons(
    a_ids uuid[],
    a_tokens uuid[],
    a_refused integer[],
    a_decided integer[],
    a_words text[]
)
RETURNS TABLE (o_n integer, o_word text)
LANGUAGE plpgsql
AS $packhorse$
BEGIN
    RETURN QUERY
    SELECT
        refused.n,
        coalesce(
            (SELECT word FROM unnest(a_decided, a_words) AS decided (n, word) WHERE decided.n = refused.n),
            (SELECT 'repeated' FROM {schema}.ended WHERE id = a_ids[refused.n] AND token = a_tokens[refused.n]),
            (SELECT 'repeated' FROM {schema}.tries WHERE id = a_ids[refused.n] AND token = a_tokens[refused.n] LIMIT 1),
            (SELECT 'repeated' FROM {schema}.tombstones WHERE id = a_ids[refused.n] AND token = a_tokens[refused.n]),
            'lost'
        )
    FROM unnest(a_refused) AS refused (n);
END
$packhorse$;
