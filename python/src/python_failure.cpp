#include "python/src/python_failure.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <memory>
#include <string>

#include "energon/sample/sample.h"
#include "energon/stage/failure.h"
#include "io/error.h"
#include "python/src/item_maker.h"
#include "python/src/python_names.h"
#include "python/src/value_to_python.h"

namespace nb = nanobind;

namespace energon::python {

// --- Exceptions ---

namespace {

void raise_error(const Error& error) {
  static constinit PackageAttribute make("_errors", "make_error");
  const ErrorContext& context = error.context();
  try {
    const nb::object exception =
        make(std::string(to_string(error.code())), std::string(error.what()), error.message(),
             context.path, context.byte_offset, context.sample_key, context.worker,
             nb::bytes(error.detail().data(), error.detail().size()));
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
  } catch (nb::python_error& failed) {
    failed.restore();
  }
}

void translate(const std::exception_ptr& thrown, void* /*payload*/) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    raise_error(error);
  } catch (const SkipSample&) {
    PyErr_SetNone(PackageAttribute("_errors", "SkipSample").get().ptr());
  }
}

// The exception that interrupted a function of this thread. Not released, because a thread may end
// without the GIL.
thread_local PyObject* interrupt = nullptr;

bool interrupts(nb::handle raised) {
  static constinit PackageAttribute check("_errors", "interrupts");
  try {
    return nb::cast<bool>(check(raised));
  } catch (nb::python_error&) {
    return true;
  }
}

ErrorCode code_called(std::string_view name) {
  for (int number = 1; number <= static_cast<int>(ErrorCode::kUserFunction); ++number) {
    if (to_string(static_cast<ErrorCode>(number)) == name) {
      return static_cast<ErrorCode>(number);
    }
  }
  return ErrorCode::kUserFunction;
}

}  // namespace

void throw_failure(nb::python_error& raised) {
  static constinit PackageAttribute skip("_errors", "SkipSample");
  static constinit PackageAttribute describe("_errors", "describe_failure");
  if (raised.matches(skip.get())) {
    throw SkipSample();
  }
  if (!raised.matches(PyExc_Exception) && interrupts(raised.value())) {
    Py_XDECREF(interrupt);
    interrupt = Py_NewRef(raised.value().ptr());
  }
  std::string code;
  std::string text;
  std::string detail;
  try {
    const nb::object described = describe(raised.value());
    code = nb::cast<std::string>(described[0]);
    text = nb::cast<std::string>(described[1]);
    const nb::bytes packed(described[2]);
    detail.assign(packed.c_str(), packed.size());
  } catch (const std::exception&) {
    throw Error(ErrorCode::kUserFunction,
                "a Python function failed, and its exception cannot be described");
  }
  if (code == "fatal") {
    throw FatalSampleError(std::move(text), std::move(detail));
  }
  throw Error(code_called(code), std::move(text)).with_detail(std::move(detail));
}

bool raise_interrupt() {
  PyObject* raised = std::exchange(interrupt, nullptr);
  if (raised == nullptr) {
    return false;
  }
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(raised)), raised);
  Py_DECREF(raised);
  return true;
}

void forget_interrupt() { Py_CLEAR(interrupt); }

void register_errors() { nb::register_exception_translator(translate); }

// --- The handler of failures ---

namespace {

SampleSource source_of(const FailedSample& sample) {
  return {.shard = std::make_shared<const SourceShard>(
              SourceShard{.dataset_path = sample.dataset_path, .shard_name = sample.shard_name}),
          .index_in_shard = sample.index_in_shard.value_or(0),
          .bytes = sample.bytes};
}

void call(nb::handle function, const FailureReport& report) {
  call_python([&] {
    nb::list keys;
    nb::list sources;
    for (const FailedSample& sample : report.samples) {
      keys.append(text_to_python(sample.key));
      sources.append(source_to_python(source_of(sample)));
    }
    const std::string path = report.samples.empty() ? ""
                                                    : report.samples.front().dataset_path + "/" +
                                                          report.samples.front().shard_name;
    function(std::string(to_string(report.code)), text_to_python(report.cause),
             text_to_python(path), keys, sources);
  });
}

}  // namespace

FailureHandler failure_handler(nb::handle function) {
  return [function](const FailureReport& report) {
    if (!report.detail.empty()) {
      return FailureAction::kSkip;  // from a Python function, which has called the handler
    }
    try {
      call(function, report);
    } catch (const FatalSampleError& fatal) {
      throw Error(ErrorCode::kUserFunction, fatal.what()).with_detail(fatal.detail());
    } catch (const SkipSample&) {  // which happens anyway
    }
    return FailureAction::kSkip;
  };
}

}  // namespace energon::python
