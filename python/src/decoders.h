// The native halves of the decoders: of parts by their names, and of sound and video over bytes.

#pragma once

#include <nanobind/nanobind.h>

#include <optional>
#include <string>

#include "energon/sample/buffer_allocator.h"
#include "io/bytes.h"
#include "media/decode/sample_decoder.h"
#include "python/src/option_reader.h"
#include "python/src/value_to_python.h"

namespace energon::python {

/// The Python class PartDecoder: decodes bytes by the name of their part, as the pipeline does.
/// Immutable.
class PartDecoder {
 public:
  PartDecoder(SampleDecoderOptions options, TensorKind tensors)
      : decoder_(std::move(options)), tensors_(tensors) {}

  /// What the part `name` is in Python; bytes or Buffer if nothing decodes it. Decodes without the
  /// GIL. Requires: the GIL. Throws as SampleDecoder::decode_part().
  nanobind::object decode(std::string_view name, const SharedBytes& part,
                          BufferAllocator& memory) const;

 private:
  const SampleDecoder decoder_;
  const TensorKind tensors_;
};

/// Takes the options of the Python class SampleDecoder; nothing without "decode".
std::optional<SampleDecoderOptions> take_decoder(OptionReader& options);

/// "energon", "numpy" or "torch". Throws Error (kInvalidArgument).
TensorKind tensor_kind_called(const std::string& name);

}  // namespace energon::python
