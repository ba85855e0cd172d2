#include "cli/job/sample_type_flags.h"

#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "cli/show/outcome.h"
#include "io/error.h"

namespace energon::cli {
namespace {

void add_field(FieldMap& map, const std::string& field, const std::string& expression) {
  try {
    map.fields.push_back({.name = field, .expression = parse_field_expression(expression)});
  } catch (const Error& error) {
    throw UsageError{fmt::format("--field-map {}: {}", printable(field), error.message())};
  }
}

void add_json_fields(FieldMap& map, const std::string& text) {
  const auto json = nlohmann::ordered_json::parse(text, nullptr, false);
  if (!json.is_object()) {
    throw UsageError{fmt::format("--field-map is '{}', which is no JSON object", printable(text))};
  }
  for (const auto& [field, expression] : json.items()) {
    if (!expression.is_string()) {
      throw UsageError{
          fmt::format("--field-map: the expression of '{}' is no text", printable(field))};
    }
    add_field(map, field, expression.get<std::string>());
  }
}

}  // namespace

void add_sample_type_flags(CLI::App& command, SampleTypeFlags& flags) {
  command.add_option(
      "--sample-type", flags.type,
      "What the samples are, for dataset.yaml: CaptioningSample and others; default: "
      "crude samples");
  command
      .add_option("--field-map", flags.field_map,
                  "FIELD=EXPRESSION, such as caption=json[caption] or image=jpg,png; once for each "
                  "field")
      ->allow_extra_args(false);
  command.add_flag("--interactive", flags.is_asking,
                   "Show the parts of the first sample, and ask what the samples are");
}

std::vector<std::string> given_sample_type_flags(const SampleTypeFlags& flags) {
  std::vector<std::string> given;
  if (!flags.type.empty()) {
    given.emplace_back("--sample-type");
  }
  if (!flags.field_map.empty()) {
    given.emplace_back("--field-map");
  }
  if (flags.is_asking) {
    given.emplace_back("--interactive");
  }
  return given;
}

SampleType sample_type_of_flag(const std::string& name) {
  if (const auto type = sample_type_of_class(name)) {
    return *type;
  }
  std::vector<std::string_view> names;
  for (const SampleType type : all_sample_types()) {
    names.push_back(class_name(type));
  }
  throw UsageError{fmt::format("there is no sample type '{}'; the types are {}", printable(name),
                               fmt::join(names, ", "))};
}

FieldMap field_map_of(const SampleTypeFlags& flags) {
  FieldMap map;
  for (const std::string& text : flags.field_map) {
    if (text.starts_with('{')) {
      add_json_fields(map, text);
      continue;
    }
    const std::size_t equals = text.find('=');
    if (equals == 0 || equals == std::string::npos) {
      throw UsageError{fmt::format(
          "--field-map is '{}', expected FIELD=EXPRESSION, such as caption=json[caption]",
          printable(text))};
    }
    add_field(map, text.substr(0, equals), text.substr(equals + 1));
  }
  return map;
}

std::optional<TypedSamples> samples_of_flags(const SampleTypeFlags& flags) {
  if (flags.type.empty()) {
    if (!flags.field_map.empty()) {
      throw UsageError{"--field-map says how fields are made: name their type by --sample-type"};
    }
    return std::nullopt;
  }
  TypedSamples samples{.type = sample_type_of_flag(flags.type), .field_map = field_map_of(flags)};
  try {
    validate(samples);
  } catch (const Error& error) {
    throw UsageError{fmt::format("--field-map: {}", error.message())};
  }
  return samples;
}

}  // namespace energon::cli
