#!/bin/sh
# PID 1 of an image of workers. Node in its place would leave orphans as zombies; sh reaps whatever dies.

case "$1" in
longshore) ;;
-*)
  echo "The image was started with options and no command ($*). Give the command too: docker run <image> longshore start handler.js $*" >&2
  exit 1
  ;;
# A shell or another tool that somebody looks around with gets the terminal to itself.
*) exec "$@" ;;
esac

# Runs the command beside the worker until it ends or is told to, which it may take 5 s for.
stand_beside() {
  trap '[ -z "$server" ] || kill -TERM "$server" 2>/dev/null; (sleep 5; kill -KILL "$server" 2>/dev/null) & asked=yes' TERM
  trap '' INT
  # By env, as the command may begin with variables of its own.
  sh -c "exec env $1" &
  server=$!
  [ -z "$asked" ] || kill -TERM "$server" 2>/dev/null
  ended=
  while [ -z "$ended" ]; do
    wait "$server"
    code=$?
    kill -0 "$server" 2>/dev/null || ended=yes
  done
  [ -n "$asked" ] && return
  echo "What LONGSHORE_BESIDE started ended with exit code $code: the worker stops, and the container ends with 1. Command: $1" >&2
  kill -USR1 "$$"
}

child=
told=
alone=
tell() {
  [ -z "$child" ] || kill -TERM "$child" 2>/dev/null
}
trap 'told=yes; tell' TERM
trap 'alone=yes; tell' USR1
# What is started with & ignores INT until it asks for it, so that it is told TERM; a terminal tells both of them INT itself.
if [ -t 0 ]; then trap : INT; else trap 'told=yes; tell' INT; fi

beside=
if [ -n "$LONGSHORE_BESIDE" ]; then
  stand_beside "$LONGSHORE_BESIDE" &
  beside=$!
fi
unset LONGSHORE_BESIDE

"$@" &
child=$!
[ -z "$told$alone" ] || tell

# A signal ends the wait, not the worker.
wait "$child"
status=$?
while kill -0 "$child" 2>/dev/null; do
  wait "$child"
  status=$?
done
# Ended by the signal before it listened for it: it had nothing under way.
[ -n "$told" ] && [ "$status" = 143 ] && status=0

# Jobs that were let end needed it until now.
if [ -n "$beside" ]; then
  kill -TERM "$beside" 2>/dev/null
  while kill -0 "$beside" 2>/dev/null; do wait "$beside"; done
fi
[ -z "$alone" ] || status=1
exit "$status"
