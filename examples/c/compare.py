"""Runs programs on the same file; all must end well and print the same numbers, in whatever form.

    compare.py FILE PROGRAM...
"""
import os
import re
import subprocess
import sys

NUMBER = re.compile(r"[-+]?\d+\.\d+(?:[eE][-+]\d+)?")

file, *programs = sys.argv[1:]
numbers = {}
for program in programs:
    result = subprocess.run([program, file], stdout=subprocess.PIPE, text=True, timeout=100, env={**os.environ, "LATHE_EMULATED_DEVICES": "0"})
    print(result.stdout)
    numbers[program] = [float(text) for text in NUMBER.findall(result.stdout)]
    assert result.returncode == 0 and len(numbers[program]) == 5, (program, result.returncode)
different = [program for program in programs if numbers[program] != numbers[programs[0]]]
print(f"{len(programs) - len(different)} passed, {len(different)} failed, 0 skipped")
sys.exit(1 if different else 0)
