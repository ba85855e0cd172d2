"""Makes vectors.h and data/ with the programs that users use to write such parts.

    pip install numpy msgpack cbor2 safetensors webdataset torch
    python3 make_vectors.py && clang-format -i vectors.h

Made with numpy 2.4.6, msgpack 1.2.4, cbor2 6.3.0, safetensors 0.8.0, webdataset 1.0.2, torch 2.13.0
and the gzip and json of Python 3.11.7. Runs differ in two irrelevant places: the order of the metadata of
safetensors, and the key of the storage in old.pt.
"""

import base64
import collections
import datetime
import gzip
import io
import json
import os
import pathlib
import warnings
import zipfile

import cbor2
import msgpack
import numpy as np
import safetensors.numpy
import safetensors.torch
import torch
from webdataset import tenbin

os.chdir(pathlib.Path(__file__).parent)
warnings.simplefilter("ignore")
constants = {}


def npy(array, version=None):
    out = io.BytesIO()
    np.lib.format.write_array(out, array, version=version)
    return out.getvalue()


# Arrays. The tests repeat their values.
f4 = np.arange(6, dtype="<f4").reshape(2, 3) * 0.5 - 1
constants["Float32"] = npy(f4)
constants["Float32Fortran"] = npy(np.asfortranarray(f4))
constants["Float32Version2"] = npy(f4, (2, 0))
constants["Float32Version3"] = npy(f4, (3, 0))
constants["Float64Big"] = npy(np.array([1.5, -2.0, 1e300], ">f8"))
constants["Int16BigFortran"] = npy(np.asfortranarray(np.array([[1, -2], [300, -400]], ">i2")))
constants["UInt16"] = npy(np.array([0, 40000, 65535], "<u2"))
constants["UInt32BigFortran"] = npy(
    np.asfortranarray(np.array([[1, 4000000000], [2, 3]], ">u4")))
constants["Bool"] = npy(np.array([True, False, True]))
constants["Int64Scalar"] = npy(np.array(-5, "<i8"))
constants["Float16Empty"] = npy(np.zeros((0, 3), "<f2"))
constants["Int8Fortran"] = npy(np.asfortranarray(np.arange(12, dtype="i1").reshape(2, 3, 2)))
constants["UInt64"] = npy(np.array([1], "<u8"))
constants["Complex"] = npy(np.array([1j], "<c8"))
constants["Unicode"] = npy(np.array(["a"]))
constants["Time"] = npy(np.array([0], "<M8[s]"))
constants["Objects"] = npy(np.array([None], object))
constants["Structured"] = npy(np.zeros(1, [("a", "<f4"), ("b", "<i2")]))

# Trees of values: the same as MessagePack, CBOR and JSON.
tree = {
    "whole": [1, -1, -32, -33, 127, 128, 200, -200, 70000, -70000, 1 << 40, -(1 << 40),
              (1 << 63) - 1, -(1 << 63)],
    "text": "Grüße \U0001f600", "none": None, "yes": True, "no": False, "half": 1.5, "third": 1 / 3,
    "empty": {"list": [], "map": {}, "text": ""},
    "list": list(range(20)), "map": {str(i): i for i in range(20)},
    "long": "x" * 40, "longer": "y" * 300, "deep": [[[["in"]]]],
}
constants["TreeMsgpack"] = msgpack.packb(tree)
constants["TreeCbor"] = cbor2.dumps(tree)
constants["TreeJson"] = json.dumps(tree).encode()
extremes = [3.4028234663852886e38, b"\x00\xff", b"z" * 300, b"w" * 70000]
constants["ExtremesMsgpack"] = gzip.compress(
    msgpack.packb(extremes, use_single_float=True), mtime=0)
constants["ExtremesCbor"] = gzip.compress(cbor2.dumps(extremes), mtime=0)
constants["TimestampMsgpack"] = msgpack.packb([msgpack.Timestamp(1, 2)])
when = datetime.datetime(2024, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc)
constants["DateCbor"] = cbor2.dumps({"when": when, "big": 1 << 70})

