#include "python/src/failure_handler.h"

#include <nanobind/stl/string.h>

#include <memory>
#include <string>

#include "energon/sample/sample.h"
#include "io/error.h"
#include "python/src/python_failure.h"
#include "python/src/value_to_python.h"

namespace nb = nanobind;

namespace energon::python {
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
      sources.append(source_of(sample));
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
      return FailureAction::kSkip;  // of a Python function, which has told the handler
    }
    try {
      call(function, report);
    } catch (const FatalSampleError& fatal) {
      throw Error(ErrorCode::kUserFunction, fatal.what()).with_detail(fatal.detail());
    } catch (const SkipSample&) {  // it wanted nothing else
    }
    return FailureAction::kSkip;
  };
}

}  // namespace energon::python
