#!/usr/bin/env python3
"""Event files as TensorBoard's own reader sees them.

    tensorboard_python_test.py WRITE_EVENTS

Skipped where TensorBoard (PyPI's tensorboard) is not installed.
"""
import math
import pathlib
import struct
import subprocess
import sys
import tempfile

try:
    from tensorboard.backend.event_processing import event_accumulator, plugin_event_accumulator
    from tensorboard.util import tensor_util
except ImportError as error:
    print(f"skipped: {error.name} is not installed")
    print("0 passed, 0 failed, 1 skipped")
    sys.exit(0)

ODD = 'a tag with "quotes" & é'
EVERYTHING = {kind: 0 for kind in ("scalars", "histograms", "images", "tensors", "compressedHistograms", "audio")}


def f32(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def check_scalars(found):
    points = [(point.step, point.value) for point in found.Scalars("loss/train")]
    assert points == [(0, 1.0), (1, 0.5), (2, f32(1 / 3)), (3, 0.125)], points
    assert [(point.step, point.value) for point in found.Scalars(ODD)] == [], "the later file begins before step 7"
    times = [point.wall_time for point in found.Scalars("loss/train")]
    assert times == sorted(times) and times[0] > 1.6e9, times


def check_histograms(found):
    (event,) = found.Histograms("weights")
    h = event.histogram_value
    assert event.step == 1 and h.num == 100 and h.min == 0 and math.isclose(h.max, 0.99, rel_tol=1e-6), h
    assert math.isclose(h.sum, 49.5, rel_tol=1e-6) and math.isclose(h.sum_squares, 32.835, rel_tol=1e-6), h
    assert len(h.bucket) == len(h.bucket_limit) and sum(h.bucket) == 100 and list(h.bucket_limit) == sorted(h.bucket_limit), h
    below = 0
    for limit, count in zip(h.bucket_limit, h.bucket):
        below += count
        # A value at a border counts on either side of it: 100 values, a hundredth apart.
        assert abs(below - min(math.ceil(100 * limit), 100)) <= 1, (limit, below)
    (event,) = found.Histograms("one value")
    h = event.histogram_value
    assert h.num == 4 and h.min == h.max == 2 and h.sum == 8 and h.sum_squares == 16 and sum(h.bucket) == 4, h


def check_image(found, folder):
    picture = folder / "picture.png"
    if not picture.exists():
        return print("no image: the build writes no PNG")
    (image,) = found.Images("picture")
    assert (image.step, image.width, image.height) == (2, 3, 2), image
    assert image.encoded_image_string == picture.read_bytes()


def check_as_the_page_does(folder):
    """The same through what TensorBoard's pages read: everything becomes a tensor there."""
    found = plugin_event_accumulator.EventAccumulator(str(folder), size_guidance={"tensors": 0})
    found.Reload()
    tags = set(found.Tags()["tensors"])
    assert tags >= {"loss/train", "weights", "one value"}, tags
    values = [(event.step, float(tensor_util.make_ndarray(event.tensor_proto))) for event in found.Tensors("loss/train")]
    assert values == [(0, 1.0), (1, 0.5), (2, f32(1 / 3)), (3, 0.125)], values
    plugins = {tag: found.SummaryMetadata(tag).plugin_data.plugin_name for tag in tags}
    assert plugins["loss/train"] == "scalars" and plugins["weights"] == "histograms", plugins
    (notes,) = [tag for tag in tags if tag.startswith("notes")]
    text = tensor_util.make_ndarray(found.Tensors(notes)[0].tensor_proto).ravel()[0]
    assert plugins[notes] == "text" and text == b"**bold** & <plain>", text


def main():
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        subprocess.run([sys.argv[1], str(folder)], check=True)
        found = event_accumulator.EventAccumulator(str(folder), size_guidance=EVERYTHING)
        found.Reload()
        check_scalars(found)
        check_histograms(found)
        check_image(found, folder)
        check_as_the_page_does(folder)
    print("1 passed, 0 failed, 0 skipped")


if __name__ == "__main__":
    main()
