#include "energon/sample/sample.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/error.h"
#include "io/overloaded.h"

namespace energon {
namespace {

template <class Kind>
const Kind& get_as(const Value& value, std::string_view name, std::string_view wanted) {
  if (const auto* found = std::get_if<Kind>(&value.base())) {
    return *found;
  }
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("field '{}' is {}, not {}{}", printable(name), describe(value), wanted,
                          std::holds_alternative<LazyBytes>(value.base())
                              ? "; fetch them with LazyBytes::get()"
                              : ""));
}

std::string_view text_of(const Value& value, std::string_view name) {
  if (const auto* bytes = std::get_if<SharedBytes>(&value.base())) {
    return bytes->text();
  }
  return get_as<std::string>(value, name, "a text");
}

std::string element_name(std::string_view name, std::size_t i) {
  return fmt::format("{}[{}]", name, i);
}

}  // namespace

BigInteger::BigInteger(std::string digits) : digits_(std::move(digits)) {
  if (!is_valid(digits_)) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("'{}' is no integer: it must be decimal digits without leading zeros, "
                            "behind a '-' if it is below 0",
                            printable(digits_)));
  }
}

bool BigInteger::is_valid(std::string_view digits) {
  const bool is_negative = digits.starts_with('-');
  if (is_negative) {
    digits.remove_prefix(1);
  }
  const bool has_only_digits =
      !digits.empty() && digits.find_first_not_of("0123456789") == std::string_view::npos;
  return has_only_digits && (digits.front() != '0' || (digits.size() == 1 && !is_negative));
}

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

const Value* Sample::find(std::string_view name) const {
  const auto field = std::find_if(fields.begin(), fields.end(),
                                  [name](const auto& entry) { return entry.first == name; });
  return field == fields.end() ? nullptr : &field->second;
}

const Value& Sample::at(std::string_view name) const {
  if (const Value* value = find(name)) {
    return *value;
  }
  std::vector<std::string> names;
  for (const auto& [field_name, value] : fields) {
    names.push_back(printable(field_name));
  }
  throw Error(ErrorCode::kNotFound,
              fmt::format("no field '{}'; there are: {}", printable(name), fmt::join(names, ", ")));
}

const SharedBytes& Sample::bytes(std::string_view name) const {
  return get_as<SharedBytes>(at(name), name, "bytes");
}

const Tensor& Sample::tensor(std::string_view name) const {
  return get_as<Tensor>(at(name), name, "a tensor");
}

std::string_view Sample::text(std::string_view name) const { return text_of(at(name), name); }

std::int64_t Sample::integer(std::string_view name) const {
  return get_as<std::int64_t>(at(name), name, "an integer");
}

double Sample::number(std::string_view name) const {
  const Value& value = at(name);
  if (const auto* integer = std::get_if<std::int64_t>(&value.base())) {
    return static_cast<double>(*integer);
  }
  return get_as<double>(value, name, "a number");
}

bool Sample::boolean(std::string_view name) const {
  return get_as<bool>(at(name), name, "a truth value");
}

const List& Sample::list(std::string_view name) const {
  return get_as<List>(at(name), name, "a list");
}

const Mapping& Sample::mapping(std::string_view name) const {
  return get_as<Mapping>(at(name), name, "a mapping");
}

const Tuple& Sample::tuple(std::string_view name) const {
  return get_as<Tuple>(at(name), name, "a tuple");
}

const BigInteger& Sample::big_integer(std::string_view name) const {
  return get_as<BigInteger>(at(name), name, "an integer of any size");
}

std::vector<SharedBytes> Sample::bytes_list(std::string_view name) const {
  const List& values = list(name);
  std::vector<SharedBytes> result;
  result.reserve(values.size());
  for (const Value& value : values) {
    result.push_back(get_as<SharedBytes>(value, element_name(name, result.size()), "bytes"));
  }
  return result;
}

std::vector<std::string_view> Sample::text_list(std::string_view name) const {
  const List& values = list(name);
  std::vector<std::string_view> result;
  result.reserve(values.size());
  for (const Value& value : values) {
    result.push_back(text_of(value, element_name(name, result.size())));
  }
  return result;
}

void Sample::set(std::string_view name, Value value) {
  const auto field = std::find_if(fields.begin(), fields.end(),
                                  [name](const auto& entry) { return entry.first == name; });
  if (field == fields.end()) {
    fields.emplace_back(std::string(name), std::move(value));
  } else {
    field->second = std::move(value);
  }
}

std::string describe(const Value& value) {
  return std::visit(
      Overloaded{
          [](const SharedBytes& bytes) { return fmt::format("{} bytes", bytes.size()); },
          [](const std::string& text) { return fmt::format("a text of {} bytes", text.size()); },
          [](std::int64_t integer) { return fmt::format("the integer {}", integer); },
          [](double number) { return fmt::format("the number {}", number); },
          [](const Tensor& tensor) {
            return fmt::format("{} ({})", to_string(tensor.dtype), fmt::join(tensor.shape, ", "));
          },
          [](const List& list) { return fmt::format("a list of {}", list.size()); },
          [](const Mapping& mapping) { return fmt::format("a mapping of {}", mapping.size()); },
          [](const LazyBytes& lazy) { return fmt::format("lazy bytes ({})", lazy.describe()); },
          [](Null) { return std::string("null"); },
          [](bool truth) { return std::string(truth ? "true" : "false"); },
          [](const Tuple& tuple) { return fmt::format("a tuple of {}", tuple.items.size()); },
          [](const BigInteger& integer) {
            constexpr std::size_t kMostShown = 40;
            const std::string& digits = integer.digits();
            return digits.size() <= kMostShown
                       ? fmt::format("the integer {}", digits)
                       : fmt::format("an integer of {} digits",
                                     digits.size() - (digits.front() == '-' ? 1 : 0));
          },
      },
      value.base());
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

}  // namespace energon
