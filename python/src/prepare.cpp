// Prepares datasets in this process: shards, JSONL files, metadatasets, media metadata.

#include "io/prepare/prepare.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "io/dataset/brace_pattern.h"
#include "io/error.h"
#include "io/prepare/prepare_join.h"
#include "media/metadata/add_media_metadata.h"
#include "python/src/interpreter.h"
#include "python/src/module.h"

namespace nb = nanobind;

namespace energon::python {
namespace {

using Names = std::vector<std::string>;

// After each shard, looks for signals and calls a Python function.
class PythonProgress final : public ProgressSink {
 public:
  explicit PythonProgress(nb::callable function) : function_(std::move(function)) {}

  void on_progress(const PrepareProgress& progress) override {
    check_signals_();
    const HoldGil gil;
    function_(progress.shards_done);
  }

 private:
  const nb::callable function_;
  const std::function<void()> check_signals_ = signal_check();
};

nb::tuple prepare_shards(const std::string& path, const Names& shards,
                         const std::vector<std::pair<std::string, Names>>& split_parts,
                         const std::string& split_config, int threads,
                         const nb::callable& progress) {
  SplitConfig split;
  for (const auto& [name, names] : split_parts) {
    split.parts.push_back({.name = name, .patterns = names});
  }
  PythonProgress sink(progress);
  PrepareReport report;
  {
    const ReleaseGil released;
    report = prepare(path,
                     {.shards = shards,
                      .split = std::move(split),
                      .split_config_name = split_config,
                      .existing = Existing::kOverwrite,
                      .dataset_yaml_name = std::nullopt,
                      .threads = threads},
                     sink);
  }
  return nb::make_tuple(report.part_names, report.warnings);
}

Names expand(const std::string& pattern, bool keep_escapes) {
  return expand_braces(pattern, {.escapes = keep_escapes ? Escapes::kKeep : Escapes::kRemove});
}

nb::tuple prepare_jsonl_file(const std::string& path) {
  JsonlReport report;
  {
    const ReleaseGil released;
    report = prepare_jsonl(path);
  }
  return nb::make_tuple(report.samples, report.warnings);
}

void prepare_metadataset_file(const std::string& path) {
  const ReleaseGil released;
  prepare_metadataset(path);
}

MediaStrategy strategy_called(const std::string& name) {
  for (const MediaStrategy strategy :
       {MediaStrategy::kExtension, MediaStrategy::kHeader, MediaStrategy::kGlob}) {
    if (name == to_string(strategy)) {
      return strategy;
    }
  }
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("a media filter is 'EXTENSION', 'HEADER' or 'GLOB', not '{}'", name));
}

std::int64_t add_media(const std::string& path, const std::string& strategy, const Names& patterns,
                       int threads) {
  const MediaFilter filter{.strategy = strategy_called(strategy), .patterns = patterns};
  const ReleaseGil released;
  const MediaMetadataReport report = add_media_metadata(path, filter, {.threads = threads});
  return report.images + report.av;
}

}  // namespace

void bind_prepare(nb::module_& module) {
  module.def("expand_braces", expand, nb::arg("pattern"), nb::arg("keep_escapes"));
  module.def(
      "prepare_shards", prepare_shards, nb::arg("path"), nb::arg("shards"), nb::arg("split_parts"),
      nb::arg("split_config"), nb::arg("threads"), nb::arg("progress"),
      nb::sig("def prepare_shards(path: str, shards: list[str], split_parts: list[tuple[str, "
              "list[str]]], split_config: str, threads: int, progress: "
              "typing.Callable[[int], typing.Any]) -> tuple[list[str], list[str]]"),
      "Returns the names of the parts, and warnings.");
  module.def("prepare_jsonl", prepare_jsonl_file, nb::arg("path"),
             nb::sig("def prepare_jsonl(path: str) -> tuple[int, list[str]]"),
             "Returns the number of samples, and warnings.");
  module.def("prepare_metadataset", prepare_metadataset_file, nb::arg("path"));
  module.def("add_media_metadata", add_media, nb::arg("path"), nb::arg("strategy"),
             nb::arg("patterns"), nb::arg("threads"), "Returns the number of media.");
}

}  // namespace energon::python
