#include "io/recipe/field_map.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/error.h"

namespace energon {
namespace {

class ExpressionParser {
 public:
  explicit ExpressionParser(std::string_view text) : text_(text) {}

  FieldExpression parse() {
    FieldExpression expression;
    expression.alternatives.push_back(path());
    while (at_ < text_.size()) {
      ++at_;  // the comma
      expression.alternatives.push_back(path());
    }
    return expression;
  }

 private:
  FieldPath path() {
    const std::size_t begin = at_;
    FieldPath path{.part = name(",[]", "the name of a part")};
    while (at_ < text_.size() && text_[at_] == '[') {
      ++at_;
      FieldStep step{.name = name(",[]", "a name or a position")};
      if (at_ == text_.size() || text_[at_] != ']') {
        fail("']' is expected");
      }
      ++at_;
      step.index = position(step.name);
      path.steps.push_back(std::move(step));
    }
    if (at_ < text_.size() && text_[at_] != ',') {
      fail(path.steps.empty() ? "',' or '[' is expected" : "',', '[' or the end is expected");
    }
    check_ends(begin);
    return path;
  }

  std::string name(std::string_view stops, std::string_view what) {
    const std::size_t begin = at_;
    at_ = std::min(text_.find_first_of(stops, at_), text_.size());
    if (at_ == begin) {
      fail(fmt::format("{} is expected", what));
    }
    return std::string(text_.substr(begin, at_ - begin));
  }

  static std::optional<std::int64_t> position(std::string_view name) {
    std::int64_t index = 0;
    const char* const end = name.data() + name.size();
    const auto [stop, error] = std::from_chars(name.data(), end, index);
    return error == std::errc() && stop == end ? std::optional(index) : std::nullopt;
  }

  // Energon would look for a part whose name has the blank.
  void check_ends(std::size_t begin) {
    const std::size_t end = at_;
    if (text_[begin] == ' ' || text_[end - 1] == ' ') {
      at_ = text_[begin] == ' ' ? begin : end - 1;
      fail("no blank is expected between alternatives");
    }
  }

  [[noreturn]] void fail(std::string_view problem) const {
    const std::string got =
        at_ < text_.size() ? fmt::format("'{}'", printable(text_.substr(at_, 1))) : "the end";
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("the expression '{}' is wrong at character {}: {}, got {}; expressions "
                            "are like jpg,png and json[captions][0]",
                            printable(text_), at_ + 1, problem, got));
  }

  const std::string_view text_;
  std::size_t at_ = 0;
};

std::string describe_fields(SampleType type) {
  std::vector<std::string> names;
  for (const SampleField& field : fields_of(type)) {
    names.push_back(fmt::format("{}{}", field.name, field.is_required ? "" : " (optional)"));
  }
  return names.empty()
             ? fmt::format("{} has no fields", class_name(type))
             : fmt::format("the fields of {} are {}", class_name(type), fmt::join(names, ", "));
}

[[noreturn]] void refuse_map(SampleType type, const std::string& problem) {
  throw Error(ErrorCode::kInvalidArgument, fmt::format("{}; {}", problem, describe_fields(type)));
}

}  // namespace

FieldExpression parse_field_expression(std::string_view text) {
  return ExpressionParser(text).parse();
}

std::string to_text(const FieldPath& path) {
  std::string text = path.part;
  for (const FieldStep& step : path.steps) {
    text += fmt::format("[{}]", step.name);
  }
  return text;
}

std::string to_text(const FieldExpression& expression) {
  std::string text;
  for (const FieldPath& path : expression.alternatives) {
    text += (text.empty() ? "" : ",") + to_text(path);
  }
  return text;
}

const FieldExpression* FieldMap::find(std::string_view name) const {
  const auto found =
      std::find_if(fields.begin(), fields.end(), [&](const Field& f) { return f.name == name; });
  return found == fields.end() ? nullptr : &found->expression;
}

std::vector<std::string> FieldMap::needed_parts() const {
  std::vector<std::string> parts;
  for (const Field& field : fields) {
    for (const FieldPath& path : field.expression.alternatives) {
      if (std::find(parts.begin(), parts.end(), path.part) == parts.end()) {
        parts.push_back(path.part);
      }
    }
  }
  return parts;
}

void validate(const TypedSamples& samples) {
  const FieldMap& map = samples.field_map;
  for (const FieldMap::Field& field : map.fields) {
    if (find_field(samples.type, field.name) == nullptr) {
      refuse_map(samples.type, fmt::format("the field map has '{}'", printable(field.name)));
    }
    if (map.find(field.name) != &field.expression) {
      refuse_map(samples.type, fmt::format("the field map has '{}' twice", field.name));
    }
  }
  for (const SampleField& field : fields_of(samples.type)) {
    if (field.is_required && map.find(field.name) == nullptr) {
      refuse_map(samples.type, fmt::format("the field map lacks '{}'", field.name));
    }
  }
}

}  // namespace energon