constants["Gzip"] = gzip.compress(b"hello energon\n" * 1000, mtime=0)

constants["Safetensors"] = safetensors.numpy.save(
    {"weight": f4, "index": np.array([[1, -2]], "<i8"), "u2": np.array([7, 65535], "<u2"),
     "u4": np.array([4000000000], "<u4"), "flag": np.array([True, False, True]),
     "empty": np.zeros((0, 4), "<f2")}, {"format": "pt", "note": "ä"})
constants["SafetensorsBfloat16"] = safetensors.torch.save(
    {"b": torch.tensor([1.0, -2.0]).bfloat16()})
constants["SafetensorsFloat8"] = safetensors.torch.save(
    {"w8": torch.ones(2).to(torch.float8_e4m3fn)})

constants["Tenbin"] = bytes(tenbin.encode_buffer(
    [f4, np.array([0, 65535], "<u2"), np.array([-3], "<i1"), np.zeros((0, 2), "<f8")],
    ["a", "bc", "", "12345678"]))


def save_npz(path, compressed):
    save = np.savez_compressed if compressed else np.savez
    save(path, **{"weight": f4, "größe": np.array([640, 480], "<i4"), "b": np.zeros(1000, "<f8")})


save_npz("data/stored.npz", False)
save_npz("data/deflated.npz", True)
np.savez("data/objects.npz", things=np.array([{}], object))


def save_torch(name, value, **options):
    out = io.BytesIO()
    torch.save(value, out, **options)
    with open("data/" + name, "wb") as file:
        file.write(out.getvalue())


base = torch.arange(12, dtype=torch.float32)
shared = base.reshape(3, 4)
values = {
    "all": shared, "transposed": shared.t(), "column": shared[:, 1], "every second": base[1::2],
    "expanded": torch.tensor([7]).expand(2, 3), "scalar": torch.tensor(2.5), "none": None,
    "empty": torch.zeros(0, 5), "again": shared, "parameter": torch.nn.Parameter(torch.ones(2)),
    3: "integer key", "size": torch.Size([1, 2]), "tuple": (1, 2, 3, 4), "one": (1,), "two": (1, 2),
    "yes": True, "no": False, "float": -0.5,
    "whole": [0, 255, 256, 65535, 65536, -1, 1 << 40, -(1 << 40), (1 << 63) - 1, -(1 << 63)],
    "text": "Grüße", "dict": {}, "list": [], "": (),
}
save_torch("values.pt", values)
save_torch("values_protocol4.pt", values, pickle_protocol=4)
save_torch("bytes_protocol4.pt", [b"\x00\xff", b"z" * 300], pickle_protocol=4)
model = torch.nn.Sequential(collections.OrderedDict(norm=torch.nn.BatchNorm1d(2)))
save_torch("state_dict.pt", model.state_dict())
numbers = [1, 0, 3]
save_torch("dtypes.pt", [torch.tensor(numbers).to(dtype) for dtype in (
    torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16,
    torch.float32, torch.float64, torch.bool)])
save_torch("complex.pt", torch.ones(1, dtype=torch.complex64))
save_torch("uint16.pt", torch.ones(1, dtype=torch.uint16))
save_torch("numpy_scalar.pt", {"x": np.float64(1)})
save_torch("old.pt", torch.ones(1), _use_new_zipfile_serialization=False)
save_torch("negated.pt", torch._neg_view(torch.ones(2)))


def to_source(name, data):
    lines = base64.b64encode(data).decode()
    lines = [lines[i:i + 92] for i in range(0, len(lines), 92)]
    return "inline constexpr std::string_view k%s =\n%s;\n" % (
        name, "\n".join('    "%s"' % line for line in lines))


with open("vectors.h", "w") as file:
    file.write('''// Encoded values in base64. Made by make_vectors.py, which names the programs.

#pragma once

#include <string_view>

namespace energon::testing::vectors {

%s
}  // namespace energon::testing::vectors
''' % "\n".join(to_source(name, data) for name, data in constants.items()))
