// Encodes failure reports to send them from a worker to the parent. Not a stable format: both sides
// are the same build.

#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "energon/stage/failure.h"

namespace energon {

/// Encodes the reports as messages of at most about 256 KiB, in order. A report with too many
/// samples is split into several reports, each with a part of the samples. Texts are cut to 64 KiB.
/// A detail crosses with the first part, whole: one of more than kMaxErrorDetailBytes is left out.
/// A message is longer by the detail that it ends with.
std::vector<std::string> encode_reports(std::span<const FailureReport> reports);

/// Decodes one message. Checks every length before use. Throws Error (kCorruptData).
std::vector<FailureReport> decode_reports(std::string_view message);

}  // namespace energon
