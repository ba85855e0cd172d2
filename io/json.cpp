#include "io/json.h"

#include <nettle/base64.h>

#include <cstdint>
#include <utility>

#include <nlohmann/json.hpp>

namespace energon {

using Json = nlohmann::ordered_json;

BoxedJson::BoxedJson() : value_(std::make_unique<Json>(Json::object())) {}
BoxedJson::BoxedJson(const Json& value) : value_(std::make_unique<Json>(value)) {}
BoxedJson::BoxedJson(Json&& value) : value_(std::make_unique<Json>(std::move(value))) {}
BoxedJson::BoxedJson(const BoxedJson& other) : value_(std::make_unique<Json>(*other.value_)) {}
BoxedJson::BoxedJson(BoxedJson&& other) noexcept = default;
BoxedJson::~BoxedJson() = default;

BoxedJson& BoxedJson::operator=(const BoxedJson& other) {
  if (this != &other) {
    value_ = std::make_unique<Json>(*other.value_);
  }
  return *this;
}

BoxedJson& BoxedJson::operator=(BoxedJson&& other) noexcept = default;

bool BoxedJson::operator==(const BoxedJson& other) const { return *value_ == *other.value_; }

std::string to_base64(std::string_view bytes) {
  std::string text(BASE64_ENCODE_RAW_LENGTH(bytes.size()), '\0');
  base64_encode_raw(text.data(), bytes.size(), reinterpret_cast<const std::uint8_t*>(bytes.data()));
  return text;
}

std::optional<std::string> from_base64(std::string_view text) {
  base64_decode_ctx context;
  base64_decode_init(&context);
  std::string bytes(BASE64_DECODE_LENGTH(text.size()), '\0');
  std::size_t size = 0;
  if (base64_decode_update(&context, &size, reinterpret_cast<std::uint8_t*>(bytes.data()),
                           text.size(), text.data()) == 0 ||
      base64_decode_final(&context) == 0) {
    return std::nullopt;
  }
  bytes.resize(size);
  // nettle also accepts white space and nonzero padding bits.
  return to_base64(bytes) == text ? std::optional(std::move(bytes)) : std::nullopt;
}

}  // namespace energon
