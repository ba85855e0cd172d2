// The functions of a Python TaskEncoder as stages of the core.

#pragma once

#include <nanobind/nanobind.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "energon/stage/dataset.h"
#include "python/src/item_maker.h"
#include "wrappers/orders/pipeline_leaf.h"
#include "wrappers/recipe/task_encoder.h"

namespace energon::python {

/// The paths of the stores of a leaf.
struct StorePaths {
  std::string primary;
  std::map<std::string, std::string> aux;  ///< by the name of the auxiliary dataset
};
/// The store paths of each leaf.
std::vector<StorePaths> store_paths_of(const std::vector<PipelineLeaf>& leaves);

/// One function, borrowed from the Python object of the pipeline, so that Python's collector sees
/// all references.
struct PythonFunction {
  nanobind::handle callable = {};
  bool is_generator = false;
  /// Whether another Python function takes the result, which then stays a Python object.
  bool hands_on = false;
  /// Whether no function of the core follows, so that arrays reach the trainer unchanged.
  bool is_last = false;
  bool takes_batches = false;
  /// Whether it may draw random numbers, which are seeded before each call.
  bool draws = true;

  explicit operator bool() const { return callable.is_valid(); }
};

struct PythonCooker {
  PythonFunction function;
  /// Whether it also takes a CookFiles.
  bool takes_files = false;
  std::string has_subflavors = "{}";
};

/// The functions that the encoder overrides. The others are empty.
struct PythonFunctions {
  std::vector<PythonCooker> cookers = {};
  PythonFunction encode_sample = {};
  PythonFunction encode_samples = {};
  PythonFunction preencode_sample = {};
  PythonFunction sample_cost = {};
  PythonFunction select_samples_to_pack = {};
  PythonFunction postencode_sample = {};
  PythonFunction pack_selected_samples = {};
  PythonFunction batch_group_criterion = {};
  PythonFunction batch = {};
  PythonFunction encode_batch = {};
};

/// A PipelineLeaf::load that calls `function` with the Python object that `items` makes of a
/// sample's parts.
LoadFunction load_function(const PythonFunction& function, std::shared_ptr<const ItemMaker> items);

/// `pipeline`, whose functions may ask for their `worker_config` and for the numbers of the call
/// and the batch (active_call() of the module). Borrows `worker_config`.
PipelineFactory with_active_calls(PipelineFactory pipeline, nanobind::handle worker_config);

/// Adds stages that call `functions` to `encoder`. `items` makes the arguments of the functions;
/// `paths` are the store paths of each leaf.
void add_functions(const PythonFunctions& functions, const std::shared_ptr<const ItemMaker>& items,
                   const std::vector<StorePaths>& paths, TaskEncoder& encoder);

}  // namespace energon::python
