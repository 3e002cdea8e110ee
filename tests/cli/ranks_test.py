#!/usr/bin/env python3
"""`lathe train` on several ranks: what equals one process, what ends all ranks, and how a training goes on.

    ranks_test.py LATHE --golden=FOLDER [--sanitized]       (tests/graph/golden_pt2, by make_pt2_golden.py)
"""
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import sys
import threading
import time

from driver import LATHE, SANITIZED, Skip, expect, expect_one_line, lathe, main, start
from runs import values_of, write_png
from short_run import check_equal, config_of, last_of, log_of, rows_of

# 6 batches of 8 images are an epoch. A small image and one thread, because several ranks share the processors.
TINY = ["--dataset", "synthetic", "--synthetic-size", 48, "--model", "resnet8", "--batch-size", 8, "--image-size", 8 if SANITIZED else 16, "--threads", 1,
        "--log-every", 2, "--epochs", 2, "--quiet"]
ENDLESS = ["--epochs", 100000]  # until it is stopped, however long the test takes to say so
GOLDEN = pathlib.Path(next(word.partition("=")[2] for word in sys.argv if word.startswith("--golden="))).resolve()
PATIENT = {"LATHE_DISTRIBUTED_TIMEOUT": "200"}


def ranks(count, run, *arguments, flags=(), **options):
    return lathe("launch", "-n", count, *flags, "train", *TINY, "--run-dir", run, *arguments, **options)


def wait_for(condition, process):
    """For a minute at most, while the process runs."""
    for _ in range(6000):
        if condition():
            return
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    raise AssertionError("not within a minute")


def steps_of(run):
    metrics = pathlib.Path(run, "metrics.jsonl")
    return [json.loads(line)["step"] for line in metrics.read_text().splitlines() if line.endswith("}")] if metrics.exists() else []


def tensors_of(run):
    """Of last.safetensors, without what it says of itself."""
    return values_of(f"{run}/last.safetensors", "")


def says(run, text):
    return pathlib.Path(run, "log.txt").exists() and text in log_of(run)


def rank_of(launcher, number):
    """The process of a rank that `lathe launch` has started."""
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(stat.read_text().rpartition(")")[2].split()[1]) == launcher.pid and \
                    f"RANK={number}\0".encode() in b"\0" + stat.with_name("environ").read_bytes():
                return int(stat.parent.name)
        except OSError:  # it has ended since
            pass
    raise AssertionError(f"there is no rank {number}")


def check_one_process_and_two_ranks(one_run, two_run, *flags):
    """With the statistics of all ranks in batch norm only the order of sums differs. The learning rate is small, so that what this
    changes does not grow: over eight seeds losses differed by at most 4e-5 of theirs and the head by 3e-6. Without those statistics
    it is 2e-2 and 4e-3."""
    expect(lathe("train", *TINY, "--lr", 0.01, "--run-dir", one_run, *flags), 0)
    result = expect(ranks(2, two_run, "--lr", 0.01, "--sync-batch-norm", *flags), 0)
    one, two = rows_of(one_run), rows_of(two_run)
    assert [(r["epoch"], r["step"], r["split"]) for r in one] == [(r["epoch"], r["step"], r["split"]) for r in two]
    for a, b in zip(one, two):
        assert abs(a["loss"] - b["loss"]) < 1e-3 * a["loss"], (a, b)
    a, b = values_of(f"{one_run}/last.safetensors", "fc."), values_of(f"{two_run}/last.safetensors", "fc.")
    assert a.keys() == b.keys() and a
    for name in a:
        assert max(abs(x - y) for x, y in zip(a[name], b[name])) < 1e-4, name
    return result


def test_two_ranks_train_as_one_process(_):
    result = check_one_process_and_two_ranks("one", "two")
    assert re.search(r"^\[0\] test accuracy ", result.stdout, re.M) and "[1]" not in result.stdout, result.stdout
    assert {p.name for p in pathlib.Path("two").iterdir()} - {p.name for p in pathlib.Path("one").iterdir()} == {"log-1.txt"}
    assert pathlib.Path("two/log-1.txt").read_text().count("; two\n") == 1  # its log says the same folder


