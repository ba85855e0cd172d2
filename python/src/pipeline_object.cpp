#include "python/src/pipeline_object.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/error.h"
#include "io/recipe/typed_samples.h"
#include "python/src/decoders.h"
#include "python/src/interpreter.h"
#include "python/src/loader_object.h"
#include "python/src/module.h"
#include "python/src/native_functions.h"
#include "python/src/option_reader.h"
#include "python/src/python_failure.h"
#include "python/src/python_functions.h"
#include "python/src/value_to_python.h"
#include "wrappers/recipe/epoch_length.h"
#include "wrappers/recipe/open_data.h"
#include "wrappers/recipe/options.h"
#include "wrappers/recipe/order_pipeline.h"
#include "wrappers/recipe/pipeline.h"

namespace nb = nanobind;

namespace energon::python {
namespace {

// {"call": function, "is_generator": bool, "hands_on": bool, "is_last": bool,
// "takes_batches": bool, "draws": bool}
PythonFunction read_function(nb::handle spec) {
  return {.callable = nb::object(spec["call"]),  // the dict holds it
          .is_generator = nb::cast<bool>(spec["is_generator"]),
          .hands_on = nb::cast<bool>(spec["hands_on"]),
          .is_last = nb::cast<bool>(spec["is_last"]),
          .takes_batches = nb::cast<bool>(spec["takes_batches"]),
          .draws = nb::cast<bool>(spec["draws"])};
}

PythonFunctions read_functions(const nb::dict& specs) {
  PythonFunctions functions;
  const std::pair<const char*, PythonFunction*> named[] = {
      {"encode_sample", &functions.encode_sample},
      {"encode_samples", &functions.encode_samples},
      {"preencode_sample", &functions.preencode_sample},
      {"sample_cost", &functions.sample_cost},
      {"select_samples_to_pack", &functions.select_samples_to_pack},
      {"postencode_sample", &functions.postencode_sample},
      {"pack_selected_samples", &functions.pack_selected_samples},
      {"batch_group_criterion", &functions.batch_group_criterion},
      {"batch", &functions.batch},
      {"encode_batch", &functions.encode_batch}};
  for (const auto& [name, function] : named) {
    if (specs.contains(name)) {
      *function = read_function(specs[name]);
    }
  }
  if (specs.contains("cookers")) {
    for (const nb::handle spec : nb::object(specs["cookers"])) {
      functions.cookers.push_back(
          {.function = read_function(spec),
           .takes_files = nb::cast<bool>(spec["takes_files"]),
           .has_subflavors = nb::cast<std::string>(spec["has_subflavors"])});
    }
  }
  return functions;
}

std::vector<std::string> types_of(const PipelineData& data) {
  std::vector<std::string> types;
  for (const PipelineLeaf& leaf : data.leaves) {
    const std::string_view joined = leaf.is_crude() ? "" : "Sample";
    const bool is_typed = leaf.typed && leaf.typed->type != SampleType::kCrude;
    types.emplace_back(is_typed ? class_name(leaf.typed->type) : joined);
  }
  return types;
}

// Reads the failure tolerances of the functions. The tolerance of a cooker applies to all cookers.
void read_tolerances(const nb::dict& specs, ErrorPolicies& errors) {
  const auto add = [&errors](std::string stage, nb::handle spec) {
    if (!nb::object(spec["failure_tolerance"]).is_none()) {
      ErrorPolicy policy = errors.standard;
      policy.tolerance = nb::cast<std::int64_t>(spec["failure_tolerance"]);
      errors.stages.emplace_back(std::move(stage), std::move(policy));
    }
  };
  for (const auto& [name, spec] : specs) {
    const auto stage = nb::cast<std::string>(name);
    if (stage != "cookers") {
      add(stage, spec);
      continue;
    }
    for (const nb::handle cooker : nb::object(nb::borrow(spec))) {
      add(std::string(stage_names::kCook), cooker);
    }
  }
}

// The options of the data and of a pipeline for `use`.
AllOptions take_all(OptionReader& reader, OptionUse use) {
  AllOptions options;
  for (const OptionRow& row : option_rows()) {
    if (fits(row, use) && !is_of_loader(row)) {
      reader.take(row, options);
    }
  }
  std::string subflavors = "{}";
  reader.take("subflavors", subflavors);
  options.data.subflavors = nlohmann::ordered_json::parse(subflavors);
  TaskEncoder& encoder = options.train.task_encoder;
  encoder.decoder = take_decoder(reader);
  bool lists_numbers = false;
  reader.take("lists_numbers", lists_numbers);
  if (lists_numbers) {
    encoder.batch = energon_batch;
  }
  take_native_functions(reader, encoder);
  return options;
}

// The common part of all pipelines of one call of open_pipeline().
struct Opening {
  PythonFunctions functions;
  const nb::dict& specs;
  TensorKind tensors = TensorKind::kEnergon;
  AvKind av = AvKind::kBytes;
  std::optional<int> audio_sample_rate = std::nullopt;  // of AvKind::kDecoders
  nb::object failure_handler = {};                      // null without a handler
  nb::object foreign = {};                              // null if no classes of Python are allowed
  nb::object worker_config = {};
};

// --- Samples that classes of Python make ---

// What the function "foreign" gave for datasets, by their position.
using Loaders = std::map<std::size_t, PythonFunction>;

nb::object json_to_python(const nlohmann::ordered_json& value) {
  return nb::module_::import_("json").attr("loads")(
      text_to_python(value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace)));
}

nb::object text_or_none(const std::optional<std::string>& text) {
  return text ? text_to_python(*text) : nb::object(nb::none());
}

nb::dict column_to_python(const ForeignDataset::Column& column) {
  nb::dict result;
  result["name"] = text_to_python(column.name);
  result["path"] = text_to_python(column.path);
  result["split_part"] = text_to_python(column.split_part);
  result["split_config"] = text_or_none(column.split_config);
  result["subflavors"] = json_to_python(column.subflavors);
  result["yaml_path"] = text_to_python(column.yaml_path);
  result["yaml"] = json_to_python(column.yaml);
  result["is_foreign"] = column.is_foreign;
  return result;
}

nb::dict foreign_to_python(const ForeignDataset& dataset) {
  nb::list columns;
  for (const ForeignDataset::Column& column : dataset.columns) {
    columns.append(column_to_python(column));
  }
  nb::dict result;
  result["leaf"] = dataset.leaf;
  result["path"] = text_to_python(dataset.path);
  result["columns"] = columns;
  result["joiner"] = nb::none();
  if (dataset.joiner) {
    const bool is_class = dataset.joiner->kind == Joiner::Kind::kClass;
    result["joiner"] =
        nb::make_tuple(is_class ? "class" : "function", text_to_python(dataset.joiner->module),
                       text_to_python(dataset.joiner->name));
  }
  return result;
}

// Calls `function`: a dict for open_data(), or None. Its exceptions leave as they are.
auto foreign_function(nb::handle function, Loaders& loaders) {
  return [function, &loaders](const ForeignDataset& dataset) -> std::optional<ForeignSamples> {
    const HoldGil gil;
    const nb::object made = function(foreign_to_python(dataset));
    if (made.is_none()) {
      return std::nullopt;
    }
    loaders.emplace(dataset.leaf, read_function(made["loader"]));
    return ForeignSamples{
        .load = [](Sample sample, CallContext&) { return sample; },  // set by set_loaders()
        .is_crude = nb::cast<bool>(made["is_crude"]),
        .parts = nb::cast<std::vector<std::optional<std::vector<std::string>>>>(made["parts"]),
        .identity = nb::cast<std::string>(made["identity"])};
  };
}

void set_loaders(const Loaders& loaders, TensorKind tensors, PipelineData& data) {
  const auto raw =
      std::make_shared<const ItemMaker>(tensors, AvKind::kBytes, std::vector<std::string>());
  for (const auto& [leaf, function] : loaders) {
    data.leaves.at(leaf).load = load_function(function, raw);
  }
}

template <class Options>
PipelineOfConfig order_of(std::shared_ptr<const PipelineData> data, Options options) {
  options.task_encoder = {};  // not needed here
  return [data = std::move(data), options = std::move(options)](const Config& config) {
    return order_pipeline(*data, options, config);
  };
}

// Removes the decoder if parts stay bytes and no dataset has typed samples.
void leave_crude(PipelineData& data, TaskEncoder& encoder) {
  const bool is_crude =
      std::ranges::all_of(data.leaves, [](const PipelineLeaf& leaf) { return leaf.is_crude(); });
  if (is_crude && encoder.decoder && encoder.decoder->leaves_bytes) {
    encoder.decoder.reset();
    for (PipelineLeaf& leaf : data.leaves) {
      leaf.typed.reset();
    }
  }
}

template <class Options, class MakePipeline>
PipelineObject make(PipelineData data, Options options, const Opening& opening,
                    MakePipeline make_pipeline) {
  PipelineObject pipeline;
  pipeline.sample_types = types_of(data);
  leave_crude(data, options.task_encoder);
  pipeline.items = std::make_shared<const ItemMaker>(opening.tensors, opening.av, types_of(data),
                                                     opening.audio_sample_rate);
  if (opening.failure_handler) {
    options.errors.standard.handler = failure_handler(opening.failure_handler);
  }
  read_tolerances(opening.specs, options.errors);
  add_functions(opening.functions, pipeline.items, store_paths_of(data.leaves),
                options.task_encoder);
  pipeline.warnings = data.warnings;
  for (const PipelineLeaf& leaf : data.leaves) {
    pipeline.lengths.push_back(leaf.length);
  }
  pipeline.delivers_batches = options.batch_size || options.task_encoder.batch_group_criterion;
  pipeline.calls_python =
      !opening.specs.empty() || std::ranges::any_of(data.leaves, [](const PipelineLeaf& leaf) {
        return leaf.load != nullptr;
      });
  pipeline.data = std::make_shared<const PipelineData>(std::move(data));
  pipeline.order_of = order_of(pipeline.data, options);
  pipeline.make_pipeline = make_pipeline(*pipeline.data, std::move(options));
  if (pipeline.calls_python) {
    pipeline.make_pipeline =
        with_active_calls(std::move(pipeline.make_pipeline), opening.worker_config);
  }
  return pipeline;
}

Opening take_opening(OptionReader& options, const nb::dict& specs) {
  std::string tensors = "energon";
  bool av_decoders = false;
  nb::object handler;
  nb::object foreign;
  nb::object worker_config = nb::none();
  options.take("tensors", tensors);
  std::optional<int> audio_sample_rate;
  options.take("av_decoders", av_decoders);
  options.take("av_decoders_sample_rate", audio_sample_rate);
  // The dict that the caller keeps holds these.
  options.take("failure_handler", handler);
  options.take("foreign", foreign);
  options.take("worker_config", worker_config);
  return {.functions = read_functions(specs),
          .specs = specs,
          .tensors = tensor_kind_called(tensors),
          .av = av_decoders ? AvKind::kDecoders : AvKind::kBytes,
          .audio_sample_rate = audio_sample_rate,
          .failure_handler = handler,
          .foreign = foreign,
          .worker_config = worker_config};
}

PipelineData open_without_gil(const std::string& path, DataOptions options,
                              const Opening& opening) {
  Loaders loaders;
  if (opening.foreign) {
    options.foreign = foreign_function(opening.foreign, loaders);
  }
  PipelineData data = [&] {
    const ReleaseGil released;
    return open_data(path, options);
  }();
  set_loaders(loaders, opening.tensors, data);
  return data;
}

PipelineObject open_pipeline(const std::string& path, bool training, const nb::dict& values,
                             const nb::dict& specs) {
  OptionReader options(values);
  const Opening opening = take_opening(options, specs);
  const AllOptions all = take_all(options, training ? OptionUse::kTrain : OptionUse::kVal);
  options.finish();
  PipelineData data = open_without_gil(path, all.data, opening);
  return training ? make(std::move(data), all.train, opening, train_pipeline)
                  : make(std::move(data), val_options_of(all), opening, val_pipeline);
}

// Opens one pipeline for each leaf, for validation.
std::vector<PipelineObject> open_leaf_pipelines(const std::string& path, const nb::dict& values,
                                                const nb::dict& specs) {
  OptionReader options(values);
  const Opening opening = take_opening(options, specs);
  const AllOptions all = take_all(options, OptionUse::kVal);
  options.finish();
  const ValOptions val = val_options_of(all);
  PipelineData data = open_without_gil(path, all.data, opening);
  std::vector<PipelineObject> pipelines;
  for (PipelineLeaf& leaf : data.leaves) {
    PipelineData alone;
    alone.leaves.push_back(std::move(leaf));
    alone.warnings = std::exchange(data.warnings, {});
    alone.broken = data.broken;
    pipelines.push_back(make(std::move(alone), val, opening, val_pipeline));
  }
  return pipelines;
}

// The same data and functions with stages around them.
PipelineObject wrapped(const PipelineObject& pipeline,
                       const std::function<PipelineFactory(PipelineFactory)>& wrap) {
  PipelineObject result = pipeline;
  result.warnings.clear();  // the caller has them
  result.make_pipeline = wrap(pipeline.make_pipeline);
  result.order_of = [order_of = pipeline.order_of, wrap](const Config& config) {
    return wrap(order_of(config));
  };
  return result;
}

PipelineObject limited(const PipelineObject& pipeline, std::int64_t length) {
  return wrapped(pipeline, [length](PipelineFactory inner) {
    return limited_pipeline(std::move(inner), length);
  });
}

PipelineObject repeated(const PipelineObject& pipeline, std::optional<double> repetitions,
                        bool restarts) {
  return wrapped(pipeline, [repetitions, restarts](PipelineFactory inner) {
    return repeated_pipeline(std::move(inner), repetitions, restarts);
  });
}

nb::tuple length_of(const PipelineObject& pipeline, const nb::dict& options) {
  const WorkerConfig config = read_loader_options(options).worker_config;
  const EpochLength length = [&] {
    const ReleaseGil released;
    return epoch_length(pipeline.make_pipeline, config);
  }();
  return nb::make_tuple(length.exact, length.nominal);
}

}  // namespace

