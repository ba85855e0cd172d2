#include "cli/job/sample_type_wizard.h"

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/job/ask.h"
#include "cli/show/outcome.h"
#include "cli/show/output.h"
#include "io/error.h"

namespace energon::cli {
namespace {

void show_parts(const std::vector<FirstSample>& samples) {
  if (samples.empty()) {
    output().write("The first shard has no samples.\n");
    return;
  }
  const FirstSample& first = samples.front();
  output().print("The first sample, '{}' in {}, has the parts:\n", printable(first.key),
                 printable(first.shard));
  for (const FirstPart& part : first.parts) {
    output().print("  {} ({})\n", printable(part.name),
                   plural(static_cast<std::int64_t>(part.size_bytes), "byte"));
  }
  const std::vector<std::string> all = part_names_of(samples);
  std::vector<std::string> others;
  for (std::size_t i = first.parts.size(); i < all.size(); ++i) {
    others.push_back(printable(all[i]));  // those of the first sample come first
  }
  if (!others.empty()) {
    output().print("Others of the first {} have: {}\n",
                   plural(static_cast<std::int64_t>(samples.size()), "sample"),
                   fmt::join(others, ", "));
  }
}

void show_types() {
  output().write("Types of samples, and their fields (optional ones in brackets):\n");
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

// By its number in the list, or its name.
std::optional<SampleType> type_of_answer(const std::string& answer) {
  std::size_t number = 0;
  const char* const end = answer.data() + answer.size();
  const auto [stop, error] = std::from_chars(answer.data(), end, number);
  const auto types = all_sample_types();
  if (error == std::errc() && stop == end) {
    return number >= 1 && number <= types.size() ? std::optional(types[number - 1]) : std::nullopt;
  }
  return sample_type_of_class(answer);
}

SampleType ask_for_type() {
  show_types();
  while (true) {
    const std::string answer = ask("Type of the samples, by number or name: ");
    if (const auto type = type_of_answer(answer)) {
      return *type;
    }
    output().print("'{}' is none of them.\n", printable(answer));
  }
}

// Nothing if the field is left out.
std::optional<FieldExpression> ask_for_field(const SampleField& field,
                                             const std::vector<std::string>& parts) {
  const std::string question =
      fmt::format("{} ({}{}): ", field.name, to_string(field.content),
                  field.is_required ? "" : "; optional, empty to leave it out");
  while (true) {
    const std::string answer = ask(question);
    if (answer.empty()) {
      if (!field.is_required) {
        return std::nullopt;
      }
      output().print("The field '{}' is not optional.\n", field.name);
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
        "What are the fields of {} made of? A part (jpg), the first of several that a "
        "sample has (jpg,png), or a value in a part (json[caption]).\n",
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
  try {
    validate(result);
  } catch (const Error& error) {
    throw UsageError{fmt::format("--field-map: {}", error.message())};
  }
  return result;
}

}  // namespace energon::cli
