-- How many of these sizes, from the first on, fit in so many bytes. Unless a job was leased before, the first does anyway.
CREATE FUNCTION {set}count_fitting(a_sizes integer[], a_bytes bigint, a_any boolean)
RETURNS integer
LANGUAGE plpgsql
AS $packhorse$
DECLARE
    v_left bigint := a_bytes;
BEGIN
    FOR v_at IN 1..cardinality(a_sizes) LOOP
        v_left := v_left - a_sizes[v_at];
        IF v_left < 0 AND (a_any OR v_at > 1) THEN
            RETURN v_at - 1;
        END IF;
    END LOOP;
    RETURN cardinality(a_sizes);
END
$packhorse$;
