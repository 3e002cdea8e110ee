"""The test programs on a GPU: each source file in a process of its own, several at a time, those of fused layers first."""
import concurrent.futures
import os
import pathlib
import re
import time
import xml.etree.ElementTree as ElementTree

from gpu import machine

COUNTS = re.compile(r"^(\d+) passed, (\d+) failed, (\d+) skipped\s*$", re.MULTILINE)
# These read files of the tree in which they were built.
NEED_THE_TREE = {
    "c/handle_test.cpp", "c/model_test.cpp", "core/shared_library_test.cpp", "graph/graph_module_test.cpp", "graph/pt2_fusion_test.cpp",
    "graph/pt2_head_test.cpp", "graph/pt2_lora_test.cpp", "graph/pt2_modules_test.cpp", "graph/pt2_save_test.cpp", "graph/pt2_test.cpp",
    "graph/torch_samples_test.cpp", "nn/distributions_test.cpp", "nn/lora_file_test.cpp", "nn/recurrent_test.cpp", "nn/transformer_test.cpp",
    "conv_search/cache_file_test.cpp", "ops/golden_programs_test.cpp", "ops/golden_torch_test.cpp", "ops/linalg_test.cpp",
    "ops/op_table_test.cpp", "ops/promotion_test.cpp"}
FUSED = re.compile(r"fused|norm_relu|resnet_layers|deferred_norm|block_end|plan_life|relu_bits|step_launches|mlp|"
                   r"(cuda|inference)_graph|capture|graphs_test|nccl")
MEASURED = re.compile(r"MESSAGE: (.+)")
OF_A_GPU = ("test_cuda", "test_cudnn", "test_cublas")


def counts_of(text, status):
    """[passed, failed, skipped] of what a test program printed. One that died has failed."""
    found = COUNTS.findall(text)
    counts = list(map(int, found[-1])) if found else [0, 0, 0]
    counts[1] += status != 0 and counts[1] == 0
    return counts


class TestPrograms:
    __test__ = False

    def __init__(self, programs, packed, env, scratch, report):
        self.programs, self.packed, self.scratch, self.report = programs, packed, scratch, report
        # Tests make up choices of convolutions: they must not go into the file of measured ones.
        self.env = {**env, "LATHE_TEST_THREADS": "4", "OMP_NUM_THREADS": "4", "LATHE_ALGO_CACHE": ""}
        self.totals = [0, 0, 0]

    def jobs(self):
        """[(program, source file)], in the order of their worth."""
        found = []
        for program in self.programs:
            status, text = machine.run([program, "-r=xml", "-ltc"], 20, self.env, self.scratch / "listed.txt")
            try:
                files = {case.get("filename") for case in ElementTree.fromstring(text).iter("TestCase")}
            except ElementTree.ParseError:
                self.report.say(f"{program}: its cases cannot be listed (exit code {status}): {text[-2000:]}")
                files = {"*"}
            found += [(program, name) for name in sorted(files)
                      if not (self.packed and "/".join(pathlib.Path(name).parts[-2:]) in NEED_THE_TREE)]
        return sorted(found, key=lambda job: (not FUSED.search(pathlib.Path(job[1]).name), job[0].name not in OF_A_GPU))

    def run(self, end):
        """Runs all until `end`, a time. Returns (files, failed, not begun)."""
        jobs = self.jobs()

        def one(number, program, name):
            if end - time.monotonic() < 2:
                return None, ""
            return machine.run([program, f"-sf={name}"], end - time.monotonic(), self.env, self.scratch / f"test-{number}.txt")

        failed, left = 0, 0
        with concurrent.futures.ThreadPoolExecutor(max(2, (os.cpu_count() or 4) // 2)) as pool:
            running = {pool.submit(one, number, *job): job for number, job in enumerate(jobs)}
            for done in concurrent.futures.as_completed(running):
                program, name = running[done]
                status, text = done.result()
                if status is None:
                    left += 1
                    continue
                self.note(f"{program.name} {pathlib.Path(name).name}", status, text)
                failed += status != 0
        return len(jobs), failed, left

    def note(self, label, status, text):
        counts = counts_of(text, status)
        self.totals = [a + b for a, b in zip(self.totals, counts)]
        if status != 0:
            self.report.say(f"=== FAILED {label}, exit code {status}\n{text[-6000:]}")
            print(f"FAILED {label}: {counts}", flush=True)
        self.report.event("test", name=label, exit_code=status, counts=counts)
        measured = MEASURED.findall(text)
        if measured and FUSED.search(label):
            self.report.event("text", name=f"measured by {label}", text="\n".join(measured))
