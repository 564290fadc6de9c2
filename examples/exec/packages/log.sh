#!/bin/sh
# log.sh: what was installed, upgraded and removed on this machine, day by day, from the log of its package manager.
#
# It speaks the native protocol: one JSON object a line, each with what it is. The unit is a day; its window comes in the
# environment. The log is that of dpkg, also what logrotate has made of it. LOG says where it is.
set -eu
log=${LOG:-/var/log/dpkg.log}

found=no
for file in "$log" "$log".*; do
  if [ -r "$file" ]; then found=yes; fi
done
if [ $found = no ]; then
  echo "there is no log of dpkg at $log: this machine has another package manager, or its log was removed; set LOG to where it is" >&2
  exit 78 # a matter of the configuration: trying again does not help
fi

# dpkg writes local time, so the ends of the window are made local, and then compare as text.
local_time() { date -d "$1" '+%Y-%m-%d %H:%M:%S'; }
from=$(local_time "$TOWLINE_WINDOW_FROM")
to=$(local_time "$TOWLINE_WINDOW_TO")

# The oldest first, so that a line has the same number in its day whenever the day is read.
read_all() {
  for file in $(ls -1 "$log".*.gz 2>/dev/null | sort -t . -k 3 -n -r); do gzip -dc "$file"; done
  if [ -r "$log.1" ]; then cat "$log.1"; fi
  if [ -r "$log" ]; then cat "$log"; fi
}

read_all | iconv -c -t UTF-8 | LC_ALL=C awk -v from="$from" -v to="$to" -v day="${TOWLINE_WINDOW_FROM%T*}" '
  function text(s) { gsub(/\\/, "\\\\", s); gsub(/"/, "\\\"", s); gsub(/[\001-\037]/, "?", s); return "\"" s "\"" }
  { at = $1 " " $2 }
  at < from || at >= to { next }
  $3 == "install" || $3 == "upgrade" || $3 == "remove" || $3 == "purge" {
    n++
    printf "{\"towline\":\"record\",\"key\":[%s,%d],\"data\":{\"at\":%s,\"action\":%s,\"package\":%s,\"old\":%s,\"new\":%s}}\n",
      text(day), n, text(at), text($3), text($4), text($5), text($6)
  }
  END { printf "{\"towline\":\"result\",\"rows\":%d}\n", n }'
