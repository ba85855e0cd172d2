#include "io/recipe/subset.h"

#include <charconv>
#include <string>

#include <fmt/format.h>

#include "io/error.h"

namespace energon {
namespace {

[[noreturn]] void fail(const std::string& problem) {
  throw Error(ErrorCode::kInvalidArgument, problem);
}

template <typename Number>
Number parse_number(std::string_view text, std::string_view whole) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    fail(fmt::format(
        "subset bound '{}' is neither a sample number, a percentage such as '12.5%' nor "
        "'end'",
        printable(whole)));
  }
  return value;
}

bool is_percentage(std::string_view text) { return !text.empty() && text.back() == '%'; }

double parse_fraction(std::string_view text) {
  const double percent = parse_number<double>(text.substr(0, text.size() - 1), text);
  if (!(percent >= 0 && percent <= 100)) {
    fail(fmt::format("subset bound '{}' must lie between 0% and 100%", printable(text)));
  }
  return percent / 100;
}

std::int64_t parse_position(std::string_view text) {
  const auto position = parse_number<std::int64_t>(text, text);
  if (position < 0) {
    fail(fmt::format("subset bound {} must not be negative", position));
  }
  return position;
}

}  // namespace

Subset parse_subset(std::string_view start, std::string_view end) {
  const bool open_end = end == "end";
  if (!open_end && is_percentage(start) != is_percentage(end)) {
    fail(fmt::format("subset range [{}, {}] mixes a percentage with a sample number",
                     printable(start), printable(end)));
  }
  Subset subset;
  if (is_percentage(start)) {
    subset.low = parse_fraction(start);
    subset.high = open_end ? 1 : parse_fraction(end);
  } else {
    subset.begin = parse_position(start);
    if (!open_end) {
      subset.end = parse_position(end);
    }
  }
  if (subset.low > subset.high || (subset.end && *subset.end < subset.begin)) {
    fail(fmt::format("subset range [{}, {}] ends before it starts", printable(start),
                     printable(end)));
  }
  return subset;
}

Subset compose(const Subset& inner, const Subset& outer) {
  if (outer.is_absolute()) {
    fail("an absolute subset range is possible on a leaf dataset only; use percentages around it");
  }
  Subset result = inner;
  result.low = inner.low + outer.low * (inner.high - inner.low);
  result.high = inner.low + outer.high * (inner.high - inner.low);
  return result;
}

SampleRange resolve(const Subset& subset, std::int64_t sample_count) {
  const std::int64_t end = subset.end.value_or(sample_count);
  if (subset.begin > end || end > sample_count) {
    fail(fmt::format("subset range [{}, {}) does not lie within the {} samples of the dataset",
                     subset.begin, end, sample_count));
  }
  const auto count = static_cast<double>(end - subset.begin);
  return {.begin = subset.begin + static_cast<std::int64_t>(count * subset.low),
          .end = subset.begin + static_cast<std::int64_t>(count * subset.high)};
}

}  // namespace energon
