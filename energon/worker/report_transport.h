// Failure reports as bytes: how they cross from a worker to the parent. Not a stable format: both
// sides are one build.

#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "energon/stage/failure.h"

namespace energon {

/// The reports as messages of at most about 256 KiB, in order. A report of more samples than fit
/// becomes several reports, each with a part of its samples. Texts are cut to 64 KiB.
std::vector<std::string> encode_reports(std::span<const FailureReport> reports);

/// One message. Every length is checked before use: Error (kCorruptData).
std::vector<FailureReport> decode_reports(std::string_view message);

}  // namespace energon
