// JSON values as members of structs, and bytes as text in JSON.

#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace energon {

// Including the JSON library costs a second of compile time per source file, so headers with a JSON
// member use BoxedJson instead.

/// A value type: copies are deep. Converts to and from the JSON value; code that does so includes
/// <nlohmann/json.hpp>. A moved-from object can only be assigned to or destroyed.
class BoxedJson {
 public:
  /// An empty object.
  BoxedJson();
  // Conversions are implicit, because a member of this type stands for the value itself.
  BoxedJson(const nlohmann::ordered_json& value);
  BoxedJson(nlohmann::ordered_json&& value);
  BoxedJson(const BoxedJson& other);
  BoxedJson(BoxedJson&& other) noexcept;
  BoxedJson& operator=(const BoxedJson& other);
  BoxedJson& operator=(BoxedJson&& other) noexcept;
  ~BoxedJson();

  operator const nlohmann::ordered_json&() const { return *value_; }
  operator nlohmann::ordered_json&() { return *value_; }
  const nlohmann::ordered_json& operator*() const { return *value_; }
  nlohmann::ordered_json& operator*() { return *value_; }
  const nlohmann::ordered_json* operator->() const { return value_.get(); }
  nlohmann::ordered_json* operator->() { return value_.get(); }

  bool operator==(const BoxedJson& other) const;

 private:
  std::unique_ptr<nlohmann::ordered_json> value_;
};

// Base64 (RFC 4648, section 4, with padding).

std::string to_base64(std::string_view bytes);

/// Decodes `text`. Returns nullopt if to_base64() cannot produce it.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace energon
