#include "io/recipe/metadataset_fields.h"

#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/error.h"

namespace energon {
namespace {

double read_bound(const YamlValue& value) {
  const double bound = value.number();
  if (!(bound >= 0) || !std::isfinite(bound)) {
    value.fail(fmt::format("must be a number of at least 0, found {}", bound));
  }
  return bound;
}

// The bound of `property`; a new one if there is none.
MediaBound& bound_of(MediaCondition& condition, MediaProperty property) {
  for (MediaBound& bound : condition.bounds) {
    if (bound.property == property) {
      return bound;
    }
  }
  return condition.bounds.emplace_back(MediaBound{.property = property});
}

}  // namespace

std::optional<std::string> find_string(const YamlFields& fields, std::string_view key) {
  const auto value = fields.find(key);
  return value ? std::optional(value->string()) : std::nullopt;
}

std::optional<std::string> find_config(const YamlFields& fields, std::string_view key,
                                       std::string_view usual) {
  auto name = find_string(fields, key);
  return name == usual ? std::nullopt : name;
}

nlohmann::ordered_json read_subflavors(const YamlFields& fields) {
  const auto tags = fields.find("tags");
  const auto subflavors = fields.find("subflavors");
  if (tags && subflavors) {
    tags->fail("is another name of subflavors: set only one of them");
  }
  const auto& value = tags ? tags : subflavors;
  if (!value) {
    return nlohmann::ordered_json::object();
  }
  if (!value->is_map()) {
    value->fail("must be a mapping");
  }
  return value->json();
}

ShuffleOverEpochs read_shuffle(const YamlFields& fields) {
  const auto value = fields.find("shuffle_over_epochs_multiplier", YamlFields::Nulls::kKeep);
  if (!value) {
    return {};
  }
  if (value->is_null()) {
    return {.mode = ShuffleOverEpochs::Mode::kNone};
  }
  const std::int64_t epochs = value->integer();
  const auto shuffle = shuffle_over_epochs_of(epochs);
  if (!shuffle) {
    value->fail(fmt::format(
        "must be at least 1, -1 (with replacement) or null (no shuffling), found {}", epochs));
  }
  return *shuffle;
}

std::optional<Subset> read_subset(const YamlFields& fields) {
  const auto value = fields.find("subset");
  if (!value) {
    return std::nullopt;
  }
  const YamlValue range = YamlFields(*value, {"range"}).at("range");
  const std::vector<YamlValue> bounds = range.list();
  if (bounds.size() != 2) {
    range.fail(fmt::format("must have two bounds, [start, end], found {}", bounds.size()));
  }
  try {
    return parse_subset(bounds[0].string(), bounds[1].string());
  } catch (const Error& error) {
    range.fail(fmt::format("is invalid: {}", error.message()));
  }
}

std::optional<MediaCondition> read_media_filter(const YamlFields& fields) {
  const auto value = fields.find("media_filter");
  if (!value) {
    return std::nullopt;
  }
  MediaCondition condition;
  for (const auto& [name, bound] : value->entries()) {
    if (name == "part") {
      condition.part = bound.string();
      continue;
    }
    const bool is_min = name.starts_with("min_");
    const auto property = is_min || name.starts_with("max_")
                              ? media_property(std::string_view(name).substr(4))
                              : std::nullopt;
    if (!property) {
      bound.fail(
          "is not known; media_filter has part, and min_ and max_ of width, height, aspect_ratio, "
          "duration, fps, frames, channels and sample_rate");
    }
    MediaBound& both = bound_of(condition, *property);
    (is_min ? both.min : both.max) = read_bound(bound);
    if (both.min && both.max && *both.min > *both.max) {
      bound.fail(fmt::format("matches nothing: {} is from {} to {}", to_string(*property),
                             *both.min, *both.max));
    }
  }
  if (condition.bounds.empty()) {
    value->fail("must have a bound, such as min_width: 256");
  }
  return condition;
}

double read_factor(const YamlFields& fields, std::string_view key) {
  const auto value = fields.find(key);
  if (!value) {
    return 1;
  }
  const double factor = value->number();
  if (!(factor > 0) || !std::isfinite(factor)) {
    value->fail(fmt::format("must be above 0, found {}", factor));
  }
  return factor;
}

Nonmatch read_nonmatch(const YamlFields& fields) {
  const auto value = fields.find("nonmatch");
  if (!value) {
    return Nonmatch::kError;
  }
  for (const Nonmatch nonmatch : {Nonmatch::kError, Nonmatch::kSkip, Nonmatch::kNone}) {
    if (value->string() == to_string(nonmatch)) {
      return nonmatch;
    }
  }
  value->fail(fmt::format("must be error, skip or none, found '{}'", printable(value->string())));
}

Joiner read_joiner(const YamlValue& value) {
  const YamlFields fields(value, {"__module__", "__class__", "__function__"});
  const auto class_name = find_string(fields, "__class__");
  const auto function_name = find_string(fields, "__function__");
  if (class_name.has_value() == function_name.has_value()) {
    value.fail("must have either __class__ or __function__");
  }
  return {.kind = class_name ? Joiner::Kind::kClass : Joiner::Kind::kFunction,
          .module = find_string(fields, "__module__").value_or(""),
          .name = class_name ? *class_name : *function_name};
}

}  // namespace energon
