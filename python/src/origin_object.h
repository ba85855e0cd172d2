// Where a sample or batch came from, as Python sees it: keys, restore key, subflavors, sources.
//
// A batch has these once for each of its samples, and most training loops look at none of them. So
// they stay in the core until somebody asks.

#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <vector>

#include "energon/sample/sample.h"

namespace energon::python {

/// The Python class Origin: private, an attribute of each Sample and Batch.
struct OriginObject {
  Keys keys;
  RestoreKey restore_key;
  std::vector<SampleSource> sources;
  std::optional<BatchPlace> place;
  bool is_batch = false;
};

/// The Python class Sources: a sequence of SourceInfo.
struct SourcesObject {
  std::vector<SampleSource> sources;
};

nanobind::list keys_to_python(const Keys& keys);

/// The subflavors of the dataset that the sample is of.
nanobind::object subflavors_to_python(const SampleSource& source);

/// For each sample in the item, the subflavors of its dataset: a dict of its own.
nanobind::list subflavors_to_python(const Sample& item);

void bind_origin(nanobind::module_& module);

}  // namespace energon::python
