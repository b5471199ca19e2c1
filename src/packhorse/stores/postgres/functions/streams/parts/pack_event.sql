-- One change of many jobs in the packed form of model/event.py: its letter, how many, the ids in order.
CREATE FUNCTION {set}pack_event(a_letter text, a_ids uuid[])
RETURNS bytea
LANGUAGE plpgsql IMMUTABLE
AS $packhorse$
BEGIN
    IF coalesce(cardinality(a_ids), 0) = 0 THEN
        RETURN '';
    END IF;
    RETURN convert_to(a_letter, 'UTF8')
        || int2send(cardinality(a_ids)::smallint)
        || (SELECT string_agg(uuid_send(id), '') FROM (SELECT unnest(a_ids) AS id) AS job);
END
$packhorse$;
