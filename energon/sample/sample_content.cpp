// The walks over what a sample contains: its digest and its size.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <variant>

#include "energon/sample/sample.h"
#include "io/hash.h"
#include "io/overloaded.h"

namespace energon {
namespace {

void feed_number(Xxh3Stream& stream, const void* number) {
  stream.update({static_cast<const std::byte*>(number), 8});
}

// Each value is fed as its kind, then its content; collections as their size, then their elements.
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

}  // namespace energon
