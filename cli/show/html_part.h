// One part of a sample as HTML, by its kind (media/decode/sample_decoder.h).

#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "cli/show/page_budget.h"
#include "energon/sample/sample.h"
#include "media/decode/sample_decoder.h"

namespace energon::cli {

/// How parts are decoded for a page.
struct HtmlPartOptions {
  /// Images are also decoded in this mode, whose tensor is described. Absent: only thumbnails.
  std::optional<SampleDecoder> image_decoder = std::nullopt;
};

struct HtmlPart {
  std::string html;
  bool is_failed = false;
};

/// Images, sound, video, texts, numbers, JSON and arrays are shown as what they are, other bytes in
/// hexadecimal. A part whose name says that it can be decoded, and that cannot, is_failed: it shows
/// why. Does not throw for anything that `content` holds.
HtmlPart part_html(std::string_view name, const Value& content, const HtmlPartOptions& options,
                   PageBudget& budget);

}  // namespace energon::cli
