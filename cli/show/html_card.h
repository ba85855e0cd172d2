// One sample as HTML: a card with its key, its place and its parts.

#pragma once

#include <string>
#include <string_view>

#include "cli/show/html_part.h"
#include "cli/show/page_budget.h"
#include "energon/sample/sample.h"
#include "energon/stage/failure.h"

namespace energon::cli {

struct SampleCard {
  std::string html;
  bool is_failed = false;  ///< a part cannot be decoded
};

/// The first 64 parts. Does not throw for anything that the sample holds.
SampleCard card_of(const Sample& sample, const HtmlPartOptions& options, PageBudget& budget);

/// A sample, or a shard, that could not be read. Unknown fields of `sample` are left out.
std::string card_of_failure(const FailedSample& sample, std::string_view reason);

}  // namespace energon::cli
