#include "io/dataset/brace_pattern.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "io/error.h"

namespace energon {

// --- From a pattern to names ---

namespace {

constexpr int kMaxDepth = 100;
constexpr std::uint64_t kMaxTextBytes = std::uint64_t{4} << 30;
constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

struct Range {
  std::int64_t first = 0;
  std::int64_t step = 1;  // signed
  std::uint64_t count = 0;
  int width = 0;         // digits to pad to, sign included
  bool letters = false;  // first indexes kLetters
};

struct Node;
using Sequence = std::vector<Node>;

// One of: literal text, a range, alternatives.
struct Node {
  std::string text;
  std::optional<Range> range = std::nullopt;
  std::vector<Sequence> alternatives = {};
};

// Result count and text size of a pattern; saturating, because a bomb overflows quickly.
struct Volume {
  std::uint64_t count = 1;
  std::uint64_t bytes = 0;
};

std::uint64_t saturating_multiply(std::uint64_t a, std::uint64_t b) {
  std::uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<std::uint64_t>::max()
                                                : product;
}

std::uint64_t saturating_add(std::uint64_t a, std::uint64_t b) {
  std::uint64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<std::uint64_t>::max() : sum;
}

class Parser {
 public:
  Parser(std::string_view pattern, Escapes escapes) : pattern_(pattern), escapes_(escapes) {}

  Sequence parse() {
    Sequence result = parse_sequence(0);
    if (position_ != pattern_.size()) {
      fail("has a closing brace without an opening one", position_);
    }
    return result;
  }

 private:
  [[noreturn]] void fail(std::string_view problem, std::size_t position) const {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("brace pattern '{}' {} (character {}); write a literal brace as '\\{{'",
                            printable(pattern_.substr(0, 200)), problem, position));
  }

  // Up to the end, or to ',' or '}' of an enclosing brace.
  Sequence parse_sequence(int depth) {
    if (depth > kMaxDepth) {
      fail("nests too deeply", position_);
    }
    Sequence result;
    std::string text;
    while (position_ < pattern_.size()) {
      const char c = pattern_[position_];
      if (c == '\\' && position_ + 1 < pattern_.size()) {
        if (escapes_ == Escapes::kKeep) {
          text += c;
        }
        text += pattern_[position_ + 1];
        position_ += 2;
      } else if (c == '}' || (c == ',' && depth > 0)) {
        break;
      } else if (c == '{') {
        result.push_back({.text = std::exchange(text, {})});
        parse_brace(depth, result);
      } else {
        text += c;
        ++position_;
      }
    }
    result.push_back({.text = std::move(text)});
    return result;
  }

  void parse_brace(int depth, Sequence& result) {
    const std::size_t open = position_++;
    std::vector<Sequence> alternatives;
    while (true) {
      alternatives.push_back(parse_sequence(depth + 1));
      if (position_ == pattern_.size()) {
        fail("has an opening brace that is not closed", open);
      }
      if (pattern_[position_++] == '}') {
        break;
      }
    }
    if (alternatives.size() > 1) {
      result.push_back({.text = {}, .range = {}, .alternatives = std::move(alternatives)});
      return;
    }
    const std::string_view body = pattern_.substr(open + 1, position_ - open - 2);
    if (const auto range = parse_range(body, open)) {
      result.push_back({.text = {}, .range = range});
      return;
    }
    // Not an expression: the braces are literal text, but their content is still expanded.
    result.push_back({.text = "{"});
    std::move(alternatives[0].begin(), alternatives[0].end(), std::back_inserter(result));
    result.push_back({.text = "}"});
  }

  // "first..last" or "first..last..step", integers or letters.
  std::optional<Range> parse_range(std::string_view body, std::size_t position) const {
    const std::size_t dots = body.find("..");
    if (dots == std::string_view::npos) {
      return std::nullopt;
    }
    const std::string_view first = body.substr(0, dots);
    std::string_view last = body.substr(dots + 2);
    std::int64_t step = 1;
    if (const std::size_t more = last.find(".."); more != std::string_view::npos) {
      if (!is_integer(last.substr(more + 2))) {
        return std::nullopt;
      }
      // The ends determine the direction; the sign of the step is ignored, and so is a step of
      // zero.
      step = std::max<std::int64_t>(1, std::abs(to_integer(last.substr(more + 2), position)));
      last = last.substr(0, more);
    }
    if (is_integer(first) && is_integer(last)) {
      const int width = is_padded(first) || is_padded(last)
                            ? static_cast<int>(std::max(first.size(), last.size()))
                            : 0;
      return make_range(to_integer(first, position), to_integer(last, position), step, width,
                        false);
    }
    if (is_letter(first) && is_letter(last)) {
      return make_range(static_cast<std::int64_t>(kLetters.find(first)),
                        static_cast<std::int64_t>(kLetters.find(last)), step, 0, true);
    }
    return std::nullopt;
  }

  static Range make_range(std::int64_t first, std::int64_t last, std::int64_t step, int width,
                          bool letters) {
    const auto distance = static_cast<std::uint64_t>(std::abs(last - first));
    return {.first = first,
            .step = first <= last ? step : -step,
            .count = distance / static_cast<std::uint64_t>(step) + 1,
            .width = width,
            .letters = letters};
  }

  static bool is_letter(std::string_view text) {
    return text.size() == 1 && kLetters.find(text[0]) != std::string_view::npos;
  }

  static bool is_integer(std::string_view text) {
    if (!text.empty() && text[0] == '-') {
      text.remove_prefix(1);
    }
    return !text.empty() && std::all_of(text.begin(), text.end(),
                                        [](unsigned char c) { return std::isdigit(c) != 0; });
  }

  static bool is_padded(std::string_view text) {
    if (text[0] == '-') {
      text.remove_prefix(1);
    }
    return text.size() > 1 && text[0] == '0';
  }

