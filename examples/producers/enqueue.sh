#!/bin/sh
# Enqueue a job with a shell: enqueue.sh TASK ARGS [OPTIONS], the store being $PACKHORSE_URL. Prints the id of the job.
set -eu
task=$1 args=$2 options='{}'
[ $# -lt 3 ] || options=$3
namespace=${PACKHORSE_NAMESPACE:-packhorse}

case $PACKHORSE_URL in
postgres*)
    psql "$PACKHORSE_URL" -XqAt -v ON_ERROR_STOP=1 -v task="$task" -v args="$args" -v options="$options" <<SQL
SELECT "$namespace".enqueue(:'task', :'args', :'options');
SQL
    ;;
redis* | valkey*)
    url=redis${PACKHORSE_URL#*edis} tag="{packhorse:$namespace}"
    case $PACKHORSE_URL in valkey*) url=redis${PACKHORSE_URL#valkey} ;; esac
    script=$(redis-cli -u "$url" HGET "$tag:scripts" enqueue)
    redis-cli -u "$url" EVAL "$script" 1 "$tag" '' 1 "$task" "$args" "$options"
    ;;
sqlite*)
    quoted() { printf "'%s'" "$(printf %s "$1" | sed "s/'/''/g")"; }
    sqlite3 "${PACKHORSE_URL#sqlite:///}" "
        PRAGMA busy_timeout = 5000;
        INSERT INTO packhorse_enqueue (task, args, options)
        VALUES ($(quoted "$task"), $(quoted "$args"), $(quoted "$options"))
        RETURNING lower(hex(id));
    " | tail -n 1
    ;;
esac
