# Reading the table `programs`; sourced by build-tools and pin-tools, which set $here.
# shellcheck shell=bash

rows() { grep -v '^#' "$here/programs"; }

# wanted FOLDER PROGRAM…: whether it is among those asked for; asking for none is asking for all.
wanted() {
  local program=${1##*/}
  shift
  (($# == 0)) || [[ " $* " == *" $program "* ]]
}

reject_unknown_programs() {
  local known asked
  known=$(rows | awk '{ sub(".*/", "", $2); printf "%s ", $2 }')
  for asked in "$@"; do
    [[ " $known" == *" $asked "* ]] || die "no program $asked; the table $here/programs has: $known"
  done
}
