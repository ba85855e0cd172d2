#include "energon/sample/sample.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/error.h"
#include "io/hash.h"
#include "io/overloaded.h"

namespace energon {
namespace {

template <class Kind>
const Kind& get_as(const Value& value, std::string_view name, std::string_view expected) {
  if (const auto* found = std::get_if<Kind>(&value.base())) {
    return *found;
  }
  throw Error(
      ErrorCode::kInvalidArgument,
      fmt::format("field '{}' is {}, expected {}{}", printable(name), describe(value), expected,
                  std::holds_alternative<LazyBytes>(value.base())
                      ? "; fetch them with LazyBytes::get()"
                      : ""));
}

std::string_view text_of(const Value& value, std::string_view name) {
  if (const auto* bytes = std::get_if<SharedBytes>(&value.base())) {
    return bytes->text();
  }
  return get_as<std::string>(value, name, "a string");
}

std::string element_name(std::string_view name, std::size_t i) {
  return fmt::format("{}[{}]", name, i);
}

}  // namespace

BigInteger::BigInteger(std::string digits) : digits_(std::move(digits)) {
  if (!is_valid(digits_)) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("'{}' is not an integer: expected decimal digits without leading zeros, "
                    "after a '-' if negative",
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
              fmt::format("no field '{}'; available: {}", printable(name), fmt::join(names, ", ")));
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
  return get_as<bool>(at(name), name, "a boolean");
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
  return get_as<BigInteger>(at(name), name, "a big integer");
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
          [](const std::string& text) { return fmt::format("a string of {} bytes", text.size()); },
          [](std::int64_t integer) { return fmt::format("the integer {}", integer); },
          [](double number) { return fmt::format("the number {}", number); },
          [](const Tensor& tensor) {
            return fmt::format("{} ({})", to_string(tensor.dtype), fmt::join(tensor.shape, ", "));
          },
          [](const List& list) { return fmt::format("a list of {}", list.size()); },
          [](const Mapping& mapping) { return fmt::format("a mapping of {}", mapping.size()); },
          [](const LazyBytes& lazy) { return fmt::format("lazy bytes ({})", lazy.describe()); },
          [](Null) { return std::string("null"); },
          [](bool boolean) { return std::string(boolean ? "true" : "false"); },
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
                fmt::format("sample {} of {} has no known source", position, sample.keys.size()));
  }
  return *source;
}

// --- Digest and size ---

namespace {

void feed_number(Xxh3Stream& stream, const void* number) {
  stream.update({static_cast<const std::byte*>(number), 8});
}

// Hashes the kind of each value, then its content: of collections, the size and the elements.
void feed(Xxh3Stream& stream, const Value& value);

void feed_size(Xxh3Stream& stream, std::uint64_t size) { feed_number(stream, &size); }

void feed_content(Xxh3Stream& stream, const Tensor& tensor) {
  const auto dtype = static_cast<std::byte>(tensor.dtype);
  stream.update({&dtype, 1});
  stream.update_field(std::as_bytes(std::span(tensor.shape)));
  stream.update_field(tensor.data.view);
}

void feed_content(Xxh3Stream& stream, const List& list) {
  feed_size(stream, list.size());
  for (const Value& element : list) {
    feed(stream, element);
  }
}

void feed_content(Xxh3Stream& stream, const Mapping& mapping) {
  feed_size(stream, mapping.size());
  for (const auto& [name, element] : mapping) {
    stream.update_field(as_bytes(name));
    feed(stream, element);
  }
}

void feed(Xxh3Stream& stream, const Value& value) {
  if (const auto* lazy = std::get_if<LazyBytes>(&value.base())) {
    feed(stream, lazy->get());
    return;
  }
  const auto kind = static_cast<std::byte>(value.base().index());
  stream.update({&kind, 1});
  std::visit(
      Overloaded{
          [&](const SharedBytes& bytes) { stream.update_field(bytes.view); },
          [&](const std::string& text) { stream.update_field(as_bytes(text)); },
          [&](const std::int64_t& integer) { feed_number(stream, &integer); },
          [&](const double& number) { feed_number(stream, &number); },
          [&](const Tensor& tensor) { feed_content(stream, tensor); },
          [&](const List& list) { feed_content(stream, list); },
          [&](const Mapping& mapping) { feed_content(stream, mapping); },
          [](const LazyBytes&) {},  // fetched above
          [](Null) {},
          [&](bool truth) {
            const auto byte = static_cast<std::byte>(truth);
            stream.update({&byte, 1});
          },
          [&](const Tuple& tuple) { feed_content(stream, tuple.items); },
          [&](const BigInteger& integer) { stream.update_field(as_bytes(integer.digits())); },
      },
      value.base());
}

std::uint64_t payload_bytes(const Value& value) {
  const auto sum_of = [](const auto& elements, const auto& value_of) {
    std::uint64_t sum = 0;
    for (const auto& element : elements) {
      sum += payload_bytes(value_of(element));
    }
    return sum;
  };
  return std::visit(
      Overloaded{
          [](const SharedBytes& bytes) -> std::uint64_t { return bytes.size(); },
          [](const std::string& text) -> std::uint64_t { return text.size(); },
          [](std::int64_t) -> std::uint64_t { return 8; },
          [](double) -> std::uint64_t { return 8; },
          [](const Tensor& tensor) -> std::uint64_t { return tensor.data.size(); },
          [&](const List& list) { return sum_of(list, std::identity()); },
          [&](const Mapping& mapping) {
            return sum_of(mapping, [](const auto& field) -> const Value& { return field.second; });
          },
          [](const LazyBytes&) -> std::uint64_t { return 0; },
          [](Null) -> std::uint64_t { return 0; },
          [](bool) -> std::uint64_t { return 1; },
          [&](const Tuple& tuple) { return sum_of(tuple.items, std::identity()); },
          [](const BigInteger& integer) -> std::uint64_t { return integer.digits().size(); },
      },
      value.base());
}

}  // namespace

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

