# Keeps one throwaway Postgres for as long as somebody holds the other end of stdin.
#
# The end of stdin is the order to stop, because it also comes when the holder is killed: nothing
# outlives it, and there is one way to stop and not two. stdin's first line is the password.
#
# Usage: postgres.sh BINDIR DIRECTORY PORT FSYNC
bin=$1 dir=$2 port=$3 fsync=$4

# Ctrl-C reaches the whole terminal. The tests end by it; the server ends after them.
trap '' HUP INT TERM
# A command in the background gets /dev/null for stdin, hence the copy.
exec 3<&0 </dev/null

read -r password <&3
printf '%s\n' "$password" >"$dir/password"

# Passwords are asked for on every way in, so that a wrong one fails here as it does elsewhere.
"$bin/initdb" --pgdata="$dir/data" --username=passbook --pwfile="$dir/password" \
    --auth=scram-sha-256 --encoding=UTF8 --no-locale --no-sync 3<&- && {
    "$bin/postgres" -D "$dir/data" -k "$dir" -p "$port" \
        -c listen_addresses=127.0.0.1 \
        -c max_connections=300 \
        -c shared_buffers=128MB \
        -c fsync="$fsync" 3<&- &
    server=$!
    {
        read -r _ <&3
        # Immediate: nobody will read this data again.
        kill -QUIT "$server"
    } &
    watcher=$!
    # Ends when the server does, by order or on its own.
    wait "$server"
    # Otherwise it would wait on, and one day signal whoever has the server's number then.
    kill -KILL "$watcher"
}
rm -rf "$dir"
