// A page of samples: one HTML file that needs no other files and no network.
//
// A Content-Security-Policy allows only content inside the page, and only its own script.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace energon::cli {

/// The samples of one dataset.
struct PageColumn {
  std::string title = {};               ///< text
  std::string facts = {};               ///< text, such as "10 samples"; may be empty
  double share = -1;                    ///< of a blend, 0 to 1; negative if none
  std::vector<std::string> cards = {};  ///< HTML: card_of()
};

struct HtmlPage {
  std::string title = {};                  ///< text
  std::vector<std::string> facts = {};     ///< text, a line each
  std::vector<std::string> warnings = {};  ///< text
  std::string packs = {};                  ///< HTML: packs_html(); may be empty
  std::vector<PageColumn> columns = {};
};

/// The content of the HTML file. Escapes text.
std::string to_html(const HtmlPage& page);

struct PackedLength {
  std::string key;  ///< of the sample
  std::int64_t length = 0;
};

/// How full packs would be: a bar for each pack of at most `max_length`, filled as pack_by_length()
/// fills them (wrappers/batching/pack_selection.h), and the samples that are too long for any.
/// `unit` follows numbers: "bytes of txt". Requires: lengths are not negative, max_length >= 1.
std::string packs_html(const std::vector<PackedLength>& samples, std::int64_t max_length,
                       const std::string& unit);

/// The space left in a page, which must stay small enough for a browser. Not thread-safe.
class PageBudget {
 public:
  explicit PageBudget(std::uint64_t bytes) : left_(bytes) {}

  /// Takes `bytes` of the space left. Returns false, and takes nothing, if less is left.
  bool take(std::uint64_t bytes) {
    if (bytes > left_) {
      ++refused_;
      return false;
    }
    left_ -= bytes;
    return true;
  }

  std::uint64_t left() const { return left_; }
  /// How often take() returned false.
  std::int64_t refused() const { return refused_; }

 private:
  std::uint64_t left_;
  std::int64_t refused_ = 0;
};

/// Replaces content that take() refused.
inline constexpr std::string_view kPageIsFull =
    "<p class=\"note\">Not shown: the page is full.</p>";

}  // namespace energon::cli
