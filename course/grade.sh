#!/usr/bin/env bash
# Prints the points of an assignment, test by test. Needs g++ (12 or later); for the second form also Python 3.11.
#
#   ./grade.sh                                  in a folder that make.py made: the tests there, on the code there
#   grade.sh [--hidden DIR] [--csv FILE] NUMBER FOLDER...
#                                               for a teacher, from course/: of each folder only the files to hand in count; everything
#                                               else, the tests too, is the course's own. Of DIR the tests NN*.cpp run as well.
#                                               FILE gets a row for each folder and test program, for a spreadsheet.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# total_of <test.cpp>: how many points it gives.
total_of() {
  tr -d ' \n' <"$1" | grep -oE '\.test\([0-9]+' | tr -dc '0-9\n' | awk '{ sum += $1 } END { print sum }'
}

# points_of <folder> <test.cpp>: compiles the test, which lies in the folder, and runs it. Its last line is "points N of N", and COURSE_WORD
# behind it if that is set and all tests ran.
points_of() {
  local program
  program=$(mktemp -d)
  if "${CXX:-g++}" -std=c++20 -O1 -pthread -include "$1/points.h" -I "$1" -o "$program/test" "$2" 2>"$program/errors"; then
    "$program/test"
  else
    echo "  does not compile:"
    grep -m 3 -E "error" "$program/errors" | sed "s|$1/||; s|^|         |"
    echo "points 0 of $(total_of "$2")"
  fi
  rm -rf "$program"
}

if [ -f "$here/test.cpp" ]; then
  points_of "$here" "$here/test.cpp"
  exit
fi

hidden=
csv=/dev/null
while [[ ${1:-} == --* ]]; do
  case $1 in
    --hidden) hidden=${2:-}; [ -d "$hidden" ] || { echo "grade.sh: $hidden is no folder" >&2; exit 2; } ;;
    --csv) csv=${2:?grade.sh: --csv needs a file} ;;
    *) echo "grade.sh: unknown option $1" >&2; exit 2 ;;
  esac
  shift 2
done
[ $# -ge 2 ] || { sed -n '2,8s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 2; }
number=$1
shift
read -r name files <<<"$(python3 "$here/make.py" "$number" --list)"
[ -n "$name" ] || exit 2

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
summary=()
echo "folder,test,points,of" >"$csv" || exit 2
for folder; do
  [ -d "$folder" ] || { echo "grade.sh: $folder is no folder" >&2; exit 2; }
done
for folder; do
  rm -rf "$work/graded"
  python3 "$here/make.py" "$number" "$work/graded" >/dev/null || exit 1
  missing=
  for file in $files; do  # in tiny/, or beside answers.md
    cp "$folder/$file" "$work/graded/$file" 2>/dev/null || cp "$folder/$(basename "$file")" "$work/graded/$file" 2>/dev/null || missing="$missing $file"
  done
  echo "== $folder, assignment $name${missing:+ (not handed in:$missing)}"
  tests=("$here/$name/test.cpp")
  [ -z "$hidden" ] || tests+=("$hidden/${name%%-*}"*.cpp)
  line=$folder
  for test in "${tests[@]}"; do
    [ -f "$test" ] || continue
    [ "$test" = "${tests[0]}" ] || echo "  hidden: $(basename "$test")"
    # An #include looks first beside the file that has it. Beside the course's own test lies the solution of assignment 10.
    copy=$work/graded/$(basename "$test")
    cp "$test" "$copy"
    # Only a program that ran all its tests knows the word. One that ended early does not, whatever it printed.
    word=$(od -An -N8 -tx8 /dev/urandom | tr -d ' ')
    out=$(COURSE_WORD=$word points_of "$work/graded" "$copy")
    points=$(tail -1 <<<"$out")
    if [[ $points =~ ^points\ [0-9]+\ of\ $(total_of "$test")\ $word$ ]]; then
      points=${points% *}
      out=${out% *}
    else
      points="points 0 of $(total_of "$test")"
      [[ $out == *"  does not compile:"* ]] || out+=$'\n'"  ended before the last test: $points"
    fi
    echo "$out"
    line="$line  $points"
    read -r _ got _ of <<<"$points"
    printf '"%s",%s,%s,%s\n' "${folder//\"/\"\"}" "$(basename "$test")" "$got" "$of" >>"$csv"
  done
  summary+=("$line")
done
echo
printf '%s\n' "${summary[@]}"
