// The Python class Pipeline: what a loader runs, made of a path, options and functions.

#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "energon/stage/dataset.h"
#include "python/src/item_maker.h"
#include "wrappers/orders/pipeline_leaf.h"
#include "wrappers/recipe/delivered_samples.h"

namespace energon::python {

/// Borrows the functions; the Python object that made it holds them.
struct PipelineObject {
  PipelineFactory make_pipeline;
  /// The order of the data as a state with this configuration has it, without the functions.
  PipelineOfConfig order_of;
  std::shared_ptr<const PipelineData> data;
  std::shared_ptr<const ItemMaker> items;
  bool delivers_batches = false;
  bool calls_python = false;
  std::vector<std::string> warnings;
  std::vector<std::int64_t> lengths;
  std::vector<std::string> sample_types;  ///< by leaf; crude samples have an empty one
};

/// What a loader of `pipeline` delivers, before `finish`. Takes keys, restore key and sources out
/// of `item`, but not if it throws KeyboardInterrupt: then it may be called again.
nanobind::object delivered(const PipelineObject& pipeline, Sample& item);
/// `finish` of a delivered batch or sample, or itself if `finish` is None.
nanobind::object finished(nanobind::object item, nanobind::handle finish);

}  // namespace energon::python
