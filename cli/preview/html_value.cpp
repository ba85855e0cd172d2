#include "cli/preview/html_value.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/output.h"
#include "cli/preview/html_text.h"
#include "io/overloaded.h"

namespace energon::cli {

// --- The elements of a tensor, in a few numbers ---

namespace {

/// Statistics of the finite numbers. If `count` is 0, the others are 0.
struct TensorSummary {
  std::int64_t count = 0;
  std::int64_t not_finite = 0;
  double least = 0;
  double most = 0;
  double mean = 0;
  double deviation = 0;  ///< the square root of the mean squared distance
};

template <class Number>
Number stored_number(const std::byte* at) {
  Number number{};
  std::memcpy(&number, at, sizeof(number));
  return number;
}

// IEEE 754, binary16.
double number_of_half(std::uint16_t bits) {
  const int exponent = bits >> 10 & 0x1F;
  const double fraction = bits & 0x3FF;
  double magnitude = 0;
  if (exponent == 0x1F) {
    magnitude = fraction == 0 ? INFINITY : NAN;
  } else if (exponent == 0) {
    magnitude = std::ldexp(fraction, -24);
  } else {
    magnitude = std::ldexp(1024 + fraction, exponent - 25);
  }
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

double element_of(DType dtype, const std::byte* at) {
  switch (dtype) {
    case DType::kUInt8:
    case DType::kBool:
      return std::to_integer<std::uint8_t>(*at);
    case DType::kInt8:
      return stored_number<std::int8_t>(at);
    case DType::kInt16:
      return stored_number<std::int16_t>(at);
    case DType::kInt32:
      return stored_number<std::int32_t>(at);
    case DType::kInt64:
      return static_cast<double>(stored_number<std::int64_t>(at));
    case DType::kFloat16:
      return number_of_half(stored_number<std::uint16_t>(at));
    case DType::kBFloat16:
      return std::bit_cast<float>(std::uint32_t{stored_number<std::uint16_t>(at)} << 16);
    case DType::kFloat32:
      return stored_number<float>(at);
    case DType::kFloat64:
      return stored_number<double>(at);
  }
  return NAN;
}

template <class Visit>
void for_each_element(const Tensor& tensor, std::size_t most, const Visit& visit) {
  const std::size_t size = size_of(tensor.dtype);
  const std::size_t count = size == 0 ? 0 : std::min(tensor.data.size() / size, most);
  for (std::size_t i = 0; i < count; ++i) {
    visit(element_of(tensor.dtype, tensor.data.view.data() + i * size));
  }
}

TensorSummary summarize(const Tensor& tensor) {
  TensorSummary summary;
  double squares = 0;  // Welford's sum of squared distances
  for_each_element(tensor, SIZE_MAX, [&](double number) {
    if (!std::isfinite(number)) {
      ++summary.not_finite;
      return;
    }
    summary.least = summary.count == 0 ? number : std::min(summary.least, number);
    summary.most = summary.count == 0 ? number : std::max(summary.most, number);
    ++summary.count;
    const double distance = number - summary.mean;
    summary.mean += distance / static_cast<double>(summary.count);
    squares += distance * (number - summary.mean);
  });
  if (summary.count > 0) {
    summary.deviation = std::sqrt(squares / static_cast<double>(summary.count));
  }
  return summary;
}

/// The first `most` elements, as numbers. An int64 beyond 2^53 is rounded.
std::vector<double> first_elements(const Tensor& tensor, std::size_t most) {
  std::vector<double> elements;
  for_each_element(tensor, most, [&](double number) { elements.push_back(number); });
  return elements;
}

}  // namespace

// --- Trees ---

namespace {

constexpr std::size_t kMostNodes = 1000;  // of a tree
constexpr std::size_t kMostText = 4000;   // bytes of one string in a tree
constexpr std::size_t kMostElements = 24;
constexpr std::size_t kLongestOpenList = 12;
constexpr std::size_t kShortText = 16;
constexpr int kOpenLevels = 3;

std::string span_html(std::string_view css, const std::string& html) {
  return fmt::format("<span class=\"{}\">{}</span>", css, html);
}

/// Dtype, shape, statistics.
std::string tensor_html(const Tensor& tensor) {
  const TensorSummary summary = summarize(tensor);
  std::string html =
      fmt::format("<span class=\"tensor\"><b>{}</b> ({}{})", to_string(tensor.dtype),
                  fmt::join(tensor.shape, ", "), tensor.shape.size() == 1 ? "," : "");
  const bool is_small =
      static_cast<std::size_t>(summary.count + summary.not_finite) <= kMostElements;
  if (is_small) {
    html += fmt::format(" [{}]", fmt::join(first_elements(tensor, kMostElements), ", "));
  } else if (summary.count > 0) {
    html += span_html("type",
                      fmt::format(" {:.6g} to {:.6g}, mean {:.4g}, deviation {:.4g}", summary.least,
                                  summary.most, summary.mean, summary.deviation));
  }
  if (summary.not_finite > 0) {
    html += fmt::format(" <strong>{} not finite</strong>", with_separators(summary.not_finite));
  }
  return html + "</span>";
}

// Fits on a line with others.
bool is_short(const Value& value) {
  const auto* const text = std::get_if<std::string>(&value.base());
  return std::holds_alternative<std::int64_t>(value.base()) ||
         std::holds_alternative<double>(value.base()) ||
         (text != nullptr && text->size() <= kShortText);
}

/// Writes one tree; counts its nodes.
class HtmlTree {
 public:
  void add(const Value& value, int level) {
    std::visit(
        Overloaded{
            [&](const SharedBytes& bytes) {
              html_ += span_html("type", plural(static_cast<std::int64_t>(bytes.size()), "byte")) +
                       (bytes.size() == 0 ? "" : hex_html(bytes.view));
            },
            [&](const std::string& text) { add_text(text); },
            [&](std::int64_t integer) { html_ += span_html("number", std::to_string(integer)); },
            [&](double number) { html_ += span_html("number", fmt::format("{}", number)); },
            [&](const Tensor& tensor) { html_ += tensor_html(tensor); },
            [&](const List& list) { add_list(list, level); },
            [&](const Mapping& mapping) { add_mapping(mapping, level); },
            [&](const LazyBytes& lazy) { html_ += html_text(lazy.describe()); },
            [&](Null) { html_ += span_html("word", "null"); },
            [&](bool truth) { html_ += span_html("word", truth ? "true" : "false"); },
            [&](const Tuple& tuple) { add_list(tuple.items, level); },
            [&](const BigInteger& integer) { add_number(integer.digits()); },
        },
        value.base());
  }