def test_a_smaller_batch_counts_less_on_ranks_too(_):
    """The last update of an epoch is of batches of 8 and 4 images, which are 4 and 2 on a rank."""
    check_one_process_and_two_ranks("one", "two", "--synthetic-size", 28, "--accumulate", 2)


def test_a_run_that_began_with_weights_alone_can_begin_again_on_ranks(_):
    shutil.copy(GOLDEN / "classifier.pt2", "net.pt2")
    few = ["--dataset", "synthetic", "--synthetic-size", 48, "--batch-size", 8, "--epochs", 1, "--threads", 1, "--quiet"]
    expect(lathe("train", *few, "--model", "net.pt2", "--run-dir", "a"), 0)
    expect(lathe("train", *few, "--weights", "a/best.safetensors", "--run-dir", "b"), 0)
    pathlib.Path("net.pt2").unlink()
    expect(lathe("launch", "-n", 2, "train", "--config", "b/config.toml", "--run-dir", "c"), 0)
    pathlib.Path("k").mkdir()  # killed before its first checkpoint
    for name in ("config.toml", "log.txt"):
        shutil.copy(f"b/{name}", "k")
    expect(lathe("launch", "-n", 2, "train", "--resume", "auto", "--run-dir", "k", "--quiet", "--threads", 1), 0)
    assert tensors_of("c") == tensors_of("k")


def test_a_resumed_run_has_the_same_bits(_):
    """Also with an augmentation, averaged weights, clipping, and parts of different sizes at the end of an epoch. A sum of more than two
    ranks depends on its order."""
    flags = ["--augment", "crop,flip", "--synthetic-size", 45, "--ema", 0.9, "--clip-grad-norm", 1, "--accumulate", 2, "--tensorboard"]
    expect(ranks(4, "whole", *flags), 0)
    expect(ranks(4, "a", *flags, "--stop-after", 2), 0)
    before = last_of("a")
    for count, text in ((3, "cannot share it equally"), (1, "ranks 4 → 1")):
        expect(ranks(count, "a", *flags, "--resume", "auto"), 2, text)
    assert last_of("a") == before
    expect(ranks(2, "b", *flags, "--resume", "a/last.safetensors", "--allow-changes"), 0)
    assert steps_of("b")[-1] == steps_of("whole")[-1]  # the global batch is kept
    assert "changed since" in log_of("b")
    expect(ranks(4, "a", *flags, "--resume", "auto", "--stop-after", 4), 0)
    pathlib.Path("job.toml").write_text(config_of([*TINY, *flags, "--run-dir", "a", "--resume", "auto"]))  # with a file instead of flags
    expect(lathe("launch", "-n", 4, "train", "--config", "job.toml"), 0)
    check_equal("a", "whole")


def test_a_killed_rank_ends_all_and_a_restart_goes_on(_):
    """The line names rank and cause; the training goes on from the last checkpoint."""
    process = start("launch", "-n", 2, "--max-restarts", 1, "train", *TINY, *ENDLESS, "--save-every", 4, "--run-dir", "a", "--resume", "auto", env=PATIENT)
    wait_for(lambda: len(steps_of("a")) >= 3, process)
    killed = rank_of(process, 1)
    os.kill(killed, signal.SIGKILL)
    wait_for(lambda: says("a", "going on from a/last.safetensors, step "), process)
    begin = int(re.search(r"last\.safetensors, step (\d+)", log_of("a"))[1])
    assert begin >= 4
    wait_for(lambda: (steps_of("a") or [0])[-1] > begin, process)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 143, errors
    assert f"lathe: launch: rank 1 (process {killed}) was ended by signal 9 (Killed)\n" in errors, errors
    assert re.search(rf"^\[0\] lathe: .*rank 1 \(\S+\) ended without a word: process {killed} ", errors, re.M), errors
    assert "all ranks start again, restart 1 of 1" in errors and errors.endswith("lathe: launch: stopped by SIGTERM\n"), errors


