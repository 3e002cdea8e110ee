#!/usr/bin/env python3
"""`lathe launch`: what the ranks are given, what comes of their output and ends, signals and restarts.

    launch_test.py LATHE [--sanitized]
"""
import json
import os
import pathlib
import re
import resource
import signal
import subprocess
import time

from driver import LATHE, SANITIZED, expect, expect_one_line, lathe, main, start


def ranks(count, script, *flags, **options):
    return lathe("launch", "-n", count, *flags, "sh", "-c", script, **options)


def lines(result):
    return sorted(result.stdout.splitlines())


def wait_for(condition):
    """For a minute at most."""
    for _ in range(6000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("not within a minute")


def is_alive(pid):
    """Whether the process runs; a zombie does not."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_ranks_get_the_variables_of_a_group(_):
    script = "echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $LATHE_RESTARTS $LATHE_RENDEZVOUS $LATHE_JOB_TOKEN"
    found = lines(expect(ranks(3, script), 0))
    for rank, line in enumerate(found):
        match = re.fullmatch(rf"\[{rank}\] {rank} 3 {rank} 3 0 (file:///\S+) ([0-9a-f]{{32}})", line)
        assert match, line
    assert len({line.split()[-1] for line in found}) == 1, found  # one token for all
    assert not pathlib.Path(found[0].split()[-2][len("file://"):]).parent.exists()  # the job's folder is gone
    again = lines(expect(ranks(3, script), 0))
    assert again[0].split()[-1] != found[0].split()[-1]  # a job of its own


def test_one_of_two_machines(_):
    script = "echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $LATHE_RENDEZVOUS ${LATHE_JOB_TOKEN-none}"
    flags = ["--nodes", 2, "--node-rank", 1, "--rendezvous", "tcp://node7:29500"]
    assert lines(expect(ranks(2, script, *flags), 0)) == ["[2] 2 4 0 2 tcp://node7:29500 none",
                                                          "[3] 3 4 1 2 tcp://node7:29500 none"]
    found = lines(expect(ranks(2, script, *flags, env={"LATHE_JOB_TOKEN": "abc"}), 0))
    assert [line.split()[-1] for line in found] == ["abc", "abc"]


def test_the_processors_are_shared(_):
    result = expect(lathe("launch", "-n", 1, LATHE, "bench", "kernels", "relu", "--seconds", "0.01", "--json",
                          env={"OMP_NUM_THREADS": "3", "LATHE_THREADS": ""}), 0)
    assert json.loads(result.stdout.splitlines()[0])["threads"] == 3, result.stdout
    cpus = json.loads(expect(lathe("info", "--json"), 0).stdout.splitlines()[0])["usable_cpus"]
    for count in (2, cpus + 1):
        found = lines(expect(ranks(count, "echo $OMP_NUM_THREADS", env={"OMP_NUM_THREADS": ""}), 0))
        assert {line.split()[1] for line in found} == {str(max(1, cpus // count))}, found
    found = lines(expect(ranks(2, "echo $OMP_NUM_THREADS", env={"OMP_NUM_THREADS": "5"}), 0))
    assert {line.split()[1] for line in found} == {"5"}, found


def test_the_program_gets_its_flags_and_empty_arguments(_):
    result = expect(lathe("launch", "-n", 1, "sh", "-c", 'printf "<%s>" "$@"', "me", "--ranks", "9", "", "--help"), 0)
    assert result.stdout == "<--ranks><9><><--help>\n", result.stdout
    expect(lathe("launch", "--", "sh", "-c", "exit 0"), 0)


def test_lines_of_ranks_do_not_mix(_):
    many = "i=0; while [ $i -lt 300 ]; do printf aaaaaaaaaaaaaaaaaaaa; printf 'bbbb\\n'; i=$((i+1)); done"
    found = lines(expect(ranks(3, many), 0))
    assert len(found) == 900 and {line[4:] for line in found} == {"a" * 20 + "bbbb"}
    # No line end at the end of the stream; and a line longer than what is held back.
    result = expect(lathe("launch", "sh", "-c", "head -c 150000 /dev/zero | tr '\\0' x"), 0)
    assert result.stdout.replace("\n", "") == "x" * 150000
    assert max(map(len, result.stdout.splitlines())) <= 65536


def test_stdout_and_stderr_stay_apart_and_logs_keep_both(folder):
    result = expect(ranks(2, "echo out; echo err >&2; printf '\\033[31m\\n'", "--log-dir", "logs/new"), 0)
    assert lines(result) == ["[0] \\x1b[31m", "[0] out", "[1] \\x1b[31m", "[1] out"], result.stdout
    assert sorted(result.stderr.splitlines()) == ["[0] err", "[1] err"]
    for rank in range(2):
        log = (folder / f"logs/new/rank-{rank}.log").read_text()
        assert sorted(log.splitlines()) == ["\033[31m", "err", "out"], log
    expect(ranks(2, "echo more", "--log-dir", "logs/new"), 0)  # a job that goes on
    assert (folder / "logs/new/rank-1.log").read_text().endswith("more\n")


def test_a_rank_that_fails_ends_all(_):
    begin = time.monotonic()
    result = ranks(3, 'if [ $RANK = 1 ]; then echo "the disk is full" >&2; exit 3; fi; exec sleep 100', "--grace", 0.3)
    expect(result, 3)
    assert re.search(r"^lathe: launch: rank 1 \(process \d+\) ended with exit code 3; its last line on stderr: the disk is full$",
                     result.stderr, re.M), result.stderr
    assert time.monotonic() - begin < 90  # of the 100 that the others would take
    result = expect(ranks(2, "if [ $RANK = 1 ]; then kill -9 $$; fi; exec sleep 100", "--grace", 0.3), 137)
    assert re.search(r"rank 1 \(process \d+\) was ended by signal 9 \(Killed\)$", result.stderr, re.M), result.stderr


def test_a_rank_that_ends_because_of_another_one_is_not_the_cause(_):
    """Exit code 8 says so. Rank 1 ends once the launcher has seen the end of rank 0."""
    result = ranks(2, "if [ $RANK = 0 ]; then echo $$ > new; mv new pid; while [ ! -e ready ]; do sleep 0.01; done; exit 8; fi; "
                      "while [ ! -e pid ]; do sleep 0.01; done; touch ready; while kill -0 $(cat pid) 2>/dev/null; do sleep 0.01; done; exit 3")
    expect(result, 3, "rank 1 ")


def test_a_rank_that_does_not_listen_is_killed(_):
    # The trap is set before the other one fails, which waits for a file.
    result = ranks(2, "if [ $RANK = 1 ]; then while [ ! -e here ]; do sleep 0.01; done; exit 4; fi; "
                      "trap 'echo asked' TERM; touch here; while :; do sleep 0.05; done", "--grace", 2)
    expect(result, 4, "rank 1 ")
    assert "[0] asked\n" in result.stdout, result.stdout  # SIGTERM first


def test_what_a_rank_leaves_behind_is_ended(_):
    result = expect(ranks(2, "sleep 100 & echo $!"), 0)  # they hold the pipes
    for line in lines(result):
        wait_for(lambda: not is_alive(line.split()[1]))


def test_restarts(folder):
    script = "echo $LATHE_RESTARTS; if [ $RANK-$LATHE_RESTARTS = 1-0 ]; then exit 9; fi; [ $LATHE_RESTARTS = 2 ] || exit 7"
    result = expect(ranks(2, script, "--max-restarts", 2), 0, "all ranks start again, restart 1 of 2", "restart 2 of 2")
    assert {line.split()[1] for line in lines(result)} == {"0", "1", "2"}
    expect(ranks(2, "exit 5", "--max-restarts", 1), 5, "restart 1 of 1")
    places = lines(expect(ranks(1, "echo $LATHE_RENDEZVOUS $LATHE_JOB_TOKEN; exit $((1 - LATHE_RESTARTS))",
                                "--max-restarts", 1), 0))
    assert len(set(places)) == 2, places  # a rank of the first attempt cannot meet those of the second


def test_signals_reach_every_rank_once(_):
    script = ("trap 'echo saved' USR1; trap 'echo stop; exit 130' INT; echo ready; "
              "while :; do sleep 0.05; done")
    process = start("launch", "-n", 2, "--max-restarts", 5, "sh", "-c", script)
    seen = [process.stdout.readline() for _ in range(2)]
    process.send_signal(signal.SIGUSR1)
    seen += [process.stdout.readline() for _ in range(2)]
    process.send_signal(signal.SIGINT)
    rest, errors = process.communicate(timeout=60)
    assert process.returncode == 130, (process.returncode, errors)
    seen = sorted(seen + rest.splitlines(keepends=True))
    assert seen == sorted(f"[{rank}] {word}\n" for rank in (0, 1) for word in ("ready", "saved", "stop")), seen
    assert errors == "lathe: launch: stopped by Ctrl-C\n", errors  # and no restart


def test_a_second_request_to_stop_kills(_):
    process = start("launch", "-n", 2, "sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.05; done")
    for _ in range(2):
        process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    time.sleep(1.1)  # sooner it would be the same request
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 143


def test_signals_at_once_are_one_request(_):  # as of timeout(1), which signals a process and its group
    script = "trap 'sleep 0.2; echo saved; exit 143' TERM; echo ready; while :; do sleep 0.05; done"
    process = start("launch", "-n", 2, "sh", "-c", script)
    for _ in range(2):
        process.stdout.readline()
    for _ in range(3):
        process.send_signal(signal.SIGTERM)
        time.sleep(0.02)  # else they may arrive as one
    rest, _ = process.communicate(timeout=60)
    assert process.returncode == 143 and rest.count("saved") == 2, (process.returncode, rest)


def test_a_rank_that_has_stopped_leaves_the_others_the_time_to_save(_):
    script = ("trap '[ $RANK = 1 ] || { sleep 1.5; echo saved; }; exit 143' TERM; echo ready; while :; do sleep 0.05; done")
    process = start("launch", "-n", 2, "--grace", 0.3, "sh", "-c", script)
    for _ in range(2):
        process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    rest, errors = process.communicate(timeout=60)
    assert process.returncode == 143 and rest == "[0] saved\n" and errors.endswith("lathe: launch: stopped by SIGTERM\n"), (rest, errors)


def test_a_rank_that_fails_while_it_stops_is_named(_):  # it could not save
    script = ("trap '[ $RANK = 1 ] || { echo the disk is full >&2; exit 1; }; exit 143' TERM; echo ready; while :; do sleep 0.05; done")
    process = start("launch", "-n", 2, "--max-restarts", 5, "sh", "-c", script)
    for _ in range(2):
        process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1, (process.returncode, errors)
    assert re.search(r"rank 0 \(process \d+\) ended with exit code 1; its last line on stderr: the disk is full\n$", errors), errors


def test_a_rank_that_misses_one_that_has_stopped_has_not_failed(_):
    script = "[ $RANK = 1 ] || trap 'exit 8' TERM; echo ready; while :; do sleep 0.05; done"
    process = start("launch", "-n", 2, "sh", "-c", script)
    for _ in range(2):
        process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 143 and errors.endswith("lathe: launch: stopped by SIGTERM\n"), (process.returncode, errors)
    assert "exit code" not in errors, errors


def test_a_rank_that_was_asked_to_stop_is_not_started_again(_):
    result = expect(ranks(2, "if [ $RANK = 1 ]; then exit 143; fi; exec sleep 100", "--grace", 0.3, "--max-restarts", 3), 143)
    assert "start again" not in result.stderr and "stopped by SIGTERM" in result.stderr, result.stderr


def ignoring(number):
    """How a process begins that ignores the signal."""
    return {"preexec_fn": lambda: signal.signal(number, signal.SIG_IGN)}


def test_a_signal_that_is_ignored_stays_ignored(_):  # as of nohup, or of Ctrl-C for a background job
    for number in (signal.SIGHUP, signal.SIGINT):
        script = "echo $$; while [ ! -e go ]; do sleep 0.01; done; echo went on"
        process = start("launch", "-n", 2, "sh", "-c", script, **ignoring(number))
        pids = [process.stdout.readline().split()[1] for _ in range(2)]
        process.send_signal(number)
        os.kill(int(pids[0]), number)
        time.sleep(0.2)  # else the ranks may end before the launcher has looked
        pathlib.Path("go").touch()
        rest, errors = process.communicate(timeout=60)
        assert process.returncode == 0 and rest.count("went on") == 2, (process.returncode, rest, errors)
        pathlib.Path("go").unlink()


def test_the_ends_of_ranks_are_seen_where_they_were_ignored(_):  # SIGCHLD of who has started the launcher
    expect(ranks(2, "exit 3", **ignoring(signal.SIGCHLD)), 3)


def test_what_a_killed_launcher_leaves_goes_with_the_next_one(folder):
    """And the folders of those that live stay."""
    (folder / "tmp").mkdir()
    own = {"TMPDIR": str(folder / "tmp")}

    def folders():
        return {path.name for path in (folder / "tmp").iterdir()}

    def launch():
        before = folders()
        process = start("launch", "-n", 1, "sh", "-c", "echo ready; exec sleep 100", env=own)
        assert process.stdout.readline() == "ready\n"
        (name,) = folders() - before
        return process, name
    killed, left = launch()
    killed.kill()
    killed.wait(timeout=60)
    assert folders() == {left}
    living, name = launch()
    assert folders() == {name} and name != left
    expect(lathe("launch", "-n", 1, "true", env=own), 0)
    assert folders() == {name}
    living.terminate()
    assert living.wait(timeout=60) == 143 and not folders()


def test_a_request_to_stop_between_two_attempts(folder):
    (folder / "tmp").mkdir()
    process = start("launch", "-n", 2, "--max-restarts", 9, "sh", "-c", "[ $LATHE_RESTARTS = 0 ] || exec sleep 100; exit 1",
                    env={"TMPDIR": str(folder / "tmp")})
    while "start again" not in process.stderr.readline():
        pass
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 143 and errors.endswith("stopped by SIGTERM\n"), (process.returncode, errors)
    assert not list((folder / "tmp").iterdir())  # the job's folder is gone


def test_a_launcher_that_is_killed_takes_its_ranks_along(_):
    process = start("launch", "-n", 2, "sh", "-c", "echo $$; exec sleep 100")
    pids = [process.stdout.readline().split()[1] for _ in range(2)]
    process.kill()
    for pid in pids:
        wait_for(lambda: not is_alive(pid))


def test_sigquit_ends_all_at_once_and_leaves_no_folder(_):
    process = start("launch", "-n", 2, "sh", "-c", "echo $$ $LATHE_RENDEZVOUS; exec sleep 100")
    found = [process.stdout.readline().split()[1:] for _ in range(2)]
    place = pathlib.Path(found[0][1].removeprefix("file://")).parent
    assert place.is_dir()
    process.send_signal(signal.SIGQUIT)
    assert process.wait(timeout=60) == 131 and process.stderr.read() == "lathe: launch: stopped by SIGQUIT\n"
    assert not place.exists()
    for pid, _ in found:
        wait_for(lambda: not is_alive(pid))


def test_too_few_descriptors_are_no_mistake_of_the_user(_):
    for limit in (8, 10):  # for the pipes of a rank; for the program that is to be executed
        result = lathe("launch", "-n", 2, "true", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit)))
        expect_one_line(result, 1, "Too many open files")


def test_a_closed_stdout_ends_the_ranks(_):
    process = start("launch", "-n", 2, "sh", "-c", "echo $$ >&2; while :; do echo more; sleep 0.01; done")
    pids = [process.stderr.readline().split()[1] for _ in range(2)]
    process.stdout.close()
    errors = process.stderr.read()
    assert process.wait(timeout=60) == 1 and "stdout" in errors, errors
    for pid in pids:
        wait_for(lambda: not is_alive(pid))


def test_output_that_cannot_be_written_lets_the_ranks_save(folder):
    # Neither writes before both have their trap.
    script = ("trap 'echo bye; touch saved.$RANK; exit 143' TERM; touch up.$RANK; until test -e up.0 -a -e up.1; do sleep 0.01; done; "
              "echo $$; while :; do echo more; sleep 0.01; done")

    def ends(process, text):
        errors = process.stderr.read()
        assert process.wait(timeout=60) == 1 and text in errors.splitlines()[-1], (process.returncode, errors)
        for rank in range(2):
            (folder / f"saved.{rank}").unlink()
            (folder / f"up.{rank}").unlink()

    process = start("launch", "-n", 2, "sh", "-c", script)
    for _ in range(2):
        process.stdout.readline()
    process.stdout.close()
    ends(process, "stdout: closed")

    def small_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

    process = start("launch", "-n", 2, "--log-dir", "logs", "sh", "-c", script, preexec_fn=small_files)
    rest = process.stdout.read()
    assert rest.count("bye") == 2, rest  # stdout goes on
    ends(process, "a rank's log: File too large")


def test_a_reader_that_has_stopped_stops_no_signal(folder):
    script = "yes & trap 'touch saved.$RANK; exit 143' TERM; touch ready.$RANK; while :; do sleep 0.05; done"
    process = start("launch", "-n", 2, "sh", "-c", script)
    wait_for(lambda: len(list(folder.glob("ready.*"))) == 2)
    time.sleep(0.3)  # until the pipes are full
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 143 and process.stderr.read().endswith("lathe: launch: stopped by SIGTERM\n")
    assert len(list(folder.glob("saved.*"))) == 2


def test_a_rank_that_writes_faster_than_the_launcher_reads_stops_no_signal(folder):
    script = "touch ready.$RANK; test $RANK = 1 && exec sleep 600; exec yes"
    process = start("launch", "-n", 2, "sh", "-c", script, stdout=subprocess.DEVNULL)
    wait_for(lambda: len(list(folder.glob("ready.*"))) == 2)
    time.sleep(0.3)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 143


def peak_kib(pid):
    """The most memory that a process has had."""
    return int(re.search(r"VmHWM:\s+(\d+) kB", pathlib.Path(f"/proc/{pid}/status").read_text())[1])


def test_what_a_slow_reader_has_read_is_not_kept(_):
    process = start("launch", "sh", "-c", "yes $(printf %4000s | tr ' ' x)")
    count, peaks = 0, []
    for end in (4 << 20, 30 << 20):
        while count < end:
            piece = os.read(process.stdout.fileno(), 1 << 16)
            assert piece, process.stderr.read()
            count += len(piece)
            time.sleep(0.001)  # the rank is faster
        peaks.append(peak_kib(process.pid))
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert SANITIZED or peaks[1] - peaks[0] < 8 << 10, peaks  # AddressSanitizer keeps what is freed


def test_bad_settings_start_nothing(folder):
    touch = ["sh", "-c", "touch started"]
    for flags, text in (
            (["-n", 0], "--ranks: expected 1 to 4096, got 0"),
            (["-n"], "-n"),
            (["-m", 2], "-m: unknown flag"),
            (["--nodes", 2], "needs --rendezvous"),
            (["--nodes", 2, "--node-rank", 2, "--rendezvous", "tcp://a:1"], "--node-rank: must be from 0 to 1"),
            (["--rendezvous", "node7:29500"], "--rendezvous: must be tcp://HOST:PORT or file:///PATH"),
            (["--max-restarts", -1], "--max-restarts"), (["--grace", -1], "--grace")):
        expect_one_line(lathe("launch", *flags, *(touch if flags != ["-n"] else [])), 2, text)
    expect_one_line(lathe("launch"), 2, "expected a program and its arguments")
    expect_one_line(lathe("launch", "-n", 2, "no-such-program"), 2, "no-such-program cannot be started: No such file")
    expect_one_line(lathe("launch", "-n", 2, "/etc/passwd"), 2, "Permission denied")
    expect_one_line(lathe("launch", "-n", 2, ""), 2, "cannot be started")
    expect_one_line(lathe("launch", "--log-dir", "/dev/null/x", *touch), 1, "launch: --log-dir /dev/null/x: cannot make this folder: Not a directory")
    expect_one_line(lathe("launch", *touch, env={"TMPDIR": "/nonexistent"}), 1, "launch: there is no folder for temporary files (TMPDIR)")
    assert not (folder / "started").exists()


if __name__ == "__main__":
    main(globals())
