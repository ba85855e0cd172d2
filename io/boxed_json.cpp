#include "io/boxed_json.h"

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

}  // namespace energon
