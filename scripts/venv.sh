# shellcheck shell=sh disable=SC2154
# Sourced by the scripts of this checkout, which set $self to their own path: where the checkout is, and its .venv. A few
# milliseconds of shell tell whether that is ready; Python starts, and sets it up, only where it is not.

root=${self%/*}
until [ -e "$root/pyproject.toml" ]; do root=${root%/*}; done
venv=$root/.venv

# need_venv LEVEL SCRIPT [ARGUMENT...]: returns once .venv holds what LEVEL (run or test) needs. Where it does not yet,
# the set-up takes this shell's place, so that signals reach it, and starts SCRIPT anew when it is done.
need_venv() {
    pins=$(cksum "$root/pyproject.toml" "$root/constraints.txt" "$root/constraints-test.txt")
    if ! is_set_up "$1"; then
        find_python
        level=$1
        shift
        exec "$python" -Es "$root/scripts/set_up_venv.py" "$level" "$pins" "$@"
    fi
}

# The stamp is what set_up_venv.py writes last: the level, then $pins, whose lines also name the place of the checkout.
is_set_up() {
    [ -x "$venv/bin/python" ] && [ -r "$venv/set-up" ] || return 1
    {
        IFS= read -r stamped_level
        IFS= read -r first && IFS= read -r second && IFS= read -r third
    } <"$venv/set-up" || return 1
    [ "$first
$second
$third" = "$pins" ] && { [ "$stamped_level" = "$1" ] || [ "$stamped_level" = test ]; }
}

# The versions are those that the pinned TensorFlow is built for.
find_python() {
    for python in python3 python3.13 python3.12 python3.11; do
        "$python" -I -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null && return
    done
    echo "error: no Python 3.11, 3.12 or 3.13 found: none of python3, python3.13, python3.12, python3.11 on PATH is one" >&2
    echo "  (python3 is $(python3 --version 2>&1 || :)). TensorFlow needs one of them: install it, put it on PATH, try again." >&2
    exit 3
}
