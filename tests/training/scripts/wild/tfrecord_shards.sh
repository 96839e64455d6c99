#!/bin/sh
# Makes the records where they are not there yet, then trains on them; what a job script does.
set -e
here=$(dirname "$0")
records=$(mktemp -d)
trap 'rm -rf "$records"' EXIT
python "$here/tfrecord_shards.py" --mode=write --records="$records"
python "$here/tfrecord_shards.py" --mode=train --records="$records" --epochs=2
echo "job script done"
