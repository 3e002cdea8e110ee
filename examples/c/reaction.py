"""Trains reaction.pt2 from Python through ctypes: no compiler, and no package but, if you like, NumPy.

    python3 reaction.py LIBLATHE.SO reaction.pt2

Tensors go in and out by DLPack: `Tensor(array)` takes an array of NumPy, PyTorch or any other package that has
__dlpack__, and numpy.from_dlpack(tensor) reads one, both without a copy.
"""
import ctypes
import sys

NULL = ctypes.c_void_p()
F64, CPU = 9, 1  # lathe_dtype, DLDeviceType
library = None


def call(name, *arguments):
    """Calls a function of lathe_c.h. Its error becomes an exception."""
    if getattr(library, name)(*arguments) != 0:
        raise RuntimeError(library.lathe_last_error().decode())


def made(name, *arguments):
    """What a function gives through its last parameter."""
    out = ctypes.c_void_p()
    call(name, *arguments, ctypes.byref(out))
    return out


def capsule(name):
    """The functions of Python's C interface that DLPack needs."""
    api = ctypes.pythonapi
    api.PyCapsule_New.restype = ctypes.py_object
    api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
    return getattr(api, "PyCapsule_" + name)


class Tensor:
    """A tensor of Lathe over the memory of another package's array, or one that Lathe made."""

    def __init__(self, array=None, handle=None):
        self.handle = handle
        if array is not None:
            given = array.__dlpack__()
            pointer = capsule("GetPointer")(given, b"dltensor")
            self.handle = made("lathe_tensor_from_dlpack", ctypes.c_void_p(pointer), 0)
            capsule("SetName")(given, b"used_dltensor")

    def __dlpack__(self, **_):
        return capsule("New")(made("lathe_tensor_to_dlpack", self.handle, 0), b"dltensor", None)

    def __dlpack_device__(self):
        return CPU, 0

    def __del__(self):
        library.lathe_tensor_free(self.handle)


def wrap(values, *sizes):
    """A tensor over a ctypes array of doubles."""
    shape = (ctypes.c_int64 * len(sizes))(*sizes)
    return Tensor(handle=made("lathe_tensor_wrap", values, F64, len(sizes), shape, NULL, NULL, NULL))


def main():
    global library
    library = ctypes.CDLL(sys.argv[1])
    library.lathe_last_error.restype = ctypes.c_char_p
    library.lathe_tensor_free.argtypes = [ctypes.c_void_p]
    model = made("lathe_model_load", sys.argv[2].encode())
    optimizer = made("lathe_optimizer_new", model, b"adam", b"lr=0.01")
    points = [i / 64 for i in range(65)]
    x = (ctypes.c_double * 65)(*points)
    y = (ctypes.c_double * 65)(*[u * (1 - u) for u in points])
    inputs, target = wrap(x, 65, 1), wrap(y, 65, 1)
    inputs = Tensor(inputs)  # over the same memory, through DLPack in both directions
    loss = ctypes.c_double()
    for step in range(1001):
        call("lathe_train_step", model, optimizer, b"mse", 1, ctypes.byref(inputs.handle), target.handle, ctypes.byref(loss))
        if step % 500 == 0:
            print(f"step {step:4d}  loss {loss.value:.3e}")
    library.lathe_optimizer_free(optimizer)
    library.lathe_model_free(model)
    return 0 if loss.value < 1e-4 else 1


if __name__ == "__main__":
    sys.exit(main())
