// The Python class Pipeline: the pipelines of a loader, made from a path, options and functions.

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

/// Borrows the functions from the Python object that made it.
struct PipelineObject {
  PipelineFactory make_pipeline;
  /// The order of the data for a state with this configuration, without the functions.
  PipelineOfConfig order_of;
  std::shared_ptr<const PipelineData> data;
  std::shared_ptr<const ItemMaker> items;
  bool delivers_batches = false;
  bool calls_python = false;
  std::vector<std::string> warnings;
  std::vector<std::int64_t> lengths;
  std::vector<std::string> sample_types;  ///< by leaf; crude samples have an empty one
};

/// Converts `item`, which a loader of `pipeline` delivers, before `finish`. Moves keys, restore key
/// and sources out of `item`, except if it throws KeyboardInterrupt: then it may be called again.
nanobind::object delivered(const PipelineObject& pipeline, Sample& item);
/// Applies `finish` to a delivered batch or sample. Returns `item` if `finish` is None.
nanobind::object finished(nanobind::object item, nanobind::handle finish);

}  // namespace energon::python
