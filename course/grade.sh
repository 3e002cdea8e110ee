#!/usr/bin/env bash
# Prints the points of an assignment, test by test. Needs g++ (12 or later); for the other forms also Python 3.11.
#
#   ./grade.sh                                  in a folder that make.py made: the tests there, on the code there
#   grade.sh [--hidden DIR] [--csv FILE] [--allow] NUMBER FOLDER...
#                                               for a teacher, from course/: of each folder only the files to hand in count; everything
#                                               else, the tests too, is the course's own. Of DIR the tests NN*.cpp run as well.
#                                               FILE gets a row for each folder, for a spreadsheet. A folder with a line that could
#                                               reach the grading gets no points, unless --allow says that you have looked at it.
#   grade.sh --diff NUMBER FOLDER...            the lines that each folder changed; nothing is compiled
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
  if "${CXX:-g++}" -std=c++20 -O2 -pthread -include "$1/points.h" -I "$1" -o "$program/test" "$2" 2>"$program/errors"; then
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

unset COURSE_ONLY  # all tests count
hidden=
csv=/dev/null
diff=
allow=
while [[ ${1:-} == --* ]]; do
  case $1 in
    --hidden) hidden=${2:-}; [ -d "$hidden" ] || { echo "grade.sh: $hidden is no folder" >&2; exit 2; }; shift ;;
    --csv) csv=${2:?grade.sh: --csv needs a file}; shift ;;
    --diff) diff=yes ;;
    --allow) allow=yes ;;
    *) echo "grade.sh: unknown option $1" >&2; exit 2 ;;
  esac
  shift
done
[ $# -ge 2 ] || { sed -n '2,10s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 2; }
number=$1
shift
read -r name files <<<"$(python3 "$here/make.py" "$number" --list)"
[ -n "$name" ] || exit 2

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 "$here/make.py" "$number" "$work/plain" >/dev/null || exit 1  # the folder may have been made without --hidden

# collect <folder>: makes $work/graded of the course's files and those that the folder hands in. Sets $missing.
collect() {
  local file place
  rm -rf "$work/graded"
  python3 "$here/make.py" "$number" "$work/graded" ${hidden:+--hidden "$hidden"} >/dev/null || exit 1
  cp "$work/graded/answers.md" "$work/form"
  missing=
  for file in $files answers.md; do
    place=$1/$file
    [ -e "$place" ] || [ -L "$place" ] || place=$1/$(basename "$file")  # in tiny/, or beside answers.md
    if [ "$(realpath -- "$place")" != "$(realpath -- "$1")/${place#"$1"/}" ]; then  # it may lead to a solution, or to a file of yours
      missing="$missing $file (a link)"
    elif [ ! -f "$place" ] || ! cp "$place" "$work/graded/$file"; then
      missing="$missing $file"
    fi
  done
  if [[ $missing != *answers.md* ]] && { cmp -s "$work/form" "$work/graded/answers.md" || cmp -s "$work/plain/answers.md" "$work/graded/answers.md"; }; then
    missing="$missing answers.md, which is as it was handed out"
  fi
}

# grade <test.cpp>: compiles and runs it in $work/graded, and prints what it says. Sets $got and $of.
grade() {
  local copy word out points
  # An #include looks first beside the file that has it. Beside the course's own test lies the solution of assignment 10.
  copy=$work/graded/$(basename "$1")
  cp "$1" "$copy"
  # Only a program that ran all its tests knows the word. One that ended early does not, whatever it printed.
  word=$(od -An -N8 -tx8 /dev/urandom | tr -d ' ')
  out=$(COURSE_WORD=$word points_of "$work/graded" "$copy")
  points=$(tail -1 <<<"$out")
  if [[ $points =~ ^points\ [0-9]+\ of\ $(total_of "$1")\ $word$ ]]; then
    points=${points% *}
    out=${out% *}
  else
    points="points 0 of $(total_of "$1")"
    [[ $out == *"  does not compile:"* ]] || out+=$'\n'"  ended before the last test: $points"
  fi
  echo "$out"
  read -r _ got _ of <<<"$points"
}

for folder; do
  [ -d "$folder" ] || { echo "grade.sh: $folder is no folder" >&2; exit 2; }
done
if [ -n "$diff" ]; then
  for folder; do
    collect "$folder"
    echo "== $folder, assignment $name${missing:+ (not handed in:$missing)}"
    python3 "$here/handed_in.py" "$number" "$work/graded" --diff
  done
  exit
fi

summary=()
declare -A owner=([solution]="the course's solution")  # of each form of a file: who had it first
echo "folder,tests,tests of,hidden,hidden of,questions,questions of,late days,total,remarks" >"$csv" || exit 2
for folder; do
  collect "$folder"
  remarks=${missing:+not handed in:$missing}
  echo "== $folder, assignment $name${missing:+ ($remarks)}"
  refused=
  if ! python3 "$here/handed_in.py" "$number" "$work/graded"; then
    remarks="${remarks:+$remarks; }refused"
    [ -n "$allow" ] || { refused=yes; echo "  no test runs, as a line above is refused"; }
  fi
  tests=("$here/$name/test.cpp")
  [ -z "$hidden" ] || tests+=("$hidden/${name%%-*}"*.cpp)
  while read -r form file; do
    if [ -n "${owner[$form]:-}" ]; then
      echo "  equals ${owner[$form]}: $file"
      remarks="${remarks:+$remarks; }$file equals ${owner[$form]}"
    else
      owner[$form]="folder $folder"
    fi
  done < <(python3 "$here/handed_in.py" "$number" "$work/graded" --forms)
  line=$folder
  own=()
  hidden_got=0
  hidden_of=0
  for test in "${tests[@]}"; do
    [ -f "$test" ] || continue
    [ "$test" = "${tests[0]}" ] || echo "  hidden: $(basename "$test")"
    if [ -n "$refused" ]; then
      got=0
      of=$(total_of "$test")
      echo "points 0 of $of"
    else
      grade "$test"
    fi
    line="$line  points $got of $of"
    if [ ${#own[@]} -eq 0 ]; then
      own=("$got" "$of")
    else
      hidden_got=$((hidden_got + got))
      hidden_of=$((hidden_of + of))
    fi
  done
  summary+=("$line${remarks:+  ($remarks)}")
  printf '"%s",%s,%s,%s,%s,,5,,,"%s"\n' "${folder//\"/\"\"}" "${own[@]}" "$hidden_got" "$hidden_of" "${remarks//\"/\"\"}" >>"$csv"
done
echo
printf '%s\n' "${summary[@]}"
