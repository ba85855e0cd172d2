#include "io/recipe/typed_yaml.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "io/error.h"

namespace energon {
namespace {

[[noreturn]] void refuse_settings(ErrorCode code, const std::string& problem) {
  throw Error(code, problem);
}

std::string known_types() {
  std::vector<std::string_view> names;
  for (const SampleType type : all_sample_types()) {
    names.push_back(class_name(type));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

// What contradicts itself, or names what is not here.
void check_type(const SampleSettings& settings) {
  if (settings.problem) {
    refuse_settings(ErrorCode::kInvalidArgument, *settings.problem);
  }
  if (settings.sample_loader) {
    refuse_settings(
        ErrorCode::kUnsupported,
        fmt::format("samples are made by the sample_loader '{}', a Python function, which cannot "
                    "be run here; write a field_map, or read crude samples and cook them",
                    printable(*settings.sample_loader)));
  }
  if (!settings.type_name && settings.field_map) {
    refuse_settings(
        ErrorCode::kInvalidArgument,
        fmt::format("there is a field_map, but no sample_type; name one of {}", known_types()));
  }
  if (settings.type_name && !settings.type) {
    refuse_settings(
        ErrorCode::kInvalidArgument,
        fmt::format("the sample type '{}' is not known; known: {}. Samples of other types are "
                    "read as crude ones and cooked",
                    printable(*settings.type_name), known_types()));
  }
}

// As in Energon, a map excludes other ways to choose parts.
void check_map(const SampleSettings& settings) {
  const bool is_crude = settings.type == SampleType::kCrude;
  if (is_crude == settings.field_map.has_value()) {
    refuse_settings(ErrorCode::kInvalidArgument,
                    fmt::format("{} {} a field_map", class_name(*settings.type),
                                is_crude ? "has no fields, so there must not be" : "needs"));
  }
  if (!is_crude && settings.has_part_filter) {
    refuse_settings(ErrorCode::kInvalidArgument,
                    "there is a field_map, which says what parts are needed; remove part_filter");
  }
}

TypedSamples checked_samples(const SampleSettings& settings) {
  check_type(settings);
  if (!settings.type) {
    return {};
  }
  check_map(settings);
  TypedSamples samples{.type = *settings.type};
  if (settings.field_map) {
    for (const auto& [field, text] : *settings.field_map) {
      try {
        samples.field_map.fields.push_back(
            {.name = field, .expression = parse_field_expression(text)});
      } catch (const Error& error) {
        refuse_settings(error.code(),
                        fmt::format("field_map.{}: {}", printable(field), error.message()));
      }
    }
  }
  validate(samples);
  return samples;
}

// Whether YAML, of any version, takes `text` for a string without quotes.
bool is_plain(std::string_view text) {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  constexpr std::string_view kMore = "0123456789_.,/[]-";
  constexpr std::array<std::string_view, 9> kWords = {"null", "true", "false", "yes", "no",
                                                      "on",   "off",  "y",     "n"};
  const auto is_letter = [&](char c) { return kLetters.find(c) != std::string_view::npos; };
  if (text.empty() || !is_letter(text.front())) {
    return false;
  }
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return std::find(kWords.begin(), kWords.end(), lower) == kWords.end() &&
         std::all_of(text.begin(), text.end(), [&](char c) {
           return is_letter(c) || kMore.find(c) != std::string_view::npos;
         });
}

std::string quoted_if_needed(const std::string& text) {
  try {
    return is_plain(text) ? text : nlohmann::json(text).dump();  // JSON is YAML
  } catch (const nlohmann::json::type_error&) {
    refuse_settings(ErrorCode::kInvalidArgument,
                    fmt::format("the expression '{}' is not UTF-8, which a dataset.yaml must be",
                                printable(text)));
  }
}

}  // namespace

TypedSamples typed_samples_of(const DatasetYaml& yaml) {
  try {
    return checked_samples(yaml.samples);
  } catch (Error& error) {
    error.with({.path = yaml.samples.path});
    throw;
  }
}

std::string dataset_yaml_of(const TypedSamples& samples) {
  validate(samples);
  if (samples.type == SampleType::kCrude) {
    return std::string(crude_dataset_yaml());
  }
  std::string text =
      fmt::format("sample_type:\n  __module__: megatron.energon\n  __class__: {}\nfield_map:\n",
                  class_name(samples.type));
  for (const FieldMap::Field& field : samples.field_map.fields) {
    text += fmt::format("  {}: {}\n", field.name, quoted_if_needed(to_text(field.expression)));
  }
  return text;
}

}  // namespace energon
