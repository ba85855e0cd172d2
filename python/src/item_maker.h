// Samples and batches of the core, made into what Python functions and training loops get.

#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <vector>

#include "energon/sample/sample.h"
#include "python/src/value_to_python.h"

namespace energon::python {

/// Immutable. All functions require the GIL.
class ItemMaker {
 public:
  /// `leaf_types` has the name of the sample type of each leaf ("CaptioningSample"); empty for
  /// crude samples.
  ItemMaker(TensorKind tensors, std::vector<std::string> leaf_types)
      : tensors_(tensors), leaf_types_(std::move(leaf_types)) {}

  /// The object that a function returned for this sample. Else an object of its sample type, or a
  /// CrudeSample, which is a dict.
  nanobind::object sample(const Sample& sample) const;

  /// The object that a function returned for this batch, else a Batch.
  nanobind::object batch(const Sample& batch) const;

 private:
  nanobind::object returned(const Sample& item, bool is_batch) const;
  const std::string& type_of(const Sample& sample) const;
  nanobind::object crude(const Sample& sample) const;
  nanobind::object with_fields(nanobind::handle type, const Mapping& fields) const;

  const TensorKind tensors_;
  const std::vector<std::string> leaf_types_;
};

}  // namespace energon::python