nb::object delivered(const PipelineObject& pipeline, Sample& item) {
  return pipeline.items->delivered(item, pipeline.delivers_batches);
}

nb::object finished(nb::object item, nb::handle finish) {
  return finish.is_none() ? std::move(item) : nb::object(finish(item));
}

void bind_pipeline(nb::module_& module) {
  nb::class_<PipelineObject>(module, "Pipeline",
                             "The pipelines of a loader. Returned by open_pipeline().")
      .def_ro("warnings", &PipelineObject::warnings)
      .def_ro("calls_python", &PipelineObject::calls_python,
              "Whether a stage calls functions of Python.")
      .def_ro("lengths", &PipelineObject::lengths, "The length of each dataset in samples.")
      .def_ro("sample_types", &PipelineObject::sample_types,
              "The type of each dataset, or an empty string for crude samples.");
  module.def("open_pipeline", open_pipeline, nb::arg("path"), nb::arg("training"),
             nb::arg("options"), nb::arg("functions"),
             "Opens the data at `path`. The caller keeps `functions` and `options` alive.");
  module.def("open_leaf_pipelines", open_leaf_pipelines, nb::arg("path"), nb::arg("options"),
             nb::arg("functions"),
             "Like open_pipeline() for validation, with one pipeline for each dataset.");
  module.def("limited", limited, nb::arg("pipeline"), nb::arg("length"),
             "The pipeline with epochs of at most `length` batches of the rank.");
  module.def("repeated", repeated, nb::arg("pipeline"), nb::arg("repetitions").none(),
             nb::arg("restarts"),
             "The pipeline repeated within one epoch. None means without end.");
  module.def("epoch_length", length_of, nb::arg("pipeline"), nb::arg("options"),
             nb::sig("def epoch_length(pipeline: Pipeline, options: dict) -> "
                     "tuple[int | None, int]"),
             "Batches of the rank in an epoch, if known, and as Energon estimates it.");
}

}  // namespace energon::python