  std::string take() { return std::move(html_); }

 private:
  void add_text(std::string_view text) {
    const std::string_view shown = whole_characters(text, kMostText);
    html_ += span_html("text", "&quot;" + html_lines(shown) + "&quot;");
    if (shown.size() < text.size()) {
      html_ += span_html(
          "type", fmt::format(" … of {}", human_bytes(static_cast<std::uint64_t>(text.size()))));
    }
  }

  void add_number(std::string_view digits) {
    const std::string_view shown = digits.substr(0, kMostText);
    html_ +=
        span_html("number", fmt::format("{}{}", shown, shown.size() < digits.size() ? "…" : ""));
  }

  void add_list(const List& list, int level) {
    if (list.size() <= kMostElements && std::ranges::all_of(list, is_short)) {
      html_ += "[";
      for (std::size_t i = 0; i < list.size(); ++i) {
        html_ += i == 0 ? "" : ", ";
        add(list[i], level + 1);
      }
      html_ += "]";
      return;
    }
    begin_fold("[…]", list.size(), "element", level);
    for (std::size_t i = 0; i < list.size() && may_add(list.size() - i); ++i) {
      html_ += "<li>";
      add(list[i], level + 1);
      html_ += "</li>";
    }
    html_ += "</ol></details>";
  }

  void add_mapping(const Mapping& mapping, int level) {
    if (mapping.empty()) {
      html_ += "{}";
      return;
    }
    begin_fold("{…}", mapping.size(), "name", level);
    for (std::size_t i = 0; i < mapping.size() && may_add(mapping.size() - i); ++i) {
      const auto& [name, element] = mapping[i];
      html_ += "<li><b>" + html_text(whole_characters(name, kMostText)) + "</b>: ";
      add(element, level + 1);
      html_ += "</li>";
    }
    html_ += "</ol></details>";
  }

  void begin_fold(std::string_view sign, std::size_t count, std::string_view noun, int level) {
    const bool is_open = level == 0 || (level < kOpenLevels && count <= kLongestOpenList);
    html_ += fmt::format("<details{}><summary>{} {}</summary><ol>", is_open ? " open" : "", sign,
                         span_html("type", plural(static_cast<std::int64_t>(count), noun)));
  }

  // Counts a node; shows how many are left out if there are too many.
  bool may_add(std::size_t left) {
    if (++nodes_ <= kMostNodes) {
      return true;
    }
    html_ += fmt::format("<li class=\"type\">… {} more</li>",
                         with_separators(static_cast<std::int64_t>(left)));
    return false;
  }

  std::string html_;
  std::size_t nodes_ = 0;
};

}  // namespace

std::string value_html(const Value& value) {
  HtmlTree tree;
  tree.add(value, 0);
  return "<div class=\"tree\">" + tree.take() + "</div>";
}

}  // namespace energon::cli
