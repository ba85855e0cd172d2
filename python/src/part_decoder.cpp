#include "python/src/part_decoder.h"

#include <nanobind/stl/string.h>

#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "io/error.h"
#include "python/src/buffer_object.h"
#include "python/src/gil.h"

namespace nb = nanobind;

namespace energon::python {

nb::object PartDecoder::decode(std::string_view name, const SharedBytes& part,
                               BufferAllocator& memory) const {
  const Value value = [&] {
    const ReleaseGil released;
    return decoder_.decode_part(name, part, memory);
  }();
  return to_python(value, tensors_);
}

std::optional<SampleDecoderOptions> take_decoder(OptionReader& options) {
  bool decodes = false;
  bool av_tensors = false;
  std::optional<std::string> image;
  SampleDecoderOptions decoder;
  options.take("decode", decodes);
  options.take("image_decode", image);
  options.take("av_tensors", av_tensors);
  options.take("guess_content", decoder.guess_content);
  options.take("decode_parts", decoder.parts);
  options.take("leaves_bytes", decoder.leaves_bytes);
  if (!decodes) {
    return std::nullopt;
  }
  decoder.image = image.value_or("");
  decoder.av = av_tensors ? AvMode::kTensors : AvMode::kBytes;
  return decoder;
}

TensorKind tensor_kind_called(const std::string& name) {
  if (name == "torch") {
    return TensorKind::kTorch;
  }
  if (name == "numpy") {
    return TensorKind::kNumpy;
  }
  if (name == "energon") {
    return TensorKind::kEnergon;
  }
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("tensors must be 'energon', 'numpy' or 'torch', not '{}'", name));
}

void bind_part_decoder(nb::module_& module) {
  module.def(
      "is_av_name",
      [](const std::string& name) { return content_kind_of_name(name) == ContentKind::kAv; },
      nb::arg("name"), "Whether parts with this name hold sound or video.");
  nb::class_<PartDecoder>(module, "PartDecoder", "The native half of SampleDecoder.decode().")
      .def(nb::new_([](const nb::dict& given, const std::string& tensors) {
             OptionReader options(given);
             SampleDecoderOptions decoder = take_decoder(options).value_or(SampleDecoderOptions{});
             options.finish();
             return PartDecoder(std::move(decoder), tensor_kind_called(tensors));
           }),
           nb::arg("options"), nb::arg("tensors"))
      .def(
          "decode",
          [](const PartDecoder& self, const std::string& name, nb::handle data) {
            return self.decode(name, bytes_of_python(data), heap_memory());
          },
          nb::arg("name"), nb::arg("data"),
          nb::sig("def decode(self, name: str, data: typing.Any) -> typing.Any"));
}

}  // namespace energon::python
