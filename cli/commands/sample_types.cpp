#include "cli/commands/sample_types.h"

#include <cstddef>
#include <cstdint>
#include <iostream>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "cli/flags.h"
#include "cli/output.h"
#include "io/error.h"

namespace energon::cli {

// --- Options ---

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
    throw UsageError{
        fmt::format("--field-map: expected a JSON object, found '{}'", printable(text))};
  }
  for (const auto& [field, expression] : json.items()) {
    if (!expression.is_string()) {
      throw UsageError{
          fmt::format("--field-map: the expression of '{}' must be a string", printable(field))};
    }
    add_field(map, field, expression.get<std::string>());
  }
}

/// The type with this name. Throws UsageError that lists the types.
SampleType sample_type_of_flag(const std::string& name) {
  if (const auto type = sample_type_of_class(name)) {
    return *type;
  }
  std::vector<std::string_view> names;
  for (const SampleType type : all_sample_types()) {
    names.push_back(class_name(type));
  }
  throw UsageError{fmt::format("unknown sample type '{}', expected one of: {}", printable(name),
                               fmt::join(names, ", "))};
}

/// The fields in --field-map; throws UsageError.
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
          "--field-map: expected FIELD=EXPRESSION, such as caption=json[caption], found '{}'",
          printable(text))};
    }
    add_field(map, text.substr(0, equals), text.substr(equals + 1));
  }
  return map;
}

void refuse_unusable(const TypedSamples& samples) {
  try {
    validate(samples);
  } catch (const Error& error) {
    throw UsageError{fmt::format("--field-map: {}", error.message())};
  }
}

}  // namespace

void add_sample_type_flags(CLI::App& command, SampleTypeFlags& flags) {
  command.add_option(
      "--sample-type", flags.type,
      "Sample type for dataset.yaml, such as CaptioningSample [default: crude samples]");
  command
      .add_option("--field-map", flags.field_map,
                  "Source of a field of the sample type, as FIELD=EXPRESSION, such as "
                  "caption=json[caption] or image=jpg,png; may be given several times")
      ->allow_extra_args(false);
  command.add_flag(
      "--interactive", flags.is_asking,
      "Show the parts of the first sample, and ask for the sample type and its fields");
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

std::optional<TypedSamples> samples_of_flags(const SampleTypeFlags& flags) {
  if (flags.type.empty()) {
    if (!flags.field_map.empty()) {
      throw UsageError{"--field-map needs --sample-type, the type with these fields"};
    }
    return std::nullopt;
  }
  TypedSamples samples{.type = sample_type_of_flag(flags.type), .field_map = field_map_of(flags)};
  refuse_unusable(samples);
  return samples;
}

// --- Questions ---

std::string ask(const std::string& question) {
  output().flush();
  std::cerr << question << std::flush;
  std::string answer;
  if (!std::getline(std::cin, answer)) {
    throw Error(ErrorCode::kCancelled, "no answer; nothing was prepared");
  }
  return answer;
}

namespace {

void show_parts(const std::vector<FirstSample>& samples) {
  if (samples.empty()) {
    output().write("The first shard has no samples.\n");
    return;
  }
  const FirstSample& first = samples.front();
  output().print("The first sample, '{}' in {}, has these parts:\n", printable(first.key),
                 printable(first.shard));
  for (const FirstPart& part : first.parts) {
    output().print("  {} ({})\n", printable(part.name),
                   plural(static_cast<std::int64_t>(part.size_bytes), "byte"));
  }
  const std::vector<std::string> all = part_names_of(samples);
  std::vector<std::string> others;
  for (std::size_t i = first.parts.size(); i < all.size(); ++i) {
    others.push_back(printable(all[i]));  // the parts of the first sample come first
  }
  if (!others.empty()) {
    output().print("Other parts in the first {}: {}\n",
                   plural(static_cast<std::int64_t>(samples.size()), "sample"),
                   fmt::join(others, ", "));
  }
}

void show_types() {
  output().write("Sample types and their fields (optional fields in brackets):\n");
  std::size_t number = 0;
  for (const SampleType type : all_sample_types()) {
    std::vector<std::string> fields;
    for (const SampleField& field : fields_of(type)) {
      fields.push_back(field.is_required ? std::string(field.name)
                                         : fmt::format("[{}]", field.name));
    }
    output().print(
        "  {}. {}: {}\n", ++number, class_name(type),
        fields.empty() ? "the parts as they are" : fmt::format("{}", fmt::join(fields, ", ")));
  }
}

// Finds a type by its number in the list, or by its name.
std::optional<SampleType> type_of_answer(const std::string& answer) {
  const auto types = all_sample_types();
  if (const auto number = parse_number<std::size_t>(answer)) {
    return *number >= 1 && *number <= types.size() ? std::optional(types[*number - 1])
                                                   : std::nullopt;
  }
  return sample_type_of_class(answer);
}

SampleType ask_for_type() {
  show_types();
  while (true) {
    const std::string answer = ask("Sample type, by number or name: ");
    if (const auto type = type_of_answer(answer)) {
      return *type;
    }
    output().print("'{}' is not one of them.\n", printable(answer));
  }
}

// Returns nullopt if the field is left out.
std::optional<FieldExpression> ask_for_field(const SampleField& field,
                                             const std::vector<std::string>& parts) {
  const std::string question =
      fmt::format("{} ({}{}): ", field.name, to_string(field.content),
                  field.is_required ? "" : "; optional, leave empty to omit");
  while (true) {
    const std::string answer = ask(question);
    if (answer.empty()) {
      if (!field.is_required) {
        return std::nullopt;
      }
      output().print("The field '{}' is required.\n", field.name);
      continue;
    }
    try {
      FieldMap map;
      map.fields.push_back(
          {.name = std::string(field.name), .expression = parse_field_expression(answer)});
      check_parts_occur(map, parts);
      return map.fields.front().expression;
    } catch (const Error& error) {
      output().print("{}\n", error.message());
    }
  }
}

}  // namespace

TypedSamples ask_for_samples(const std::vector<FirstSample>& samples,
                             const SampleTypeFlags& flags) {
  const FieldMap given = field_map_of(flags);
  show_parts(samples);
  TypedSamples result{.type = flags.type.empty() ? ask_for_type() : sample_type_of_flag(flags.type),
                      .field_map = given};
  const std::vector<std::string> parts = part_names_of(samples);
  if (!fields_of(result.type).empty()) {
    output().print(
        "Where do the fields of {} come from? Name a part (jpg), several parts to use the first "
        "that a sample has (jpg,png), or a value in a part (json[caption]).\n",
        class_name(result.type));
  }
  for (const SampleField& field : fields_of(result.type)) {
    if (given.find(field.name) != nullptr) {
      continue;
    }
    if (auto expression = ask_for_field(field, parts)) {
      result.field_map.fields.push_back(
          {.name = std::string(field.name), .expression = std::move(*expression)});
    }
  }
  refuse_unusable(result);
  return result;
}

}  // namespace energon::cli
