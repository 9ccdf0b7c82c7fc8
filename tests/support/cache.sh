# Shared by the scripts that build test programs: a cache outside the clone, keyed by content.
# shellcheck shell=bash
shopt -s inherit_errexit

tools_cache="${TEST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/outrigger}/tools"

say() { printf '%s\n' "$*" >&2; }

die() {
  say "error: $*"
  exit 1
}

# need PROGRAM REMEDY
need() { command -v "$1" >/dev/null || die "$1 is not installed; $2"; }

# digest_of TEXT FILE…: sixteen hex digits of the text and of the files that exist. Names count, folders don't.
digest_of() {
  local text=$1 file
  shift
  {
    printf '%s\n' "$text"
    for file in "$@"; do
      [[ -f $file ]] || continue
      printf '%s ' "${file##*/}"
      sha256sum <"$file"
    done
  } | sha256sum | cut -c1-16
}

# cached NAME RESULT BUILDER ARGUMENT…: prints the folder of the file RESULT of the cache entry NAME. When it is missing,
# BUILDER runs with its arguments and an empty folder, which becomes the entry in one step if it succeeds.
cached() {
  local name=$1 result=$2 entry="$tools_cache/$1"
  shift 2
  mkdir -p "$tools_cache"
  (
    # Two runs at a time build once: the second waits here and then finds the entry.
    flock 9
    [[ -s "$entry/$result" ]] || fill "$entry" "$result" "$@"
  ) 9>"$tools_cache/.$name.lock" >&2
  dirname "$entry/$result"
}

fill() {
  local entry=$1 result=$2 fresh started=$SECONDS
  shift 2
  # Whatever a killed build left; the lock is held, so no other build is at work.
  rm -rf "$entry" "$entry".building.*
  fresh=$(mktemp -d "$entry.building.XXXXXX")
  say "building ${entry##*/}"
  show_life "${entry##*/}" &
  trap "kill $! 2>/dev/null || true; rm -rf '$fresh'" EXIT
  # In a shell of its own: `set -e` holds inside it, and it must not hold the lock if it leaves something running.
  ("$@" "$fresh" 9>&-)
  [[ -s "$fresh/$result" ]] || die "the build of ${entry##*/} did not make $result"
  chmod 755 "$fresh"
  mv -T "$fresh" "$entry"
  say "built ${entry##*/} in $((SECONDS - started)) s"
}

# A line each half minute, until killed.
show_life() {
  local started=$SECONDS
  while sleep 30 9>&- >/dev/null 2>&1; do
    say "  … $1, $((SECONDS - started)) s"
  done
}