def cpu_time_of(pid):
    """In ticks."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def test_a_restart_after_a_rank_died_in_a_step_has_the_same_bits(_):
    """Rank 0 is inside of the step then: it waits for a rank that was stopped. What it saves is the state before that step."""
    flags = ["--epochs", 20, "--eval-every", 0, "--save-every", 50, "--augment", "crop,flip"]
    expect(ranks(2, "whole", *flags), 0)
    process = start("launch", "-n", 2, "--max-restarts", 1, "train", *TINY, *flags, "--run-dir", "a", "--resume", "auto", env=PATIENT)
    wait_for(lambda: pathlib.Path("a/log.txt").exists(), process)
    first, killed = rank_of(process, 0), rank_of(process, 1)
    wait_for(lambda: len(steps_of("a")) >= 2, process)
    os.kill(killed, signal.SIGSTOP)
    before = [-1]

    def waits():  # it computes nothing
        time.sleep(0.2)
        before.append(cpu_time_of(first))
        return before[-1] == before[-2]

    wait_for(waits, process)
    os.kill(killed, signal.SIGKILL)
    _, errors = process.communicate(timeout=240)
    assert process.returncode == 0, errors
    saved = re.search(r"stopped in step (\d+); the weights are in a/last.safetensors", log_of("a"))
    begin = re.search(r"going on from a/last\.safetensors, step (\d+)", log_of("a"))
    assert saved and begin and int(begin[1]) == int(saved[1]) - 1, log_of("a")
    check_equal("a", "whole")


def test_all_ranks_go_on_with_the_threads_of_the_checkpoint(_):
    """Whatever the launcher gives them: results are rounded by threads."""
    at = TINY.index("--threads")
    expect(ranks(2, "a", "--stop-after", 1), 0)
    expect(lathe("launch", "-n", 2, "train", *TINY[:at], *TINY[at + 2:], "--run-dir", "a", "--resume", "auto", "--stop-after", 2,
                 env={"OMP_NUM_THREADS": "3", "LATHE_THREADS": ""}), 0)
    for log in ("log.txt", "log-1.txt"):
        assert re.findall(r" with (\d+) threads?[,;]", pathlib.Path("a", log).read_text()) == ["1", "1"], log


def test_a_rank_that_saves_nothing_claims_nothing(_):
    """It has a minute for its step, also on a busy machine."""
    process = start("launch", "-n", 2, "--grace", 60, "train", *TINY, *ENDLESS, "--run-dir", "a", env=PATIENT)
    wait_for(lambda: len(steps_of("a")) >= 1, process)
    os.kill(rank_of(process, 0), signal.SIGKILL)
    process.communicate(timeout=120)
    text = pathlib.Path("a/log-1.txt").read_text()
    assert process.returncode == 137 and "stopped in step" in text and "last.safetensors" not in text, text


EMULATED = {"LATHE_EMULATED_DEVICES": "2", "LATHE_EMULATED_MEMORY": str(1 << 28), "LATHE_EMULATED_WATCH": "0"}
# Small enough for emulated GPUs. 3 steps are an epoch, the last one with half a batch.
ON_GPUS = ["--image-size", 4, "--synthetic-size", 20, "--log-every", 1, "--deterministic", "--amp", "fp16", "--lr", 0.01]


def need_two_emulated_gpus():
    rows = [json.loads(line) for line in lathe("info", "--json", env=EMULATED).stdout.splitlines()]
    if sum("emulated" in str(row.get("name", "")) for row in rows if str(row.get("device", "")).startswith("cuda:")) < 2:
        raise Skip("for emulated GPUs only")


def test_ranks_with_a_gpu_each_agree_which_files_there_are(_):
    """They meet before each save. Only the first one had seen that last.safetensors was there, and with --ema the others waited."""
    need_two_emulated_gpus()
    flags = ["--image-size", 4, "--synthetic-size", 20, "--log-every", 1, "--deterministic", "--lr", 0.01, "--ema", 0.9, "--no-capture"]
    patient = {**EMULATED, "LATHE_DISTRIBUTED_TIMEOUT": "40"}
    expect(ranks(2, "whole", *flags, env=patient), 0)
    expect(ranks(2, "a", *flags, "--stop-after", 4, env=patient), 0)
    expect(ranks(2, "a", *flags, "--resume", "auto", env=patient), 0)
    assert values_of("a/last.safetensors", "") == values_of("whole/last.safetensors", "")


def test_ranks_with_a_gpu_each_have_the_bits_of_queued_steps_in_graphs(_):
    """Also where a step overflows on all ranks, and after a pause. Each process records what it does from its third batch of a shape on:
    the second one launches all steps from the 7th on."""
    need_two_emulated_gpus()
    epochs = 4 if SANITIZED else 5
    flags = [*ON_GPUS, "--epochs", epochs, "--init-scale", 2.0 ** 24, "--clip-grad-norm", 1, "--ema", 0.9]
    expect(ranks(2, "queued", *flags, "--no-capture", env=EMULATED), 0)
    skipped = {row["step"]: row["skipped_steps"] for row in rows_of("queued") if row["split"] == "train"}
    assert skipped[6] < skipped[3 * epochs] < skipped[6] + 3 * epochs - 6, skipped  # some launches overflow, others do not
    expect(ranks(2, "captured", *flags, "--stop-after", 2, env=EMULATED), 0)
    expect(ranks(2, "captured", *flags, "--resume", "auto", "--profile", "--profile-steps", "6:9", env=EMULATED), 0)  # 9 to 11
    assert "kernel by kernel" not in log_of("captured") + pathlib.Path("captured/log-1.txt").read_text()
    ops = pathlib.Path("captured/op_table.txt").read_text()
    assert re.search(r"^graph launch .* 3 +--", ops, re.M), ops  # the group's calls that watch a launch
    assert rows_of("captured") == rows_of("queued")
    assert tensors_of("captured") == tensors_of("queued")


def test_no_rank_launches_a_step_that_another_one_cannot_record(folder):
    """Rank 1 cannot begin to record, or fails when some collectives are recorded. Rank 0 records all."""
    need_two_emulated_gpus()
    flags = [*ON_GPUS, "--ema", 0.9]
    expect(ranks(2, "queued", *flags, "--no-capture", env=EMULATED), 0)
    reasons = (("LATHE_EMULATED_RECORDED_FAULT", 3, "all_reduce_: cannot be recorded into a graph: NCCL: ncclAllReduce: "),
               ("LATHE_NO_CACHE", 1, "cuda::Graph: with LATHE_NO_CACHE=1 "))
    for name, value, why in reasons[:1 if SANITIZED else 2]:
        shared = {**PATIENT, **EMULATED, "LATHE_RENDEZVOUS": f"file://{folder}/place-{name}", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2",
                  "LATHE_DISTRIBUTED_DEBUG": "1"}  # with which a recorded call is compared with nothing
        processes = [start("train", *TINY, *flags, "--run-dir", name, env={**shared, "RANK": str(rank), "LOCAL_RANK": str(rank), name: str(rank * value)})
                     for rank in (0, 1)]
        for process in processes:
            _, errors = process.communicate(timeout=240)
            assert process.returncode == 0, errors
        for log in ("log.txt", "log-1.txt"):
            said = re.findall(r"steps are queued kernel by kernel, not as a CUDA graph: (.*)", pathlib.Path(name, log).read_text())
            assert said and all(line.startswith("rank 1: " + why) for line in said), (log, said)
        assert rows_of(name) == rows_of("queued")
        assert tensors_of(name) == tensors_of("queued")


def test_a_restart_on_gpus_has_the_same_bits(_):
    """What rank 0 had queued for a step that ended may be no good: the run goes on from the last checkpoint."""
    need_two_emulated_gpus()
    flags = [*ON_GPUS, "--epochs", 5 if SANITIZED else 8, "--eval-every", 0, "--save-every", 3]
    expect(ranks(2, "whole", *flags, env=EMULATED), 0)
    process = start("launch", "-n", 2, "--max-restarts", 1, "train", *TINY, *flags, "--run-dir", "a", "--resume", "auto", env={**PATIENT, **EMULATED})
    wait_for(lambda: len(steps_of("a")) >= 5, process)
    os.kill(rank_of(process, 1), signal.SIGKILL)
    _, errors = process.communicate(timeout=240)
    assert process.returncode == 0, errors
    begin = re.search(r"going on from a/last\.safetensors, step (\d+)", log_of("a"))
    assert begin and int(begin[1]) % 3 == 0, log_of("a")
    assert tensors_of("a") == tensors_of("whole")


def test_a_signal_stops_all_after_the_same_step(_):
    process = start("launch", "-n", 2, "train", *TINY, *ENDLESS, "--run-dir", "a", env=PATIENT)
    wait_for(lambda: len(steps_of("a")) >= 1, process)
    process.send_signal(signal.SIGUSR1)
    wait_for(lambda: says("a", "SIGUSR1: saved"), process)
    os.kill(rank_of(process, 1), signal.SIGTERM)  # one rank is told, and all stop
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 143, errors
    stopped = re.findall(r"stopped after step (\d+) by SIGTERM; a/last.safetensors holds the checkpoint", errors)
    assert len(set(stopped)) == 1 and stopped[0] == re.search(r"stopped after step (\d+)", log_of("a"))[1], errors
    last = int(stopped[0]) + 2
    expect(ranks(2, "a", *ENDLESS, "--resume", "auto", "--max-steps", last), 0)
    assert steps_of("a")[-1] == last


def test_a_loss_that_is_not_finite_ends_all(_):
    result = expect(ranks(2, "a", "--lr", 1e30, env=PATIENT), 6)
    assert re.search(r"^\[0\] lathe: the train loss is ", result.stderr, re.M), result.stderr
    assert pathlib.Path("a/last.safetensors").exists()


def test_without_the_launcher(folder):
    """mpirun's variables; tests/distributed/group_options_test.cpp has those of all launchers."""
    processes = [start("train", *TINY, "--workers", rank, "--max-steps", 2, "--run-dir", "a",  # workers are a machine's own
                       env={**PATIENT, "LATHE_RENDEZVOUS": f"file://{folder}/place", "OMPI_COMM_WORLD_RANK": rank, "OMPI_COMM_WORLD_SIZE": "2",
                            "OMPI_COMM_WORLD_LOCAL_RANK": rank, "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}) for rank in "01"]
    for process in processes:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
    assert steps_of("a")[-1] == 2
    seen = expect(lathe("eval", "--run-dir", "a", "--weights", "a/last.safetensors", "--json"), 0)
    # The ranks' batch norms have other statistics; rank 0's are saved, and all ranks evaluate with them.
    assert abs(json.loads(seen.stdout.splitlines()[0])["loss"] - rows_of("a")[-1]["loss"]) < 1e-5 * rows_of("a")[-1]["loss"], seen.stdout


def test_bad_settings_are_one_line_before_anything_starts(folder):
    run = ["train", *TINY, "--run-dir", "a"]
    for flags, text in ((["--batch-size", 9], "--batch-size 9 is for all ranks together, and 2 ranks cannot share it equally; 8 or 10 can"),
                        (["--no-such-flag"], "--no-such-flag: unknown flag")):
        expect_one_line(lathe("launch", "-n", 2, *run, *flags), 2, text)
    expect_one_line(lathe("launch", "-n", 2, "--max-restarts", 1, *run), 2, "--resume auto")
    few = ["train", "--dataset", "mnist", "--device", "cpu", "--run-dir", "a"]  # batches of 64
    expect_one_line(lathe("launch", "-n", 128, *few), 2, "--batch-size 64 is for all ranks together, and 128 ranks cannot share it equally; 128 can")
    expect_one_line(lathe("launch", "-n", 3, "train", "--run-dir", "a"), 2, "--batch-size 128 is for all ranks together, and 3 ranks cannot share it equally")
    rank = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2", "LATHE_DISTRIBUTED_TIMEOUT": "1"}
    expect_one_line(lathe(*run, env={**rank, "WORLD_SIZE": "0"}), 2, "the world size must be from 1 to 1000000, got 0")
    expect_one_line(lathe(*run, env={**rank, "RANK": "2"}), 2, "the rank must be from 0 to 1, got 2")
    expect_one_line(lathe(*run, env={"WORLD_SIZE": "2"}), 2, "WORLD_SIZE is 2 but RANK is not set; to compute alone, unset WORLD_SIZE")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        together = [(start(*run, env={**rank, **more}), text) for more, text in (
            ({"LATHE_RENDEZVOUS": f"file://{folder}/place"}, "rank 1 has not joined within"),
            ({"LATHE_RENDEZVOUS": f"file://{folder}/place2", "RANK": "1"}, "rank 0 was not found"),
            ({"LATHE_RENDEZVOUS": f"tcp://127.0.0.1:{port}"}, f"rank 0 cannot listen on 127.0.0.1:{port}"))]
        for process, text in together:
            _, errors = process.communicate(timeout=120)
            assert process.returncode == 8 and errors.count("\n") == 1 and text in errors, errors
    assert not (folder / "a").exists()


def test_a_config_that_ranks_cannot_share_is_refused(folder):
    """A pipe, and stdin also where it is a file: `lathe launch` gives its ranks none, and they trained with the defaults."""
    pathlib.Path("job.toml").write_text(config_of([*TINY, "--run-dir", "a"]))
    call = ["train", *TINY, "--max-steps", 1, "--config"]
    refused = "--config {}: every rank reads the config file"
    for count, config in ((1, "/dev/stdin"), (2, "/dev/stdin"), (2, "/proc/self/fd/0")):
        expect_one_line(lathe("launch", "-n", count, *call, config, stdin=open("job.toml")), 2, refused.format(config))
        expect_one_line(lathe("launch", "-n", count, *call, config, input="lr = 0.1\n"), 2, refused.format(config))
    for count in (1, 2):  # the launcher does not know what this program reads
        result = expect(lathe("launch", "-n", count, LATHE, *call, "/dev/stdin", stdin=open("job.toml")), 2, "lathe: launch: rank ")
        lines = [line for line in result.stderr.splitlines() if not line.startswith("lathe: launch: ")]
        assert lines and all("/dev/stdin: cannot read the config file: it is empty (a rank of lathe launch has no stdin)" in line for line in lines), result.stderr
    # Another launcher leaves stdin as it is: rank 0 says it before it waits for the others.
    rank = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2", "LATHE_RENDEZVOUS": f"file://{folder}/place"}
    for options in ({"stdin": open("job.toml")}, {"input": pathlib.Path("job.toml").read_text()}):
        expect_one_line(lathe(*call, "/dev/stdin", env=rank, **options), 2, refused.format("/dev/stdin"))
    assert [path.name for path in folder.iterdir()] == ["job.toml"]


def together(folder, *members, timeout=200):
    """The ends of ranks that each have a number, arguments and variables: stderr, of one line, and exit code."""
    together.count = getattr(together, "count", 0) + 1
    env = {"WORLD_SIZE": str(len(members)), "LATHE_RENDEZVOUS": f"file://{folder}/place{together.count}", "LATHE_JOB_TOKEN": "one",
           "LATHE_DISTRIBUTED_TIMEOUT": str(timeout)}
    processes = [start("train", *TINY, "--run-dir", "a", *arguments, env={**env, "RANK": str(rank), "LOCAL_RANK": str(rank), **variables})
                 for rank, arguments, variables in members]
    ends = [(process.communicate(timeout=300)[1], process.returncode) for process in processes]
    assert all(errors.count("\n") == 1 for errors, _ in ends), ends
    return ends


def test_ranks_that_do_not_fit_are_named(folder):
    for errors, code in together(folder, (0, [], {}), (1, ["--lr", 0.7], {})):
        assert code == 8 and "rank 1" in errors and "--lr" in errors, errors
    for errors, code in together(folder, (0, ["--batch-size", 9], {}), (1, ["--batch-size", 9], {})):
        assert code == 2 and "cannot share it equally" in errors, errors
    for errors, code in together(folder, (0, [], {}), (1, [], {}), (1, [], {})):
        assert code == 8 and "rank 1 was started twice" in errors, errors
    for errors, code in together(folder, (0, [], {}), (1, [], {"LATHE_JOB_TOKEN": "two"}), timeout=1):
        assert code == 8 and "rank" in errors, errors
    assert not (folder / "a").exists()


def test_broken_files_of_all_ranks_are_counted(folder):
    """Each rank comes upon those of its own share. They are apart, because a broken image is replaced by one beside it."""
    for part in ("train", "test"):
        for image in range(16):
            write_png(folder / "images" / part / f"class{image // 8}" / f"{image:02d}.png", 16, [bytes(48)] * 16)
    for image in (0, 5, 10, 15):
        (folder / "images/test" / f"class{image // 8}" / f"{image:02d}.png").write_bytes(b"broken")
    result = expect(ranks(2, "a", "--dataset", "folder", "--data-root", "images", "--skip-broken", "--epochs", 1), 0)
    assert ", 4 broken files skipped: a" in result.stdout, (result.stdout, log_of("a"), pathlib.Path("a/log-1.txt").read_text())


def test_an_error_of_one_rank_is_told_to_all(folder):
    """Also each rank reads the data where its own --data-root says."""
    for part in ("train", "test"):
        for image in range(4):
            write_png(folder / "images" / part / f"class{image % 2}" / f"{image}.png", 16, [bytes(48)] * 16)
    flags = ["--dataset", "folder", "--augment", "none", "--data-root"]
    (zero, code), (one, own_code) = together(folder, (0, [*flags, "images"], {}), (1, [*flags, "elsewhere"], {}))
    assert code == 8 and re.search(r"rank 1 \(\S+\) failed: .*elsewhere", zero), zero
    assert own_code == 3 and "elsewhere" in one, one


class SlowProxy:
    """Answers what asks it with a refusal, the first time `seconds` later."""

    def __init__(self, seconds):
        self.seconds, self.asked, self.socket = seconds, 0, socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            connection, _ = self.socket.accept()
            self.asked += 1
            connection.recv(65536)
            time.sleep(self.seconds if self.asked == 1 else 0)
            connection.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
            connection.close()


def test_ranks_wait_for_a_download_longer_than_for_a_call(_):
    """As long as the rank that downloads lives. A slow machine gets more time, in which the ranks must answer."""
    for factor in (1, 4, 16):
        proxy = SlowProxy(2 * factor)  # a call may take 1.1
        environment = {"LATHE_DISTRIBUTED_TIMEOUT": str(1.5 * factor), "https_proxy": proxy.url, "http_proxy": proxy.url, "no_proxy": ""}
        result = ranks(2, "a", "--dataset", "cifar10", "--data-root", "none", "--download", env=environment)
        if "libcurl" in result.stderr:
            raise Skip("this build has no libcurl")
        assert proxy.asked > 0 and result.returncode != 0, result
        if "cs.toronto.edu" in result.stderr and "and computes" not in result.stderr:
            return
    raise AssertionError(result.stderr)


if __name__ == "__main__":
    main(globals())
