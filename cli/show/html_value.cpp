#include "cli/show/html_value.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/show/html_text.h"
#include "cli/show/output.h"
#include "cli/show/tensor_summary.h"
#include "io/overloaded.h"

namespace energon::cli {
namespace {

constexpr std::size_t kMostNodes = 1000;  // of a tree
constexpr std::size_t kMostText = 4000;   // bytes of one text in a tree
constexpr std::size_t kMostElements = 24;
constexpr std::size_t kLongestOpenList = 12;
constexpr std::size_t kShortText = 16;
constexpr int kOpenLevels = 3;

std::string span_html(std::string_view css, const std::string& html) {
  return fmt::format("<span class=\"{}\">{}</span>", css, html);
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

  // Counts a node; says how many are left out if there are too many.
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

std::string value_html(const Value& value) {
  HtmlTree tree;
  tree.add(value, 0);
  return "<div class=\"tree\">" + tree.take() + "</div>";
}

}  // namespace energon::cli
