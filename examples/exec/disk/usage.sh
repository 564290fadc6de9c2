#!/bin/sh
# usage.sh: how much room the folders of a folder take. Each line that it writes is a row.
#
# It speaks the protocol `lines`: a line that is a JSON object is a row, any other is for people. du and df are on every
# machine. FOLDER says where to look; without it, /usr/share.
set -eu
folder=${FOLDER:-/usr/share}

if [ ! -d "$folder" ]; then
  echo "$folder is no folder on this machine: set FOLDER to one" >&2
  exit 78 # a matter of the configuration: trying again does not help
fi

echo "looking at $folder"
# One line for each folder, bytes first. A name may hold anything but a NUL, so it is made a JSON text by awk, and a byte
# that is no UTF-8 by iconv. A folder that may not be read is said by du on standard error, and does not end the others.
{ du -k -x --max-depth=1 "$folder" || true; } | iconv -c -t UTF-8 | LC_ALL=C awk -F '\t' '
  {
    name = substr($0, length($1) + 2)
    gsub(/\\/, "\\\\", name); gsub(/"/, "\\\"", name); gsub(/[\001-\037]/, "?", name)
    printf "{\"path\":\"%s\",\"kib\":%s}\n", name, $1
  }'

# Anything on descriptor 3 is a sign of life; a line of the native protocol there is read in every protocol.
echo '{"towline":"log","text":"'"$(df -P "$folder" | awk 'NR == 2 { print $5 " of its file system is in use" }')"'"}' >&3