// --- Keys ---

Keys::Keys(std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) {
    push_back(key);
  }
}

Keys::Keys(const std::vector<std::string>& keys) {
  for (const std::string& key : keys) {
    push_back(key);
  }
}

std::string_view Keys::at(std::size_t index) const {
  if (index >= size()) {
    throw std::out_of_range(fmt::format("key {} of {}", index, size()));
  }
  return (*this)[index];
}

void Keys::push_back(std::string_view key) {
  characters_.append(key);
  ends_.push_back(characters_.size());
}

void Keys::append(const Keys& other, std::size_t begin, std::size_t end) {
  for (std::size_t i = begin; i < end; ++i) {
    push_back(other[i]);
  }
}

void Keys::clear() {
  characters_.clear();
  ends_.clear();
}

void Keys::reserve(std::size_t count, std::size_t characters) {
  ends_.reserve(count);
  characters_.reserve(characters);
}

std::vector<std::string> Keys::strings() const {
  std::vector<std::string> copies;
  copies.reserve(size());
  for (const std::string_view key : *this) {
    copies.emplace_back(key);
  }
  return copies;
}

// --- Lazy bytes ---

LazyBytes::LazyBytes(std::shared_ptr<LazySource> source) : source_(std::move(source)) {
  if (source_ == nullptr) {
    throw Error(ErrorCode::kInvalidArgument, "lazy bytes need a source");
  }
}

SharedBytes LazyBytes::get() const {
  if (source_ == nullptr) {
    throw Error(ErrorCode::kInvalidArgument, "lazy bytes were used after they were moved from");
  }
  return source_->get();
}

std::string LazyBytes::describe() const {
  return source_ == nullptr ? "lazy bytes that were moved from" : source_->describe();
}

// --- Names of fields ---

namespace {

[[noreturn]] void fail_twice(std::string_view name, std::string_view owner) {
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("field '{}' occurs twice in {}: give each field a unique name",
                          printable(name), owner));
}

}  // namespace

std::optional<std::string_view> find_twice(const Mapping& fields) {
  constexpr std::size_t kFew = 16;  // up to here, comparing all pairs is cheaper than sorting
  if (fields.size() <= kFew) {
    for (std::size_t i = 1; i < fields.size(); ++i) {
      for (std::size_t k = 0; k < i; ++k) {
        if (fields[i].first == fields[k].first) {
          return fields[i].first;
        }
      }
    }
    return std::nullopt;
  }
  std::vector<std::string_view> names;
  names.reserve(fields.size());
  for (const auto& [name, value] : fields) {
    names.push_back(name);
  }
  std::ranges::sort(names);
  const auto twice = std::ranges::adjacent_find(names);
  return twice == names.end() ? std::nullopt : std::optional(*twice);
}

void check_field_names(const Mapping& fields, std::string_view owner) {
  if (const auto name = find_twice(fields)) {
    fail_twice(*name, owner);
  }
}

void check_made(const Sample& sample) {
  const auto owner = [&sample] {
    if (sample.keys.empty()) {
      return std::string("a sample without a key");
    }
    return fmt::format("{} '{}'", sample.keys.size() == 1 ? "sample" : "the batch of",
                       printable(sample.keys.front()));
  };
  for (const SampleSource& source : sample.sources) {
    if (!source.shard) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("a source of {} has no shard: keep the sources of the sample, or "
                              "leave them empty",
                              owner()));
    }
  }
  if (const auto name = find_twice(sample.fields)) {
    fail_twice(*name, owner());
  }
}

// --- Spare samples ---

namespace {

constexpr std::size_t kManyFields = 64;

std::vector<Sample>& spare_samples() {
  thread_local std::vector<Sample> spare;
  return spare;
}

}  // namespace

Sample take_spare_sample() {
  std::vector<Sample>& spare = spare_samples();
  if (spare.empty()) {
    return {};
  }
  Sample sample = std::move(spare.back());
  spare.pop_back();
  return sample;
}

void keep_spare_samples(std::vector<Sample>& samples) {
  std::vector<Sample>& spare = spare_samples();
  for (Sample& sample : samples) {
    if (spare.size() >= kMostSpareSamples) {
      break;
    }
    if (sample.fields.capacity() <= kManyFields && sample.keys.size() <= 1) {
      sample.keys.clear();
      sample.restore_key = RestoreKey();
      sample.fields.clear();
      sample.sources.clear();
      sample.place.reset();
      spare.push_back(std::move(sample));
    }
  }
  samples.clear();
}

}  // namespace energon
