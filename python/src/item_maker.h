// Converts samples and batches of the core for Python functions and training loops.

#pragma once

#include <Python.h>
#include <nanobind/nanobind.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "energon/sample/sample.h"
#include "python/src/value_to_python.h"

namespace energon::python {

/// The Python type of sound and video.
enum class AvKind : std::uint8_t {
  kBytes,
  kDecoders,  ///< objects of the class AVDecoder
};

/// Immutable. All functions require the GIL.
class ItemMaker {
 public:
  /// `leaf_types` contains the name of the sample type of each leaf, such as "CaptioningSample".
  /// The name is empty for crude samples.
  /// Objects of the class AVDecoder get `audio_sample_rate`.
  ItemMaker(TensorKind tensors, AvKind av, std::vector<std::string> leaf_types,
            std::optional<int> audio_sample_rate = std::nullopt)
      : tensors_(tensors),
        av_(av),
        leaf_types_(std::move(leaf_types)),
        audio_sample_rate_(audio_sample_rate) {}

  /// The object that a function returned for this sample, else an object of its sample type, or a
  /// CrudeSample, which is a dict.
  nanobind::object sample(const Sample& sample) const;

  /// The object that a function returned for this batch, else a Batch.
  nanobind::object batch(const Sample& batch) const;

  /// The same for a delivered sample or batch: moves keys, restore key and sources out of `item` in
  /// the last step, which does not call Python.
  nanobind::object delivered(Sample& item, bool is_batch) const;

 private:
  struct Result {
    nanobind::object object = {};  ///< may be null
    bool wants_origin = false;     ///< if `object` is a Sample or Batch
  };

  Result returned(const Sample& item, bool is_batch) const;
  Result sample_result(const Sample& sample) const;
  Result batch_result(const Sample& batch) const;
  const std::string& type_of(const Sample& sample) const;
  // The value of a field of samples of this type.
  nanobind::object field(std::string_view name, const Value& value, bool is_typed) const;
  nanobind::object crude(const Sample& sample) const;
  nanobind::object with_fields(nanobind::handle type, const Mapping& fields, bool is_typed) const;

  const TensorKind tensors_;
  const AvKind av_;
  const std::vector<std::string> leaf_types_;
  const std::optional<int> audio_sample_rate_;
};

/// The SourceInfo of `source`. Requires: the GIL.
nanobind::object source_to_python(const SampleSource& source);

// --- An object between two functions ---
//
// A sample that goes from one Python function to the next in the same process stays the object that
// the first function returned: it is neither converted nor copied, and keeps its type. The core
// sees lazy bytes, which it refuses to send to another process.

/// The fields of a sample that holds `object`. Requires: the GIL. The fields may be dropped on any
/// thread.
Mapping fields_of_object(PyObject* object);

/// The object that `sample` holds, borrowed from its fields; null for a sample with other fields.
PyObject* object_in(const Sample& sample);

}  // namespace energon::python
