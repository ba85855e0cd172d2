// The native halves of the decoders: for parts by name, and for sound and video over bytes.

#pragma once

#include <nanobind/nanobind.h>

#include <optional>
#include <string>
#include <vector>

#include "energon/sample/buffer_allocator.h"
#include "io/bytes.h"
#include "media/decode/sample_decoder.h"
#include "media/transform/image_transform.h"
#include "python/src/option_reader.h"
#include "python/src/value_to_python.h"

namespace energon::python {

/// The Python class PartDecoder: decodes bytes by the name of their part, as the pipeline does.
/// Immutable.
class PartDecoder {
 public:
  PartDecoder(SampleDecoderOptions options, TensorKind tensors)
      : decoder_(std::move(options)), tensors_(tensors) {}

  /// The decoded part `name` as a Python object; bytes or a Buffer for parts that are not decoded.
  /// Random transforms get a seed from Python's `random`, which is seeded in functions of a
  /// pipeline. Requires: the GIL, which is released while decoding. Throws like
  /// SampleDecoder::decode_part().
  nanobind::object decode(std::string_view name, const SharedBytes& part,
                          BufferAllocator& memory) const;

 private:
  const SampleDecoder decoder_;
  const TensorKind tensors_;
};

/// The arguments of an ImageTransform.
struct TransformParts {
  std::vector<ImageStep> steps = {};
  ImageTransformOptions options = {};
};
/// Takes the options that transforms.native_options() makes, except "apply_orientation", for images
/// of this mode. Returns nullopt without "image_steps", and for an unknown mode, which
/// SampleDecoder refuses.
std::optional<TransformParts> take_transform(OptionReader& options, const std::string& mode_name);

/// Takes the options of the Python class SampleDecoder. Returns nullopt without "decode".
std::optional<SampleDecoderOptions> take_decoder(OptionReader& options);

/// The kind called "energon", "numpy" or "torch". Throws Error (kInvalidArgument).
TensorKind tensor_kind_called(const std::string& name);

}  // namespace energon::python
