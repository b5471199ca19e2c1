SELECT id || '/' || tableoid FROM {schema}.identity;