  std::int64_t to_integer(std::string_view text, std::size_t position) const {
    constexpr std::size_t kMaxDigits = 18;  // so that the difference of two never overflows
    if (text.size() > kMaxDigits + (text[0] == '-' ? 1 : 0)) {
      fail("has a number of more than 18 digits", position);
    }
    std::int64_t value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
  }

  const std::string_view pattern_;
  const Escapes escapes_;
  std::size_t position_ = 0;
};

Volume volume_of(const Sequence& sequence) {
  Volume total;
  for (const Node& node : sequence) {
    Volume part{.count = 1, .bytes = node.text.size()};
    if (node.range) {
      part.count = node.range->count;
      part.bytes = saturating_multiply(part.count, 20);  // the longest integer
    } else if (!node.alternatives.empty()) {
      part = {.count = 0, .bytes = 0};
      for (const Sequence& alternative : node.alternatives) {
        const Volume one = volume_of(alternative);
        part.count = saturating_add(part.count, one.count);
        part.bytes = saturating_add(part.bytes, one.bytes);
      }
    }
    total.bytes = saturating_add(saturating_multiply(total.bytes, part.count),
                                 saturating_multiply(part.bytes, total.count));
    total.count = saturating_multiply(total.count, part.count);
  }
  return total;
}

std::string text_at(const Range& range, std::uint64_t i) {
  const std::int64_t value = range.first + range.step * static_cast<std::int64_t>(i);
  return range.letters ? std::string(1, kLetters[static_cast<std::size_t>(value)])
                       : fmt::format("{:0{}}", value, range.width);
}

std::vector<std::string> generate(const Sequence& sequence) {
  std::vector<std::string> results(1);
  for (const Node& node : sequence) {
    if (!node.range && node.alternatives.empty()) {
      for (std::string& result : results) {
        result += node.text;
      }
      continue;
    }
    std::vector<std::string> choices;
    if (node.range) {
      for (std::uint64_t i = 0; i < node.range->count; ++i) {
        choices.push_back(text_at(*node.range, i));
      }
    }
    for (const Sequence& alternative : node.alternatives) {
      std::vector<std::string> some = generate(alternative);
      std::move(some.begin(), some.end(), std::back_inserter(choices));
    }
    std::vector<std::string> product;
    product.reserve(results.size() * choices.size());
    for (const std::string& result : results) {
      for (const std::string& choice : choices) {
        product.push_back(result + choice);
      }
    }
    results = std::move(product);
  }
  return results;
}

}  // namespace

std::vector<std::string> expand_braces(std::string_view pattern,
                                       const ExpandBracesOptions& options) {
  const Sequence sequence = Parser(pattern, options.escapes).parse();
  const Volume volume = volume_of(sequence);
  if (volume.count > options.max_results || volume.bytes > kMaxTextBytes) {
    throw Error(ErrorCode::kResourceExhausted,
                fmt::format("brace pattern '{}' expands to {} names; the limits are {} names "
                            "(max_results) and {} bytes of text",
                            printable(pattern.substr(0, 200)), volume.count, options.max_results,
                            kMaxTextBytes));
  }
  return generate(sequence);
}

// --- From names to patterns ---

namespace {

// A name split into runs of digits (odd positions) and the text between them (even positions).
std::vector<std::string> cut_at_numbers(std::string_view name) {
  std::vector<std::string> pieces(1);
  for (const char c : name) {
    const bool digit = c >= '0' && c <= '9';
    if (digit != (pieces.size() % 2 == 0)) {
      pieces.emplace_back();
    }
    pieces.back() += c;
  }
  return pieces;
}

// Whether `next` is `number` + 1 with as many digits.
bool is_successor(std::string number, const std::string& next) {
  for (std::size_t i = number.size(); i-- > 0;) {
    if (number[i] != '9') {
      ++number[i];
      return number == next;
    }
    number[i] = '0';
  }
  return false;  // all nines: the next number has one more digit
}

// The only piece in which `next` differs from `previous`, if it is a number that increased by one.
std::optional<std::size_t> growing_piece(const std::vector<std::string>& previous,
                                         const std::vector<std::string>& next) {
  if (previous.size() != next.size()) {
    return std::nullopt;
  }
  std::optional<std::size_t> result;
  for (std::size_t i = 0; i < previous.size(); ++i) {
    if (previous[i] == next[i]) {
      continue;
    }
    if (result || i % 2 == 0 || !is_successor(previous[i], next[i])) {
      return std::nullopt;
    }
    result = i;
  }
  return result;
}

void append_escaped(std::string& out, std::string_view text) {
  for (const char c : text) {
    if (c == '{' || c == '}' || c == '\\') {
      out += '\\';
    }
    out += c;
  }
}

}  // namespace

std::vector<std::string> collapse_names(std::span<const std::string> names) {
  std::vector<std::string> result;
  for (std::size_t begin = 0; begin < names.size();) {
    const std::vector<std::string> first = cut_at_numbers(names[begin]);
    std::vector<std::string> last = first;
    std::optional<std::size_t> slot;
    std::size_t end = begin + 1;
    for (; end < names.size(); ++end) {
      std::vector<std::string> next = cut_at_numbers(names[end]);
      const auto growing = growing_piece(last, next);
      if (!growing || (slot && *slot != *growing)) {
        break;
      }
      slot = growing;
      last = std::move(next);
    }
    std::string text;
    for (std::size_t i = 0; i < first.size(); ++i) {
      if (i == slot) {
        text += fmt::format("{{{}..{}}}", first[i], last[i]);
      } else {
        append_escaped(text, first[i]);
      }
    }
    result.push_back(std::move(text));
    begin = end;
  }
  return result;
}

}  // namespace energon
