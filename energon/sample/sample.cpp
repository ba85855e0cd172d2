#include "energon/sample/sample.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "energon/state/byte_codec.h"
#include "io/error.h"
#include "io/hash.h"

namespace energon {
namespace {

void feed_number(Xxh3Stream& stream, const void* number) {
  stream.update({static_cast<const std::byte*>(number), 8});
}

// Each value is fed as its kind, then its content; collections as their size, then their elements.
void feed(Xxh3Stream& stream, const Value& value) {
  if (const auto* lazy = std::get_if<LazyBytes>(&value.base())) {
    feed(stream, lazy->get());
    return;
  }
  const auto kind = static_cast<std::byte>(value.base().index());
  stream.update({&kind, 1});
  if (const auto* bytes = std::get_if<SharedBytes>(&value.base())) {
    stream.update_field(bytes->view);
  } else if (const auto* text = std::get_if<std::string>(&value.base())) {
    stream.update_field(as_bytes(*text));
  } else if (const auto* integer = std::get_if<std::int64_t>(&value.base())) {
    feed_number(stream, integer);
  } else if (const auto* number = std::get_if<double>(&value.base())) {
    feed_number(stream, number);
  } else if (const auto* tensor = std::get_if<Tensor>(&value.base())) {
    const auto dtype = static_cast<std::byte>(tensor->dtype);
    stream.update({&dtype, 1});
    stream.update_field(std::as_bytes(std::span(tensor->shape)));
    stream.update_field(tensor->data.view);
  } else if (const auto* list = std::get_if<List>(&value.base())) {
    const std::uint64_t size = list->size();
    feed_number(stream, &size);
    for (const Value& element : *list) {
      feed(stream, element);
    }
  } else {
    const auto& mapping = std::get<Mapping>(value.base());
    const std::uint64_t size = mapping.size();
    feed_number(stream, &size);
    for (const auto& [name, element] : mapping) {
      stream.update_field(as_bytes(name));
      feed(stream, element);
    }
  }
}

std::uint64_t payload_bytes(const Value& value) {
  std::uint64_t sum = 0;
  if (const auto* bytes = std::get_if<SharedBytes>(&value.base())) {
    sum = bytes->size();
  } else if (const auto* text = std::get_if<std::string>(&value.base())) {
    sum = text->size();
  } else if (const auto* tensor = std::get_if<Tensor>(&value.base())) {
    sum = tensor->data.size();
  } else if (const auto* list = std::get_if<List>(&value.base())) {
    for (const Value& element : *list) {
      sum += payload_bytes(element);
    }
  } else if (const auto* mapping = std::get_if<Mapping>(&value.base())) {
    for (const auto& [name, element] : *mapping) {
      sum += payload_bytes(element);
    }
  } else if (!std::holds_alternative<LazyBytes>(value.base())) {
    sum = 8;
  }
  return sum;
}

}  // namespace

std::size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::kUInt8:
    case DType::kInt8:
    case DType::kBool:
      return 1;
    case DType::kInt16:
    case DType::kFloat16:
    case DType::kBFloat16:
      return 2;
    case DType::kInt32:
    case DType::kFloat32:
      return 4;
    case DType::kInt64:
    case DType::kFloat64:
      return 8;
  }
  return 0;
}

std::string_view to_string(DType dtype) {
  switch (dtype) {
    case DType::kUInt8:
      return "uint8";
    case DType::kInt8:
      return "int8";
    case DType::kInt16:
      return "int16";
    case DType::kInt32:
      return "int32";
    case DType::kInt64:
      return "int64";
    case DType::kFloat16:
      return "float16";
    case DType::kBFloat16:
      return "bfloat16";
    case DType::kFloat32:
      return "float32";
    case DType::kFloat64:
      return "float64";
    case DType::kBool:
      return "bool";
  }
  return "unknown";
}

const Value& Sample::at(std::string_view name) const {
  std::vector<std::string> names;
  for (const auto& [field_name, value] : fields) {
    if (field_name == name) {
      return value;
    }
    names.push_back(printable(field_name));
  }
  throw Error(ErrorCode::kNotFound,
              fmt::format("no field '{}'; there are: {}", printable(name), fmt::join(names, ", ")));
}

const SharedBytes& Sample::bytes(std::string_view name) const {
  const Value& value = at(name);
  if (const auto* bytes = std::get_if<SharedBytes>(&value.base())) {
    return *bytes;
  }
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("field '{}' does not hold bytes{}", printable(name),
                          std::holds_alternative<LazyBytes>(value.base())
                              ? ", but lazy ones; fetch them with LazyBytes::get()"
                              : ""));
}

const SampleSource& source_of(const Sample& sample, std::size_t position) {
  const auto source =
      std::find_if(sample.sources.begin(), sample.sources.end(),
                   [position](const SampleSource& entry) { return entry.sample == position; });
  if (source == sample.sources.end()) {
    throw Error(ErrorCode::kNotFound,
                fmt::format("no source is known of sample {} of {}", position, sample.keys.size()));
  }
  return *source;
}

std::uint64_t digest(const Sample& sample) {
  Xxh3Stream stream;
  for (const auto& [name, value] : sample.fields) {
    stream.update_field(as_bytes(name));
    feed(stream, value);
  }
  return stream.digest();
}

std::uint64_t payload_bytes(const Sample& sample) {
  std::uint64_t sum = 0;
  for (const auto& [name, value] : sample.fields) {
    sum += payload_bytes(value);
  }
  return sum;
}

}  // namespace energon
