#include "python/src/native_functions.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "energon/sample/buffer_allocator.h"
#include "energon/sample/restore_key.h"
#include "energon/stage/call_context.h"
#include "io/error.h"
#include "media/image/image_decoder.h"
#include "media/tokens/tokenizer.h"
#include "python/src/decoders.h"
#include "python/src/interpreter.h"
#include "python/src/marked_values.h"
#include "python/src/module.h"
#include "python/src/python_names.h"
#include "python/src/python_to_value.h"
#include "python/src/value_to_python.h"
#include "wrappers/batching/image_buckets.h"
#include "wrappers/batching/ragged_batch.h"

namespace nb = nanobind;

namespace energon::python {
namespace {

/// A call by hand. Draws its seed from Python's `random`, as PartDecoder does.
class CallByHand {
 public:
  explicit CallByHand(bool is_random) : resources_{.seed = is_random ? drawn_seed() : 0} {}
  CallContext& context() { return context_; }

 private:
  static std::uint32_t drawn_seed() {
    static constinit PackageAttribute draw_seed("_random", "draw_seed");
    return nb::cast<std::uint32_t>(draw_seed());
  }

  const CallResources resources_;
  const RestoreKey key_;
  CallContext context_{resources_, key_, 0};
};

// --- Tokenizers ---

/// The Python class NativeTokenizer.
struct TokenizerObject {
  std::shared_ptr<const Tokenizer> tokenizer;
};

TokenizerObject open_tokenizer(const std::string& path, bool add_begin, bool add_end,
                               std::optional<std::pair<int, double>> sampling) {
  SentencePieceOptions options{.add_begin = add_begin, .add_end = add_end};
  if (sampling) {
    options.sampling =
        SentencePieceSampling{.candidates = sampling->first, .alpha = sampling->second};
  }
  const ReleaseGil released;
  return {open_sentencepiece(path, options)};
}

std::vector<std::int32_t> tokens_of(const TokenizerObject& self, const std::string& text) {
  const ReleaseGil released;
  return self.tokenizer->tokens(text);
}

nb::object text_of(const TokenizerObject& self, const std::vector<std::int32_t>& ids) {
  return text_to_python(self.tokenizer->text(ids));
}

// -1 for a token that the vocabulary lacks, as in SentencePiece.
nb::dict special_tokens(const TokenizerObject& self) {
  const SpecialTokens tokens = self.tokenizer->special_tokens();
  nb::dict ids;
  ids["bos"] = tokens.begin.value_or(-1);
  ids["eos"] = tokens.end.value_or(-1);
  ids["pad"] = tokens.pad.value_or(-1);
  ids["unk"] = tokens.unknown.value_or(-1);
  return ids;
}

// --- Image buckets ---

/// The Python class NativeBuckets.
class BucketsObject {
 public:
  BucketsObject(ImageBuckets buckets, bool is_random)
      : buckets_(std::move(buckets)), is_random_(is_random) {}

  const ImageBuckets& buckets() const { return buckets_; }

  /// The tensor of an encoded image, or the list of tensors of a list.
  nb::object fitted(const std::string& field, nb::handle image, const std::string& tensors) const {
    CallByHand call(is_random_);
    Sample sample;
    sample.set(field, ValueReader(heap_memory(), false).read(image, field));
    {
      const ReleaseGil released;
      sample = buckets_.fit(field)(std::move(sample), call.context());
    }
    return to_python(sample.at(field), tensor_kind_called(tensors));
  }

  /// The group of an encoded image or a tensor, or of the first one of a list.
  std::string group(const std::string& field, nb::handle image) const {
    Sample sample;
    sample.set(field, read_sizes(image, field));
    CallByHand call(false);
    return buckets_.group_by(field)(sample, call.context()).group;
  }

 private:
  // Reads the image, but of a tensor only the shape.
  static Value read_sizes(nb::handle image, const std::string& field) {
    if (nb::isinstance<nb::list>(image) || nb::isinstance<nb::tuple>(image)) {
      List items;
      for (const nb::handle item : image) {
        items.push_back(read_sizes(item, field));
      }
      return items;
    }
    if (nb::hasattr(image, "shape")) {
      std::vector<std::int64_t> shape;
      for (const nb::handle size : nb::object(image.attr("shape"))) {
        shape.push_back(nb::cast<std::int64_t>(size));
      }
      return Tensor{.dtype = DType::kUInt8, .shape = std::move(shape), .data = {}};
    }
    return ValueReader(heap_memory(), false).read(image, field);
  }

  const ImageBuckets buckets_;
  const bool is_random_;
};

BucketsObject make_buckets(const std::vector<std::pair<std::int64_t, std::int64_t>>& sizes,
                           bool crops_at_random, const std::string& mode, const nb::dict& values) {
  ImageBucketsOptions options;
  for (const auto& [width, height] : sizes) {
    options.sizes.push_back({.width = width, .height = height});
  }
  options.crop = crops_at_random ? BucketCrop::kRandom : BucketCrop::kCenter;
  OptionReader reader(values);
  reader.take("apply_orientation", options.apply_orientation);
  std::optional<TransformParts> parts = take_transform(reader, mode);
  reader.finish();
  if (!parts) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("unknown image mode '{}'; supported: {}", printable(mode),
                            fmt::join(image_mode_names(), ", ")));
  }
  const bool is_random =
      crops_at_random || ImageTransform(parts->steps, parts->options).is_random();
  options.image = parts->options;
  options.more_steps = std::move(parts->steps);
  return {ImageBuckets(std::move(options)), is_random};
}

