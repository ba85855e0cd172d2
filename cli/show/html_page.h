// A page of samples: one HTML file that needs nothing else, neither files nor a network.
//
// A Content-Security-Policy refuses everything but what the page itself holds, and every script but
// its own.

#pragma once

#include <string>
#include <vector>

namespace energon::cli {

/// The samples of one dataset.
struct PageColumn {
  std::string title = {};               ///< text
  std::string facts = {};               ///< text, such as "10 samples"; empty: none
  double share = -1;                    ///< of a blend, 0 to 1; negative: none
  std::vector<std::string> cards = {};  ///< HTML: card_of()
};

struct HtmlPage {
  std::string title = {};                  ///< text
  std::vector<std::string> facts = {};     ///< text, a line each
  std::vector<std::string> warnings = {};  ///< text
  std::string packs = {};                  ///< HTML: packs_html(); empty: none
  std::vector<PageColumn> columns = {};
};

/// The file. Texts are escaped here.
std::string to_html(const HtmlPage& page);

}  // namespace energon::cli
