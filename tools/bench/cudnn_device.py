#!/usr/bin/env python3
"""Prints how cuDNN describes GPU 0: the JSON with which it plans convolutions for such a GPU on machines that have none.

    cudnn_device.py [GPU]

ref: NVIDIA cuDNN backend API, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR (cuDNN 9.11 and later).
"""
import ctypes
import sys

DEVICEPROP, DEVICE_ID, JSON = 38, 2700, 2702  # of cudnn_graph_v9.h
TYPE_INT32, TYPE_CHAR = 23, 24


def main():
    gpu = ctypes.c_int32(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    ctypes.CDLL("libcuda.so.1").cuInit(0)
    cudnn = ctypes.CDLL("libcudnn.so.9")

    def call(name, *arguments):
        status = getattr(cudnn, name)(*arguments)
        if status != 0:
            sys.exit(f"cudnn_device: {name} answers {status}")

    descriptor, count = ctypes.c_void_p(), ctypes.c_int64()
    call("cudnnBackendCreateDescriptor", DEVICEPROP, ctypes.byref(descriptor))
    call("cudnnBackendSetAttribute", descriptor, DEVICE_ID, TYPE_INT32, ctypes.c_int64(1), ctypes.byref(gpu))
    call("cudnnBackendFinalize", descriptor)
    call("cudnnBackendGetAttribute", descriptor, JSON, TYPE_CHAR, ctypes.c_int64(0), ctypes.byref(count), None)
    text = ctypes.create_string_buffer(count.value + 1)
    call("cudnnBackendGetAttribute", descriptor, JSON, TYPE_CHAR, count, ctypes.byref(count), text)
    print(text.value.decode())


if __name__ == "__main__":
    main()