// --- Batches ---

bool is_null(const Value& value) {
  if (const auto* list = std::get_if<List>(&value.base())) {
    return std::ranges::all_of(*list, is_null);
  }
  return std::holds_alternative<Null>(value.base());
}

// A dict, or an object of the samples' class. Restore keys and sources, which the loader sets, are
// None.
nb::object batch_to_python(const Mapping& batch, TensorKind tensors) {
  nb::dict fields;
  for (const auto& [name, value] : batch) {
    if (name != marks::name()) {
      const bool is_unset = marks::is_origin(name) && is_null(value);
      fields[name_to_python(name)] = is_unset ? nb::object(nb::none()) : to_python(value, tensors);
    }
  }
  const std::string* const path = marks::class_of(batch);
  return path == nullptr || *path == marks::kDictClass ? nb::object(fields)
                                                       : instance_to_python(*path, fields);
}

nb::object ragged_batch(const nb::list& items, std::vector<std::string> fields,
                        const std::string& tensors) {
  if (nb::len(items) == 0) {
    throw Error(ErrorCode::kInvalidArgument, "a batch needs at least one sample");
  }
  std::vector<Sample> samples;
  samples.reserve(nb::len(items));
  for (const nb::handle item : items) {
    Sample& sample = samples.emplace_back();
    sample.fields = ValueReader(heap_memory(), false).read_fields(item, sample.keys);
  }
  CallByHand call(false);
  const Mapping batch = marks::batch_of_objects(ragged_fields({.fields = std::move(fields)}))(
      samples, call.context());
  return batch_to_python(batch, tensor_kind_called(tensors));
}

// The buckets and the field of an option (NativeBuckets, field).
std::optional<std::pair<ImageBuckets, std::string>> take_buckets(OptionReader& options,
                                                                 const char* name) {
  nb::object pair;
  options.take(name, pair);
  if (!pair) {
    return std::nullopt;
  }
  return std::pair(nb::cast<const BucketsObject&>(nb::object(pair[0])).buckets(),
                   nb::cast<std::string>(pair[1]));
}

}  // namespace

void take_native_functions(OptionReader& options, TaskEncoder& encoder) {
  nb::object tokenizer;
  std::vector<std::pair<std::string, std::string>> token_fields;
  TokenizeOptions tokenize;
  options.take("tokenizer", tokenizer);
  options.take("token_fields", token_fields);
  options.take("max_tokens", tokenize.max_length);
  if (tokenizer) {
    tokenize.tokenizer = nb::cast<const TokenizerObject&>(tokenizer).tokenizer;
    tokenize.fields.clear();
    for (auto& [from, to] : token_fields) {
      tokenize.fields.push_back({.from = std::move(from), .to = std::move(to)});
    }
    encoder.tokenizer = std::move(tokenize);
  }
  if (const auto fit = take_buckets(options, "fit_images")) {
    encoder.encode_sample = fit->first.fit(fit->second);
  }
  if (const auto group = take_buckets(options, "group_images")) {
    encoder.batch_group_criterion = group->first.group_by(group->second);
  }
  std::optional<std::vector<std::string>> ragged;
  options.take("ragged_fields", ragged);
  if (ragged) {
    encoder.batch = ragged_fields({.fields = std::move(*ragged)});
  }
}

void bind_native_functions(nb::module_& module) {
  nb::class_<TokenizerObject>(module, "NativeTokenizer", "The native half of a tokenizer.")
      .def(nb::new_(&open_tokenizer), nb::arg("path"), nb::arg("add_begin"), nb::arg("add_end"),
           nb::arg("sampling").none())
      .def("tokens", tokens_of, nb::arg("text"))
      .def("text", text_of, nb::arg("ids"), nb::sig("def text(self, ids: list[int]) -> str"))
      .def("vocabulary_size",
           [](const TokenizerObject& self) { return self.tokenizer->vocabulary_size(); })
      .def("special_tokens", special_tokens, nb::sig("def special_tokens(self) -> dict[str, int]"));
  nb::class_<BucketsObject>(module, "NativeBuckets", "The native half of ImageBuckets.")
      .def(nb::new_(&make_buckets), nb::arg("sizes"), nb::arg("crops_at_random"), nb::arg("mode"),
           nb::arg("options"))
      .def("fitted", &BucketsObject::fitted, nb::arg("field"), nb::arg("image"), nb::arg("tensors"),
           nb::sig("def fitted(self, field: str, image: typing.Any, tensors: str) -> typing.Any"))
      .def("group", &BucketsObject::group, nb::arg("field"), nb::arg("image"),
           nb::sig("def group(self, field: str, image: typing.Any) -> str"));
  module.def("ragged_batch", ragged_batch, nb::arg("samples"), nb::arg("fields"),
             nb::arg("tensors"),
             nb::sig("def ragged_batch(samples: list, fields: list[str], tensors: str) -> "
                     "typing.Any"),
             "The native half of RaggedBatch.");
}

}  // namespace energon::python
