"""A plugin of pytest for run_their_tests.sh: stubs of packages that are not installed, placeholders of names that energon_cpp does not have, and
the report."""

import abc
import collections
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
import types
import typing
import unittest.mock

from energon_cpp._energon_names import NAMES

# Packages that are replaced, with all their modules, where they cannot be imported.
STUBBED = {"diffusers", "flash_attn", "mamba_ssm", "modelopt", "nvidia_resiliency_ext", "transformer_engine", "megatron.core",
           "megatron.training", "megatron.legacy", "torchvision", "triton"}
# Packages of Megatron-Bridge whose __init__ imports all models: only their modules are used.
EMPTY = {"megatron.bridge", "megatron.bridge.models", "megatron.bridge.models.qwen_vl", "megatron.bridge.diffusion"}

passed, failed = collections.Counter(), collections.defaultdict(dict)


# --- Stubs ---

class StubType(abc.ABCMeta):
    """Every attribute of a class is another class."""

    def __getattr__(cls, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return StubType(name, (unittest.mock.MagicMock,), {"__module__": cls.__module__})


class Stub(types.ModuleType):
    """Every name is a class, which can be derived from and called."""

    __path__ = []
    __version__ = "0.0.0"

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        made = StubType(name, (unittest.mock.MagicMock,), {"__module__": self.__name__})
        setattr(self, name, made)
        return made


def importing_file():
    frame = sys._getframe(2)
    while frame.f_globals["__name__"].partition(".")[0] == "importlib":
        frame = frame.f_back
    return frame.f_globals.get("__file__") or ""


class Package(Stub):
    def __getattr__(self, name):
        try:
            return importlib.import_module(f"{self.__name__}.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"{self.__name__}.{name}":
                raise
        return super().__getattr__(name)


class StubFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Comes after all other finders. Other packages than the one that is tested do without those that are not installed, but megatron.core
    needs triton."""

    def find_spec(self, fullname, path, target=None):
        is_stubbed = any(fullname == name or fullname.startswith(f"{name}.") for name in STUBBED)
        if not fullname.startswith("triton"):
            is_stubbed = is_stubbed and importing_file().startswith(os.getcwd())
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True) if is_stubbed else None

    def create_module(self, spec):
        return Stub(spec.name)

    def exec_module(self, module):
        pass


class EmptyFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Comes before all other finders: packages with stubs of what their __init__ defines."""

    def find_spec(self, fullname, path, target=None):
        if fullname not in EMPTY:
            return None
        found = importlib.machinery.PathFinder.find_spec(fullname, path)
        if found is None:
            return None
        spec = importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        spec.submodule_search_locations = found.submodule_search_locations
        return spec

    def create_module(self, spec):
        return Package(spec.name)

    def exec_module(self, module):
        module.__path__ = module.__spec__.submodule_search_locations


# --- Placeholders ---

class Absent(type):
    """The class of placeholders, which can be imported and derived from, and fail when they are used."""

    def __call__(cls, *args, **kwargs):
        raise NotImplementedError(f"energon_cpp has no '{cls.__name__}'")

    def __getitem__(cls, parameters):
        return cls

    def __getattr__(cls, name):
        raise AttributeError(f"energon_cpp has no '{cls.__name__}', which should have '{name}'")


def placeholder_of(module, name):
    if name.startswith("_"):
        raise AttributeError(name)
    made = Absent(name, (), {})
    setattr(module, name, made)
    return made


def add_placeholders(module):
    own = vars(module).get("__getattr__")

    def find(name):
        try:
            return own(name) if own is not None else placeholder_of(module, name)
        except AttributeError:
            return placeholder_of(module, name)

    module.__getattr__ = find


class AbsentFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Modules of Energon that do not exist. Comes before the finder of energon_cpp, which would refuse them."""

    def find_spec(self, fullname, path, target=None):
        package, _, name = fullname.partition("megatron.energon.")
        is_absent = not package and name and name not in NAMES
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True) if is_absent else None

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        add_placeholders(module)


def declare_operators_of_torchvision():
    """A torchvision whose native library does not fit torch, such as one for CUDA, lacks operators that its import needs. Its transforms are
    Python."""
    if importlib.util.find_spec("torchvision") is None:
        return
    torch = importlib.import_module("torch")
    for name in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, name):
            torch.library.define(f"torchvision::{name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


declare_operators_of_torchvision()
for module_name in ["energon_cpp", *(f"energon_cpp.{name}" for name in NAMES)]:
    add_placeholders(importlib.import_module(module_name))
sys.meta_path[:0] = [EmptyFinder(), AbsentFinder()]
if "MEGATRON_LM" in os.environ:
    importlib.import_module("torch._inductor.runtime.triton_compat")  # which must not find the stub of triton
sys.meta_path.append(StubFinder())
if not hasattr(typing, "override"):
    typing.override = lambda function: function
if os.path.isdir("src/megatron/bridge"):
    importlib.import_module("megatron.bridge.models.conversion")  # first, as the __init__ of megatron.bridge does


# --- The report ---

def reason_of(report):
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash is not None else str(report.longrepr)
    lines = [line.removeprefix("E").strip() for line in text.splitlines() if line.strip()]
    shown = [line for line in lines if "Error" in line] if crash is None else lines
    return (shown or lines or ["no reason"])[-1 if crash is None else 0][:240]


def note(report):
    file, _, test = report.nodeid.partition("::")
    if report.failed:
        passed[file] -= getattr(report, "when", "") == "teardown" and test not in failed[file]
        failed[file].setdefault(test or "(import)", reason_of(report))
    elif report.when == "call" and report.passed:
        passed[file] += 1


def pytest_runtest_logreport(report):
    note(report)


def pytest_collectreport(report):
    if report.failed:
        note(report)


def pytest_terminal_summary(terminalreporter):
    write = terminalreporter.write_line
    write("")
    for file in sorted({*passed, *failed}):
        write(f"{file}: {passed[file]} of {passed[file] + len(failed[file])}")
        for test, reason in failed[file].items():
            write(f"  {test}: {reason}")
    count = sum(passed.values())
    write(f"{os.path.basename(os.getcwd())}: {count} of {count + sum(map(len, failed.values()))} tests passed")
