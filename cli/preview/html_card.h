// One sample as HTML: a card with its key, its place and its parts.

#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "cli/preview/html_page.h"
#include "energon/sample/sample.h"
#include "energon/stage/failure.h"
#include "media/decode/sample_decoder.h"

namespace energon::cli {

/// How parts are decoded for a page.
struct HtmlPartOptions {
  /// Images are also decoded in this mode, and their tensors described. Unset means thumbnails
  /// only.
  std::optional<SampleDecoder> image_decoder = std::nullopt;
};

struct SampleCard {
  std::string html;
  bool is_failed = false;  ///< a part cannot be decoded
};

/// Shows the first 64 parts. Does not throw, whatever the sample contains.
SampleCard card_of(const Sample& sample, const HtmlPartOptions& options, PageBudget& budget);

/// A sample, or a shard, that could not be read. Unknown fields of `sample` are left out.
std::string card_of_failure(const FailedSample& sample, std::string_view reason);

}  // namespace energon::cli
